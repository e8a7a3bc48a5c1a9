"""Rollouts end to end: what is where, and how many go into one row."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from opd.models.sequences import micro_batches, pack, packed, sequence_tokens
from opd.records.rollouts import Prompt, Rollout, StopReason

CPU = torch.device("cpu")
IDS = st.integers(0, 9)


def rollout(prompt, response, stop=StopReason.EOS):
    return Rollout(
        prompt=Prompt(row=0, problem="", answer="", token_ids=tuple(prompt)),
        sample=0,
        token_ids=tuple(response),
        logp=tuple(-float(n) for n in range(len(response))),
        stop=stop,
    )


PAIRS = st.tuples(st.lists(IDS, min_size=1, max_size=6), st.lists(IDS, min_size=1, max_size=6))
ROLLOUTS = st.lists(PAIRS.map(lambda pair: rollout(*pair)), min_size=1, max_size=8)


@given(ROLLOUTS)
def test_a_row_holds_every_sequence_end_to_end_and_keeps_its_response(rollouts):
    """E15, E24, E30: the ids are those that were sampled, with nothing between them."""
    row = packed(rollouts, device=CPU)
    sequences = [[*one.prompt.token_ids, *one.token_ids] for one in rollouts]
    assert row.ids_P.tolist() == [token for sequence in sequences for token in sequence]
    assert row.position_P.tolist() == [position for sequence in sequences for position in range(len(sequence))]
    assert row.ids_P[row.kept_N].tolist() == [token for one in rollouts for token in one.token_ids]
    assert row.lengths == tuple(map(len, sequences)) == tuple(map(sequence_tokens, rollouts))
    assert row.responses == tuple(len(one.token_ids) for one in rollouts)


def test_an_end_is_trained_though_another_prompt_begins_with_its_id_and_a_cut_response_gets_none():
    """E21, E22: E is 0 here. 5 7 E keeps all three; a truncated 5 7 9 keeps all, and no E is put behind it."""
    end = 0
    whole, cut, long = (
        rollout([3], [5, 7, end]),
        rollout([end], [5, 7, 9], StopReason.LENGTH),
        rollout([3], [5, end, 5, end, end]),
    )
    row = packed([whole, cut, long], device=CPU)
    assert row.ids_P.tolist() == [3, 5, 7, end, end, 5, 7, 9, 3, 5, end, 5, end, end]
    assert row.kept_N.tolist() == [1, 2, 3, 5, 6, 7, 9, 10, 11, 12, 13]


def test_a_response_without_a_prompt_is_refused():
    with pytest.raises(ValueError, match="first token of a sequence has no predictor"):
        pack([([1], [2]), ([], [3])], device=CPU)


# --- micro-batches --------------------------------------------------------------------------------------


def positions(rollouts, group, *, packs):
    """What a group costs: its tokens, or with padding as many times its longest."""
    lengths = [sequence_tokens(rollouts[index]) for index in group]
    return sum(lengths) if packs else len(lengths) * max(lengths)


@given(ROLLOUTS, st.integers(1, 60), st.booleans())
def test_every_rollout_is_in_one_group_and_no_group_exceeds_the_budget_unless_alone(rollouts, largest_tokens, packs):
    groups = micro_batches(rollouts, largest_tokens=largest_tokens, packs=packs)
    assert sorted(index for group in groups for index in group) == list(range(len(rollouts)))
    for group in groups:
        assert len(group) == 1 or positions(rollouts, group, packs=packs) <= largest_tokens


@given(ROLLOUTS, st.integers(1, 60), st.booleans())
def test_a_group_is_closed_only_when_the_next_rollout_does_not_fit(rollouts, largest_tokens, packs):
    groups = micro_batches(rollouts, largest_tokens=largest_tokens, packs=packs)
    flat = [sequence_tokens(rollouts[index]) for group in groups for index in group]
    assert flat == sorted(flat, reverse=True)
    for group, after in pairwise(groups):
        assert positions(rollouts, [*group, after[0]], packs=packs) > largest_tokens


def test_no_rollouts_make_no_groups():
    assert micro_batches([], largest_tokens=10) == []
