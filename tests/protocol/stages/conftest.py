"""A task whose training takes a moment: its workspace brings a run.sh that disturbs the student a little.

toy       an attempt on it; `toy.submit({"run.sh": …})` hands in a changed workspace, `toy.replay()` runs it
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from opd.protocol.attempts.attempt import OUTCOME, Attempt
from opd.protocol.attempts.creating import Explorer, base_of, create
from opd.protocol.attempts.lease import held
from opd.protocol.attempts.state import status
from opd.protocol.gpus import VISIBLE
from opd.protocol.machine import Machine
from opd.protocol.packages import catalogue
from opd.protocol.patches.patch import derive
from opd.protocol.patches.source import write
from opd.protocol.sandbox.ladder import Chosen, climb
from opd.protocol.stages.explore import explore
from opd.protocol.stages.formal import replay
from opd.protocol.stages.submission import submit_outside
from opd.records.attempts import Exploration, Formal, Status
from opd.records.receipts import Receipt
from opd.records.settings import read
from opd.records.toml import toml

RUN = """#!/usr/bin/env bash
set -euo pipefail
python3 -I train.py "$@"
"""

TRAIN = '''"""Checkpoints of the student, each value the next that its dtype has, and the next but one, and so on."""

import os
import shutil
from array import array
from pathlib import Path

STEPS = (9, 10, 100)

student = Path(os.environ["STUDENT_MODEL"])
held = (student / "model.safetensors").read_bytes()
begin = 8 + int.from_bytes(held[:8], "little")
for number, step in enumerate(STEPS, start=1):
    folder = Path("checkpoints") / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    for file in student.iterdir():
        if file.name != "model.safetensors":
            shutil.copyfile(file, folder / file.name)
    values = array("H", held[begin:])  # bfloat16
    moved = array("H", (value + number for value in values))
    (folder / "model.safetensors").write_bytes(held[:begin] + moved.tobytes())
    print("step", step)
'''


class Toy:
    """One attempt on the toy task."""

    def __init__(self, attempt: Attempt, sandbox: Chosen, away: Path) -> None:
        self.attempt = attempt
        self.sandbox = sandbox
        self._away = away

    def submit(self, files: Mapping[str, str] | None = None) -> None:
        """Hands in the workspace with these files in it, from outside."""
        workspace, patch = self._away / "workspace", self._away / "candidate.patch"
        base = base_of(self.attempt)
        write(base, workspace)
        for name, text in (files or {}).items():
            (workspace / name).write_text(text)
        patch.write_bytes(derive(workspace, base).patch)
        with held(self.attempt.folder) as holder:
            submit_outside(self.attempt, holder, patch, note=None)

    @property
    def machine(self) -> Machine:
        """Of a task that needs no GPU."""
        return Machine(sandbox=self.sandbox, gpus={VISIBLE: ""})

    def replay(self, *, cancelled: Callable[[], bool] = lambda: False) -> tuple[Receipt, Formal]:
        with held(self.attempt.folder) as holder:
            receipt = replay(self.attempt, holder, self.machine, cancelled=cancelled)
        folder = self.attempt.folder / "formal"
        last = max(path for path in folder.iterdir() if not path.name.endswith(".partial"))
        return receipt, read(Formal, last / OUTCOME)

    def explore(self, *, cancelled: Callable[[], bool] = lambda: False) -> tuple[Receipt, Exploration | None]:
        said: list[str] = []
        with held(self.attempt.folder) as holder:
            receipt = explore(self.attempt, holder, self.machine, say=said.append, cancelled=cancelled)
        self.said = said
        path = self.attempt.folder / "explore" / "attempt-001" / OUTCOME
        return receipt, read(Exploration, path) if path.exists() else None

    @property
    def status(self) -> Status:
        return status(Attempt(self.attempt.folder))

    def file(self, name: str) -> Path:
        return self.attempt.folder / name


@pytest.fixture(scope="session")
def sandbox() -> Chosen:
    """The best sandbox of this machine."""
    return climb()


@pytest.fixture
def new_toy(tmp_path: Path, sandbox: Chosen) -> Callable[..., Toy]:
    """`new_toy("exit 1", formal_seconds=5)`: a new attempt, with an explorer's script and other budgets."""

    def make(script: str = "true", **budgets: Any) -> Toy:
        folder = write_toy_task(tmp_path / "task", budgets)
        program = tmp_path / "explorer.sh"
        program.write_text(script)
        explorer = Explorer(harness="command", command=("bash", str(program)))
        attempt = create(folder, tmp_path / "runs", explorer, given={})
        (tmp_path / "away").mkdir()
        return Toy(attempt, sandbox, tmp_path / "away")

    return make


@pytest.fixture
def toy_task(tmp_path: Path) -> Callable[..., Path]:
    """`toy_task({"train.py": …}, explore_seconds=60)`: the folder of a toy task."""
    return lambda files=(), **budgets: write_toy_task(tmp_path / "task", budgets, **dict(files))


@pytest.fixture
def toy(new_toy: Callable[..., Toy]) -> Toy:
    return new_toy()


def write_toy_task(folder: Path, budgets: Mapping[str, Any], **files: str) -> Path:
    """The embedded task, with a workspace of two files in place of our sources."""
    values = catalogue.read_toml(catalogue.place("arith_tiny"))
    contract = values["metadata"]["opd"]
    del contract["run"]
    contract["workspace"] = "folder"
    contract["surface"] = {"editable": ["**"]}
    contract["budgets"] |= {
        "formal_seconds": 60,
        "reserve_seconds": 4,
        "validation_seconds": 600,
        "final_seconds": 600,
    }
    contract["budgets"] |= budgets
    workspace = folder / "workspace"
    workspace.mkdir(parents=True)
    for name, text in {"run.sh": RUN, "train.py": TRAIN, **files}.items():
        (workspace / name).write_text(text)
    (workspace / "run.sh").chmod(0o755)
    (folder / "task.toml").write_text(toml(values))
    return folder
