"""Rollouts as a rectangle: where each token stands, what is known of it, and what a sum may see.

row 0: prompt 2, response 3        row 1: prompt 1, response 1
"""

import math

import pytest
import torch

from opd.records.rollouts import Prompt, Rollout, ScoredRollout, StopReason
from opd.train.batch import collate, masked_sum

CPU = torch.device("cpu")


def scored(prompt: tuple[int, ...], response: dict[int, tuple[float, float]], *, row: int) -> ScoredRollout:
    """A response as token → (sampler's, teacher's log-probability)."""
    rollout = Rollout(
        prompt=Prompt(row=row, problem="?", answer="!", token_ids=prompt),
        sample=0,
        token_ids=tuple(response),
        logp=tuple(sampler for sampler, _ in response.values()),
        stop=StopReason.LENGTH,
    )
    return ScoredRollout(rollout=rollout, teacher_logp=tuple(teacher for _, teacher in response.values()))


TWO = [
    scored((11, 12), {5: (-0.5, -1.5), 6: (-0.25, -2.0), 7: (-1.0, 0.0)}, row=0),
    scored((13,), {9: (-3.0, -4.0)}, row=1),
]


def test_what_is_known_of_a_token_stands_at_the_token_itself() -> None:
    """E25: no shift here; a row is read from left to right as prompt, response, padding."""
    batch = collate(TWO, device=CPU, dtype=torch.float64)
    assert batch.ids_BT.tolist() == [[11, 12, 5, 6, 7], [13, 9, 0, 0, 0]]
    assert batch.keep_BT.int().tolist() == [[0, 0, 1, 1, 1], [0, 1, 0, 0, 0]]
    assert batch.behaviour_logp_BT.tolist() == [[0, 0, -0.5, -0.25, -1.0], [0, -3.0, 0, 0, 0]]
    assert batch.teacher_logp_BT.tolist() == [[0, 0, -1.5, -2.0, 0.0], [0, -4.0, 0, 0, 0]]


def test_what_is_trained_is_known_from_lengths_and_not_from_ids() -> None:
    """E21: with padding's own id in the middle and at the end of a response, [5, 7, 0, 0] trains four tokens."""
    rollout = Rollout(
        prompt=TWO[0].rollout.prompt, sample=0, token_ids=(5, 7, 0, 0), logp=(-1.0,) * 4, stop=StopReason.EOS
    )
    one = ScoredRollout(rollout=rollout, teacher_logp=(-1.0,) * 4)
    assert collate([one, TWO[1]], device=CPU, dtype=torch.float32).keep_BT.int().tolist() == [
        [0, 0, 1, 1, 1, 1],
        [0, 1, 0, 0, 0, 0],
    ]


def test_scores_keep_the_precision_that_was_asked_for() -> None:
    third = scored((1,), {2: (-1 / 3, -2 / 3)}, row=0)
    wide, narrow = (collate([third], device=CPU, dtype=dtype) for dtype in (torch.float64, torch.float32))
    assert wide.teacher_logp_BT[0, 1].item() == -2 / 3
    assert narrow.teacher_logp_BT.dtype == narrow.behaviour_logp_BT.dtype == torch.float32
    assert narrow.behaviour_logp_BT[0, 1].item() == pytest.approx(-1 / 3, rel=1e-7)


@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf])
def test_a_masked_sum_never_touches_what_is_masked(junk: float) -> None:
    """E15: multiplying by the mask would give NaN."""
    x_BT = torch.tensor([[1.0, junk], [junk, 4.0]], requires_grad=True)
    keep_BT = torch.tensor([[True, False], [False, True]])
    assert not (x_BT.detach() * keep_BT).sum().isfinite()
    total = masked_sum(x_BT, keep_BT)
    total.backward()
    assert total.item() == 5.0
    assert x_BT.grad.tolist() == [[1.0, 0.0], [0.0, 1.0]]
