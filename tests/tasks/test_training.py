"""What the embedded models are trained on, and that a student which leaves the run leaves it undisturbed."""

import math
from itertools import islice

import pytest
import torch

from opd.tasks.arith_tiny.tokenizer import make_tokenizer
from opd.tasks.arith_tiny.training import IGNORED, Branch, lessons, new_model, seeded, train_lineage

TOKENIZER = make_tokenizer()
STUDENT = Branch(name="student", leaves_at=2, steps=3, slip_share=0.5)


def lineage(*, branches=(STUDENT,), seed=1, teacher_steps=4):
    said = []
    made = train_lineage(TOKENIZER, teacher_steps=teacher_steps, branches=branches, seed=seed, report=said.append)
    return made, said


def same(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    return all(torch.equal(a.state_dict()[name], tensor) for name, tensor in b.state_dict().items())


def test_labels_stand_on_the_response_and_its_end_alone():
    """Faults E24: neither the prompt nor the padding has a label."""
    ids_BT, labels_BT = next(lessons(TOKENIZER, name="test", slip_share=0.0))
    assert ids_BT.shape == labels_BT.shape
    assert len(ids_BT) == 32
    for ids, labels in zip(ids_BT.tolist(), labels_BT.tolist(), strict=True):
        text = TOKENIZER.decode(ids)
        prompt, opened, response = text.partition("<think>\n")
        response, end, padding = response.partition("<eos>")
        assert prompt.startswith("<bos><User>Compute ")
        assert opened
        assert end
        assert set(padding.split("<pad>")) == {""}
        trained = [one for one in labels if one != IGNORED]
        assert TOKENIZER.decode(trained) == response + end
        place = next(index for index, one in enumerate(labels) if one != IGNORED)
        assert labels[place : place + len(trained)] == ids[place : place + len(trained)] == trained


def test_a_lesson_is_never_given_twice_in_a_row():
    first, second = islice(lessons(TOKENIZER, name="test", slip_share=0.0), 2)
    assert TOKENIZER.batch_decode(first[0], skip_special_tokens=True) != TOKENIZER.batch_decode(
        second[0], skip_special_tokens=True
    )


def test_padding_on_the_right_needs_no_mask():
    """Faults E26: a row of a batch and the same row alone have equal logits at its own positions."""
    model = new_model(TOKENIZER, seed=0)
    ids_BT, _ = next(lessons(TOKENIZER, name="test", slip_share=0.0))
    with torch.no_grad():
        logits_BTV = model(input_ids=ids_BT).logits
        for row, ids in enumerate(ids_BT[:4]):
            alone = ids[ids != TOKENIZER.pad_token_id]
            torch.testing.assert_close(logits_BTV[row, : len(alone)], model(input_ids=alone[None]).logits[0])


@pytest.mark.patient
def test_the_same_seed_gives_the_same_weights_bit_for_bit():
    (first, _), (second, _), (other, _) = lineage(), lineage(), lineage(seed=2)
    for name in ("teacher", "student"):
        assert same(first[name], second[name])
        assert not same(first[name], other[name])


@pytest.mark.patient
def test_a_student_that_leaves_does_not_disturb_the_teacher():
    (alone, _), (together, said) = lineage(branches=()), lineage()
    assert same(alone["teacher"], together["teacher"])
    assert not same(together["student"], together["teacher"])
    assert said == ["student: left the run at step 2, annealed for 3 steps"]


def test_a_student_that_would_leave_after_the_end_is_refused():
    late = Branch(name="late", leaves_at=4, steps=1, slip_share=0.0)
    with pytest.raises(ValueError, match="late would leave a run of 4 steps"):
        lineage(branches=(late,))


def test_a_branch_starts_from_the_teacher_as_it_is_at_that_step():
    """A branch of no steps is the run itself, cut there; the cosine makes a shorter run another one."""
    snapshots = [Branch(name=str(step), leaves_at=step, steps=0, slip_share=0.0) for step in (0, 1)]
    made, _ = lineage(branches=snapshots, teacher_steps=2)
    assert same(made["0"], new_model(TOKENIZER, seed=1))
    assert not same(made["1"], made["0"])
    assert not same(made["1"], made["teacher"])


def test_a_seed_is_used_up_inside_and_nothing_is_taken_from_outside():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    with seeded(7):
        inside = torch.rand(2)
    outside = torch.rand(2)
    with seeded(7):
        assert torch.equal(torch.rand(2), inside)
    assert torch.equal(outside, expected)


@pytest.mark.patient
def test_thirty_steps_teach_the_form_of_a_solution():
    """Knowing nothing costs ln 312 = 5.7 nats a token; thirty steps take well over half of that away."""
    made, said = lineage(branches=(), teacher_steps=30)
    ids_BT, labels_BT = next(lessons(TOKENIZER, name="held out", slip_share=0.0))

    def nats_a_token(model: torch.nn.Module) -> float:
        with torch.no_grad():
            logp_BTV = model(input_ids=ids_BT).logits.double().log_softmax(-1)
        trained = [(b, t) for b, t in (labels_BT != IGNORED).nonzero().tolist()]
        return -sum(float(logp_BTV[b, t - 1, ids_BT[b, t]]) for b, t in trained) / len(trained)

    assert nats_a_token(new_model(TOKENIZER, seed=1)) == pytest.approx(math.log(312), rel=0.05)
    assert nats_a_token(made["teacher"]) < 2.5
    assert not said  # nothing was due to be reported
