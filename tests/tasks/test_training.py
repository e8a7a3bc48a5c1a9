"""What the embedded models are trained on, and that a student which leaves the run leaves it undisturbed."""

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


def test_the_same_seed_gives_the_same_weights_bit_for_bit():
    (first, _), (second, _), (other, _) = lineage(), lineage(), lineage(seed=2)
    for name in ("teacher", "student"):
        assert same(first[name], second[name])
        assert not same(first[name], other[name])


def test_a_student_that_leaves_does_not_disturb_the_teacher():
    (alone, _), (together, said) = lineage(branches=()), lineage()
    assert same(alone["teacher"], together["teacher"])
    assert not same(together["student"], together["teacher"])
    assert said == ["student: left the run at step 2, annealed for 3 steps"]


def test_a_student_that_would_leave_after_the_end_is_refused():
    late = Branch(name="late", leaves_at=4, steps=1, slip_share=0.0)
    with pytest.raises(ValueError, match="late would leave a run of 4 steps"):
        lineage(branches=(late,))


def test_a_branch_goes_on_from_where_the_run_is_and_ends_at_rest():
    """Its last step moves the weights by less than its first: the learning rate goes down to zero."""
    at_start = lineage(branches=(), teacher_steps=2)[0]
    assert at_start

    def after(steps: int) -> torch.nn.Module:
        branch = Branch(name="student", leaves_at=1, steps=8, slip_share=0.0)
        cut = Branch(name="student", leaves_at=1, steps=steps, slip_share=0.0)
        return lineage(branches=(branch if steps == 8 else cut,), teacher_steps=2)[0]["student"]

    assert not same(after(8), after(1))


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


def test_the_loss_goes_down():
    said = lineage(branches=(), teacher_steps=100)[1]
    assert len(said) == 1
    loss = float(said[0].split("loss ")[1].split(" ")[0])
    # knowing nothing costs ln 312 = 5.7 nats a token; knowing the form and no arithmetic about a third of one
    assert loss < 1.0
