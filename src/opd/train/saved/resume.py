"""A run that was stopped, killed or broken → where it goes on, and the folder as it was there.

DIR/recipe.json                         compared with the recipe at hand; a difference is refused
DIR/began.json                          so is another training file, and so are other models, when `parts.build`
                                        comes to them
DIR/state/step-000040/                  the newest whole one is where it goes on; with none, at the beginning
DIR/metrics.jsonl, rollouts/            cut back to that step
DIR/checkpoint-60/                      stays until the next checkpoint is whole, and is made anew or removed then
DIR/failure.json, run.json              kept as failure-1.json, run-1.json, …
"""

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import PARTIAL, discard, read_lines, sha256, whole, write_json
from opd.records.metrics import RunSummary, StepMetrics, StopCause
from opd.records.rollout_table import table_path
from opd.records.settings import read, validated
from opd.train.parts import Parts
from opd.train.prompts.data import check_data
from opd.train.ranks.handing import handed
from opd.train.recipe import Recipe
from opd.train.saved.checkpoint import Checkpoints
from opd.train.saved.origins import Beginning, Origins
from opd.train.saved.shares import read_shares
from opd.train.saved.state import BEGIN_ANEW, States, TrainerState, read_state, read_tensors

BEGAN = "began.json"
METRICS = "metrics.jsonl"
_BRING_BACK = "bring the file back as it was: warnings and the best checkpoints are worked out from it"

# None of these changes what a step computes, beyond rounding.
_FREE = ("machine.", "sinks.", "budget.reserve_seconds", "data.repeats")
_FREE_OF_A_TEACHER = re.compile(r"teachers\.[^.]+\.(?:scorer|served|device)(?:\..*)?")
_MAY_RISE = ("budget.steps", "budget.epochs", "budget.max_wall_seconds")  # null: no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a run goes on."""

    folder: Path | None = None  # of the trainer state; None: there is none, and the run begins anew at step 1
    state: TrainerState | None = None
    origins: Origins | None = None  # the models that the run began with; None where an older version wrote none down

    @property
    def step(self) -> int:
        """The last step that stands; 0 for none."""
        return self.state.step if self.state else 0

    @property
    def resumed_from(self) -> tuple[int, ...]:
        """Steps at which the run was taken up again, this one included."""
        return (*(self.state.resumed_from if self.state else ()), self.step)


def finished(recipe: Recipe, out: Path) -> RunSummary | None:
    """What the run came to, if it is finished and the recipe asks for nothing more; else None.

    Raises `AnswerIsNo` when it is finished and its last checkpoint is not what was published (faults E68).
    """
    before = _recipe_of(out)
    if not (out / "run.json").is_file() or before.budget != recipe.budget or differences(before, recipe):
        return None
    summary = read(RunSummary, out / "run.json")
    if summary.stop is StopCause.INTERRUPTED:
        return None
    Checkpoints(out).check(summary.steps)
    return summary


def find_start(recipe: Recipe, out: Path) -> Start:
    """Where the run in this folder goes on; nothing on the disk is changed.

    Raises `AskedWrongly` when there is no run, or when the recipe or the training file is not what the run began
    with (faults E59), and `AnswerIsNo` when its state is damaged or gone.
    """
    if found := differences(_recipe_of(out), recipe):
        raise AskedWrongly(
            f"{out} can't go on with another recipe: {'; '.join(found)}; leave RECIPE and --set away to go on with "
            "the run's own, or name a new folder"
        )
    began = out / BEGAN
    beginning = read(Beginning, began) if began.is_file() else None
    states = States(out).whole()
    if not states:
        _check_never_had_one(recipe, out)
        _check_data(recipe, out, began_with=beginning.data if beginning else None)
        return Start(origins=beginning.models if beginning else None)
    state = read_state(states[-1])
    _check_lines(out / METRICS, step=state.step)
    _check_data(recipe, out, began_with=state.data)
    return Start(folder=states[-1], state=state, origins=state.origins)


def differences(before: Recipe, now: Recipe) -> list[str]:
    """What differs, key by key, as far as a resumed run may not differ. A budget may grow."""
    old, new = dict(_flat(before.resolved())), dict(_flat(now.resolved()))
    keys = [key for key in (old | new) if old.get(key) != new.get(key) and not _is_free(key)]
    return [
        f"{key} = {json.dumps(new.get(key))}, the run has {json.dumps(old.get(key))}"
        + (", which may grow and not shrink" if key in _MAY_RISE else "")
        for key in keys
        if not (key in _MAY_RISE and _at_least(new.get(key), old.get(key)))
    ]


def _is_free(key: str) -> bool:
    return key.startswith(_FREE) or _FREE_OF_A_TEACHER.fullmatch(key) is not None


def go_back(out: Path, start: Start, recipe: Recipe) -> None:
    """The folder is as it was when the step of `start` ended, but for checkpoints: see the top of this file."""
    for name in ("run.json", "failure.json"):
        _number(out / name)
    if _recipe_of(out) != recipe:
        _number(out / "recipe.json")
        write_json(out / "recipe.json", recipe.resolved())
    Checkpoints(out).tidy()
    for left in [*out.glob(f"*{PARTIAL}"), *out.glob(f"*/*{PARTIAL}")]:
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    for folder in set((out / "state").glob("step-*")) - {start.folder}:
        discard(folder)
    for table in (out / "rollouts").glob("step-*.parquet"):
        if table > table_path(out, start.step):
            table.unlink()
    _cut_metrics(out / METRICS, start)


def put_back(parts: Parts, start: Start) -> None:
    """Student, optimizer, sampler and clock are where they were when the step of `start` ended."""
    if start.folder is None or start.state is None:
        return
    folder = start.folder
    if parts.shares is None:
        tensors = handed(lambda: read_tensors(folder), parts.ranks)
    else:
        tensors = read_shares(folder, parts.shares)
    parts.updater.restore(tensors)
    parts.sampler.follow(start.step)
    parts.budget.resume(start.state.spent)


def _recipe_of(out: Path) -> Recipe:
    if not (out / "recipe.json").is_file():
        raise AskedWrongly(f"{out} holds no run (no recipe.json): there is nothing to resume; leave --resume away")
    return read(Recipe, out / "recipe.json")


def _check_data(recipe: Recipe, out: Path, *, began_with: str | None) -> None:
    """Nothing, when the training file has this SHA-256, or none was written down; else `AskedWrongly`."""
    if began_with is not None and (data := sha256(check_data(recipe.data))) != began_with:
        raise AskedWrongly(
            f"{out} can't go on with other data: {recipe.data.path} has SHA-256 {data}, the run began with "
            f"{began_with}; bring that file back, or name a new folder"
        )


def _check_never_had_one(recipe: Recipe, out: Path) -> None:
    """A run without a state begins anew only where that repeats the little that it did before its first one."""
    done = len(_lines(out / METRICS))
    if any(recipe.save.state_due(step, ends=False) for step in range(1, done + 1)):
        gone = next(iter(States(out).lost()), "its trainer state")
        raise AnswerIsNo(f"{out} made {done} steps, and {gone} is gone. {BEGIN_ANEW}")
    if done and recipe.save.state_every == 0:
        raise AskedWrongly(
            f"{out} made {done} steps with save.state_every = 0, so there is no state to go on from; begin a new "
            "run in another folder"
        )


def _cut_metrics(path: Path, start: Start) -> None:
    lines = _lines(path)[: start.step]
    if start.state and len(lines) < start.step:
        lines.append(start.state.metrics.resolved())
    with whole(path) as temporary:
        temporary.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


def _check_lines(path: Path, *, step: int) -> None:
    """Nothing, when the lines of the steps before this one are there; the state itself has this one's."""
    if (found := len(_lines(path))) < step - 1:
        raise AskedWrongly(f"{path} lacks the line of step {found + 1}, and of all up to {step}; {_BRING_BACK}")


def _lines(path: Path) -> list[dict[str, Any]]:
    """The line of each step, from the first; one that a crash tore is left out.

    Raises `AskedWrongly` for a line that is damaged, or is not that of its step.
    """
    lines = list(read_lines(path, torn_end=True)) if path.exists() else []
    for step, line in enumerate(lines, start=1):
        if line.get("step") != step:
            raise AskedWrongly(f"{path}, line {step} is not that of step {step}; {_BRING_BACK}")
        validated(StepMetrics, line, source=f"{path}, line {step}")
    return lines


def _number(path: Path) -> None:
    """The file stands as `<name>-1`, or under the next number that is free."""
    if not path.exists():
        return
    number = 1
    while (numbered := path.with_name(f"{path.stem}-{number}{path.suffix}")).exists():
        number += 1
    path.replace(numbered)


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _at_least(new: float | None, old: float | None) -> bool:
    return new is None or (old is not None and new >= old)
