"""Where a response begins to repeat itself: one rule for what is learned from, what is counted, and what is shown."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

LONGEST_PERIOD = 64  # tokens; a longer block that comes again is a second thought, not a loop
SHORTEST_LOOP = 32  # tokens that repeat what stood one period before
FEWEST_ROUNDS = 3  # of the period, repeated


def repetition_onset(token_ids: Sequence[int] | NDArray[np.int32]) -> int | None:
    """The place, from 0, at which the response's end begins to repeat what stood one period before, or None.

    A loop is an end of at least `SHORTEST_LOOP` tokens and `FEWEST_ROUNDS` periods in which every token equals
    the one a period earlier, for a period of at most `LONGEST_PERIOD`. Of several periods the earliest onset
    counts. The first round is not part of it: it was said once.
    """
    ids = np.asarray(token_ids)
    before_last = ids[-1 - LONGEST_PERIOD : -1]
    periods = len(before_last) - np.flatnonzero(before_last == ids[-1:])  # the last token rules out most of them
    onsets = []
    for period in periods.tolist():
        least = max(SHORTEST_LOOP, FEWEST_ROUNDS * period)
        if len(ids) < period + least or not np.array_equal(ids[-least:], ids[-least - period : len(ids) - period]):
            continue  # the end alone tells most responses, at any length
        differs = np.flatnonzero(ids[period:] != ids[:-period])
        onsets.append(period if len(differs) == 0 else int(differs[-1]) + 1 + period)
    return min(onsets, default=None)
