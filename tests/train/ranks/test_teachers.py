"""Ranks share a step of several teachers: the same tokens and numbers as one has, and the same files."""

from pathlib import Path

import pytest
from tests.train.ranks.runs import check_same, lines, on_ranks, tables

pytestmark = pytest.mark.patient

WIDE = ("student.dtype=float64", "teachers.math.dtype=float64", "teachers.code.dtype=float64")


@pytest.mark.parametrize("objective", ["k1_policy_gradient", "jsd"])
def test_two_ranks_make_the_run_that_one_makes(make_routed, tmp_path: Path, objective: str) -> None:
    """E20: also where one of them has no row of some teacher, and the micro-batches are of one teacher each."""
    recipe = make_routed(
        *WIDE,
        f"objective={{name='{objective}'}}",
        'teachers.code.prompt="Reason. {problem}"',
        "machine.micro_batch_tokens=40",
        "budget.steps=4",
        "save.every=2",
    )
    runs = {count: tmp_path / f"by-{count}" for count in (1, 2)}
    for count, out in runs.items():
        on_ranks(recipe, out, count=count)
    check_same(runs[2], runs[1])
    assert all(line["teachers"] for line in lines(runs[1]))
    seen = {one.rollout.prompt.teacher_ids is None for table in tables(runs[2]).values() for one in table}
    assert seen == {True, False}
