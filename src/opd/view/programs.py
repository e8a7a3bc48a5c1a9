"""What only the install can work out, asked of it as a program: a view computes no score."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.score_report import ScoreReport
from opd.records.scores import Comparison
from opd.records.settings import validated

_SAID = "opd: "  # begins the line by which a command says no


def compared(a: Path, b: Path) -> Comparison:
    """`opd compare A B`: the difference B - A, paired by question; its no is raised as it was meant."""
    return validated(Comparison, _answer("compare", str(a), str(b)), source="opd compare")


def report_of(path: Path) -> ScoreReport:
    """`opd score PATH`: a score, taken apart; its no is raised as it was meant."""
    return validated(ScoreReport, _answer("score", str(path)), source="opd score")


def _answer(*arguments: str) -> Any:
    """What the command prints as JSON. `-P`: an `opd` that lies in the working directory is not this install."""
    verb, *paths = arguments
    command = [sys.executable, "-P", "-m", "opd", verb, "--json", "--", *paths]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    said = done.stderr.strip().rpartition("\n")[2].removeprefix(_SAID)
    if done.returncode == AskedWrongly.exit_code:
        raise AskedWrongly(said)
    if done.returncode != 0:
        raise AnswerIsNo(said or f"`opd {verb}` ended with {done.returncode} and said nothing")
    return json.loads(done.stdout)
