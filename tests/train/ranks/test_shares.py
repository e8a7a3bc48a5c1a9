"""Each prompt goes to one rank, counts are even, and nothing but the lengths decides."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from opd.train.ranks.shares import most_prompts, shares

LENGTHS = st.lists(st.integers(1, 1_000), min_size=1, max_size=40)


@given(LENGTHS, st.integers(1, 9))
def test_every_prompt_has_one_rank_and_counts_differ_by_one_at_most(lengths, ranks) -> None:
    found = shares(lengths, ranks=ranks)
    assert sorted(place for share in found for place in share) == list(range(len(lengths)))
    assert all(share == sorted(share) for share in found)
    counts = [len(share) for share in found]
    assert len(found) == ranks
    assert max(counts) - min(counts) <= 1
    assert max(counts) == most_prompts(len(lengths), ranks=ranks)


@given(LENGTHS)
def test_one_rank_has_all_in_their_order(lengths) -> None:
    assert shares(lengths, ranks=1) == [list(range(len(lengths)))]


@given(LENGTHS, st.integers(2, 9))
def test_the_fullest_rank_is_at_most_a_longest_prompt_above_the_emptiest(lengths, ranks) -> None:
    """With equal counts each round goes from long to short and from empty to full, so no gap grows beyond that."""
    whole = lengths[: len(lengths) // ranks * ranks]
    loads = [sum(whole[place] for place in share) for share in shares(whole, ranks=ranks)]
    assert max(loads) - min(loads) <= max(whole, default=0)


def test_it_is_near_the_best_of_all_ways_to_share() -> None:
    """Against every way to give six prompts to three ranks by twos."""
    lengths = [90, 70, 60, 40, 30, 10]
    loads = [sum(lengths[place] for place in share) for share in shares(lengths, ranks=3)]
    best = min(
        max(sum(lengths[place] for place in order[first : first + 2]) for first in (0, 2, 4))
        for order in permutations(range(6))
    )
    assert max(loads) == best == 100


@given(st.lists(st.tuples(st.integers(1, 1_000), st.sampled_from("abc")), min_size=1, max_size=40), st.integers(1, 9))
def test_each_rank_has_as_many_of_a_kind_as_another_but_for_one(prompts, ranks) -> None:
    """A teacher of seven billion parameters would else wait on the one rank that has all of its rows."""
    lengths, kinds = [length for length, _ in prompts], [kind for _, kind in prompts]
    found = shares(lengths, ranks=ranks, kinds=kinds)
    assert sorted(place for share in found for place in share) == list(range(len(lengths)))
    for kind in [None, *"abc"]:
        counts = [sum(kind in (None, kinds[place]) for place in share) for share in found]
        assert max(counts) - min(counts) <= 1
    assert shares(lengths, ranks=ranks, kinds=[None] * len(lengths)) == shares(lengths, ranks=ranks)
