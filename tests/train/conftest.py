"""What the tests of training share: real tiny models, a recipe on them, scored rollouts, an eye on the optimizer."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from opd.models.load import LanguageModel, load_model
from opd.records.metrics import Gap, StepMetrics
from opd.records.rollouts import Prompt, Rollout, ScoredRollout, StopReason
from opd.records.settings import read
from opd.train.recipe import Recipe

Load = Callable[..., LanguageModel]
MakeRecipe = Callable[..., Recipe]
MakeScored = Callable[..., list[ScoredRollout]]
MakeLine = Callable[..., StepMetrics]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerStep:
    """What an optimizer held when its step began."""

    parameters: list[torch.Tensor]  # the very tensors, so that they can be looked at again later
    gradients: list[torch.Tensor]  # copies, after any clipping


Watch = Callable[[], AbstractContextManager[list[OptimizerStep]]]


@pytest.fixture
def load(random_models: Path) -> Load:
    """`load("student", dtype="float64")`: a fresh copy of one of the random models, on the CPU."""

    def load_one(name: str = "student", *, dtype: str = "float64") -> LanguageModel:
        return load_model(random_models / name, dtype=dtype, device="cpu")

    return load_one


@pytest.fixture
def recipe_text(random_models: Path, tmp_path: Path) -> str:
    """The shortest recipe that runs: the random pair on seven problems, two prompts × two rollouts a step."""
    problems = [{"problem": f"Compute {n}+{n}.", "answer": str(2 * n)} for n in range(7)]
    data = tmp_path / "problems.jsonl"
    data.write_text("".join(json.dumps(problem) + "\n" for problem in problems), encoding="utf-8")
    return f"""
        student.model = "{random_models}/student"
        teacher.model = "{random_models}/teacher"
        data.path = "{data}"
        rollouts = {{ prompts_per_step = 2, per_prompt = 2, limit_tokens = 8 }}
        objective.name = "k1_policy_gradient"
        optimizer.lr = 1e-3
        budget.steps = 3
        machine.device = "cpu"
    """


@pytest.fixture
def make_recipe(recipe_text: str, tmp_path: Path) -> MakeRecipe:
    """`make_recipe("budget.steps=7")`: that recipe, with these values put in."""
    path = tmp_path / "recipe.toml"
    path.write_text(recipe_text, encoding="utf-8")

    def make(*sets: str) -> Recipe:
        return read(Recipe, path, sets=sets)

    return make


@pytest.fixture
def make_routed(random_models: Path, untied_model: Path, tmp_path: Path) -> MakeRecipe:
    """`make_routed("budget.steps=7")`: the like of it with two teachers, of which each row names one.

    Rows 0, 3 and 6 have the teacher "code", of another architecture; the others "math".
    """
    named = [
        {"problem": f"Compute {n}+{n}.", "answer": str(2 * n), "of": "math" if n % 3 else "code"} for n in range(7)
    ]
    (tmp_path / "routed.jsonl").write_text("".join(json.dumps(row) + "\n" for row in named), encoding="utf-8")
    path = tmp_path / "routed.toml"
    path.write_text(
        f"""
        student.model = "{random_models}/student"
        teachers.math.model = "{random_models}/teacher"
        teachers.code.model = "{untied_model}"
        data = {{ path = "{tmp_path}/routed.jsonl", teacher_field = "of" }}
        rollouts = {{ prompts_per_step = 3, per_prompt = 2, limit_tokens = 8 }}
        objective.name = "k1_policy_gradient"
        optimizer.lr = 1e-3
        budget.steps = 3
        machine.device = "cpu"
        """,
        encoding="utf-8",
    )

    def make(*sets: str) -> Recipe:
        return read(Recipe, path, sets=sets)

    return make


@pytest.fixture
def make_scored() -> MakeScored:
    """`make_scored([2, 6, 8])`: rollouts of so many tokens after prompts of other lengths, scores and all.

    `teacher_logp` gives each rollout's scores: a number for all of its tokens, or one for each.
    """

    def make(
        lengths: Sequence[int],
        *,
        seed: int = 0,
        teacher_logp: Sequence[float | Sequence[float]] | None = None,
        behaviour_logp: float | None = None,
    ) -> list[ScoredRollout]:
        numbers = random.Random(seed)
        scored = []
        for row, length in enumerate(lengths):
            prompt = Prompt(row=row, problem="?", answer="!", token_ids=_ids(numbers, 1 + (3 * row + seed) % 5))
            logp = [numbers.uniform(-4, 0) if behaviour_logp is None else behaviour_logp for _ in range(length)]
            rollout = Rollout(
                prompt=prompt, sample=0, token_ids=_ids(numbers, length), logp=tuple(logp), stop=StopReason.EOS
            )
            drawn = [numbers.uniform(-9, 0) for _ in range(length)]
            given = drawn if teacher_logp is None else teacher_logp[row]
            scores = [float(given)] * length if isinstance(given, int | float) else given
            scored.append(ScoredRollout(rollout=rollout, teacher_logp=tuple(scores)))
        return scored

    return make


@pytest.fixture
def optimizer_steps() -> Watch:
    """`with optimizer_steps() as steps:` gets an `OptimizerStep` for every step of any optimizer."""

    @contextmanager
    def watch() -> Iterator[list[OptimizerStep]]:
        steps: list[OptimizerStep] = []

        def note(optimizer: torch.optim.Optimizer, *_: object) -> None:
            parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            gradients = [parameter.grad.detach().clone() for parameter in parameters]
            steps.append(OptimizerStep(parameters=parameters, gradients=gradients))

        hook = register_optimizer_step_pre_hook(note)
        try:
            yield steps
        finally:
            hook.remove()

    return watch


@pytest.fixture(scope="session")
def make_line() -> MakeLine:
    """`make_line(3, kl=0.5)`: the line of step 3, with nothing in it that looks wrong."""

    def make(step: int, **values: object) -> StepMetrics:
        plain = StepMetrics(
            step=step,
            loss=0.0,
            kl=0.0,
            clamped=0.0,
            gradient_norm=1.0,
            learning_rate=1e-3,
            rollouts=4,
            trained_tokens=10,
            mean_tokens=2.5,
            surprise=1.0,
            cut_short=0.0,
            repeated=0.0,
            rows_seen=2,
            gap=Gap(mean=0.0, largest=0.0, k3=0.0),
            objective={},
            peak_bytes=1,
            seconds={"total": 1.0},
        )
        return plain.model_copy(update=values)

    return make


def _ids(numbers: random.Random, count: int) -> tuple[int, ...]:
    return tuple(numbers.randrange(312) for _ in range(count))
