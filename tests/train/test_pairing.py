"""Student and teacher must mean the same by an id; a pair that doesn't is refused before anything is sampled."""

from dataclasses import replace

import pytest
from transformers import PreTrainedTokenizerFast

from opd.records.errors import AskedWrongly
from opd.tasks.arith_tiny.tokenizer import make_tokenizer
from opd.train.recipe import check_same_tokens


def tokenizer_with(*more: str, eos: str | None = None) -> PreTrainedTokenizerFast:
    tokenizer = make_tokenizer()
    tokenizer.add_tokens(list(more))
    if eos is not None:
        tokenizer.eos_token = eos
    return tokenizer


def test_two_models_of_one_tokenizer_are_a_pair(load) -> None:
    check_same_tokens(load("student"), load("teacher"))


def test_more_tokens_on_one_side_are_refused(load) -> None:
    """E33: the teacher would have scores for tokens that the student can't write, or none for those it can."""
    teacher = replace(load("teacher"), tokenizer=tokenizer_with("<extra>"), vocabulary=313)
    with pytest.raises(
        AskedWrongly, match=r"different vocabularies \(of 312 and 313\).*use a pair with one tokenizer"
    ):
        check_same_tokens(load("student"), teacher)


def test_vocabularies_of_one_size_with_other_tokens_are_refused(load) -> None:
    """E33: the size alone says nothing; the same id stands for another text."""
    student = replace(load("student"), tokenizer=tokenizer_with("<one>"), vocabulary=313)
    teacher = replace(load("teacher"), tokenizer=tokenizer_with("<other>"), vocabulary=313)
    with pytest.raises(AskedWrongly, match=r"different vocabularies \(of 313 and 313\)"):
        check_same_tokens(student, teacher)


def test_other_ends_of_sequence_are_refused(load) -> None:
    """E23: a base student under a chat teacher; the one's last token is unknown to the other, and answers grow."""
    teacher = replace(load("teacher"), tokenizer=tokenizer_with(eos="<User>"))
    with pytest.raises(AskedWrongly, match=r"end with different tokens \('<eos>' and '<User>'\).*make the two agree"):
        check_same_tokens(load("student"), teacher)
