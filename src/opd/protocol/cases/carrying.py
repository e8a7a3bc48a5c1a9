"""One unit of a matrix, from whatever stands of it to its end, by programs of the install on this machine.

    OUT/low__seed-0/
      asked.json           what the unit is, written first; a folder of another is refused
      log.txt              what the programs said
      run/                 the run of a training; or <harness>__<task>__<model>__<effort>/, the attempt
      scores/<benchmark>/
      receipt.json         what came of it, written last: standing.py

A program goes on where another of it was killed, on this machine or elsewhere: a training from its newest state, an
evaluation from what stands, an attempt from its receipts. It dies with the process that started it, so that whoever
takes the unit over is alone.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from opd.protocol.attempts.attempt import RUN, Attempt
from opd.protocol.attempts.state import status
from opd.protocol.cases.matrix import Unit
from opd.records.attempts import Liveness
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import PARTIAL, read_json, sha256, write_json
from opd.records.metrics import RunSummary
from opd.records.scores import Score
from opd.records.settings import read, validated

ASKED, LOG = "asked.json", "log.txt"
_BOOT = (
    "from opd.protocol.sandbox.inside.kernel import die_with_parent; die_with_parent(); "
    "from opd.cli.main import main; main()"
)
_SAID_WRONGLY = 2  # the exit code of what was asked wrongly


class Carrier:
    """Carries units into the folders below `out`, working in the folder `cwd`."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._out = Path(values["out"])
        self._cwd = Path(values["cwd"])
        if not self._cwd.is_dir():
            raise AskedWrongly(f"{self._cwd}, where the command was given, is no folder on {os.uname().nodename}")

    def __call__(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What came of a unit: in a sentence, in seconds, and its small files with their digests.

        Raises `AnswerIsNo` with a program's last line when one fails, and `AskedWrongly` for another unit's folder.
        """
        unit = validated(Unit, values, source="unit")
        folder = self._out / unit.name
        claim(folder, unit)
        began = time.monotonic()
        said, files = self._training(unit, folder) if unit.case.recipe is not None else self._attempt(unit, folder)
        return {
            "host": os.uname().nodename,
            "seconds": round(time.monotonic() - began, 3),
            "said": said,
            "files": {str(path.relative_to(folder)): sha256(path) for path in files},
        }

    def _training(self, unit: Unit, folder: Path) -> tuple[str, list[Path]]:
        run, case = folder / "run", unit.case
        assert case.recipe is not None, "it is a training"
        sets = [*case.set, *(f"seed={seed}" for seed in case.seeds)]
        resumes = ["--resume"] if (run / "recipe.json").is_file() else []
        self._opd(folder, "train", case.recipe, "--out", str(run), "--quiet", *resumes, *_options("--set", sets))
        summary = read(RunSummary, run / RUN)
        checkpoint = run / summary.checkpoints[-1]
        said, files = [f"{summary.steps} steps ({summary.stop.value})"], [run / RUN]
        for benchmark in case.benchmarks:
            out = folder / "scores" / Path(benchmark).stem
            self._opd(folder, "evaluate", benchmark, "--model", str(checkpoint), "--out", str(out), "--quiet")
            score = read(Score, out / "score.json")
            error = "" if score.stderr is None else f" ± {score.stderr:.4f}"
            said.append(f"{score.benchmark} {score.mean:.4f}{error}")
            files.append(out / "score.json")
        return ", ".join(said), files

    def _attempt(self, unit: Unit, folder: Path) -> tuple[str, list[Path]]:
        case, there = unit.case, _attempts_in(folder)
        if not there:
            assert case.task is not None, "it is an attempt"
            assert case.agent is not None, "and has an explorer"
            named = [*_option("--model", case.model), *_option("--effort", case.effort)]
            inputs = _options("--input", [f"{role}={path}" for role, path in case.inputs.items()])
            again = ["--again", str(unit.attempt)]
            agent = ["--agent", case.agent]
            self._opd(folder, "attempt", "new", case.task, *agent, "--runs", str(folder), *again, *named, *inputs)
            there = _attempts_in(folder)
        attempt = Attempt(there[0])
        if any(one.liveness in {Liveness.LEFT, Liveness.UNMARKED} for one in status(attempt).tries):
            self._opd(folder, "attempt", "resume", str(attempt.folder))
        if status(attempt).due:  # its exit code says whether there is a score, and not whether it is over
            code, last = self._ended(folder, "attempt", "run", str(attempt.folder))
        here = status(attempt)
        if here.due or here.waits_for or here.contradictions:
            why = here.waits_for or next(iter(here.contradictions), "") or f"exit code {code}: {last}"
            raise AnswerIsNo(f"{attempt.folder} is not over ({here.state}): {why}")
        best = here.official
        said = f"no official score: {here.missing}" if best is None else f"official {best.correct}/{best.samples}"
        return said, [attempt.folder / RUN]

    def _opd(self, folder: Path, *arguments: str) -> None:
        """The program has ended well; raises `AskedWrongly` or `AnswerIsNo` with its last line otherwise."""
        code, last = self._ended(folder, *arguments)
        if code:
            kind = AskedWrongly if code == _SAID_WRONGLY else AnswerIsNo
            raise kind(f"opd {arguments[0]} ended with {code}: {last} ({folder / LOG})")

    def _ended(self, folder: Path, *arguments: str) -> tuple[int, str]:
        """Exit code and last line of a program of the install."""
        command = [sys.executable, "-I", "-c", _BOOT, *arguments]
        with (folder / LOG).open("ab") as log:
            log.write(f"$ opd {' '.join(arguments)}\n".encode())
            log.flush()
            began = log.tell()
            code = subprocess.call(command, cwd=self._cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        with (folder / LOG).open("rb") as log:
            log.seek(began)
            lines = log.read().decode(errors="replace").strip().splitlines()
        return code, lines[-1][:300] if lines else "it said nothing"


def claim(folder: Path, unit: Unit) -> None:
    """The folder belongs to this unit; raises `AskedWrongly` when it is another's."""
    if not (folder / ASKED).exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / ASKED, unit.resolved())
    elif read_json(folder / ASKED) != unit.resolved():
        raise AskedWrongly(
            f"{folder} is of a case {unit.name!r} that was asked otherwise; give the case another name, or name "
            "another --out"
        )


def _attempts_in(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob(f"*/{RUN}") if not path.parent.name.endswith(PARTIAL))


def _option(flag: str, value: str | None) -> list[str]:
    return [] if value is None else [flag, value]


def _options(flag: str, values: list[str]) -> Iterator[str]:
    for value in values:
        yield from (flag, value)
