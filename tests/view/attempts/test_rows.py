"""Lines of a narrow picture: as wide as the picture at most, and no letter lost that is not said to be cut."""

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath
from tests.view.story.test_pictures import SVG

from opd.view.attempts.drawing import NARROW_TEXT
from opd.view.attempts.rows import Label, Rows, broken
from opd.view.svg import figure, svg_text

TEXTS = st.text(st.sampled_from("abMWil01.,;/_- −±"), max_size=200)


@example(";000000M±±", 60.0, 1)  # of which nothing stays but that it was cut
@given(TEXTS, st.sampled_from([60.0, 150.0, 300.0]), st.integers(1, 3))
def test_lines_are_no_wider_than_they_may_be_and_lose_nothing_unsaid(text: str, points: float, most: int) -> None:
    lines = broken(text, points=points, most=most)
    assert len(lines) <= most
    for letters in filter(None, (line.rstrip("…") for line in lines)):
        drawn = TextPath((0, 0), letters, prop=FontProperties(size=NARROW_TEXT)).get_extents()
        assert drawn.width <= points + 1, "a kerned pair may be a little wider than its letters"
    said = re.sub(r"\s", "", "".join(lines))
    whole = re.sub(r"\s", "", text)
    assert said == whole or (said.endswith("…") and whole.startswith(said[:-1]))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("one line", ["one line"]),
        ("proxy 12, a-method/checkpoint-40", ["proxy 12, a-", "method/", "checkpoint-40"]),
        ("MMMMMMMMMMMMMM", ["MMMMMMMM", "MMMMMM"]),
    ],
)
def test_a_line_ends_behind_a_space_or_a_sign_where_there_is_one(text: str, lines: list[str]) -> None:
    assert broken(text, points=66.0, most=3) == lines


@pytest.mark.parametrize("narrow", [False, True])
def test_what_is_cut_has_a_title_that_gives_it_whole(narrow: bool) -> None:
    name = "/runs/" + "a-method-whose-name-says-all-of-it-" * 5
    made = figure(4.4 if narrow else 13, 2)
    Rows(labels=[Label(name=name, words="0.5000"), Label(name="short", words="0.6000")], narrow=narrow).lay(
        made.subplots()
    )
    root = ET.fromstring(svg_text(made, name="x", title="t", description="d"))
    groups = {
        "".join(text.itertext()): title.text
        for group in root.iter(f"{SVG}g")
        if (title := group.find(f"{SVG}title")) is not None
        for text in group.iter(f"{SVG}text")
    }
    assert [(cut[-1], name in (whole or "")) for cut, whole in groups.items()] == [("…", True)]
