"""Processes: told apart for certain, found with all that belongs to them, and ended for certain."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from opd.protocol.supervision import processes
from opd.protocol.supervision.processes import find, life_of

SLEEPER = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]


@contextmanager
def started(argv: list[str], **settings: object) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(argv, start_new_session=True, **settings)
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout:
            process.stdout.close()


def eventually(true: Callable[[], object], *, seconds: float = 10.0) -> bool:
    ending = time.monotonic() + seconds
    while time.monotonic() < ending:
        if true():
            return True
        time.sleep(0.01)
    return False


def test_a_number_that_was_used_again_is_another_process() -> None:
    here = life_of(os.getpid())
    assert here.lives()
    assert not here.model_copy(update={"start_ticks": here.start_ticks - 1}).lives()
    assert not here.model_copy(update={"boot_id": "another start of the machine"}).lives()


def test_a_process_that_nobody_has_waited_for_keeps_its_number_and_is_dead() -> None:
    with started(["true"]) as process:
        assert eventually(lambda: find(process.pid) is None)
        os.kill(process.pid, 0)  # its number is still taken, as `kill -0` would say (fault H13)
        with pytest.raises(ProcessLookupError, match=str(process.pid)):
            life_of(process.pid)


def test_a_process_can_call_itself_whatever_it_likes() -> None:
    name = ") Z 1 (x"  # `stat` would read as that of a zombie, cut at the first bracket
    program = f"open('/proc/self/comm', 'w').write({name!r}); import time; print(flush=True); time.sleep(60)"
    with started([sys.executable, "-S", "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert name in Path(f"/proc/{process.pid}/stat").read_text()
        life = life_of(process.pid)
        assert life.lives()
        assert "open('/proc/self/comm'" in life.command


def test_a_stranger_with_the_same_number_gets_no_signal() -> None:
    with started(SLEEPER) as process:
        life = life_of(process.pid)
        stranger = life.model_copy(update={"start_ticks": life.start_ticks - 1})
        assert not stranger.signal(signal.SIGKILL)
        assert life.lives()
        assert life.signal(signal.SIGKILL)
        assert eventually(lambda: not life.lives())
        assert not life.signal(signal.SIGKILL)


def test_descendants_are_all_that_descend_by_any_thread() -> None:
    by_thread = (
        "import subprocess, sys, threading;"
        "t = threading.Thread(target=lambda: print(subprocess.Popen(['sleep', '60']).pid, flush=True));"
        "t.start(); t.join(); print(subprocess.Popen(['sh', '-c', 'sleep 60 & echo $!; wait']).pid, flush=True);"
        "import time; time.sleep(60)"
    )
    with started([sys.executable, "-S", "-c", by_thread], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        told = {int(process.stdout.readline()) for _ in range(3)}
        assert set(processes.descendants(process.pid)) == told
        assert processes.descendants(process.pid)[0] in processes.children(process.pid)


def test_what_was_started_with_a_mark_is_found_by_it() -> None:
    assert processes.marked("a-mark-of-nobody") == ()
    with started(
        ["sh", "-c", "sleep 60 & wait"], env={processes.MARK: "mine", "PATH": os.environ["PATH"]}
    ) as process:
        assert eventually(lambda: len(processes.marked("mine")) == 2)
        assert {life.pid for life in processes.marked("mine")} == {
            process.pid,
            *processes.descendants(process.pid),
        }
        assert processes.marked("min") == ()


def test_ending_asks_again_until_nobody_is_named() -> None:
    with started(["sh", "-c", "trap '' TERM; while :; do sleep 60; done"]) as process:
        assert eventually(lambda: processes.descendants(process.pid))
        members = lambda: processes.lives_of([process.pid, *processes.descendants(process.pid)])  # noqa: E731
        assert len(members()) == 2
        assert processes.end(members) == ()
        assert members() == ()


def test_what_can_not_be_ended_is_given_back() -> None:
    with started(SLEEPER) as process:
        unkillable = life_of(process.pid)
        object.__setattr__(unkillable, "signal", lambda number: False)  # as a process that hangs in the kernel
        assert processes.end(lambda: [unkillable], patience_seconds=0.05) == (unkillable,)


def test_ending_does_nothing_at_all_to_a_stranger_that_has_the_number() -> None:
    """A lowered limit can't be raised again: a stranger would be crippled for good."""
    with started(SLEEPER) as process:
        life = life_of(process.pid)
        before = resource.prlimit(process.pid, resource.RLIMIT_NPROC)
        gone = life.model_copy(update={"start_ticks": life.start_ticks - 1})
        assert processes.end(lambda: [gone], patience_seconds=0.05) == ()
        assert life.lives()
        assert resource.prlimit(process.pid, resource.RLIMIT_NPROC) == before
        life.forbid_forks()
        assert resource.prlimit(process.pid, resource.RLIMIT_NPROC) == (0, 0)


def test_usage_is_what_the_process_itself_measures() -> None:
    program = (
        "import resource, sys, time; held = bytearray(64 << 20)\n"
        "while time.process_time() < 0.3: pass\n"
        "print(time.process_time(), flush=True); time.sleep(60)"
    )
    with started([sys.executable, "-S", "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        used = float(process.stdout.readline())
        assert abs(processes.cpu_seconds(process.pid) - used) <= 0.05
        assert 64 << 20 <= processes.memory_bytes(process.pid) <= 80 << 20
    assert processes.cpu_seconds(process.pid) == 0.0
    assert processes.memory_bytes(process.pid) == 0
