"""`opd compare` of the install, run as a program of its own: the protocol computes no statistic."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from opd.protocol.install import program
from opd.protocol.words import one_line
from opd.records.errors import AnswerIsNo

_LIMIT_SECONDS = 900.0
_SAID = 500  # characters


def by_program(place: Path, folders: Sequence[str], lead: int = 1) -> object:
    """The JSON value that `opd compare FOLDERS --json` prints for these evaluations, named relative to `place`; each
    of the first `lead` is compared with all after it.

    Raises `AnswerIsNo` where it says nothing, with why.
    """
    try:
        ran = subprocess.run(
            program("compare", *folders, "--lead", str(lead), "--json"), cwd=place, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=_LIMIT_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise AnswerIsNo(f"`opd compare` of {', '.join(folders)} took more than {_LIMIT_SECONDS:.0f} s") from None
    if ran.returncode != 0:
        said = ran.stderr.decode("utf-8", "replace").strip().split("\n")[-1].removeprefix("opd: ")
        raise AnswerIsNo(f"`opd compare` of {', '.join(folders)} failed: {one_line(said, most=_SAID)}")
    return json.loads(ran.stdout)
