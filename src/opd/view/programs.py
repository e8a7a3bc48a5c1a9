"""What only the install can work out, asked of it as a program: a view computes no score."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.score_report import ScoreReport
from opd.records.scores import Comparison
from opd.records.settings import validated

INSTALL = (sys.executable, "-P", "-m", "opd")
"""This install's command. `-P`: an `opd` that lies in the working directory is not it."""

_SAID = "opd: "  # begins the line by which a command says no


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A program that has ended."""

    code: int
    out: bytes
    said: str  # the last line of what it complained about, which is the reason of a no; empty where it was silent


def run(
    command: Sequence[str],
    *,
    limit_seconds: float | None = None,
    began: Callable[[subprocess.Popen[bytes]], object] = lambda _: None,
) -> Ended:
    """How the program ended; `began` is given it once it runs.

    Raises `subprocess.TimeoutExpired` where it takes longer, after it has been ended.
    """
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    began(child)
    try:
        out, complaints = child.communicate(timeout=limit_seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise
    said = complaints.decode("utf-8", "replace").strip().rpartition("\n")[2].removeprefix(_SAID)
    return Ended(code=child.returncode, out=out, said=said)


def compared(a: Path, b: Path) -> Comparison:
    """`opd compare A B`: the difference B - A, paired by question; its no is raised as it was meant."""
    return validated(Comparison, _answer("compare", str(a), str(b)), source="opd compare")


def report_of(path: Path) -> ScoreReport:
    """`opd score PATH`: a score, taken apart; its no is raised as it was meant."""
    return validated(ScoreReport, _answer("score", str(path)), source="opd score")


def _answer(verb: str, *paths: str) -> Any:
    """What the command prints as JSON."""
    ended = run([*INSTALL, verb, "--json", "--", *paths])
    if ended.code == AskedWrongly.exit_code:
        raise AskedWrongly(ended.said)
    if ended.code != 0:
        raise AnswerIsNo(ended.said or f"`opd {verb}` ended with {ended.code} and said nothing")
    return json.loads(ended.out)
