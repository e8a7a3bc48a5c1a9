"""What a carrier takes apart is put together: a stream's deltas, a table's columns, digits in lines of any length."""

import base64
import json
import textwrap

import pytest
from tests.protocol.contamination.conftest import TEXTS

from opd.protocol.contamination.matching import WHOLE, Form
from opd.protocol.contamination.needles import Needles, Question
from opd.protocol.contamination.scan import Hit, Source, scan


@pytest.fixture(scope="module")
def needles(questions: list[Question]) -> Needles:
    return Needles(questions)


def hits(text: str, needles: Needles) -> list[Hit]:
    return scan([Source(name="it", content=text.encode())], needles).hits


def whole(text: str, needles: Needles) -> set[int]:
    return {hit.question for hit in hits(text, needles) if hit.form in WHOLE}


def deltas(text: str, size: int, prefix: str = "") -> str:
    parts = [text[at : at + size] for at in range(0, len(text), size)]
    return "".join(f"{prefix}{json.dumps({'delta': {'text': part}})}\n" for part in parts)


@pytest.mark.parametrize("size", [1, 4, 7])
@pytest.mark.parametrize("number", range(len(TEXTS) - 1))
def test_deltas_of_any_size_are_put_together(number: int, size: int, needles: Needles) -> None:
    stream = deltas(TEXTS[number], size)
    assert whole(stream, needles) == {number}
    assert whole(json.dumps({"stdout": stream}), needles) == {number}
    assert whole(deltas(TEXTS[number], size, "data: "), needles) == {number}


def test_two_streams_between_each_others_lines_are_two_texts(needles: Needles) -> None:
    one = deltas(TEXTS[0], 5).splitlines()
    other = [line.replace("text", "thinking") for line in deltas(TEXTS[2], 5).splitlines()]
    mixed = "\n".join(line for pair in zip(one, other, strict=False) for line in pair)
    cut = min(len(one), len(other))
    assert cut > 30
    rest = "\n".join((*one[cut:], *other[cut:]))
    assert whole(f"{mixed}\n{rest}", needles) == {0, 2}


def test_a_question_that_stands_there_whole_is_told_once(needles: Needles) -> None:
    rows = "".join(json.dumps({"id": number, "problem": TEXTS[3]}) + "\n" for number in range(20))
    assert {hit.inside for hit in hits(rows, needles)} == {()}


@pytest.mark.parametrize("row", ['{n},"{word}"', "{n}\t{word}", "{n};{word};0.25", "| {n} | {word} |", "{n} {word}"])
def test_a_word_a_line_is_read_down_the_column(row: str, needles: Needles) -> None:
    table = "".join(row.format(n=n, word=word.replace('"', '""')) + "\n" for n, word in enumerate(TEXTS[0].split()))
    assert whole(f"n,word\n{table}and so on\n", needles) == {0}


@pytest.mark.parametrize("columns", [16, 30, 32, 60, 64, 76])
@pytest.mark.parametrize("mark", ["", "> ", "  12\t"])
def test_hexadecimal_digits_are_read_in_lines_of_any_length(columns: int, mark: str, needles: Needles) -> None:
    lines = "".join(f"{mark}{line}\n" for line in textwrap.wrap(TEXTS[1].encode().hex(), columns))
    for text in (lines, lines.upper(), json.dumps({"stdout": lines})):
        assert whole(text, needles) == {1}


def test_digits_that_came_as_deltas_are_read(needles: Needles) -> None:
    for digits in (TEXTS[2].encode().hex(), base64.b64encode(TEXTS[2].encode()).decode()):
        assert whole(deltas(digits, 6), needles) == {2}


def test_rows_of_digests_and_tables_of_numbers_are_no_text(needles: Needles) -> None:
    digests = "\n".join(f"{number * 7919:064x}" for number in range(50))
    numbers = "\n".join(f"{number}, {number * 37 % 100:02d} {number * 11 % 90 + 10}" for number in range(400))
    assert hits(f"{digests}\n{numbers}", needles) == []


def test_a_few_octal_numbers_behind_backslashes_stay_what_they_are(needles: Needles) -> None:
    """Of a table in LaTeX, whose lines end in two."""
    table = TEXTS[2] + " 12 \\\\120 & 7 \\\\130 & 9"
    assert [(hit.question, hit.form) for hit in hits(table, needles)] == [(2, Form.EXACT)]
