"""One, two and four ranks make the same run: the same tokens, and numbers that differ by rounding alone.

Everything in float64, so that no rounding moves a sampled token. Five prompts a step divide by neither two nor four.
"""

from pathlib import Path

import pytest
from tests.train.ranks.runs import check_same, lines, on_ranks, weights

from opd.records.files import read_lines
from opd.train.recipe import Recipe

pytestmark = pytest.mark.patient

STEPS = 4
WIDE = ("student.dtype=float64", "teacher.dtype=float64", "rollouts.prompts_per_step=5", "rollouts.limit_tokens=12")
CLIPPED = ("optimizer.largest_gradient_norm=0.05", "optimizer.weight_decay=0.1", "optimizer.lr=1e-2")

KINDS = {
    "plain": (),
    "masked": ("credit.cut_short=mask",),
    "small_batches": ("machine.micro_batch_tokens=30", "credit.cut_short=down_weight"),
    "minibatches": ("optimizer.minibatches=4",),
    "more_updates_than_a_rank_has_rollouts": ("optimizer.minibatches=9",),
    "divergence": ("objective={name='jsd'}",),
    "alternatives": ("save.alternatives=3",),
    "adapters": ("lora={rank=2, alpha=4}",),
    "reward": (
        "reward={grader='tests.train.ranks.graders:of_even_length', weight=0.3}",
        "optimizer.term_norms_every=2",
        "rollouts.per_prompt=3",
    ),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def recipe(make_recipe, kind: str) -> Recipe:
    return make_recipe(*WIDE, *CLIPPED, *KINDS[kind], f"budget.steps={STEPS}", "save.every=2", "seed=5")


def test_ranks_change_nothing_but_rounding(recipe: Recipe, kind: str, tmp_path: Path) -> None:
    runs = {count: tmp_path / f"by-{count}" for count in (1, 2, 4)}
    summaries = {count: on_ranks(recipe, out, count=count) for count, out in runs.items()}
    alone = runs[1]
    for count in (2, 4):
        out = runs[count]
        check_same(out, alone)
        assert weights(out).keys() == {"checkpoint-2", "checkpoint-4", "step-000004"}
        assert {summary.steps for summary in summaries[count]} == {STEPS}
        assert len(summaries[count]) == count
        assert len({summary.model_dump_json() for summary in summaries[count]}) == 1
    clipped = [line["gradient_norm"] for line in lines(alone)]
    assert max(clipped) > 0.05, "nothing was clipped, so that nothing is said of clipping"
    if kind == "reward":
        assert {"gradient_norm_k1", "gradient_norm_reward"} <= lines(runs[4])[1]["objective"].keys()


def test_a_step_says_where_each_ranks_time_went(make_recipe, tmp_path: Path) -> None:
    recipe = make_recipe(*WIDE, "budget.steps=1")
    on_ranks(recipe, tmp_path / "run", count=2)
    (line,) = read_lines(tmp_path / "run" / "metrics.jsonl")
    assert set(line["seconds_by_rank"]) == {"sample", "score", "update", "wait"}
    for spread in line["seconds_by_rank"].values():
        assert 0 <= spread["least"] <= spread["mean"] <= spread["most"]
        assert spread["slowest"] in {0, 1}
