"""What recording the opened files costs the program that opens them: by the kernel's notices, by strace, and without.

    python benchmarks/bench_opened.py

Two programs: one that does nothing but open files, for the cost of one opening, and one that works like a training,
which reads a few files in each step of a tenth of a second. Compared are their own processor time, which other
programs of the machine don't lengthen, and the recorder's. `own mounts`: in bubblewrap.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from opd.protocol.openings.opened import How, Kind, Place, system_places
from opd.protocol.openings.recording import recording
from opd.protocol.supervision.processes import MARK
from opd.records.errors import AskedWrongly

TURNS = 3
OPENINGS = 5_000
STEPS = 20
OPENING = f"for n in range({OPENINGS}): open(sys.argv[1]).close()"
TRAINING = f"""
for step in range({STEPS}):
    for n in range(5): open(sys.argv[1]).close()
    ended = time.process_time() + 0.1
    while time.process_time() < ended: pass
"""
SANDBOX = ("bwrap", "--dev-bind", "/", "/", "--proc", "/proc", "--unshare-pid", "--die-with-parent")


def run(program: str, how: How, *, own_mounts: bool) -> tuple[float, float]:
    """Processor seconds of the program, and of this process meanwhile."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "input").write_text("x")
        places = [*system_places(), Place(kind=Kind.INPUT, role="data", host=folder / "input")]
        own = resource.getrusage(resource.RUSAGE_SELF)
        with recording(folder, places, mark="m" * 32, how=how) as seen:
            text = f"import sys, time\n{program}\nprint(time.process_time())"
            argv = [sys.executable, "-I", "-c", text, str(folder / "input")]
            command = seen.wrapped([*(SANDBOX if own_mounts else ()), *argv])
            ended = subprocess.run(command, env={**os.environ, MARK: "m" * 32}, check=True, stdout=subprocess.PIPE)
        assert how is How.NOT_RECORDED or seen.opened().inputs == {"data": 1}
        now = resource.getrusage(resource.RUSAGE_SELF)
        return float(ended.stdout), now.ru_utime + now.ru_stime - own.ru_utime - own.ru_stime


def main() -> None:
    """Prints a line for each program and way."""
    ways = [(how, own_mounts) for how in (How.NOT_RECORDED, How.FANOTIFY, How.STRACE) for own_mounts in (False, True)]
    for name, program in (("opening", OPENING), ("training", TRAINING)):
        taken: dict[tuple[How, bool], list[tuple[float, float]]] = {}
        for how, own_mounts in ways * TURNS:
            try:
                taken.setdefault((how, own_mounts), []).append(run(program, how, own_mounts=own_mounts))
            except AskedWrongly as error:
                print(error)
        for (how, own_mounts), turns in taken.items():
            seconds, recorder = (statistics.median(column) for column in zip(*turns, strict=True))
            plain = statistics.median(turn[0] for turn in taken[How.NOT_RECORDED, own_mounts])
            each = f"{(seconds - plain) / OPENINGS * 1e6:6.1f} µs more an opening" if program is OPENING else ""
            where = "own mounts" if own_mounts else ""
            print(f"{name:9s}{how:13s}{where:11s}{seconds:6.2f} s {seconds / plain - 1:+8.1%}  "
                  f"recorder {recorder:5.2f} s  {each}")  # fmt: skip


if __name__ == "__main__":
    main()
