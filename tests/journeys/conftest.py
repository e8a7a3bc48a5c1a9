"""Runs of the embedded pair, through the functions that the verbs call."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

QUESTIONS = 150


@pytest.fixture(scope="session")
def distil(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`distil("student.model=…", objective=…)` → the folder of a finished run of arith_tiny with these changes."""
    from opd.records.places import recipe_path
    from opd.records.settings import read
    from opd.train.recipe import Recipe
    from opd.train.run import prepare, run

    def distil(*sets: str, objective: Any = None) -> Path:
        recipe = read(Recipe, recipe_path("arith_tiny"), sets=["save.rollouts=false", *sets])
        if objective is not None:
            recipe = recipe.model_copy(update={"objective": objective})
        out = tmp_path_factory.mktemp("run") / "run"
        run(recipe, prepare(recipe, out), out)
        return out

    return distil


@pytest.fixture(scope="session")
def score(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`score(model)` → the folder of its evaluation on the first questions of the proxy, four samples each."""
    from opd.evaluate.benchmark import find
    from opd.evaluate.run import evaluate
    from opd.evaluate.settings import Evaluation

    def score(model: str) -> Path:
        out = tmp_path_factory.mktemp("score") / "score"
        asked = Evaluation(benchmark=find("arith_tiny").smaller(questions=QUESTIONS, samples=None))
        evaluate(asked, model, out)
        return out

    return score


@pytest.fixture(scope="session")
def start(score: Callable[[str], Path]) -> Path:
    return score("opd:arith_tiny/student")
