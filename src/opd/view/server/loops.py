"""Where a response begins to repeat itself, by the rule by which a training run counts loops.

The rule stands in `opd.train.credit.repetition_onset`, which a view may not import;
`test_a_loop_is_one_here_exactly_where_it_is_one_to_a_training_run` holds the two together.
"""

import numpy as np
from numpy.typing import NDArray

_LONGEST_PERIOD = 64  # tokens
_SHORTEST_LOOP = 32  # tokens that repeat what stood one period before
_FEWEST_ROUNDS = 3  # of the period, repeated


def loop_begins(ids: NDArray[np.int32]) -> int | None:
    """The place, from 0, of the first token of the loop that ends the response; None where it ends in none."""
    onsets = []
    for period in range(1, min(_LONGEST_PERIOD, len(ids) - 1) + 1):
        least = max(_SHORTEST_LOOP, _FEWEST_ROUNDS * period)
        if len(ids) < period + least or not np.array_equal(ids[-least:], ids[-least - period : len(ids) - period]):
            continue  # the end alone tells most responses, at any length
        differs = np.flatnonzero(ids[period:] != ids[:-period])
        onsets.append(period if len(differs) == 0 else int(differs[-1]) + 1 + period)
    return min(onsets, default=None)
