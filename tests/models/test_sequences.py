"""Rollouts as rectangles: what is where, and how many go into one.

Shapes: B sequences, T positions.
"""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from opd.models.sequences import micro_batches, padded, sequence_tokens, spread
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
def test_a_rectangle_holds_every_sequence_from_its_left_edge(rollouts):
    rectangle = padded(rollouts, device=CPU)
    longest = max(len(one.prompt.token_ids) + len(one.token_ids) for one in rollouts)
    assert rectangle.ids_BT.shape == rectangle.keep_BT.shape == (len(rollouts), longest)
    for one, ids_T, keep_T in zip(rollouts, rectangle.ids_BT.tolist(), rectangle.keep_BT.tolist(), strict=True):
        prompt, response = len(one.prompt.token_ids), len(one.token_ids)
        rest = longest - prompt - response
        assert ids_T == [*one.prompt.token_ids, *one.token_ids, *[0] * rest]
        assert keep_T == [False] * prompt + [True] * response + [False] * rest
        assert sequence_tokens(one) == prompt + response


def test_an_end_is_trained_though_the_padding_has_its_id_and_a_cut_response_gets_none():
    """E21, E22: E is 0 here, which fills the rectangle too. 5 7 E E E keeps 5 7 E; a truncated 5 7 9 keeps all."""
    end = 0
    whole, cut, long = (
        rollout([3], [5, 7, end]),
        rollout([3], [5, 7, 9], StopReason.LENGTH),
        rollout([3], [5, 5, 5, 5, end]),
    )
    rectangle = padded([whole, cut, long], device=CPU)
    assert rectangle.ids_BT.tolist() == [[3, 5, 7, end, 0, 0], [3, 5, 7, 9, 0, 0], [3, 5, 5, 5, 5, end]]
    assert rectangle.keep_BT.int().tolist() == [[0, 1, 1, 1, 0, 0], [0, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 1]]


@given(ROLLOUTS)
def test_values_of_response_tokens_come_to_their_tokens_and_back(rollouts):
    keep_BT = padded(rollouts, device=CPU).keep_BT
    value_BT = spread([one.logp for one in rollouts], keep_BT, dtype=torch.float64)
    assert not value_BT[~keep_BT].any()
    assert [tuple(row[keep].tolist()) for row, keep in zip(value_BT, keep_BT, strict=True)] == [
        one.logp for one in rollouts
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_have_the_dtype_that_was_asked_for(dtype):
    keep_BT = torch.tensor([[False, True]])
    assert spread([[0.1]], keep_BT, dtype=dtype).equal(torch.tensor([[0, 0.1]], dtype=dtype))


@pytest.mark.parametrize("values", [[[1.0], [2.0]], [[1.0, 2.0], [3.0, 4.0]], [[], []]])
def test_a_wrong_number_of_values_is_refused(values):
    """E31."""
    keep_BT = torch.tensor([[False, True, True], [False, True, False]])
    count = sum(map(len, values))
    with pytest.raises(ValueError, match=f"{count} values for 3 response tokens"):
        spread(values, keep_BT, dtype=torch.float32)


# --- micro-batches --------------------------------------------------------------------------------------


@given(ROLLOUTS, st.integers(1, 60))
def test_every_rollout_is_in_one_group_and_no_group_exceeds_the_budget_unless_alone(rollouts, largest_tokens):
    groups = micro_batches(rollouts, largest_tokens=largest_tokens)
    assert sorted(index for group in groups for index in group) == list(range(len(rollouts)))
    for group in groups:
        width = max(sequence_tokens(rollouts[index]) for index in group)
        assert len(group) == 1 or len(group) * width <= largest_tokens


@given(ROLLOUTS, st.integers(1, 60))
def test_a_group_is_closed_only_when_the_next_rollout_does_not_fit(rollouts, largest_tokens):
    """Longest first: the next one is no longer than the group is wide, so one more row is all it costs."""
    groups = micro_batches(rollouts, largest_tokens=largest_tokens)
    lengths = [[sequence_tokens(rollouts[index]) for index in group] for group in groups]
    flat = [length for group in lengths for length in group]
    assert flat == sorted(flat, reverse=True)
    assert all((len(group) + 1) * group[0] > largest_tokens for group in lengths[:-1])


def test_no_rollouts_make_no_groups():
    assert micro_batches([], largest_tokens=10) == []
