"""What the nouns of sampling refuse at the door."""

import dataclasses
from array import array

import pytest

from opd.records.rollouts import Alternatives, Prompt, Rollout, ScoredRollout, StopReason

PROMPT = Prompt(row=17, problem="1+1", answer="2", token_ids=(5, 6))


def rollout(token_ids, logp):
    return Rollout(prompt=PROMPT, sample=0, token_ids=token_ids, logp=logp, stop=StopReason.EOS)


@pytest.mark.parametrize(("tokens", "values"), [(5, 4), (4, 5), (1, 0)])
def test_lists_of_different_length_are_refused_with_both_lengths(tokens, values):
    """E31: neither cut nor filled up, for the sampler's values and for the teacher's."""
    ids, logp = tuple(range(tokens)), (-1.0,) * values
    with pytest.raises(ValueError, match=f"^{tokens} token ids but {values} log-probabilities$"):
        rollout(ids, logp)
    sampled = rollout(ids, (-1.0,) * tokens)
    with pytest.raises(ValueError, match=f"^{tokens} sampled tokens but {values} teacher scores$"):
        ScoredRollout(rollout=sampled, teacher_logp=logp)


def test_every_token_has_the_same_number_of_alternatives():
    sampled = rollout((1, 2, 3), (-1.0,) * 3)
    fits = Alternatives(count=2, ids=array("i", range(6)), logp=array("f", [-1.0] * 6))
    assert ScoredRollout(rollout=sampled, teacher_logp=(-1.0,) * 3, alternatives=fits).alternatives == fits
    short = Alternatives(count=2, ids=array("i", range(4)), logp=array("f", [-1.0] * 4))
    with pytest.raises(ValueError, match=r"^3 sampled tokens but 4 alternatives$"):
        ScoredRollout(rollout=sampled, teacher_logp=(-1.0,) * 3, alternatives=short)
    for count, ids, values in ((2, 3, 3), (2, 4, 2), (0, 0, 0)):
        with pytest.raises(ValueError, match=f"{ids} ids, {values} log-probabilities, {count} at each place"):
            Alternatives(count=count, ids=array("i", range(ids)), logp=array("f", [0.0] * values))


def test_nothing_is_no_prompt_and_no_rollout():
    with pytest.raises(ValueError, match="prompt of row 4 has no tokens"):
        Prompt(row=4, problem="", answer="", token_ids=())
    with pytest.raises(ValueError, match="rollout of row 17 has no tokens"):
        rollout((), ())
    with pytest.raises(ValueError, match="prompt of row 17 has no tokens"):
        dataclasses.replace(PROMPT, teacher_ids=())


def test_a_teacher_sees_the_sampled_tokens_after_its_own_prompt():
    as_the_student_does = rollout((1, 2), (-1.0, -2.0))
    assert as_the_student_does.seen_by_teacher is as_the_student_does
    other = dataclasses.replace(
        as_the_student_does, prompt=dataclasses.replace(PROMPT, teacher="code", teacher_ids=(9, 8, 7))
    )
    seen = other.seen_by_teacher
    assert seen.prompt.token_ids == (9, 8, 7)
    assert (seen.token_ids, seen.logp, seen.prompt.row) == ((1, 2), (-1.0, -2.0), 17)


def test_only_the_limit_cuts_a_rollout_short():
    assert {reason: reason.cut_short for reason in StopReason} == {StopReason.EOS: False, StopReason.LENGTH: True}


def test_what_was_handed_over_is_never_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        PROMPT.row = 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        rollout((1,), (-1.0,)).sample = 3
