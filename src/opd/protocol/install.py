"""The install: the code that judges. It is digested, and started so that nothing of a working folder shadows it."""

import sys

from opd.records.errors import AnswerIsNo
from opd.records.places import PACKAGE
from opd.records.trees import entries, tree_digest

_MADE_BY_PYTHON = ("__pycache__",)


def program(*arguments: str) -> list[str]:
    """The command line of `opd …` of the install: no user site, no PYTHONPATH, nothing from the working folder."""
    return [sys.executable, "-I", "-m", "opd", *arguments]


def install_sha256() -> str:
    """Digest of the tree of the installed package, read now: what judges before and after can be compared by it."""
    return tree_digest(entries(PACKAGE, names=_MADE_BY_PYTHON))


def check_install(expected_sha256: str) -> None:
    """Nothing, while the install is the one that an attempt was made for; else `AnswerIsNo`."""
    if (now := install_sha256()) != expected_sha256:
        raise AnswerIsNo(
            f"the install has digest {now[:12]}…, and this attempt is judged by {expected_sha256[:12]}…: "
            "take that version of opd, or make a new attempt"
        )
