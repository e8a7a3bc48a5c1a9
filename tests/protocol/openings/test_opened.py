"""What a program tree really opened, seen by the kernel and by strace, with real programs."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from opd.protocol.openings import strace
from opd.protocol.openings.fanotify import NotAllowed, Notices, Watcher
from opd.protocol.openings.opened import (
    OPENED,
    OPENED_FILES,
    How,
    Kind,
    Line,
    Lookup,
    Opened,
    Place,
    Recording,
    system_places,
)
from opd.protocol.openings.recording import recording
from opd.protocol.openings.sighting import Sighting
from opd.protocol.supervision.processes import MARK
from opd.records.errors import AskedWrongly
from opd.records.settings import read


def fanotify_lacks() -> str | None:
    try:
        Notices().close()
    except NotAllowed as error:
        return str(error.strerror)
    return None


LACKS = {How.FANOTIFY: fanotify_lacks(), How.STRACE: strace.lacks()}
WAYS = [
    pytest.param(how, marks=pytest.mark.skipif(bool(reason), reason=f"{how}: {reason}"))
    for how, reason in LACKS.items()
]
by_notices = pytest.mark.skipif(bool(LACKS[How.FANOTIFY]), reason=f"fanotify: {LACKS[How.FANOTIFY]}")


class Scene:
    """Inputs, a checkout, what is forbidden, and a program that is run in the midst of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.student, self.checkout = folder / "inputs/student", folder / "try/checkout"
        self.explored, self.home, self.out = folder / "explore", folder / "home", folder / "record"
        for made in (self.student, self.checkout / "src", self.explored / "runs", self.home, self.out):
            made.mkdir(parents=True)
        (self.student / "model.safetensors").write_text("weights")
        (self.student / "config.json").write_text("{}")
        (self.checkout / "run.sh").write_text("true\n")
        (self.explored / "runs/better.safetensors").write_text("better weights")
        (self.home / "token").write_text("secret")
        self.mark = "m" * 32

    @property
    def places(self) -> list[Place]:
        return [
            *system_places(),
            Place(kind=Kind.INPUT, role="student", host=self.student, inside=PurePosixPath("/inputs/student")),
            Place(kind=Kind.INPUT, role="data", host=self.folder / "inputs/train.jsonl"),
            Place(kind=Kind.CHECKOUT, role="checkout", host=self.checkout, inside=PurePosixPath("/workspace")),
            Place(kind=Kind.OUTPUT, role="output", host=self.checkout / "checkpoints"),
            Place(kind=Kind.FORBIDDEN, role="exploration", host=self.explored),
            Place(kind=Kind.FORBIDDEN, role="home", host=self.home),
        ]

    def run(self, script: str, how: How | None, *, started: Callable[[], None] = lambda: None) -> Opened:
        with recording(self.out, self.places, mark=self.mark, how=how) as seen:
            environment = {**os.environ, MARK: self.mark}
            argv = seen.wrapped(["bash", "-c", script])
            with subprocess.Popen(argv, env=environment, cwd=self.checkout) as program:
                started()
            assert program.returncode == 0
        return read(Opened, self.out / OPENED)

    @property
    def lines(self) -> dict[str, Line]:
        text = (self.out / OPENED_FILES).read_text().splitlines()
        return {line.path: line for line in (Line.model_validate_json(one) for one in text) if line.certain}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


# A pause before each program ends: the machines of tests are busy, and who ended before it was looked at is doubtful.
LINGER = "sleep 0.3;"


@pytest.mark.parametrize("how", WAYS)
def test_what_the_tree_opened_is_there_with_what_it_is_and_how_often(scene: Scene, how: How) -> None:
    weights = scene.student / "model.safetensors"
    found = scene.run(
        f"{LINGER} for n in 1 2 3; do read x < {weights}; {LINGER} done;"
        f"mkdir checkpoints; echo 1 > checkpoints/new; source ./run.sh; {LINGER}",
        how,
    )
    assert found.how is how
    assert found.is_whole
    assert found.inputs == {"student": 1, "data": 0}, "the data was declared, and not read"
    assert (found.unexpected, found.doubtful) == ((), ())
    lines = scene.lines
    assert (lines[told(scene, weights, how)].kind, lines[told(scene, weights, how)].role) == (Kind.INPUT, "student")
    assert lines[told(scene, weights, how)].count == 3
    assert lines[str(scene.checkout / "run.sh")].kind is Kind.CHECKOUT
    assert lines[str(scene.checkout / "checkpoints/new")].kind is Kind.OUTPUT
    bash = next(line for path, line in lines.items() if path.endswith("/bash") and line.executed)
    assert bash.kind is Kind.SYSTEM
    assert str(scene.student / "config.json") not in lines, "what was not opened is not there"


def told(scene: Scene, path: Path, how: How) -> str:
    """An input goes by its declared place where it is known for what it is."""
    return f"/inputs/student/{path.name}" if how is How.FANOTIFY else str(path)


@pytest.mark.parametrize("how", WAYS)
def test_what_must_not_be_read_is_named_however_it_was_reached(scene: Scene, how: How) -> None:
    """The rule that a formal run takes no weights from exploration, measured. First: the bad thing happens."""
    (scene.folder / "a-link").symlink_to(scene.explored / "runs")
    found = scene.run(
        f"{LINGER} read x < {scene.folder}/a-link/better.safetensors; [ \"$x\" = 'better weights' ] || exit 3;"
        f"cd {scene.home}; read x < token; {LINGER}",
        how,
    )
    assert sorted(found.unexpected) == [
        f"{scene.explored}/runs/better.safetensors: exploration",
        f"{scene.home}/token: home",
    ]


@pytest.mark.parametrize("how", WAYS)
def test_children_daemons_and_who_wiped_the_mark_belong_to_the_tree(scene: Scene, how: How) -> None:
    for name in ("child", "wiped", "daemon", "wiped-daemon"):
        (scene.home / name).write_text("x")
    (scene.checkout / "reader.py").write_text(
        f"import sys, time; time.sleep(0.3); open('{scene.home}/' + sys.argv[1]).close(); time.sleep(0.3)"
    )
    reader = f"{sys.executable} -I {scene.checkout}/reader.py"
    found = scene.run(
        f"({reader} child); env -i {reader} wiped; (setsid {reader} daemon & ); "
        f"env -i bash -c 'sleep 0.3; setsid {reader} wiped-daemon & sleep 0.3' ; sleep 1.5",
        how,
    )
    named = {sentence.split(": ")[0] for sentence in found.unexpected}
    unsure = {sentence.split(": ")[0] for sentence in found.doubtful}
    everyone = {f"{scene.home}/{name}" for name in ("child", "wiped", "daemon", "wiped-daemon")}
    assert named | unsure == everyone
    # On a busy machine it may be first seen when nothing is left that tells whose it is; then it is not passed over.
    assert unsure <= {f"{scene.home}/wiped-daemon"}


@by_notices
def test_what_others_open_meanwhile_is_not_the_trees(scene: Scene) -> None:
    def others() -> None:
        (scene.home / "token").read_text()  # this process
        subprocess.run(["sleep", "0.3"], check=True)
        reader = f"import time; open('{scene.explored}/runs/better.safetensors'); time.sleep(.5)"
        subprocess.run([sys.executable, "-I", "-c", reader], check=True)  # a child of this one, beside the tree

    found = scene.run("sleep 2", How.FANOTIFY, started=others)
    assert (found.unexpected, found.doubtful) == ((), ())


@by_notices
def test_another_name_for_an_input_does_not_hide_what_it_is(scene: Scene) -> None:
    os.link(scene.student / "model.safetensors", scene.checkout / "innocent.txt")
    found = scene.run(f"{LINGER} read x < innocent.txt; {LINGER}", How.FANOTIFY)
    assert found.inputs["student"] == 1


@by_notices
def test_a_file_that_is_gone_again_was_opened_all_the_same(scene: Scene) -> None:
    found = scene.run(f"{LINGER} echo secret > {scene.home}/gone; rm {scene.home}/gone; {LINGER}", How.FANOTIFY)
    assert found.unexpected == (f"{scene.home}/gone: home",)


@by_notices
def test_a_name_with_anything_in_it_is_one_line(scene: Scene) -> None:
    odd = scene.checkout / "new\nline\udcff (deleted)"
    odd.write_text("x")
    scene.run(f'{LINGER} for one in new*; do read x < "$one"; done; {LINGER}', How.FANOTIFY)
    assert str(scene.checkout / "new\nline\\xff (deleted)") in scene.lines


def test_names_that_strace_writes_in_its_own_way_are_read_back(scene: Scene) -> None:
    if LACKS[How.STRACE]:
        pytest.skip(str(LACKS[How.STRACE]))
    (scene.checkout / 'a "b"\t>c\n').write_text("x")
    found = scene.run('for one in a*; do read x < "$one"; done; cat a* > /dev/null', How.STRACE)
    assert scene.lines[str(scene.checkout / 'a "b"\t>c\n')].count == 2
    assert found.lost == 0


@by_notices
def test_a_queue_that_ran_over_is_said(scene: Scene) -> None:
    """First: notices are lost, for a queue of the usual length that nobody reads."""
    limit = int(Path("/proc/sys/fs/fanotify/max_queued_events").read_text())
    if limit > 50_000:
        pytest.skip(f"the queue of this machine holds {limit:,} notices")
    notices = Notices(queue_is_limited=True)
    watcher = Watcher(notices, mark=scene.mark, seen=lambda _: None)
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else scene.folder) as crowd:
        for number in range(limit + 100):
            os.close(os.open(f"{crowd}/{number}", os.O_CREAT | os.O_WRONLY))
        with watcher.watching():
            pass
    notices.close()
    assert watcher.overflowed


def test_losses_of_any_kind_make_a_record_that_is_not_whole(scene: Scene) -> None:
    for name, value in (("lost", 1), ("overflowed", True), ("left_out", 1), ("how", How.NOT_RECORDED)):
        record = Recording(scene.places, How.FANOTIFY, None)
        assert record.opened().is_whole
        setattr(record, name, value)
        assert not record.opened().is_whole, name


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes an ordinary user, which only root can")
def test_an_ordinary_user_gets_no_notices_and_is_told_so(scene: Scene) -> None:
    pid = os.fork()
    if pid == 0:
        os.setgid(65534)
        os.setuid(65534)
        try:
            Notices()
        except NotAllowed:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_where_nothing_works_the_record_says_why(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opd.protocol.openings.strace.lacks", lambda: "strace is not installed")
    with pytest.raises(AskedWrongly, match="can't be recorded by strace here: strace is not installed"):
        scene.run("true", How.STRACE)
    monkeypatch.setattr("opd.protocol.openings.recording._notices", lambda _: "fanotify: Operation not permitted")
    found = scene.run("true", None)
    assert found.how is How.NOT_RECORDED
    assert found.because == "fanotify: Operation not permitted; strace is not installed"
    assert not found.is_whole
    assert (scene.out / OPENED_FILES).read_text() == ""


# ---- in the sandbox ----


@by_notices
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_inside_a_sandbox_files_are_known_whatever_they_are_mounted_as(scene: Scene) -> None:
    """Also what a mistake of ours would show the program under an innocent name."""
    from opd.protocol.sandbox.ladder import choose
    from opd.protocol.sandbox.view import Mount, View, own_code, python_mounts
    from opd.protocol.supervision.supervise import supervise

    try:
        rung = choose("bubblewrap")
    except AskedWrongly as error:
        pytest.skip(str(error))
    view = View(
        mounts=(
            *python_mounts(),
            Mount(source=scene.checkout, target=PurePosixPath("/workspace"), writable=True),
            Mount(source=scene.student, target=PurePosixPath("/inputs/student")),
            Mount(source=scene.explored / "runs", target=PurePosixPath("/cache")),
            Mount(source=None, target=PurePosixPath("/tmp"), writable=True),
        ),
        folder=PurePosixPath("/workspace"),
        environment={"PATH": "/usr/bin:/bin"},
        hidden=own_code(),
    )
    script = f"{LINGER} read x < /inputs/student/model.safetensors; read x < /cache/better.safetensors; "
    script += f"echo 1 > made; echo 1 > /tmp/x; read x < /tmp/x; {LINGER}"
    launch = rung.command(view, ["bash", "-c", script], mark=scene.mark)
    with recording(scene.out, scene.places, mark=scene.mark, how=How.FANOTIFY):
        ended = supervise(
            launch, deadline=None, grace_seconds=1, out=scene.out / "stdout.log", err=scene.out / "stderr.log"
        )
    assert ended.exit_code == 0, (scene.out / "stderr.log").read_text()
    found = read(Opened, scene.out / OPENED)
    assert found.inputs["student"] == 1
    assert found.unexpected == (
        f"/cache/better.safetensors: exploration, which is {scene.explored}/runs/better.safetensors",
    )
    assert scene.lines["/workspace/made"].kind is Kind.CHECKOUT
    assert "/tmp/x" in scene.lines, "also what the sandbox itself mounted is seen"
    assert found.others == ("/tmp/x",), "and is scratch, where somebody says so"


# ---- without any program ----


def seen(path: str, **changes: Any) -> Sighting:
    values = {"device": None, "inode": None, "executed": False, "realtime": 1.8e9, "certain": True, "by": "python"}
    return Sighting(path=path, **{**values, **changes})


def test_of_two_places_that_hold_a_file_the_inner_one_says_what_it_is(scene: Scene) -> None:
    lookup = Lookup(scene.places)
    for path, kind in (
        (f"{scene.checkout}/checkpoints/checkpoint-1/model.safetensors", Kind.OUTPUT),
        (f"{scene.checkout}/checkpoints", Kind.OUTPUT),
        (f"{scene.checkout}/checkpoints.txt", Kind.CHECKOUT),
        ("/workspace/src/x.py", Kind.CHECKOUT),
        ("/usr/lib/libc.so", Kind.SYSTEM),
        ("/proc/1/status", Kind.KERNEL),
        (f"{scene.explored}/x", Kind.FORBIDDEN),
    ):
        place, _ = lookup.of(seen(path))
        assert place is not None
        assert place.kind is kind, path
    assert lookup.of(seen("/workspaces"))[0] is None
    assert lookup.of(seen("/srv/data"))[0] is None


def test_what_may_have_been_somebody_else_is_doubtful_and_accuses_nobody(scene: Scene) -> None:
    record = Recording(scene.places, How.FANOTIFY, None)
    record.take(seen(f"{scene.home}/token", certain=False))
    record.take(seen("/srv/data"))
    found = record.opened()
    assert (found.unexpected, found.doubtful) == ((), (f"{scene.home}/token: home",))
    assert found.others == ("/srv/data",)
    assert found.files == {Kind.OTHER: 1}


def test_names_without_end_are_counted_and_not_kept(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opd.protocol.openings.opened._MOST_FILES", 10)
    record = Recording(scene.places, How.FANOTIFY, None)
    for number in range(25):
        record.take(seen(f"/srv/{number}"))
        record.take(seen("/srv/0"))
    assert (len(record.lines()), record.left_out) == (10, 15)
    assert not record.opened().is_whole
