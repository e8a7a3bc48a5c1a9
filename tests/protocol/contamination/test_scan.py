"""What a scan finds in files as coding agents leave them, and what it says of all that it looked at."""

import base64
import gzip
import html
import json
import random
import re
import textwrap
import zipfile
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path

import pytest
from tests.protocol.contamination.conftest import ANSWERS, TEXTS

from opd.protocol.contamination.matching import WHOLE, Form
from opd.protocol.contamination.needles import Needles, Question
from opd.protocol.contamination.scan import Hit, Scan, Source, scan

BEFORE = "Looking at the evaluation, step 40 of 110, loss 0.2512.\n"
BEHIND = "\nNow the learning rate: 1e-6, constant, and seed 42 for the order of the rows.\n"


def tool_result(text: str) -> str:
    inner = json.dumps({"stdout": text, "stderr": "", "interrupted": False})
    return json.dumps({"type": "user", "message": {"content": [{"type": "tool_result", "content": inner}]}})


def lines(text: str, mark: str) -> str:
    wrapped = [piece for line in text.split("\n") for piece in textwrap.wrap(line, 80)]
    return "\n".join(mark.format(number=number) + line for number, line in enumerate(wrapped, start=1))


def in_archive(text: str) -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rows.jsonl", json.dumps({"problem": text}))
    return out.getvalue()


def coloured(text: str) -> str:
    return re.sub(r"(\S+)", "\x1b[32m\\1\x1b[0m", text)


CARRIERS: dict[str, Callable[[str], bytes]] = {
    "plain": lambda text: text.encode(),
    "a JSON string": lambda text: json.dumps({"problem": text}).encode(),
    "a tool result, JSON in JSON": lambda text: tool_result(text).encode(),
    "a tool result that holds rows of JSON": lambda text: tool_result(json.dumps({"problem": text})).encode(),
    "wrapped at 80 columns": lambda text: textwrap.fill(text, 80).encode(),
    "cat -n": lambda text: lines(text, "{number:6d}\t").encode(),
    "a tool result of cat -n": lambda text: tool_result(lines(text, "{number:6d}\t")).encode(),
    "grep -n": lambda text: lines(text, "{number}:").encode(),
    "added lines of a diff": lambda text: lines(text, "+").encode(),
    "quoted in a letter": lambda text: lines(text, "> ").encode(),
    "a terminal's colours": lambda text: coloured(text).encode(),
    "HTML": lambda text: f"<p>{html.escape(text)}</p>".encode(),
    "HTML, escaped twice": lambda text: html.escape(html.escape(text)).encode(),
    "base64": lambda text: base64.encodebytes(text.encode()),
    "gzip": lambda text: gzip.compress(text.encode()),
    "zip": in_archive,
}


def usual_forms(data: bytes, text: str) -> set[str]:
    """The three literal forms that are usually looked for, as they usually are."""
    found = {"exact"} if text.encode() in data else set()
    found |= {"escaped"} if json.dumps(text)[1:-1].encode() in data else set()
    squeezed = " ".join(data.decode("utf-8", "replace").split())
    return found | ({"whitespace"} if " ".join(text.split()) in squeezed else set())


def found_in(content: bytes, questions: Sequence[Question], **sources: bytes) -> Scan:
    return scan([Source(name="it", content=content)], Needles(questions))


def places(found: Scan) -> list[tuple[int, Form]]:
    return [(hit.question, hit.form) for hit in found.hits]


def test_h50_the_three_usual_forms_miss_most_of_sixteen_carriers_of_one_question() -> None:
    assert len(CARRIERS) == 16
    text = TEXTS[1]
    found = {name for name, carrier in CARRIERS.items() if usual_forms(carrier(BEFORE + text + BEHIND), text)}
    assert found == {"plain", "a JSON string", "wrapped at 80 columns"}


@pytest.mark.parametrize("name", CARRIERS)
def test_h50_every_one_of_the_sixteen_carriers_is_seen_through(name: str, questions: list[Question]) -> None:
    for number, text in enumerate(TEXTS):
        hits = found_in(CARRIERS[name](BEFORE + text + BEHIND), questions).hits
        assert {hit.question for hit in hits} == {number}, text
        assert {hit.form for hit in hits} <= WHOLE


def test_a_text_is_found_by_its_strictest_form_and_once(questions: list[Question]) -> None:
    text = TEXTS[1]
    once, twice, thrice = json.dumps(text), json.dumps(json.dumps(text)), json.dumps(json.dumps(json.dumps(text)))
    for content, form in (
        (text, Form.EXACT),
        (once, Form.ESCAPED_1),
        (twice, Form.ESCAPED_2),
        (thrice, Form.ESCAPED_3),
        (" ".join(text.split()), Form.WHITESPACE),
        (json.dumps(thrice), Form.FOLDED),
        (text.replace("+ \\sqrt", "- \\sqrt"), Form.LETTERS),
    ):
        assert places(found_in((BEFORE + content + BEHIND).encode(), questions)) == [(1, form)], form


def test_every_place_of_a_literal_form_is_counted_and_told_by_byte_and_line(questions: list[Question]) -> None:
    content = "".join(f"line {number}\n{TEXTS[2]}\n" for number in range(20)).encode()
    found = found_in(content, questions)
    wanted = [at.start() for at in re.finditer(re.escape(TEXTS[2].encode()), content)]
    assert found.counts[Form.EXACT] == len(wanted) == 20
    assert sorted(hit.offset for hit in found.hits) == wanted
    assert sorted(hit.line or 0 for hit in found.hits) == [content[:at].count(b"\n") + 1 for at in wanted]


@pytest.mark.parametrize(
    "at", [0, (1 << 13) - 100, (1 << 14) - 30, (1 << 18) - 150, (1 << 18) - 1, (1 << 18) + 5, 600_000]
)
def test_no_edge_of_a_block_or_a_window_hides_a_text_or_doubles_it(at: int, questions: list[Question]) -> None:
    filler = b"the loss of this step was small. " * 40_000
    content = filler[:at] + TEXTS[1].encode() + filler[: 700_000 - at]
    hits = found_in(content, questions).hits
    assert [(hit.question, hit.form, hit.offset) for hit in hits] == [(1, Form.EXACT, at)]
    folded = filler[:at] + lines(TEXTS[0], "{number:6d}\t").encode() + filler[: 700_000 - at]
    assert places(found_in(folded, questions)) == [(0, Form.FOLDED)]


def test_where_a_folded_text_begins_is_told_to_the_letter(questions: list[Question]) -> None:
    content = (BEFORE * 30 + lines(TEXTS[0], "{number:6d}\t") + BEHIND * 30).encode()
    (hit,) = found_in(content, questions).hits
    assert (hit.offset, hit.line) == (content.index(b"A ferry"), 31)


def test_a_pair_is_a_question_with_its_answer_beside_it(questions: list[Question]) -> None:
    def paired(content: str) -> list[bool]:
        return [hit.paired for hit in found_in(content.encode(), questions).hits]

    assert paired(json.dumps({"problem": TEXTS[0], "answer": ANSWERS[0]})) == [True]
    assert paired(json.dumps({"answer": ANSWERS[0], "problem": TEXTS[0]})) == [True]
    assert paired(tool_result(json.dumps({"problem": TEXTS[0], "answer": ANSWERS[0]}))) == [True]
    assert paired(json.dumps({"problem": TEXTS[0], "answer": "4070"})) == [False]  # part of another number
    assert paired(json.dumps({"problem": TEXTS[0], "answer": "0.407"})) == [False]
    assert paired(TEXTS[0] + " " * 2_000 + ANSWERS[0]) == [False]  # far from it


def test_an_answer_of_three_digits_alone_is_no_hit(questions: list[Question]) -> None:
    content = " ".join(str(number) for number in range(1_000)).encode()
    assert found_in(content, questions).hits == []


def test_a_long_answer_is_looked_for_by_itself() -> None:
    question = Question(
        wordings=(TEXTS[0],),
        answer="the plums of the third crossing rot before the ledger of the harbour master is closed",
    )
    assert places(found_in(question.answer.encode(), [question])) == [(0, Form.EXACT)]


def test_a_question_is_found_in_each_of_its_wordings_and_counts_as_one(questions: list[Question]) -> None:
    one = Question(wordings=(TEXTS[0], TEXTS[0].replace("ferry crosses", "boat goes over")), answer="407")
    for wording in one.wordings:
        found = found_in(wording.encode(), [one, *questions[1:]])
        assert places(found) == [(0, Form.EXACT)]


def test_the_claim_of_12_files_and_60_pairs_can_be_made_again(tmp_path: Path) -> None:
    rng = random.Random(5)
    words = ("lamp", "keeper", "orchard", "tram", "ledger", "quarry", "sextant", "walnut", "ferry", "glacier", "kiln")
    asked = [
        Question(
            wordings=(f"{number} " + " ".join(rng.choices(words, k=40)) + "?",), answer=str(rng.randrange(1_000))
        )
        for number in range(60)
    ]
    for number in range(12):
        row = {"type": "assistant", "text": " ".join(rng.choices(words, k=400))}
        (tmp_path / f"{number}.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    sources = [Source(name=path.name, path=path) for path in sorted(tmp_path.iterdir())]
    clean = scan(sources, Needles(asked))
    assert (clean.files, clean.hits) == (12, [])
    assert clean.bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
    (tmp_path / "7.jsonl").write_text(tool_result(asked[33].wordings[0]), encoding="utf-8")
    (hit,) = scan(sources, Needles(asked)).hits
    assert (hit.question, hit.source) == (33, "7.jsonl")


def test_a_file_that_cannot_be_read_is_told_of_and_the_others_are_read(
    tmp_path: Path, questions: list[Question]
) -> None:
    (tmp_path / "real").write_text(TEXTS[0], encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    names = ("gone", "link", ".", "real")
    found = scan([Source(name=name, path=tmp_path / name) for name in names], Needles(questions))
    assert [unread.name for unread in found.unread] == ["gone", "link", "."]
    assert [hit.source for hit in found.hits] == ["real"]


def test_no_text_that_is_looked_for_stands_in_what_comes_back(questions: list[Question]) -> None:
    content = in_archive(TEXTS[0])
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(f"{TEXTS[0][:40]}.txt", TEXTS[0])  # a name that tells a part of it
    found = scan([Source(name="a", content=content), Source(name="b", content=out.getvalue())], Needles(questions))
    assert len(found.hits) >= 2
    assert "ferry" not in repr(found)
    assert isinstance(found.hits[0], Hit)
