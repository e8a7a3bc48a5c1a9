"""The disk of a trial's environment and the programs in it, on the sandbox that this machine gives."""

import os
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

import opd
from opd.protocol.harbor.ground import TIMED_OUT, Ground, input_mounts, start_tree, task_of
from opd.protocol.packages import catalogue
from opd.protocol.sandbox.interpreter import interpreter_at
from opd.protocol.sandbox.ladder import climb
from opd.protocol.sandbox.view import Mount
from opd.records.errors import AnswerIsNo, AskedWrongly

RUNG = climb().rung
MOVED = RUNG.name in {"bubblewrap", "unshare"}
needs_mounts = pytest.mark.skipif(
    not MOVED, reason="needs a sandbox with mounts of its own; `opd doctor` says why not"
)


def ground(folder: Path, *, sees_install: bool = False, mounts: tuple[Mount, ...] = ()) -> Ground:
    made = Ground(folder / "ground", rung=RUNG, sees_install=sees_install, mounts=mounts)
    made.make()
    return made


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Ground]:
    made = ground(tmp_path)
    yield made
    made.remove()
    assert not made.root.exists()


def said(
    here: Ground, command: str, *, folder: str = "/workspace", seconds: float | None = 20, **environment: str
) -> str:
    came = here.run(command, folder=folder, environment=environment, seconds=seconds)
    assert came.exit_code == 0, came
    return came.stdout


# Files in and out


def test_files_and_folders_go_in_and_come_out_as_they_were(here: Ground, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep" / "er").mkdir(parents=True)
    (source / "deep" / "er" / "x").write_bytes(bytes(range(256)))
    (source / "run.sh").write_text("exit 0\n")
    (source / "run.sh").chmod(0o755)
    here.put(source, "/logs/agent")
    here.put(source / "run.sh", "/tests/a/b/test.sh")
    assert here.take("/logs/agent", tmp_path / "out") == ()
    assert (tmp_path / "out" / "deep" / "er" / "x").read_bytes() == bytes(range(256))
    assert os.access(tmp_path / "out" / "run.sh", os.X_OK)
    here.take("/tests/a/b/test.sh", tmp_path / "new" / "test.sh")
    assert (tmp_path / "new" / "test.sh").read_text() == "exit 0\n"


def test_what_is_no_file_is_left_out_and_named(here: Ground, tmp_path: Path) -> None:
    logs = here.place("/logs/agent")
    (tmp_path / "secret").write_text("of the host")
    (logs / "link").symlink_to(tmp_path / "secret")
    (logs / "folder").symlink_to(tmp_path)
    os.mkfifo(logs / "fifo")
    (logs / "fine").write_text("fine")
    assert here.take("/logs/agent", tmp_path / "out") == ("fifo", "folder", "link")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["fine"]


def test_a_link_that_was_left_in_the_environment_leads_no_copy_out_of_it(here: Ground, tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "kept").write_text("before")
    (tmp_path / "new").write_text("after")
    here.place("/logs/agent").rmdir()
    here.place("/logs/agent").symlink_to(tmp_path / "host")
    here.place("/logs/file").symlink_to(tmp_path / "host" / "kept")
    for target in ("/logs/agent/kept", "/logs/file"):
        with pytest.raises(AskedWrongly, match="links aren't followed"):
            here.put(tmp_path / "new", target)
        with pytest.raises(AskedWrongly, match="links aren't followed"):
            here.take(target, tmp_path / "out")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_text("after")
    here.put(tmp_path / "tree", "/logs")  # a link in the place of a file is replaced, not written through
    assert here.place("/logs/file").read_text() == "after"
    assert (tmp_path / "host" / "kept").read_text() == "before"


@pytest.mark.parametrize("path", ["/", "/etc/passwd", "logs/x", "/logs/../../x", "/inputs/student"])
def test_a_path_outside_of_the_environments_own_folders_is_refused(here: Ground, tmp_path: Path, path: str) -> None:
    with pytest.raises(AskedWrongly, match="lies outside"):
        here.put(tmp_path, path)


def test_what_is_not_there_can_not_be_taken(here: Ground, tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match="not in the environment"):
        here.take("/logs/agent/trajectory.json", tmp_path / "out")


# Programs


@needs_mounts
def test_a_command_says_and_ends_as_it_does_and_what_it_writes_stays_for_the_next(
    here: Ground, tmp_path: Path
) -> None:
    came = here.run(
        "echo out; echo err >&2; echo kept >/tmp/x; pwd; exit 7", folder="/workspace", environment={}, seconds=20
    )
    assert (came.stdout, came.stderr, came.exit_code, came.timed_out) == ("out\n/workspace\n", "err\n", 7, False)
    assert said(here, "cat /tmp/x") == "kept\n"
    assert said(here, "echo $ONE; kill -0 $$", ONE="a b") == "a b\n"
    assert here.run("kill -TERM $$", folder="/", environment={}, seconds=20).exit_code == 128 + 15


@needs_mounts
def test_the_host_is_not_there_and_neither_is_the_network(here: Ground, tmp_path: Path) -> None:
    (tmp_path / "host").write_text("x")
    assert said(here, f"test -e {tmp_path}/host || echo gone") == "gone\n"
    assert said(here, "cat /proc/net/dev | grep -cv -e lo: -e Inter -e face || true") == "0\n"
    assert said(here, "id -u") != "0\n"


@needs_mounts
@pytest.mark.parametrize("sees_install", [True, False])
def test_who_judges_sees_the_install_and_who_is_judged_does_not(tmp_path: Path, sees_install: bool) -> None:
    package = Path(opd.__file__).resolve().parent
    above = Mount(source=package.parent, target=PurePosixPath(package.parent))  # as where opd is among the packages
    place = ground(tmp_path, sees_install=sees_install, mounts=(above,))
    came = place.run(f"head -c 1 {package}/tasks/arith_tiny/final.jsonl", folder="/", environment={}, seconds=20)
    assert (came.exit_code == 0, came.stdout) == (sees_install, "{" if sees_install else "")


@needs_mounts
def test_another_interpreters_install_judges_where_one_is_named(tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    (packages,) = (tmp_path / "env").glob("lib/python*/site-packages")
    (packages / "opd.pth").write_text(f"{Path(opd.__file__).resolve().parent.parent}\n")
    place = Ground(
        tmp_path / "ground", rung=RUNG, sees_install=True, python=interpreter_at(tmp_path / "env/bin/python")
    )
    place.make()
    came = place.run("python -I -c 'import sys, opd; print(sys.prefix)'", folder="/", environment={}, seconds=20)
    assert came.stdout == f"{tmp_path / 'env'}\n", came.stderr


LEAVER = """
python3 - <<'PYTHON'
import os, signal, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            while True:
                open("/tmp/alive", "a").write(".")
                time.sleep(0.02)
PYTHON
"""


def still_writing(path: Path) -> bool:
    before = path.stat().st_size
    time.sleep(0.3)
    return path.stat().st_size > before


@needs_mounts
def test_when_its_time_is_up_a_command_is_over_with_all_that_it_detached(here: Ground) -> None:
    alive = here.place("/tmp/alive")
    seen = []
    watcher = threading.Timer(1.0, lambda: seen.append(still_writing(alive)))
    watcher.start()
    began = time.monotonic()
    came = here.run(f"{LEAVER}\nsleep 60", folder="/tmp", environment={}, seconds=2)
    assert (came.timed_out, came.exit_code) == (True, TIMED_OUT)
    assert time.monotonic() - began < 15
    assert seen == [True]  # the daemons were there
    assert not still_writing(alive)


@needs_mounts
def test_what_a_command_leaves_behind_is_over_with_it(here: Ground) -> None:
    here.run(f"{LEAVER}\nwhile [ ! -s /tmp/alive ]; do sleep 0.02; done", folder="/tmp", environment={}, seconds=20)
    assert here.place("/tmp/alive").stat().st_size > 0
    assert not still_writing(here.place("/tmp/alive"))


@needs_mounts
def test_a_command_that_is_given_up_ends_at_once(here: Ground) -> None:
    began = time.monotonic()
    came = here.run("sleep 60", folder="/", environment={}, seconds=None, stop=lambda: time.monotonic() - began > 0.5)
    assert time.monotonic() - began < 15
    assert came.exit_code != 0


# What a task brings


def test_the_fixed_inputs_of_a_task_lie_at_their_places_read_only(tmp_path: Path) -> None:
    task, _ = catalogue.find("arith_tiny")
    mounts = input_mounts(task, {}, tmp_path / "inputs")
    assert {str(one.target) for one in mounts} == {"/inputs/student", "/inputs/teacher", "/inputs/train.jsonl"}
    assert not any(one.writable for one in mounts)
    if MOVED:
        place = ground(tmp_path, mounts=mounts)
        assert said(place, "ls /inputs; touch /inputs/student/x 2>/dev/null || echo kept").endswith("kept\n")


def test_an_input_that_is_not_the_one_that_the_task_pins_is_refused(tmp_path: Path) -> None:
    task, folder = catalogue.find("arith_tiny")
    with pytest.raises(AnswerIsNo, match="student"):
        input_mounts(task, {"student": folder / "teacher"}, tmp_path)


def test_a_task_is_known_by_its_own_table_and_another_brings_no_inputs(tmp_path: Path) -> None:
    _, folder = catalogue.find("arith_tiny")
    (tmp_path / "environment").mkdir()
    assert task_of(tmp_path / "environment", tmp_path) is None
    (tmp_path / "task.toml").write_text('[task]\nname = "a/b"\n')
    assert task_of(tmp_path / "environment", tmp_path) is None
    found = task_of(tmp_path / "environment", folder)
    assert found is not None
    assert found.name == "opd/arith_tiny"


def test_a_task_without_a_workspace_needs_an_image_and_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match="runs under docker"):
        start_tree(tmp_path)
    (tmp_path / "workspace").mkdir()
    assert start_tree(tmp_path) == (tmp_path / "workspace", "/workspace")


@needs_mounts
def test_a_bound_folder_of_the_host_is_written_to_where_it_may_be(tmp_path: Path) -> None:
    for name in ("open", "closed"):
        (tmp_path / name).mkdir(mode=0o777)
        (tmp_path / name).chmod(0o777)
    mounts = tuple(
        Mount(source=tmp_path / name, target=PurePosixPath("/mnt", name), writable=name == "open")
        for name in ("open", "closed")
    )
    said(ground(tmp_path, mounts=mounts), "echo x >/mnt/open/x; echo x >/mnt/closed/x || true")
    assert (tmp_path / "open" / "x").read_text() == "x\n"
    assert not list((tmp_path / "closed").iterdir())


def test_this_module_needs_no_harbor() -> None:
    heavy = "[name for name in ('harbor', 'torch') if name in sys.modules]"
    asked = f"import sys, opd.protocol.harbor.ground, opd.protocol.harbor.job; print({heavy})"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"
