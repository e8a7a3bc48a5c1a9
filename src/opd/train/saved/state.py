"""The trainer's state: what a resumed run needs beside its recipe and its data.

DIR/state/step-000040/     one at a time: the one before is removed when this one is whole
        state.safetensors  master/<name>, optimizer/exp_avg/<name>, optimizer/exp_avg_sq/<name>, optimizer/step/<name>
        shard-*            instead of it, of each rank that has a share: the same, its rows (`ranks/shelf.py`)
        state.json         the step, what it was made from, the time used
        .complete          the digest of each file

The order of rows and the sampling noise are pure functions of (seed, row, epoch, position), and the learning rate
is one of the step: none of them has a state (faults E56 to E58, E66).
"""

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from pydantic import Field, PositiveInt
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from opd.records.errors import AnswerIsNo
from opd.records.failures import NotWritten, in_words
from opd.records.files import PARTIAL, begun, discard, is_complete, lost, publish, read_json, tree, write_json
from opd.records.metrics import StepMetrics
from opd.records.served import TeacherServer
from opd.records.settings import Settings, read
from opd.train.clock import Spent
from opd.train.ranks.shelf import read_whole
from opd.train.saved.origins import Origins
from opd.train.saved.retries import PAUSES_SECONDS, retried

_NAME = re.compile(r"step-(\d+)")
_TENSORS = "state.safetensors"
BEGIN_ANEW = "Begin a new run with student.model set to its newest checkpoint"

Kind = tuple[torch.Size, torch.dtype]


class TrainerState(Settings):
    """`state.json`."""

    step: PositiveInt
    """The last update that is in the weights."""
    recipe: str
    """Digest of the resolved recipe."""
    data: str
    """SHA-256 of the training file."""
    origins: Origins | None = None
    """Of the two models that the run began with; null in states of older versions, which are not compared."""
    spent: Spent
    """Time used so far, by all tries that led here."""
    metrics: StepMetrics
    """The step's line; `metrics.jsonl` gets it after the state is whole."""
    resumed_from: tuple[int, ...] = ()
    """Steps at which the run was taken up again."""
    teacher_servers: tuple[TeacherServer, ...] = Field(default=(), exclude_if=lambda some: not some)
    """Those that scored up to this step, in all tries; left out where there is none."""


class States:
    """The trainer states of a run's folder."""

    def __init__(self, run: Path, *, pauses_seconds: Sequence[float] = PAUSES_SECONDS) -> None:
        self._folder = run / "state"
        self._pauses_seconds = pauses_seconds

    def whole(self) -> list[Path]:
        """The published ones, by step."""
        return [path for path in self._published() if is_complete(path)]

    def lost(self) -> list[Path]:
        """Files that published ones had, and that are gone."""
        return [path for folder in self._published() for path in lost(folder)]

    def _published(self) -> list[Path]:
        """By step; what has no name of a step is none of them."""
        if not self._folder.is_dir():
            return []
        found = [(int(match[1]), path) for path in self._folder.iterdir() if (match := _NAME.fullmatch(path.name))]
        return [path for _, path in sorted(found)]

    def begin(self, step: int) -> Path:
        """An empty folder for the tensors of a step's state, which others write; `save` publishes it.

        Raises `AnswerIsNo` when there can't be one.
        """
        check_there(self._folder.parent)
        try:
            return retried(lambda: begun(self._at(step)), pauses_seconds=self._pauses_seconds)
        except OSError as error:
            raise self.not_written(step, error) from error

    def drop(self, step: int) -> None:
        """What `begin` gave and `save` did not publish is gone: on a full disk the room is needed."""
        folder = self._at(step)
        shutil.rmtree(folder.with_name(f"{folder.name}{PARTIAL}"), ignore_errors=True)

    def save(self, state: TrainerState, tensors: Mapping[str, torch.Tensor] | None) -> Path:
        """The folder of the new state; the one before is gone. Without tensors they are where `begin` said.

        Raises `AnswerIsNo` when it could not be written; the one before is then as it was (faults E63).
        """
        folder = self._at(state.step)
        try:
            retried(lambda: _write(folder, state, tensors), pauses_seconds=self._pauses_seconds)
        except (OSError, SafetensorError) as error:
            raise self.not_written(state.step, error) from error
        for old in self.whole()[:-1]:
            discard(old)
        return folder

    def not_written(self, step: int, error: Exception) -> NotWritten:
        """What is raised where a step's state could not be saved."""
        folder, whole = self._at(step), self.whole()
        left = f"{whole[-1].name} is whole" if whole else "there is none before it"
        return NotWritten(f"the trainer's state {folder} could not be saved ({in_words(error)}); {left}", path=folder)

    def _at(self, step: int) -> Path:
        return self._folder / f"step-{step:06d}"


def check_there(run: Path, *, holds: str = "") -> None:
    """Nothing, when the run's folder is there, and `holds` this file; else `AnswerIsNo`.

    What writes into it would otherwise make it anew, without what was in it.
    """
    if not (run / holds).exists():
        raise NotWritten(
            f"{run} has gone since the step before: a disk that is no longer there, or someone who removed it; bring "
            "it back and go on with --resume, or begin a new run",
            path=run,
        )


def read_state(folder: Path) -> TrainerState:
    """What `state.json` says; raises `AnswerIsNo` when a file of the folder is not what was written."""
    marked = read_json(folder / ".complete")["files"]
    if damaged := sorted(name for name, digest in tree(folder).items() if marked.get(name) != digest):
        raise AnswerIsNo(
            f"{folder / damaged[0]} is damaged: its SHA-256 is not the one in .complete; no run goes on from it. "
            f"{BEGIN_ANEW}"
        )
    return read(TrainerState, folder / "state.json")


def read_tensors(folder: Path) -> dict[str, torch.Tensor]:
    """The tensors of a state, whole and on the CPU, whoever wrote them."""
    return load_file(folder / _TENSORS) if (folder / _TENSORS).is_file() else read_whole(folder)


def gathered(masters: Mapping[str, torch.Tensor], optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Masters and all that the optimizer remembers of each. They are the live tensors, not copies."""
    tensors = {f"master/{name}": master.detach() for name, master in masters.items()}
    for name, master in masters.items():
        for what, value in optimizer.state[master].items():
            tensors[f"optimizer/{what}/{name}"] = value
    return tensors


@torch.no_grad()
def scatter(
    tensors: Mapping[str, torch.Tensor], masters: Mapping[str, torch.Tensor], optimizer: torch.optim.Optimizer
) -> None:
    """Masters and optimizer hold what `gathered` gave.

    Raises `AnswerIsNo`, with both as they were, when the tensors are those of another model.
    """
    saved = {key: (tensor.shape, tensor.dtype) for key, tensor in tensors.items()}
    check_same(saved, {name: (master.shape, master.dtype) for name, master in masters.items()})
    memory: dict[str, dict[str, torch.Tensor]] = {name: {} for name in masters}
    for key, value in tensors.items():
        room, _, rest = key.partition("/")
        if room == "optimizer":
            what, _, name = rest.partition("/")
            memory[name][what] = value
    for name, master in masters.items():
        master.copy_(tensors[f"master/{name}"])
    # torch numbers the parameters in the order of its groups
    numbered = enumerate(one for group in optimizer.param_groups for one in group["params"])
    number = {id(parameter): index for index, parameter in numbered}
    optimizer.load_state_dict(
        {
            "state": {number[id(masters[name])]: values for name, values in memory.items() if values},
            "param_groups": optimizer.state_dict()["param_groups"],
        }
    )


def check_same(saved: Mapping[str, Kind], masters: Mapping[str, Kind]) -> None:
    """Nothing, when a state's tensors are those of a student with such masters; else `AnswerIsNo`."""
    saved = {key.removeprefix("master/"): kind for key, kind in saved.items() if key.startswith("master/")}
    if saved.keys() != masters.keys():
        odd = min(saved.keys() ^ masters.keys())
        where = "the state" if odd in saved else "the student"
        raise AnswerIsNo(f"the state is of another model: only {where} has {odd}")
    for name, (shape, dtype) in masters.items():
        there, kind = saved[name]
        if (there, kind) != (shape, dtype):
            raise AnswerIsNo(
                f"the state is of another model: {name} is {kind} {list(there)} there, {dtype} {list(shape)} here"
            )


def _write(folder: Path, state: TrainerState, tensors: Mapping[str, torch.Tensor] | None) -> None:
    with publish(folder, filled=tensors is None) as partial:
        if tensors is not None:
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, partial / _TENSORS)
        write_json(partial / "state.json", state.resolved())
