"""A matrix: named cases, each a training or an exploration of a task, in as many units as it has seeds or attempts.

[cases.low]                                [cases.codex]
recipe = "arith_tiny"                      task = "arith_tiny"
set = ["optimizer.lr=1e-4"]                agent = "bash explorer.sh"
seeds = [0, 1]                             model = "gpt-5"
benchmarks = ["arith_tiny"]                attempts = 2

low__seed-0, low__seed-1                   codex, codex__2
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from opd.records.errors import AskedWrongly
from opd.records.settings import Settings, read

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_OF_TRAINING = ("set", "seeds", "benchmarks")
_OF_ATTEMPTS = ("agent", "model", "effort", "inputs", "attempts")


class Case(Settings):
    """One table of the matrix: it has a `recipe`, or a `task` with an `agent`."""

    recipe: str | None = None
    """A recipe, as for `opd train`: a file, or the name of one that ships."""
    set: tuple[str, ...] = ()
    """`section.key=value`, put into the recipe."""
    seeds: tuple[NonNegativeInt, ...] = ()
    """A training for each; empty: one, with the recipe's own."""
    benchmarks: tuple[str, ...] = ()
    """The newest checkpoint is evaluated on each."""
    task: str | None = None
    """A task, as for `opd attempt new`."""
    agent: str | None = None
    """The explorer's program with its arguments."""
    model: str | None = None
    effort: str | None = None
    inputs: dict[str, str] = {}
    """Where fixed inputs lie, by their roles."""
    attempts: Annotated[PositiveInt, Field(le=1_000)] = 1

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.recipe is None) == (self.task is None):
            raise AskedWrongly("a case has a recipe, or a task, and not both")
        foreign = _OF_ATTEMPTS if self.recipe is not None else _OF_TRAINING
        if given := [key for key in foreign if getattr(self, key) != type(self).model_fields[key].get_default()]:
            kind = "recipe" if self.recipe is not None else "task"
            raise AskedWrongly(f"{', '.join(given)} is not of a case with a {kind}; leave it away")
        if self.task is not None and self.agent is None:
            raise AskedWrongly("a case with a task needs an agent: the explorer's program")
        if len(set(self.seeds)) != len(self.seeds):
            raise AskedWrongly(f"seeds = {list(self.seeds)}: one is there twice, and would be the same training")
        return self


class Unit(Settings):
    """What is run, and counted as done, at once: one training with its scores, or one attempt."""

    name: str
    case: Case
    """With the seed of this unit in `seeds`, or none."""
    attempt: PositiveInt = 1
    """Which of the attempts of the case it is."""


class Matrix(Settings):
    """The file, by the names of its cases."""

    cases: dict[str, Case]

    @model_validator(mode="after")
    def _names(self) -> Self:
        for name in self.cases:
            if _NAME.fullmatch(name) is None or "__" in name:
                raise AskedWrongly(f"{name!r} can't name a case: letters, digits, . _ -, no two _ in a row, ≤ 64")
        if not self.cases:
            raise AskedWrongly("there is no case in it; write [cases.NAME] with a recipe or a task")
        return self

    def units(self) -> tuple[Unit, ...]:
        """All that is to be run, in the order of the file."""
        return tuple(unit for name, case in self.cases.items() for unit in _units(name, case))


def read_matrix(path: Path) -> Matrix:
    """The matrix of a TOML file; `AskedWrongly`, which names the key, for one that can't be used."""
    return read(Matrix, path)


def _units(name: str, case: Case) -> Iterator[Unit]:
    for seed in case.seeds:
        yield Unit(name=f"{name}__seed-{seed}", case=case.model_copy(update={"seeds": (seed,)}))
    if not case.seeds:
        one = case.model_copy(update={"attempts": 1})  # more of them make none of those that are there another
        for number in range(1, case.attempts + 1):
            yield Unit(name=name if number == 1 else f"{name}__{number}", case=one, attempt=number)
