"""Where a loop begins, against the definition taken at its word."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from opd.records.repetition import FEWEST_ROUNDS, LONGEST_PERIOD, SHORTEST_LOOP, repetition_onset

NUMBERS = st.integers(0, 9)
IDS = st.lists(st.integers(0, 3), max_size=120) | st.builds(
    lambda start, block, times, end: (start + block * times)[:280] + end,
    *(st.lists(NUMBERS, max_size=9), st.integers(1, 70).flatmap(lambda n: st.lists(NUMBERS, min_size=n, max_size=n))),
    *(st.integers(1, 6) | st.integers(30, 60), st.lists(NUMBERS, max_size=2)),
)


def onset_by_definition(ids: list[int]) -> int | None:
    """Every period and every beginning, looked at one by one."""
    found = [
        onset
        for period in range(1, LONGEST_PERIOD + 1)
        for onset in range(period, len(ids))
        if len(ids) - onset >= max(SHORTEST_LOOP, FEWEST_ROUNDS * period)
        and all(ids[i] == ids[i - period] for i in range(onset, len(ids)))
    ]
    return min(found, default=None)


@example(list(range(20)) * 3)  # two rounds of repetition are none, and three are one
@example(list(range(20)) * 4)
@example(list(range(LONGEST_PERIOD)) * 4)
@example(list(range(LONGEST_PERIOD + 1)) * 4)
@example([1] * 32)
@example([1] * 33)
@given(IDS)
def test_a_loop_begins_where_the_definition_says(ids: list[int]) -> None:
    assert repetition_onset(ids) == repetition_onset(np.asarray(ids, dtype=np.int32)) == onset_by_definition(ids)


def test_a_block_said_again_and_again_is_found_behind_its_first_round() -> None:
    thought, block = list(range(100, 140)), [1, 2, 3, 4, 5]
    assert repetition_onset(thought + block * 20) == len(thought) + len(block)
    assert repetition_onset(thought + block * 20 + [9]) is None  # it found a way out
    assert repetition_onset(thought) is None
    assert repetition_onset([]) is None
