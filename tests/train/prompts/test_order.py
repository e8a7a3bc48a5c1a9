"""Which rows a step sees: every row once an epoch, the same on every machine, and after every resume."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.train.prompts.order import Draw, PromptOrder, _shuffled

SEEDS = st.one_of(st.none(), st.integers(0, 2**40))


@given(rows=st.integers(1, 40), seed=SEEDS, prompts_per_step=st.integers(1, 60))
def test_every_epoch_sees_every_row_once(rows: int, seed: int | None, prompts_per_step: int) -> None:
    """Also where a step ends one epoch and begins the next, or is longer than an epoch."""
    order = PromptOrder(rows=rows, seed=seed)
    steps = 3 * rows // prompts_per_step + 1
    draws = [draw for step in range(1, steps + 1) for draw in order.at(step, prompts_per_step=prompts_per_step)]
    assert Counter(draws[: 3 * rows]) == Counter(Draw(epoch, row) for epoch in range(3) for row in range(rows))
    assert [draw.epoch for draw in draws] == sorted(draw.epoch for draw in draws)


@given(rows=st.integers(1, 40), seed=SEEDS, resumed_after=st.integers(0, 30))
def test_what_a_step_sees_does_not_depend_on_the_steps_before_it(
    rows: int, seed: int | None, resumed_after: int
) -> None:
    """E56, E57, E58: a process that begins at a later step, in whatever epoch, goes on with the same rows."""
    whole = [PromptOrder(rows=rows, seed=seed).at(step, prompts_per_step=3) for step in range(1, 41)]
    _shuffled.cache_clear()
    resumed = PromptOrder(rows=rows, seed=seed)
    assert [resumed.at(step, prompts_per_step=3) for step in range(resumed_after + 1, 41)] == whole[resumed_after:]


def test_seeds_and_epochs_have_orders_of_their_own() -> None:
    """E58, E61."""
    orders = {
        (seed, epoch): tuple(draw.row for draw in PromptOrder(rows=50, seed=seed).at(epoch + 1, prompts_per_step=50))
        for seed in (0, 1, 42)
        for epoch in range(3)
    }
    assert len(set(orders.values())) == 9
    assert tuple(range(50)) not in orders.values()


def test_without_a_seed_it_is_the_order_of_the_file_in_every_epoch() -> None:
    order = PromptOrder(rows=3, seed=None)
    assert [tuple(draw) for step in (1, 2, 3) for draw in order.at(step, prompts_per_step=2)] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 0),
        (1, 1),
        (1, 2),
    ]


def test_the_order_of_seed_42_is_the_same_in_every_version() -> None:
    """From `printf 42/0/ROW | sha256sum`, sorted: a run can be repeated only while this stays."""
    small = PromptOrder(rows=10, seed=42)
    assert [draw.row for draw in small.at(1, prompts_per_step=20)] == [
        *(6, 9, 7, 2, 3, 0, 8, 5, 4, 1),
        *(2, 0, 4, 8, 5, 7, 6, 9, 1, 3),
    ]
    reference = PromptOrder(rows=15_285, seed=42)
    assert [draw.row for draw in reference.at(1, prompts_per_step=8)] == [
        *(5962, 12692, 8016, 13567, 9533, 460, 4065, 1186)
    ]


@pytest.mark.parametrize(
    ("rows", "steps", "prompts_per_step", "share"),
    [(15_285, 2_057, 2, 0.269), (2_000, 120, 16, 0.96), (2_000, 125, 16, 1.0), (10, 1_000, 7, 1.0), (8, 1, 2, 0.25)],
)
def test_coverage_is_the_share_of_rows_that_are_drawn(
    rows: int, steps: int, prompts_per_step: int, share: float
) -> None:
    """E61: 2,057 steps of 2 prompts see 4,114 of 15,285 rows, 26.9 %; counted from the draws themselves."""
    order = PromptOrder(rows=rows, seed=None)
    seen = {draw.row for step in range(1, steps + 1) for draw in order.at(step, prompts_per_step=prompts_per_step)}
    assert order.coverage(steps, prompts_per_step=prompts_per_step) == len(seen) / rows
    assert len(seen) / rows == pytest.approx(share, abs=5e-4)
