"""What a plan says of several ranks: each one's memory, and what they send each other."""

from pathlib import Path

import pytest

from opd.train.plan import make_plan
from opd.train.ranks.cost import reduction_of


def ring(values: list[list[float]]) -> tuple[list[list[float]], list[int]]:
    """A ring all-reduce by hand: the sums at each rank, and how many numbers each has sent."""
    ranks = len(values)
    size = len(values[0]) // ranks
    held = [[list(one[part * size : (part + 1) * size]) for part in range(ranks)] for one in values]
    sent = [0] * ranks
    for round_ in range(2 * (ranks - 1)):
        adds = round_ < ranks - 1
        moving = [(rank, (rank - round_ + (0 if adds else 1 + ranks - 1)) % ranks) for rank in range(ranks)]
        carried = [(rank, part, list(held[rank][part])) for rank, part in moving]
        for rank, part, numbers in carried:
            there = held[(rank + 1) % ranks]
            there[part] = [a + b for a, b in zip(there[part], numbers, strict=True)] if adds else numbers
            sent[rank] += len(numbers)
    return [[number for part in one for number in part] for one in held], sent


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_what_is_sent_is_what_a_ring_sends(ranks: int) -> None:
    values = [[float(rank * 100 + place) for place in range(4 * ranks)] for rank in range(ranks)]
    sums, sent = ring(values)
    assert sums == [[sum(column) for column in zip(*values, strict=True)]] * ranks
    reduction = reduction_of(4 * 4 * ranks, ranks=ranks, updates=1, device="cpu")
    assert {reduction.sent_bytes} == {4 * count for count in sent}


def test_the_reference_recipe_sends_ten_gigabytes_a_step_on_four_gpus() -> None:
    found = reduction_of(4 * 1_777_088_000, ranks=4, updates=1, device="cuda")
    assert found.sent_bytes == 10_662_528_000  # 2 * 3/4 of 7.1 GB
    assert found.seconds == pytest.approx(0.0355, rel=1e-2)
    assert reduction_of(10, ranks=4, updates=3, device="cuda").sent_bytes == 45
    across = reduction_of(4 * 1_777_088_000, ranks=16, updates=1, device="cuda")
    assert (across.link, across.bytes_per_second) == ("machines with one port of 400 Gb/s each", 5e10)


def test_each_rank_needs_what_its_share_of_the_prompts_needs(make_recipe, tmp_path: Path) -> None:
    recipe = make_recipe("rollouts.prompts_per_step=6", "machine.engine=plain")
    alone, three = (make_plan(recipe, out=tmp_path / "run", ranks=ranks) for ranks in (1, 3))
    share = make_plan(make_recipe("rollouts.prompts_per_step=2", "machine.engine=plain"), out=tmp_path / "run")
    cache = {part.name: part.bytes for part in three.memory.parts}
    assert cache["KV cache"] == next(part.bytes for part in share.memory.parts if part.name == "KV cache")
    assert cache["KV cache"] * 3 == next(part.bytes for part in alone.memory.parts if part.name == "KV cache")
    assert (alone.reduction, alone.ranks, three.ranks) == (None, 1, 3)
    assert three.reduction is not None
    assert cache["gradients on their way"] == three.reduction.gradient_bytes == cache["gradients"]
    assert (three.rows_seen, three.steps, three.rollout_tokens) == (
        alone.rows_seen,
        alone.steps,
        alone.rollout_tokens,
    )
    assert three.disk.parts == alone.disk.parts


def test_more_ranks_than_prompts_are_in_the_way(make_recipe, tmp_path: Path) -> None:
    made = make_plan(make_recipe(), out=tmp_path / "run", ranks=3)
    assert any("prompts_per_step = 2 is fewer than the 3 ranks" in fault for fault in made.lacks)


def test_the_rehearsal_is_of_one_rank_and_the_forecast_counts_the_sum(make_recipe, tmp_path: Path) -> None:
    recipe = make_recipe("rollouts.prompts_per_step=6", "budget.steps=1000")
    made = make_plan(recipe, out=tmp_path / "run", ranks=3, rehearsed=True)
    assert made.rehearsal is not None
    assert made.forecast is not None
    assert made.reduction is not None
    saves = 50 * made.rehearsal.save_seconds
    steps = 1000 * (made.rehearsal.seconds + made.reduction.seconds)
    assert made.forecast.seconds == pytest.approx(made.rehearsal.start_seconds + steps + saves)
