"""One program until its end. Each test for something that must not survive first sees that it lives."""

import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from opd.protocol.clock import Deadline, Stopwatch, now
from opd.protocol.sandbox import cgroups, ladder
from opd.protocol.sandbox.ladder import RUNGS, Rung, new_mark
from opd.protocol.sandbox.layout import interpreter
from opd.protocol.sandbox.view import Limits, Mount, View, Word
from opd.protocol.supervision import processes
from opd.protocol.supervision.orphans import end_left
from opd.protocol.supervision.supervise import Ended, supervise
from opd.protocol.supervision.usage import Sample, Watch

WORK = PurePosixPath("/workspace")
PATH = "/usr/local/bin:/usr/bin:/bin"
# Beats in a file for ever, out of everybody's reach: its own session, another name, deaf to requests, mouth shut.
DAEMON = """
import ctypes, os, signal, sys, time
if os.fork():
    while not os.path.exists("beat"): time.sleep(0.01)
else:
    os.setsid()
    if os.fork(): os._exit(0)
    for number in (1, 2, 3, 15): signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(15, b"kworker", 0, 0, 0)
    for descriptor in (0, 1, 2): os.close(descriptor)
    count = 0
    while True:
        count += 1
        with open("beat.new", "w") as file: file.write(str(count))
        os.rename("beat.new", "beat")
        time.sleep(0.02)
"""


MARKS: set[str] = set()


def marked() -> str:
    """A new mark, remembered to see that nothing of it is left."""
    MARKS.add(mark := new_mark())
    return mark


def working() -> dict[str, str | None]:
    """Each rung with the reason why it does not work here, or None."""
    return {rung.name: ladder.lacks(rung) for rung in RUNGS}


WORKING = working()
NAMESPACED = ("bubblewrap", "unshare")


@pytest.fixture(params=[rung.name for rung in RUNGS])
def rung(request: pytest.FixtureRequest) -> Rung:
    """Each rung of the ladder that works here."""
    if (reason := WORKING[request.param]) is not None:
        pytest.skip(f"{request.param} doesn't work here: {reason}")
    return ladder.BY_NAME[request.param]


@pytest.fixture
def best() -> Rung:
    """The highest rung that works here."""
    return next(rung for rung in RUNGS if WORKING[rung.name] is None)


@dataclass(frozen=True, kw_only=True)
class Lab:
    """A workspace, and what was printed in it."""

    folder: Path

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def out(self) -> str:
        return (self.folder / "out").read_text(errors="replace")

    @property
    def err(self) -> str:
        return (self.folder / "err").read_text(errors="replace")

    @property
    def beat(self) -> Path:
        return self.work / "beat"

    def view(self, *mounts: Mount, **settings: Any) -> View:
        return View(
            mounts=(Mount(source=self.work, target=WORK, writable=True), *mounts),
            folder=WORK,
            environment={"PATH": PATH},
            **settings,
        )

    def run(
        self,
        rung: Rung,
        argv: list[Word],
        *,
        limits: Limits | None = None,
        mark: str | None = None,
        seconds: float = 60.0,
        **settings: Any,
    ) -> Ended:
        launch = rung.command(self.view(limits=limits or Limits()), argv, mark=mark or marked())
        terms: dict[str, Any] = {"deadline": Deadline(Stopwatch(), seconds=seconds), "grace_seconds": 0.0} | settings
        return supervise(launch, out=self.folder / "out", err=self.folder / "err", **terms)

    def python(self, rung: Rung, program: str, **settings: Any) -> Ended:
        """The same for a program in Python, with the interpreter that is at hand on every rung."""
        return self.run(rung, [interpreter(), "-I", "-S", "-c", textwrap.dedent(program)], **settings)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    (tmp_path / "work").mkdir()
    return Lab(folder=tmp_path)


def beats(file: Path, *, within_seconds: float = 0.15) -> bool:
    """Whether whoever writes in it still does."""
    before = file.read_text()
    time.sleep(within_seconds)
    return file.read_text() != before


def eventually(true: Callable[[], object], *, seconds: float = 20.0) -> bool:
    ending = time.monotonic() + seconds
    while time.monotonic() < ending:
        if true():
            return True
        time.sleep(0.01)
    return False


def when_it_beats(beat: Path) -> Callable[[], str | None]:
    """A `stop` that asks for the end once the daemon has been seen alive."""
    return lambda: "it beats" if beat.exists() and beats(beat) else None


# --- how it ended -----------------------------------------------------------------------------------------------


def test_what_a_program_says_and_how_it_ends_is_kept(rung: Rung, lab: Lab) -> None:
    ended = lab.run(rung, ["sh", "-c", "echo out; echo err >&2; pwd > where; exit 3"])
    assert (ended.reason, ended.exit_code, ended.signal) == ("ended", 3, None)
    assert (lab.out, lab.err) == ("out\n", "err\n")
    assert (lab.work / "where").read_text().strip() == rung.path(lab.view(), WORK)
    assert ended.left_processes == ended.survivors == ()


def test_a_signal_is_told_from_an_exit_code_that_looks_like_one(best: Rung, lab: Lab) -> None:
    assert lab.run(best, ["sh", "-c", "exit 137"]).exit_code == 137  # as a shell tells of SIGKILL
    killed = lab.run(best, ["sh", "-c", "kill -KILL $$"])
    assert (killed.reason, killed.exit_code, killed.signal) == ("ended", None, "SIGKILL")


def test_processor_time_and_memory_are_those_of_everything_it_started(best: Rung, lab: Lab) -> None:
    burn = "x = bytearray(100 << 20); t = __import__('time')\nwhile t.process_time() < 0.3: pass"
    ended = lab.run(best, ["sh", "-c", '"$0" -I -S -c "$1" & "$0" -I -S -c "$1"; wait', interpreter(), burn])
    assert 0.6 <= ended.cpu_seconds <= 1.5
    assert 100 << 20 <= ended.largest_rss_bytes <= 150 << 20


def test_a_program_that_does_not_exist_was_not_started(rung: Rung, lab: Lab) -> None:
    ended = lab.run(rung, ["no-such-program"])
    assert (ended.reason, ended.exit_code) == ("not_started", None)
    assert "No such file" in str(ended.stopped_because)


def test_a_sandbox_that_can_not_be_made_says_why(lab: Lab) -> None:
    if WORKING["bubblewrap"] is not None:
        pytest.skip("needs bubblewrap")
    vanishing = lab.folder / "vanishing"
    vanishing.mkdir()
    view = lab.view(Mount(source=vanishing, target=PurePosixPath("/inputs")))
    launch = ladder.BY_NAME["bubblewrap"].command(view, ["true"], mark=marked())
    vanishing.rmdir()
    ended = supervise(launch, deadline=None, grace_seconds=0, out=lab.folder / "out", err=lab.folder / "err")
    assert ended.reason == "not_started"
    assert str(vanishing) in str(ended.stopped_because)


# --- its end is the end of everything (faults H1 to H4) -----------------------------------------------------------


def test_a_daemon_ends_with_the_program_that_left_it(rung: Rung, lab: Lab) -> None:
    seen: list[int] = []
    ended = lab.python(rung, DAEMON, tick=lambda sample: seen.append(sample.processes), tick_seconds=0.05)
    assert ended.reason == "ended"
    assert int(lab.beat.read_text()) > 1, "the daemon lived when the program ended"
    assert not beats(lab.beat)
    assert len(ended.left_processes) == 1
    assert interpreter() in ended.left_processes[0].command
    assert seen, "it was looked at"


def test_at_the_deadline_the_whole_tree_ends_deaf_or_not(rung: Rung, lab: Lab) -> None:
    """faults H3: SIGTERM is ignored, and nothing lives on."""
    program = DAEMON + "\nsignal.signal(15, signal.SIG_IGN)\nwhile True: time.sleep(1)"
    alive: list[bool] = []
    started = time.monotonic()
    ended = lab.python(
        rung,
        program,
        seconds=1.5,
        grace_seconds=0.3,
        tick_seconds=0.2,
        tick=lambda sample: alive.append(lab.beat.exists() and beats(lab.beat, within_seconds=0.06)),
    )
    took = time.monotonic() - started
    assert any(alive), "the daemon beat while the program ran"
    assert (ended.reason, ended.exit_code) == ("deadline", None)
    assert not beats(lab.beat)
    assert len(ended.left_processes) == 2
    assert 1.5 <= took < 4.0


def test_a_chain_of_processes_of_which_each_starts_the_next_is_caught(rung: Rung, lab: Lab) -> None:
    chain = """
        import os, time
        while True:
            if os.fork(): os._exit(0)
            os.setsid()
            with open("beat.new", "w") as file: file.write(str(os.getpid()) + " " + str(time.time()))
            os.rename("beat.new", "beat")
            time.sleep(0.002)
    """
    program = f"""
        import os, time
        if os.fork() == 0:
            exec({textwrap.dedent(chain)!r})
        while not os.path.exists("beat"): time.sleep(0.01)
        numbers = {{open("beat").read().split()[0] for _ in range(50) if not time.sleep(0.01)}}
        assert len(numbers) > 3, numbers
    """
    ended = lab.python(rung, program)
    assert ended.exit_code == 0, lab.err
    assert not beats(lab.beat)
    assert ended.survivors == ()


def test_when_its_supervisor_is_killed_everything_ends(rung: Rung, lab: Lab) -> None:
    mark = marked()
    supervisor = f"""
        from pathlib import Path, PurePosixPath
        from opd.protocol.sandbox.ladder import BY_NAME
        from opd.protocol.sandbox.view import Mount, View
        from opd.protocol.supervision.supervise import supervise
        work, target = Path({str(lab.work)!r}), PurePosixPath("/workspace")
        view = View(mounts=(Mount(source=work, target=target, writable=True),), folder=target,
                    environment={{"PATH": {PATH!r}}})
        argv = [{interpreter()!r}, "-I", "-S", "-c", {DAEMON + "time.sleep(600)"!r}]
        supervise(BY_NAME[{rung.name!r}].command(view, argv, mark={mark!r}), deadline=None, grace_seconds=0,
                  out=Path({str(lab.folder / "out")!r}), err=Path({str(lab.folder / "err")!r}))
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(supervisor)])
    try:
        assert eventually(lab.beat.exists), lab.err
        assert beats(lab.beat)
        assert len(processes.marked(mark)) >= 2
    finally:
        process.kill()
        process.wait()
    assert eventually(lambda: not beats(lab.beat)), "nobody was left to end it, and it ended"
    assert eventually(lambda: not processes.marked(mark))
    assert end_left(mark) == ()
    assert cgroups.find(mark) is None


def test_what_a_killed_supervisor_did_leave_is_found_by_its_mark_and_ended(tmp_path: Path) -> None:
    mark = marked()
    daemon = [interpreter(), "-I", "-S", "-c", DAEMON]
    subprocess.run(daemon, cwd=tmp_path, env={processes.MARK: mark}, check=True)
    assert beats(tmp_path / "beat")
    (left,) = end_left(mark)
    assert left.command.startswith(interpreter())
    assert not beats(tmp_path / "beat")
    assert end_left(mark) == ()


def test_a_program_that_kills_its_keeper_has_lost_and_is_ended(lab: Lab) -> None:
    """Without a process namespace the first process can be killed: the one thing that is left then is to find all."""
    if os.geteuid() == 0 and cgroups.trees() == []:
        pytest.skip("without control groups, nothing tells what is left")
    program = DAEMON + "\nos.kill(os.getppid(), 9)\ntime.sleep(600)"
    ended = lab.python(ladder.BY_NAME["group"], program)
    assert ended.reason == "lost"
    assert "without a word" in str(ended.stopped_because)
    assert not beats(lab.beat)
    assert ended.survivors == ()


@pytest.mark.parametrize("name", NAMESPACED)
def test_inside_a_namespace_the_keeper_can_not_be_killed_stopped_or_looked_into(name: str, lab: Lab) -> None:
    if WORKING[name] is not None:
        pytest.skip(f"{name} doesn't work here")
    program = """
        import json, os, signal
        said = {"parent": os.getppid(), "own": sorted(int(fd) for fd in os.listdir("/proc/self/fd"))}
        for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM): os.kill(1, number)
        for file in ("environ", "mem", "maps", *(f"fd/{number}" for number in range(9))):
            try:
                open(f"/proc/1/{file}", "rb").read(1)
                said[file] = "open"
            except OSError as error: said[file] = type(error).__name__
        print(json.dumps(said))
    """
    ended = lab.python(ladder.BY_NAME[name], program)
    assert (ended.reason, ended.exit_code) == ("ended", 0), lab.err
    said = json.loads(lab.out)
    assert said["parent"] == 1
    assert said["own"][:3] == [0, 1, 2]
    assert len(said["own"]) == 4  # the fourth lists the others
    assert {said[file] for file in ("environ", "mem", "maps", "fd/0", "fd/1", "fd/3")} == {"PermissionError"}
    assert "open" not in said.values()


def test_a_sandbox_that_is_killed_from_outside_is_lost_and_no_failure_of_the_program(best: Rung, lab: Lab) -> None:
    """faults H5: a dead sandbox is no success and no failure of what ran in it."""
    mark = marked()

    def kill(sample: Sample) -> None:
        if lab.beat.exists():
            first = min(processes.marked(mark), key=lambda life: life.start_ticks)
            parent = int(Path(f"/proc/{first.pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
            os.kill(parent, signal.SIGKILL)

    ended = lab.python(best, DAEMON + "\ntime.sleep(600)", mark=mark, tick=kill, tick_seconds=0.1)
    assert (ended.reason, ended.exit_code, ended.signal) == ("lost", None, None)
    assert not beats(lab.beat)


def test_what_a_callback_raises_ends_the_program_and_goes_on(best: Rung, lab: Lab) -> None:
    def interrupt(sample: Sample) -> None:
        if lab.beat.exists():
            raise KeyboardInterrupt("SIGINT")

    with pytest.raises(KeyboardInterrupt):
        lab.python(best, DAEMON + "\ntime.sleep(600)", tick=interrupt, tick_seconds=0.05)
    assert not beats(lab.beat)


# --- asked to end ------------------------------------------------------------------------------------------------

SAVER = """
import signal, sys, time
def save(*_):
    time.sleep(0.3)
    open("saved", "w").write("whole")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
open("beat", "w").write("0")
while True: time.sleep(1)
"""


def test_before_the_deadline_a_trainer_has_its_grace_to_save_though_its_shell_has_gone(rung: Rung, lab: Lab) -> None:
    (lab.work / "train.py").write_text(SAVER)
    (lab.work / "run.sh").write_text(f"{interpreter()} -I -S train.py\n")  # not exec: the shell obeys at once
    started = time.monotonic()
    ended = lab.run(rung, ["bash", "run.sh"], seconds=6.0, grace_seconds=4.5, tick_seconds=0.2)
    assert ended.reason == "deadline"
    assert (lab.work / "saved").read_text() == "whole"
    assert ended.signal == "SIGTERM"  # of the shell
    assert time.monotonic() - started < 5.5, "it was not made to wait for the rest of the grace"
    assert ended.left_processes == ()


def test_a_stop_gives_its_reason_and_a_grace(best: Rung, lab: Lab) -> None:
    ended = lab.python(
        best,
        SAVER,
        stop=lambda: "submitted" if lab.beat.exists() else None,
        grace_seconds=10.0,
        tick_seconds=0.05,
    )
    assert (ended.reason, ended.stopped_because, ended.exit_code) == ("stopped", "submitted", 0)
    assert (lab.work / "saved").exists()


def test_who_does_not_obey_a_stop_is_killed_after_the_grace(best: Rung, lab: Lab) -> None:
    deaf = DAEMON + "\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(600)"
    ended = lab.python(best, deaf, stop=when_it_beats(lab.beat), grace_seconds=0.2, tick_seconds=0.1)
    assert (ended.reason, ended.stopped_because) == ("stopped", "it beats")
    assert len(ended.left_processes) == 2
    assert not beats(lab.beat)


@pytest.mark.patient
def test_time_in_which_the_machine_slept_is_not_charged(best: Rung, lab: Lab) -> None:
    """Fault H9, H11: with a clock that stands still for two seconds, a budget of one second outlives them."""
    asleep = [0.0, None]  # seconds slept so far, and since when

    def read() -> Any:
        real = now()
        awake = real.monotonic - began
        slept = min(max(awake - 0.2, 0.0), 2.0)  # from 0.2 s on
        asleep[0] = slept
        return real.model_copy(update={"monotonic": real.monotonic - slept})

    began = time.monotonic()
    started = time.monotonic()
    ended = lab.run(best, ["sleep", "60"], deadline=Deadline(Stopwatch(read=read), seconds=1.0), tick_seconds=0.1)
    assert ended.reason == "deadline"
    assert asleep[0] == 2.0
    assert time.monotonic() - started >= 3.0


# --- limits --------------------------------------------------------------------------------------------------------


def test_a_fork_bomb_ends_with_its_stage_and_not_with_the_machine(rung: Rung, lab: Lab) -> None:
    bomb = """
        import os, time
        started = 0
        for _ in range(400):
            try: pid = os.fork()
            except BlockingIOError: break
            if pid == 0:
                time.sleep(60); os._exit(0)
            started += 1
        open("beat", "w").write(str(started))
        time.sleep(1.5)
    """
    ended = lab.python(rung, bomb, limits=Limits(processes=40), tick_seconds=0.1)
    assert "processes" in ended.limits_held
    if ended.limits_held["processes"].startswith("control group") or "RLIMIT" in ended.limits_held["processes"]:
        assert 20 <= int(lab.beat.read_text()) <= 40
    else:
        assert ended.reason == "limit"
        assert "processes" in str(ended.stopped_because)
    assert len(ended.left_processes) >= 20
    assert ended.survivors == ()


def test_memory_is_held_to_its_limit(rung: Rung, lab: Lab) -> None:
    hog = """
        import time
        held = []
        try:
            for _ in range(60):
                held.append(bytearray(b"x") * (16 << 20))
        except MemoryError: raise SystemExit(7)
        time.sleep(5)
    """
    ended = lab.python(rung, hog, limits=Limits(memory_bytes=200 << 20))
    if ended.limits_held["memory_bytes"].startswith("control group"):
        assert ended.oom_killed
        assert ended.signal == "SIGKILL"
    else:
        assert ended.exit_code == 7
    assert not lab.run(rung, ["true"], limits=Limits(memory_bytes=200 << 20)).oom_killed


def test_one_file_can_not_grow_beyond_its_limit(rung: Rung, lab: Lab) -> None:
    ended = lab.run(rung, ["sh", "-c", "head -c 3000000 /dev/zero > big"], limits=Limits(file_bytes=1_000_000))
    assert ended.exit_code != 0
    assert (lab.work / "big").stat().st_size <= 1_000_000
    assert ended.limits_held == {"file_bytes": "RLIMIT_FSIZE"}


def test_many_files_that_fill_a_folder_end_the_program(best: Rung, lab: Lab) -> None:
    fill = "import time\nfor n in range(10**6):\n open(str(n), 'wb').write(b'x' * 100_000); time.sleep(0.001)"
    ended = lab.python(best, fill, watch=Watch(folders=(lab.work,), folder_bytes=5_000_000), tick_seconds=0.05)
    assert ended.reason == "limit"
    assert f"{lab.work} holds" in str(ended.stopped_because)
    total = sum(path.stat().st_size for path in lab.work.iterdir())
    assert 5_000_000 <= total <= 200_000_000


def test_a_disk_that_gets_too_full_ends_the_program(best: Rung, lab: Lab) -> None:
    free = os.statvfs(lab.work).f_bavail * os.statvfs(lab.work).f_frsize
    ended = lab.run(best, ["sleep", "60"], watch=Watch(folders=(lab.work,), free_bytes=2 * free))
    assert (ended.reason, "are to be left" in str(ended.stopped_because)) == ("limit", True)


def test_empty_folders_are_private_bounded_and_gone_afterwards(rung: Rung, lab: Lab) -> None:
    scratch = PurePosixPath("/tmp")
    view = View(
        mounts=(Mount(source=lab.work, target=WORK, writable=True), Mount(source=None, target=scratch)),
        folder=WORK,
        environment={"PATH": PATH, "TMPDIR": scratch},
        limits=Limits(scratch_bytes=1 << 20),
    )
    fill = 'ls -A "$TMPDIR" | wc -l; echo "$TMPDIR"; head -c 4000000 /dev/zero > "$TMPDIR/x"; sleep 1; exit 9'
    ended = supervise(
        rung.command(view, ["sh", "-c", fill], mark=marked()),
        deadline=Deadline(Stopwatch(), seconds=60),
        grace_seconds=0,
        out=lab.folder / "out",
        err=lab.folder / "err",
        tick_seconds=0.1,
    )
    count, place = lab.out.split()
    assert (count, place) == ("0", rung.path(view, scratch))
    if rung.name in NAMESPACED:
        assert "No space left" in lab.err
    else:
        assert ended.reason == "limit"
        assert not Path(place).exists()
        assert not Path(place).parent.exists()


# --- what it prints, and what watching costs ----------------------------------------------------------------------


def test_printing_without_end_fills_no_disk_and_keeps_head_and_tail(best: Rung, lab: Lab) -> None:
    program = """
        import sys
        for n in range(400_000): sys.stdout.write(f"line {n}\\n")
    """
    ended = lab.python(best, program, output_bytes=100_000)
    lines = lab.out.splitlines()
    assert len(lab.out) <= 101_000
    assert lines[0] == "line 0"
    assert lines[-1] == "line 399999"
    assert ended.printed_bytes == sum(len(f"line {n}\n") for n in range(400_000))
    (note,) = [line for line in lines if "left out" in line]
    assert note == f"[… {ended.left_out_bytes:,} bytes left out …]"
    whole = "".join(f"line {n}\n" for n in range(400_000))
    head, tail = lab.out.split(f"\n{note}\n")
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(head) + len(tail) + ended.left_out_bytes == len(whole)


def cpu_seconds(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


@pytest.mark.patient
def test_watching_costs_less_than_a_hundredth_of_a_core(best: Rung, lab: Lab) -> None:
    looks: list[Sample] = []
    used: list[float] = []

    def note(sample: Sample) -> None:
        looks.append(sample)
        used.append(cpu_seconds(resource.RUSAGE_SELF))

    lab.run(best, ["sleep", "60"], seconds=3.5, tick=note, watch=Watch(folders=(lab.work,), folder_bytes=1 << 30))
    assert len(looks) >= 3
    assert [sample.processes for sample in looks[1:]] == [1] * (len(looks) - 1)
    seconds = looks[-1].active_seconds - looks[0].active_seconds
    assert (used[-1] - used[0]) / seconds < 0.01


@pytest.mark.patient
def test_one_that_prints_as_fast_as_it_can_is_slowed_down_and_costs_little(best: Rung, lab: Lab) -> None:
    used = cpu_seconds(resource.RUSAGE_SELF)
    ended = lab.run(best, ["yes"], seconds=2.0, output_bytes=1 << 20)
    assert 1 << 20 < ended.printed_bytes < 80 << 20  # 256 KiB, at most a hundred times a second
    assert cpu_seconds(resource.RUSAGE_SELF) - used < 0.5


def test_a_sandbox_costs_little_to_start(rung: Rung, lab: Lab) -> None:
    costs = []
    for _ in range(3):  # the first may have to read its files from the disk
        before = cpu_seconds(resource.RUSAGE_CHILDREN)
        assert lab.run(rung, ["true"], mark=marked()).exit_code == 0
        costs.append(cpu_seconds(resource.RUSAGE_CHILDREN) - before)
    assert min(costs) < 0.25  # 0.05 s on an idle machine with compiled files; this bound is for a busy one without


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path) -> Iterator[None]:
    """No test leaves a process that works in its folder, nor a control group."""
    yield
    assert [pid for pid in processes.numbers() if _works_in(pid, tmp_path)] == []
    assert [mark for mark in MARKS if cgroups.find(mark) is not None] == []


def _works_in(pid: int, folder: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/cwd").resolve().is_relative_to(folder) and processes.find(pid) is not None
    except OSError:
        return False
