"""What a scan comes to."""

import json

from tests.protocol.contamination.conftest import TEXTS

from opd.protocol.contamination.carriers import Unread
from opd.protocol.contamination.conclusion import conclude
from opd.protocol.contamination.needles import Needles, Question
from opd.protocol.contamination.scan import Source, scan
from opd.records.audits import Control, Verdict


def test_what_could_not_be_read_leaves_the_axis_open_and_a_picture_does_not(questions: list[Question]) -> None:
    needles, fine = Needles(questions), [Control(name="c", found=True)]
    nothing = scan([Source(name="it", content=b"nothing")], needles)
    picture, page = Unread(name="plot.png", why="a picture", is_picture=True), Unread(name="a.pdf", why="a PDF")
    nothing.unread = [picture]
    assert conclude(nothing, needles, fine).verdict is Verdict.NONE_FOUND
    nothing.unread = [picture, page]
    said = conclude(nothing, needles, fine)
    assert (said.verdict, said.unread) == (Verdict.NOT_ASSESSED, ("plot.png: a picture", "a.pdf: a PDF"))
    leaked = scan([Source(name="it", content=TEXTS[0].encode())], needles)
    leaked.unread = [page]
    assert conclude(leaked, needles, fine).verdict is Verdict.CONFIRMED


def test_the_verdict_follows_the_strictest_form(questions: list[Question]) -> None:
    needles, fine = Needles(questions), [Control(name="c", found=True)]

    def said(content: str) -> tuple[Verdict, str]:
        one = conclude(scan([Source(name="it", content=content.encode())], needles), needles, fine)
        return one.verdict, one.sentence

    assert said(json.dumps(TEXTS[1]))[0] is Verdict.CONFIRMED
    assert "zero exact, 1 escaped, zero whitespace-normalized" in said(json.dumps(TEXTS[1]))[1]
    assert said(TEXTS[1].replace("+ \\sqrt", "- \\sqrt"))[0] is Verdict.SUSPECTED
    assert said(TEXTS[2][:120])[0] is Verdict.SUSPECTED
    assert "ferry" not in said(TEXTS[0])[1]


def test_every_file_that_holds_a_whole_question_is_listed_before_any_part_and_any_second_place(
    questions: list[Question],
) -> None:
    """A list that is cut at forty must not be filled by the first file, or by parts."""
    parts = [Source(name=f"a{number:02d}.log", content=TEXTS[2][:120].encode()) for number in range(60)]
    often = Source(name="b.log", content=b"\n".join([TEXTS[0].encode()] * 60))
    wholes = [Source(name=f"x{number:02d}.sqlite", content=TEXTS[1].encode()) for number in range(30)]
    said = conclude(scan([*parts, often, *wholes], needles := Needles(questions)), needles, [])
    assert {one.name for one in wholes} < {hit.source for hit in said.places}
    assert [hit.source for hit in said.places[:31]] == ["b.log", *(one.name for one in wholes)]
    assert all(any(one.name in detail for detail in said.details) for one in wholes)
