"""A score's report as text, as Markdown and as a page: what stands there, and that hostile text is only text."""

import random
import re
import unicodedata
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from jinja2 import UndefinedError
from markdown_it import MarkdownIt

from opd.evaluate.report import score_report
from opd.evaluate.results import Source
from opd.evaluate.rows import Row
from opd.records.score_report import Contamination, Mean, Overlap, ScoreReport
from opd.records.scores import Opinion, Verdict
from opd.view.page import page as template
from opd.view.plain import markdown, shown
from opd.view.scores.page import render, write_page
from opd.view.scores.pictures import NAMED_QUESTIONS, pictures
from opd.view.scores.sections import sections
from opd.view.scores.text import as_markdown, terminal, write_markdown
from opd.view.terminal.bars import WIDTH, Bar, drawn

HOSTILE = "<script>alert(1)</script> $x^2$ \x1b[31m\u202e | **b** [a](javascript:x) ```\n&amp; <!-- http://a.example"


def made(questions: int = 12, samples: int = 4, *, text: str = "") -> ScoreReport:
    """A report with something in every section; `text` stands wherever a model or a stranger may write."""
    draw = random.Random(7)
    rows = []
    for place in range(questions):
        for sample in range(samples):
            correct = draw.random() < 0.6
            cut = not correct and draw.random() < 0.3
            other = correct is not (draw.random() < 0.1)
            rows.append(
                Row(
                    question=f"q{place:03}{text}",
                    sample=sample,
                    correct=correct,
                    verdict="correct" if correct else "cut_short" if cut else "wrong",
                    by=f"judge:m{text}" if draw.random() < 0.2 else "house",
                    answered=not cut,
                    extracted=None if cut else f"{place if correct else draw.randrange(3)}{text}",
                    inside_reasoning=draw.random() < 0.1,
                    cut_short=cut,
                    tokens=500 if cut else draw.randrange(50, 400),
                    gold=f"{place}{text}",
                    opinions=(
                        Opinion(
                            by=f"reference{text}",
                            verdict=Verdict.CORRECT if other else Verdict.WRONG,
                            reason=f"so{text}",
                        ),
                    ),
                )
            )
    source = Source(name=f"runs/x{text}", form="samples", rows=tuple(rows), benchmark=f"sums{text}", model=f"m{text}")
    return score_report(source).model_copy(update={"contamination": contamination(text), "machine": {"name": text}})


def contamination(text: str) -> Contamination:
    half = Mean(mean=0.5, stderr=0.1, ci95=(0.3, 0.7), questions=6, samples=24, correct=12)
    overlap = Overlap(
        question=f"q000{text}",
        training_row=f"t1{text}",
        found="same_words",
        verdict="same",
        jaccard=1.0,
        longest_run=f"red blue{text}",
        correct=2,
        samples=4,
    )
    return Contamination(
        reports=(f"r.json{text}",),
        training=(f"t.jsonl{text}",),
        trained_on="confirmed",
        compared=12,
        overlaps=(overlap,),
        near=1,
        without=half,
        only=half,
        shift=0.0,
        shift_stderr=0.1,
        note="1 of the 12 questions that were compared stand in the training rows.",
    )


def picture(report: ScoreReport, name: str) -> str:
    """One of the pictures alone."""
    return pictures(report, [one for one in sections(report, most=5) if one.picture == name])[name]


@pytest.fixture(scope="module")
def report() -> ScoreReport:
    return made()


@pytest.fixture(scope="module")
def page(report: ScoreReport) -> str:
    return render(report)


class Page(HTMLParser):
    """The elements of a page and its text, as a browser would read them."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_terminal_shows_every_section_in_a_hundred_columns(report: ScoreReport) -> None:
    said = terminal(report)
    titles = [section.title for section in sections(report, most=5)][1:-1]
    assert titles == [
        "Several tries",
        "Questions",
        "How the samples came out",
        "Cut short",
        "Length",
        "Graders that disagree",
        "Contamination",
    ]
    lines = said.splitlines()
    assert [line for line in lines if line in titles] == titles
    assert f"  mean                      {report.mean:.4f}" in said
    sentences = [line for line in lines if not line.startswith("  ")]
    assert max(map(len, sentences)) <= 100


def test_sections_without_anything_to_say_are_left_out() -> None:
    plain = Source(name="x", form="samples", rows=(Row(question="a", sample=0, correct=True),))
    assert [section.title for section in sections(score_report(plain), most=5)] == [
        "Score",
        "Questions",
        "Where it comes from",
    ]


@pytest.mark.parametrize(
    ("value", "interval", "expected"),
    [
        (0.5, (0.25, 0.75), "#" * 8 + "=" * 7 + "-" * 7),
        (1.0, (0.8, 1.1), "#" * 24 + "=" * 6),
        (0.0, (-0.1, 0.5), "-" * 15),
        (0.5, None, "#" * 15),
    ],
)
def test_a_bar_has_its_value_and_the_ends_of_its_interval_to_scale(
    value: float, interval: tuple[float, float] | None, expected: str
) -> None:
    bar = drawn(Bar(label="x", value=value, interval=interval), full=1.0, ascii_only=True)
    assert len(bar) == WIDTH
    assert bar.rstrip() == expected


def test_hostile_text_cannot_move_the_cursor_or_turn_the_line() -> None:
    page = terminal(made(text=HOSTILE))
    unseen = {one for one in page if one != "\n" and unicodedata.category(one) in {"Cc", "Cf", "Cs"}}
    assert unseen == set()
    assert "<script>alert(1)</script>" in page  # as it is: a terminal reads no markup


def test_hostile_text_is_text_on_the_page(page: str) -> None:
    quiet, hostile = Page(page), Page(render(made(text=HOSTILE)))
    assert [tag for tag, _ in quiet.tags] == [tag for tag, _ in hostile.tags]
    assert "script" not in {tag for tag, _ in hostile.tags}
    assert any("<script>alert(1)</script>" in text for text in hostile.text)


def test_hostile_text_is_text_in_markdown(tmp_path: Path) -> None:
    """By another program's reading of GitHub's Markdown: the same elements, and the text among them."""
    reader = MarkdownIt("gfm-like", {"linkify": False})

    def kinds(report: ScoreReport) -> list[str]:
        page = as_markdown(report, sections(report, most=5), pictures=None)
        found = [token.type for token in reader.parse(page)]
        return found + [child.type for token in reader.parse(page) for child in token.children or ()]

    quiet, hostile = made(), made(text=HOSTILE)
    parsed = kinds(hostile)
    assert [kind for kind in parsed if kind != "text"] == [kind for kind in kinds(quiet) if kind != "text"]
    assert not {"html_block", "html_inline", "link_open", "image"} & set(parsed)
    html = reader.render(as_markdown(hostile, sections(hostile, most=5), pictures=None))
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html


@pytest.mark.parametrize(
    "text", ["plain words, 1.5 (or so)", "a|b", "`x`", "<b>", "http://a.example", "www.a.example", "$x$"]
)
def test_escaped_markdown_reads_as_the_text(text: str) -> None:
    (paragraph,) = [
        token for token in MarkdownIt("gfm-like", {"linkify": False}).parse(markdown(text)) if token.children
    ]
    assert "".join(child.content for child in paragraph.children or ()) == text
    if text.startswith("plain"):
        assert markdown(text) == text  # nothing is escaped without need


def test_what_cannot_be_seen_is_shown_by_its_code_point_and_long_text_is_cut() -> None:
    assert shown("a\u202eb\n\x00") == "a⟨U+202E⟩b⟨U+000A⟩⟨U+0000⟩"
    assert shown("x" * 100, longest=10) == "x" * 9 + "…"
    assert shown("naïve ∑ 数") == "naïve ∑ 数"


def test_the_page_begins_with_the_score_and_its_error(report: ScoreReport, page: str) -> None:
    assert report.stderr is not None
    assert f"<h1>{report.mean:.4f} ± {report.stderr:.4f}</h1>" in page


def test_a_name_that_nobody_gave_is_an_error_and_no_blank() -> None:
    with pytest.raises(UndefinedError, match="'script' is undefined"):
        template("cases/cases.html.j2", script_sha256="", title="", lead="", passed_over=None, standings=[], tasks=[])


def test_the_page_asks_nothing_of_anyone(page: str) -> None:
    read = Page(page)
    links = [value for _, attributes in read.tags for name, value in attributes.items() if name in {"src", "href"}]
    assert {value for value in links if value and not value.startswith("#")} == {"data:,"}
    assert not {"script", "iframe", "img"} & {tag for tag, _ in read.tags}
    (policy,) = [attributes["content"] for _, attributes in read.tags if attributes.get("http-equiv")]
    assert "default-src 'none'" in (policy or "")


def test_equal_reports_give_equal_pages(page: str, tmp_path: Path) -> None:
    write_page(tmp_path / "x.html", made())
    assert (tmp_path / "x.html").read_text(encoding="utf-8") == page


@pytest.mark.parametrize("questions", [12, NAMED_QUESTIONS + 1])
def test_every_picture_is_whole_has_a_title_and_says_its_units_and_intervals(questions: int) -> None:
    report = made(questions)
    drawn_pictures = pictures(report, sections(report, most=5))
    assert set(drawn_pictures) == {"tries", "questions", "outcomes", "bounds", "lengths", "contamination"}
    for name, element in drawn_pictures.items():
        root = ET.fromstring(element)
        assert root.find("{http://www.w3.org/2000/svg}title") is not None, name
        text = " ".join(root.itertext())
        assert "95 %" in text, name
        assert re.search(r"share|tokens", text), name


def test_each_interval_of_the_shares_is_a_line_in_their_picture(report: ScoreReport) -> None:
    """Without the intervals the picture has as many paths less as there are shares."""
    groups = ("verdicts", "box", "decided_by")
    bare = report.model_copy(
        update={
            name: tuple(part.model_copy(update={"ci95": None}) for part in getattr(report, name)) for name in groups
        }
    )
    paths = [picture(one, "outcomes").count("<path") for one in (report, bare)]
    assert paths[0] - paths[1] == sum(len(getattr(report, name)) for name in groups)


def test_names_with_dollar_signs_are_no_formulas() -> None:
    """A single dollar, or a broken command between two, would stop matplotlib's reader of formulas."""
    report = made(text=r" $\frac{ $")
    text = "".join(ET.fromstring(picture(report, "questions")).itertext())
    assert r"q000 $\frac{ $" in text


def test_markdown_stands_beside_its_pictures(report: ScoreReport, tmp_path: Path) -> None:
    path = tmp_path / "a score (1).md"
    write_markdown(path, report)
    names = re.findall(r"!\[[^]]*\]\((?P<folder>[^)]*)/(\w+)\.svg\)", path.read_text(encoding="utf-8"))
    assert {name for _, name in names} == {"tries", "questions", "outcomes", "bounds", "lengths", "contamination"}
    assert {folder for folder, _ in names} == {"a%20score%20%281%29.pictures"}
    for _, name in names:
        ET.parse(tmp_path / "a score (1).pictures" / f"{name}.svg")


def test_all_questions_stand_on_the_page_and_lists_say_how_many_were_left_out() -> None:
    report = made(150)
    page = render(report)
    assert all(f">{one.question}<" in page for one in report.by_question)
    total = sum(one.other_says_right + one.other_says_wrong for one in report.opinions)
    assert f"5 of {total} samples on which they differ" in terminal(report)
