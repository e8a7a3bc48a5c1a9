"""The document's case as a whole, sealed attempt: `build(place)`, or `build(place, Facts(pipeline_seconds=4_000))`.

    place/runs/<case>/        the attempt, as `opd attempt` would have left it; `verify` and `status` hold on it
    place/data/               the final's sixty questions, made up; the task pins their digests
    place/inputs/             stand-ins for student, teacher and verifier

`clone` makes a further one of the same files, by hard links, to be tampered with: a file of it is replaced, never
written to.
"""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from tests.protocol.document.facts import CASE, Facts
from tests.protocol.document.making import Making

from opd.protocol.attempts.attempt import EVENTS, Attempt

_RUNS = ("baseline", "reward", "top16-fkl", "smoke", "shuffle", "probe-240s", "stability")
VISIBLE = (
    "explore/attempt-001/trajectory/native.jsonl",
    "explore/attempt-001/trajectory/atif.json",
    "explore/attempt-001/commands.jsonl",
    "explore/attempt-001/desk.jsonl",
    *(f"explore/attempt-001/runs/{name}.log" for name in _RUNS),
    "submission/candidate.patch",
)
"""The twelve files of trajectory, tool results, commands and patch."""


@dataclass(frozen=True, kw_only=True)
class Built:
    """Where everything is."""

    place: Path
    facts: Facts

    @property
    def folder(self) -> Path:
        """Of the attempt."""
        return self.place / "runs" / CASE

    @property
    def attempt(self) -> Attempt:
        """Read anew."""
        return Attempt(self.folder)

    @property
    def questions(self) -> Path:
        """The folder of the final's questions."""
        return self.place / "data"


def build(place: Path, facts: Facts | None = None) -> Built:
    """The attempt of these facts, below a new or empty folder."""
    built = Built(place=place, facts=facts or Facts())
    with patch.object(os, "fsync", lambda _: None), tempfile.TemporaryDirectory(prefix="opd-document-") as away:
        Making(built.place, built.facts, Path(away)).all()
    return built


def clone(built: Built, place: Path) -> Built:
    """The same files once more, by hard links, and copies of those that a run would go on writing to."""
    shutil.copytree(built.place, place, copy_function=os.link, symlinks=True)
    other = Built(place=place, facts=built.facts)
    log = other.folder / EVENTS
    content = log.read_bytes()
    log.unlink()
    log.write_bytes(content)
    return other


def replace(path: Path, content: bytes) -> None:
    """Another content in place of a sealed file, whose links elsewhere keep theirs."""
    mode = path.stat().st_mode
    path.unlink()
    path.write_bytes(content)
    path.chmod(mode)
