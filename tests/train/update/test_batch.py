"""What is known of the tokens of rollouts, one behind the other."""

from dataclasses import replace

import pytest
import torch

from opd.models.sequences import micro_batches, packed
from opd.records.rollouts import Prompt, Rollout, ScoredRollout, StopReason
from opd.train.update.batch import collate

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


def test_the_tokens_of_the_first_rollout_come_first_and_in_their_order() -> None:
    """E25: a value is at its token's place; prompts have none."""
    batch = collate(TWO, device=CPU, dtype=torch.float64)
    assert batch.behaviour_logp_N.tolist() == [-0.5, -0.25, -1.0, -3.0]
    assert batch.teacher_logp_N.tolist() == [-1.5, -2.0, 0.0, -4.0]


def test_weights_are_those_of_the_rollout_and_one_where_it_has_none() -> None:
    first = replace(TWO[0], weights=(1.0, 0.5, 0.0))
    assert collate([first, TWO[1]], device=CPU, dtype=torch.float64).weight_N.tolist() == [1.0, 0.5, 0.0, 1.0]


def test_an_advantage_is_the_same_at_each_token_of_its_rollout() -> None:
    first = replace(TWO[0], advantage=0.75)
    assert collate([first, TWO[1]], device=CPU, dtype=torch.float64).advantage_N.tolist() == [0.75] * 3 + [0.0]


def test_scores_keep_the_precision_that_was_asked_for() -> None:
    third = scored((1,), {2: (-1 / 3, -2 / 3)}, row=0)
    wide, narrow = (collate([third], device=CPU, dtype=dtype) for dtype in (torch.float64, torch.float32))
    assert wide.teacher_logp_N[0].item() == -2 / 3
    assert narrow.teacher_logp_N.dtype == narrow.behaviour_logp_N.dtype == torch.float32
    assert narrow.behaviour_logp_N[0].item() == pytest.approx(-1 / 3, rel=1e-7)


@pytest.mark.parametrize("largest_tokens", [1, 4, 6, 100])
def test_a_teachers_scores_are_cut_where_the_students_tokens_are(largest_tokens: int) -> None:
    """E32: in every part of a step there are as many scores as tokens, and each is its token's own."""
    parts = micro_batches([one.rollout for one in TWO], largest_tokens=largest_tokens)
    found = {}
    for part in parts:
        some = [TWO[index] for index in part]
        row, batch = packed([one.rollout for one in some], device=CPU), collate(some, device=CPU, dtype=torch.float64)
        tokens = row.ids_P[row.kept_N].tolist()
        assert len(tokens) == len(batch.teacher_logp_N) == len(batch.behaviour_logp_N) == len(batch.weight_N)
        found |= dict(zip(tokens, batch.teacher_logp_N.tolist(), strict=True))
    assert found == {5: -1.5, 6: -2.0, 7: 0.0, 9: -4.0}
