"""Which prompts of a step each rank samples, scores and learns from.

A prompt stays whole: its rollouts share one prefill, and a task reward compares them with each other. Nobody knows
how long an answer will be before it is written, and within an epoch no prompt has answers yet; so the expected answer
counts the same for all, and the prompt's own tokens tell them apart. The shares decide where something is computed,
and never what: the rollouts of a row are the same on any rank.
"""

import heapq
from collections.abc import Sequence


def shares(prompt_tokens: Sequence[int], *, ranks: int, kinds: Sequence[str | None] | None = None) -> list[list[int]]:
    """For each rank the places of its prompts in the step, ascending; each place stands in one share.

    Counts differ by one at the most, which is what memory was planned for, and so do those of each of the `kinds`, of
    which one may cost more than another. Among ranks with equally many the next longest prompt goes to the one with
    the fewest tokens (longest processing time first: Graham, "Bounds on Multiprocessing Timing Anomalies", 1969). A
    pure function: all ranks work out the same shares.
    """
    places = sorted(range(len(prompt_tokens)), key=lambda place: (-prompt_tokens[place], place))
    known = kinds or [None] * len(places)
    found: list[list[int]] = [[] for _ in range(ranks)]
    tokens = [0] * ranks
    for kind in dict.fromkeys(known):
        loads = [(len(share), 0, tokens[rank], rank) for rank, share in enumerate(found)]
        heapq.heapify(loads)
        for place in (one for one in places if known[one] == kind):
            count, of_kind, load, rank = loads[0]
            found[rank].append(place)
            tokens[rank] += prompt_tokens[place]
            heapq.heapreplace(loads, (count + 1, of_kind + 1, load + prompt_tokens[place], rank))
    return [sorted(share) for share in found]


def most_prompts(prompts: int, *, ranks: int) -> int:
    """Of the prompts of a step, the most that one rank gets."""
    return -(-prompts // ranks)
