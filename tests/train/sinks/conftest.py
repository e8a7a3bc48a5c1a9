"""What the tests of sinks share: a run's folder that a test writes, and a sink that breaks when it is told to.

The double has trackio's three calls. It is a real module in a real process, which raises, leaves, crashes or hangs.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from opd.records.events import Event
from opd.records.files import read_lines
from opd.records.settings import validated
from opd.train.followers import Followers
from opd.train.sink import SinkSettings

DOUBLE = '''
"""As much of trackio as a sink calls: it writes down what it is told, and breaks at step 2 if it is told to."""

import json, os, time

BREAKS = os.environ.get("BREAKS", "")


class Trouble(Exception):
    pass


def note(what):
    with open(os.environ["NOTES"], "a") as file:
        file.write(json.dumps(what) + "\\n")


def trouble():
    raise Trouble("the dashboard is down\\nfor maintenance") from ConnectionResetError(104, "reset by peer")


class Run:
    def log(self, metrics, step):
        if step == 2:
            if BREAKS == "log":
                trouble()
            if BREAKS == "exit":
                raise SystemExit(7)
            if BREAKS == "crash":
                os.abort()
            if BREAKS == "hang":
                time.sleep(600)
        note({"step": step} | metrics)


def init(**settings):
    if BREAKS == "init":
        trouble()
    note(settings)
    return Run()


def finish():
    if BREAKS == "finish":
        trouble()
    note("finished")
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Double:
    """The double's notes."""

    path: Path

    @property
    def notes(self) -> list[Any]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    @property
    def steps(self) -> list[int]:
        return [note["step"] for note in self.notes if "step" in note]


@pytest.fixture
def double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Double:
    """trackio is the double, for this process and for those that it starts."""
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "trackio.py").write_text(DOUBLE)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("NOTES", str(tmp_path / "notes.jsonl"))
    monkeypatch.delitem(sys.modules, "trackio", raising=False)
    return Double(path=tmp_path / "notes.jsonl")


RECIPE = {"seed": 7, "optimizer": {"lr": 1e-6}}


@dataclass(slots=True, kw_only=True)
class Bare:
    """A run's folder that a test writes, and the followers of it."""

    out: Path
    warnings: list[str] = field(default_factory=list)
    recipe: ClassVar[dict[str, Any]] = RECIPE

    @staticmethod
    def line(step: int, *, loss: float | None = None) -> dict[str, Any]:
        """A line like those of a run, with values that float32 has exactly."""
        return {
            "step": step,
            "loss": step / 4 if loss is None else loss,
            "rollouts": 64,
            "gap": {"mean": 0.5, "largest": 2.0},
            "reward": None,
            "seconds": {"update": 1.5, "total": 3.0},
            "warnings": ["something"],
        }

    @staticmethod
    def written(step: int, *, loss: float | None = None) -> dict[str, float]:
        """What a sink gets of that line."""
        return {
            "loss": step / 4 if loss is None else loss,
            "rollouts": 64,
            "gap/mean": 0.5,
            "gap/largest": 2.0,
            "seconds/update": 1.5,
            "seconds/total": 3.0,
        }

    def renamed(self) -> "Bare":
        """The same folder under another name."""
        return Bare(out=self.out.rename(self.out.with_name("renamed")))

    def followers(self, *to: str, patience_seconds: float = 60.0) -> Followers:
        settings = SinkSettings(to=to, project="tests")
        return Followers(settings, self.out, warn=self.warnings.append, patience_seconds=patience_seconds)

    def write(self, lines: Sequence[Mapping[str, Any]]) -> None:
        with (self.out / "metrics.jsonl").open("a") as file:
            file.write("".join(json.dumps(one) + "\n" for one in lines))

    def show(self, lines: Sequence[Mapping[str, Any]], *to: str, step: int = 0) -> None:
        """A try of the run from its first line to its end, with everything shown."""
        followers = self.followers(*to)
        followers.start(step=step)
        self.write(lines)
        (self.out / "run.json").write_text("{}")
        followers.finish()
        (self.out / "run.json").unlink()

    @property
    def events(self) -> list[Event]:
        if not (self.out / "events.jsonl").exists():
            return []
        return [validated(Event, one, source="events.jsonl") for one in read_lines(self.out / "events.jsonl")]


@pytest.fixture
def bare(tmp_path: Path) -> Bare:
    out = tmp_path / "runs" / "one"
    out.mkdir(parents=True)
    (out / "recipe.json").write_text(json.dumps(RECIPE))
    return Bare(out=out)


@pytest.fixture
def until() -> Callable[..., None]:
    """`until(lambda: …)` comes back when that is so, and fails when it isn't after a minute."""

    def wait(condition: Callable[[], object], *, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "it never came to be"
            time.sleep(0.05)

    return wait


@pytest.fixture
def is_gone() -> Callable[[int], bool]:
    """Whether nobody runs under this number; a zombie that waits for its parent doesn't run."""

    def look(process_id: int) -> bool:
        try:
            return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] in {"Z", "X"}
        except FileNotFoundError:
            return True

    return look
