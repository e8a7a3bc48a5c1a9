"""What is no hit: phrases that every contest problem has, and texts that only look like a question (faults H43)."""

import random
from pathlib import Path

import pytest
from tests.protocol.contamination.conftest import TEXTS

from opd.protocol.contamination.folds import letters
from opd.protocol.contamination.matching import LEAST_SHARED, SHINGLE, Form
from opd.protocol.contamination.needles import Needles, Question
from opd.protocol.contamination.scan import Scan, Source, scan
from opd.records.files import read_lines

PHRASE = "can be expressed as $\\frac{m}{n}$, where $m$ and $n$ are relatively prime positive integers. Find $m+n$."


def found_in(text: str, needles: Needles) -> Scan:
    return scan([Source(name="it", content=text.encode())], needles)


def forms(text: str, needles: Needles) -> list[tuple[int, Form]]:
    return [(hit.question, hit.form) for hit in found_in(text, needles).hits]


def grams_of(text: str, words: int) -> set[tuple[str, ...]]:
    split = text.split()
    return {tuple(split[at : at + words]) for at in range(len(split) - words + 1)}


def test_h43_a_run_of_13_words_can_be_a_phrase_and_is_no_hit(questions: list[Question]) -> None:
    other = f"The chance that a marmot whistles twice is {PHRASE}".replace(
        "can be expressed as $\\frac{m}{n}$,", "The probability that two entries agree is $\\frac{m}{n}$,"
    )
    assert grams_of(other, 13) & grams_of(TEXTS[0], 13)  # the usual rule would take it for the question
    assert forms(other * 3, Needles(questions)) == []


def test_h43_a_text_is_found_through_wide_letters_and_invisible_characters(questions: list[Question]) -> None:
    wide = "".join(chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter for letter in TEXTS[2])
    hidden = "\u200b".join(TEXTS[2])
    for text in (wide, hidden):
        assert TEXTS[2] not in text
        assert forms(text, Needles(questions)) == [(2, Form.FOLDED)]


def test_a_phrase_that_several_ordinary_texts_hold_is_nobodys(questions: list[Question]) -> None:
    part = "deals them to five chess players so that no two neighbours at the round table hold the same number"
    assert len(letters(part.encode())) >= LEAST_SHARED
    assert forms(f"She {part}.", Needles(questions)) == [(2, Form.NEAR)]
    ordinary = [f"{name} {part} of {name}s." for name in ("plum", "card", "medal", "stamp")]
    assert forms(f"She {part}.", Needles(questions, ordinary)) == []
    assert forms(f"She {part}.", Needles(questions, ordinary[:2])) == [(2, Form.NEAR)]  # two may have it from one


def test_ordinary_texts_that_hold_the_question_itself_hide_nothing(questions: list[Question]) -> None:
    """A training set with the question in it, over and over, would else declare it a phrase."""
    ordinary = [f"{number}. {TEXTS[2]}" for number in range(32)]
    assert forms(TEXTS[2], Needles(questions, ordinary)) == [(2, Form.EXACT)]
    half = TEXTS[0][: len(TEXTS[0]) // 2]
    assert forms(half, Needles(questions, [f"{number}. {half}" for number in range(32)])) == [(0, Form.NEAR)]


def test_what_two_questions_of_the_final_share_is_neithers() -> None:
    shared = "Every resident of the isle of Brill keeps either a grey goose or a pair of otters in the back garden. "
    pair = [Question(wordings=(shared + "How many " + tail,), answer="") for tail in (
        "geese are there when the number of otters is the square of that of the gardens on the northern shore?",
        "otters would have to leave for the gardens without any to be a prime number of the form four k plus one?",
    )]  # fmt: skip
    assert forms(shared, Needles(pair)) == []
    assert forms(pair[1].wordings[0], Needles(pair)) == [(1, Form.EXACT)]


def test_twins_that_differ_in_a_number_are_each_found() -> None:
    twins = [Question(wordings=(TEXTS[2].replace("45", str(cards)),), answer="") for cards in (45, 50)]
    assert (1, Form.EXACT) in forms(twins[1].wordings[0], Needles(twins))


def test_a_rewording_is_near_and_a_text_with_too_short_stretches_is_not(questions: list[Question]) -> None:
    words = TEXTS[0].split(" ")

    def every(step: int) -> str:
        return " ".join("verily" if number % step == step - 1 else word for number, word in enumerate(words))

    assert forms(every(12), Needles(questions)) == [(0, Form.NEAR)]
    assert forms(every(3), Needles(questions)) == []


def test_the_longest_stretch_that_both_hold_is_told(questions: list[Question]) -> None:
    part = TEXTS[2][:120]
    (hit,) = found_in(f"As it said: {part} - and so on.", Needles(questions)).hits
    assert (hit.form, hit.run) == (Form.NEAR, len(letters(part.encode())))


def test_a_shingle_that_is_barely_too_short_is_passed_over(questions: list[Question]) -> None:
    assert (SHINGLE, LEAST_SHARED) == (40, 60)  # as docs/contamination.md says
    own = letters(TEXTS[2].encode()).decode()
    assert forms(f"xyz {own[: LEAST_SHARED - 1]} xyz", Needles(questions)) == []
    assert forms(f"xyz {own[:LEAST_SHARED]} xyz", Needles(questions)) == [(2, Form.NEAR)]
    two = f"{own[: SHINGLE - 1]} qqq {own[50 : 50 + SHINGLE - 1]}"
    assert forms(two, Needles(questions)) == []


def contest(shared: Path, name: str) -> list[str]:
    return [row["problem"] for row in read_lines(shared / "data" / name)]


def aime(shared: Path) -> list[Question]:
    rows = [row for name in ("aime24.jsonl", "aime25.jsonl") for row in read_lines(shared / "data" / name)]
    return [
        Question(wordings=tuple(row[key] for key in ("problem", "problem_alt") if row.get(key)), answer=row["answer"])
        for row in rows
    ]


@pytest.mark.patient
def test_no_problem_of_dapo_or_math_is_taken_for_one_of_aime(shared: Path) -> None:
    """evaluation.md counts none that is; 419 rows of DAPO share a run of 13 words with one. Half of DAPO is told."""
    dapo = contest(shared, "dapo_math_unique.jsonl")
    needles = Needles(aime(shared), dapo[::4])
    rng = random.Random(0)
    others = dapo[1::2] + contest(shared, "math_train.jsonl") + contest(shared, "math500.jsonl")
    rng.shuffle(others)
    found = found_in("\n\n".join(others), needles)
    assert found.hits == []
    wanted = {number for number, _ in enumerate(needles.questions)}
    planted = "\n\n".join(text for one in needles.questions for text in (others.pop(), one.wordings[0]))
    assert {hit.question for hit in found_in(planted, needles).hits if hit.form is Form.EXACT} == wanted


@pytest.mark.patient
def test_phrases_alone_are_enough_where_no_ordinary_texts_are_at_hand(shared: Path) -> None:
    others = contest(shared, "math500.jsonl") + contest(shared, "dapo_math_unique.jsonl")[:4_000]
    assert found_in("\n\n".join(others), Needles(aime(shared))).hits == []
