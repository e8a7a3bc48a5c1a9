"""No number without a claim, no word that compares without a ground; and a ground holds what stands on it."""

import hashlib

import pytest

from opd.protocol.report.book import Book
from opd.protocol.report.linting import faults, unfit
from opd.protocol.report.marks import Marked, convention, name, numbering, path, unmarked
from opd.protocol.report.sources import Fact
from opd.records.claims import Document, Exempt, Form, Ground


def fact(value: object, pointer: str = "/x") -> Fact:
    return Fact(value=value, file="a.json", pointer=pointer, sha256="0" * 64)


def found(marked: str, book: Book | None = None) -> list[str]:
    plain = unmarked(marked)
    document = Document(sha256=hashlib.sha256(plain.text.encode()).hexdigest(), spans=plain.spans)
    claims = (book or Book()).claims.by_id()
    return list(faults("text", plain.text, document, claims, is_there=lambda one: one == "formal/attempt-001"))


def wrong(book: Book) -> list[str]:
    claims = book.claims.by_id()
    return [fault for claim in claims.values() if claim.ground for fault in unfit(claim, claims)]


@pytest.mark.parametrize(
    "text", ["0.8145", "It took 3 s.", "U-01", "the 2nd", "three of them", "Twice", "attempt-001", "५"]
)
def test_a_number_outside_of_claims_is_found(text):
    assert "is no claim" in " ".join(found(text))


def test_a_number_inside_of_a_claim_or_of_what_is_none_is_let_stand():
    book = Book()
    cited = book.cite(fact(0.8145), Form.MEAN)
    text = f"{numbering('5.1')} {numbering('U-04')} {cited} {convention('95 %')} {path('formal/attempt-001')}"
    assert found(f"{text} {name('data.shuffle')}, one of them", book) == []


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        (numbering("0.8145 of all"), "is no number of a heading"),
        (convention("96 %"), "is no convention"),
        (path("formal/attempt-009"), "is not there"),
        (Marked("`0.8145`", claim=Exempt.NAME), "is no identifier"),
    ],
)
def test_what_is_excepted_can_hold_nothing_else(planted, said):
    assert said in " ".join(found(planted))


def test_a_claim_whose_words_were_changed_in_the_text_is_found():
    book = Book()
    cited = book.cite(fact(0.8145), Form.MEAN)
    assert "where c001 says '0.8145'" in " ".join(found(cited.replace("0.8145", "0.9145"), book))


def test_digits_that_only_touch_a_claim_are_no_part_of_it():
    book = Book()
    assert "is no claim" in " ".join(found(f"{book.cite(fact(81), Form.INTEGER)}45", book))


@pytest.mark.parametrize(
    "word",
    [
        "beats", "better", "improves", "improvement", "outperforms", "superior", "gains", "benefits", "higher than",
        "worse", "regression", "lower", "degraded", "collapse", "hurts", "lost", "causes", "causal", "significant",
        "effect", "above", "below", "best", "highest", "lowest", "exceeds",
    ],
)  # fmt: skip
def test_a_word_that_compares_needs_a_ground(word):
    assert "compares without a ground" in " ".join(found(f"It {word} the other."))


def test_words_of_others_are_not_ours_to_gate():
    book = Book()
    quoted = book.cite(fact("mine is better by 3 points"), Form.QUOTE)
    assert found(quoted, book) == []
    assert found("the design effect", book) == []


def test_a_comparison_stands_on_a_test_that_tells_apart_in_its_direction():
    book = Book()
    apart, difference = fact(value=True, pointer="/apart"), fact(0.02, "/difference")
    text = book.judged("higher than", Ground.PAIRED_TEST, rests_on=[apart, difference])
    assert found(f"It scored {text} the other.", book) == []
    assert wrong(book) == []


@pytest.mark.parametrize(
    ("words", "ground", "values", "said"),
    [
        ("higher than", Ground.PAIRED_TEST, (False, 0.02), "tells nothing apart"),
        ("higher than", Ground.PAIRED_TEST, (None, 0.02), "tells nothing apart"),
        ("higher than", Ground.PAIRED_TEST, (True, -0.02), "the difference is -0.02"),
        ("lower than", Ground.PAIRED_TEST, (True, 0.02), "the difference is 0.02"),
        ("higher than", Ground.PAIRED_TEST, (True,), "without a difference"),
        ("caused a higher score than", Ground.PAIRED_TEST, (True, 0.02), "a cause without a matched control"),
        ("better than", Ground.ORDER, (0.02,), "says more than the order"),
        ("above", Ground.ORDER, (-3,), "the difference is -3"),
        ("above", Ground.ORDER, (), "says more than the order"),
        ("as many", Ground.ORDER, (3,), "the difference is 3"),
        ("the same score", Ground.ORDER, (-0.01,), "the difference is -0.01"),
        ("greatest", Ground.ORDER, (0.4, 0.5), "is not in the order"),
        ("lowest", Ground.ORDER, (0.5, 0.4), "is not in the order"),
        ("improves on", Ground.RULE, ("best_valid",), "says more than that a rule chose"),
        ("best", Ground.RULE, (), "names a rule that is nowhere"),
        ("It is better.", Ground.NOT_ESTABLISHED, (), "does not say so"),
    ],
)
def test_words_that_their_ground_does_not_hold_are_found(words, ground, values, said):
    book = Book()
    facts = [fact(value, f"/{place}") for place, value in enumerate(values)]
    book.judged(words, ground, because="so", rests_on=facts)
    assert said in " ".join(wrong(book))


def test_what_is_not_established_may_be_named_with_a_reason_and_never_without():
    book = Book()
    text = book.not_established("that it is better, or no regression", "there is no control")
    assert found(text, book) == wrong(book) == []
    book.judged("Not established: that it is better.", Ground.NOT_ESTABLISHED)
    assert "with a reason" in " ".join(wrong(book))


def test_a_number_inside_of_a_judgement_has_to_be_a_claim_of_its_own():
    book = Book()
    text = book.not_established("any difference", "it is 0.02")
    assert "is no claim" in " ".join(found(text, book))


def test_a_text_with_a_fault_is_never_written():
    with pytest.raises(AssertionError, match="is no claim"):
        Book().written("text", "It scored 0.9.", is_there=lambda _: False)
