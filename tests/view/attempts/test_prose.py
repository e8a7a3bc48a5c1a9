"""Markdown with claims as HTML: each number is an element of its own, and nobody's text is markup."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.records.claims import Claim, Document, Form, Ground, Origin, Span
from opd.records.errors import AskedWrongly
from opd.view.attempts.prose import linked, rendered
from opd.view.plain import markdown

PLACES = (
    "# {}\n",
    "{} at the start of a line, and {} in the middle of it, {}\n",
    "**{}** is bold, *{}* is set off, ({}), [{}]: {}.\n",
    "- {} in a list\n- and *{}*\n",
    "| a | b |\n|---|---|\n| {} | x |\n| **{}** | {}/{} |\n",
    "> quoted beside {}\n",
    "a±{}, {}%, −{}\n",
)
TEXTS = (
    "809",
    "1,920",
    "+0.0200",
    "96.53 %",
    "< 0.0001",
    "`abc…`",
    "2026-01-31 13:08 UTC",
    "&#42;x&#42;",
    "13:08 UTC",
)


class Read(HTMLParser):
    """Every `<data>` with its text, every tag, and all text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.data: list[tuple[str, str]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[int] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "data":
            self._open.append(len(self.data))
            self.data.append((dict(attrs)["data-claim"] or "", ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "data":
            self._open.pop()

    def handle_data(self, data: str) -> None:
        self.text += data
        for at in self._open:
            self.data[at] = (self.data[at][0], self.data[at][1] + data)


def computed(id_: str, text: str, *, form: Form = Form.INTEGER, origin: Origin = Origin.COMPUTED) -> Claim:
    return Claim(
        id=id_, origin=origin, value=text, form=form, text=text, file="a/b.json", pointer="/x", sha256="0" * 64
    )


def filled(places: list[str], texts: list[str]) -> tuple[str, Document, dict[str, Claim]]:
    """The places with a claim in each gap, one text after the other."""
    text, spans, claims = "", [], {}
    for place in places:
        first, *rest = place.split("{}")
        text += first
        for part in rest:
            id_ = f"c{len(claims) + 1:03d}"
            claims[id_] = computed(id_, texts[len(claims) % len(texts)])
            spans.append(Span(start=len(text), end=len(text) + len(claims[id_].text), of=id_))
            text += claims[id_].text + part
        text += "\n"
    return text, Document(sha256="0" * 64, spans=tuple(spans)), claims


def plain(text: str) -> str:
    """As it reads: without backticks, character references resolved."""
    return text.replace("`", "").replace("&#42;", "*")


@given(st.lists(st.sampled_from(PLACES), min_size=1), st.lists(st.sampled_from(TEXTS), min_size=1))
def test_every_claim_is_an_element_with_exactly_its_text_wherever_it_stands(
    places: list[str], texts: list[str]
) -> None:
    text, document, claims = filled(places, texts)
    read = Read(rendered(text, document, claims, deeper=1))
    assert read.data == [(span.of, plain(claims[span.of].text)) for span in document.spans]
    bare = Read(rendered(text, Document(sha256="0" * 64, spans=()), claims, deeper=1))
    assert read.text == bare.text, "the marks change nothing else"


def test_a_claim_leads_to_its_source_and_says_where_it_is() -> None:
    text, document, claims = filled(["{}\n"], ["809"])
    read = Read(rendered(text, document, claims, deeper=1))
    (link,) = [attributes for tag, attributes in read.tags if tag == "a"]
    (data,) = [attributes for tag, attributes in read.tags if tag == "data"]
    assert link["href"] == "#c001"
    assert data["title"] == "c001: a/b.json /x"


def test_quotes_listings_judgements_and_digits_of_headings_are_no_elements() -> None:
    text = "# 1. Two\n\n> said\n\nIt beats it: 3\n4\n"
    claims = {
        "c001": computed("c001", "> said", form=Form.QUOTE),
        "c002": Claim(
            id="c002", origin=Origin.JUDGEMENT, value="beats", form=Form.TEXT, text="beats", ground=Ground.ORDER
        ),
        "c003": computed("c003", "3\n4"),
    }
    spans = (
        Span(start=2, end=3, of="numbering"),
        Span(start=10, end=16, of="c001"),
        Span(start=21, end=26, of="c002"),
        Span(start=31, end=34, of="c003"),
    )
    assert linked(text, spans, claims) == ()
    assert Read(rendered(text, Document(sha256="0" * 64, spans=spans), claims, deeper=1)).data == []


def test_spans_may_nest() -> None:
    text = "809 of 1,920 samples"
    claims = {
        "c001": computed("c001", "809 of 1,920"),
        "c002": computed("c002", "809"),
        "c003": computed("c003", "1,920"),
    }
    spans = (Span(start=0, end=12, of="c001"), Span(start=0, end=3, of="c002"), Span(start=7, end=12, of="c003"))
    read = Read(rendered(text, Document(sha256="0" * 64, spans=spans), claims, deeper=1))
    assert read.data == [("c001", "809 of 1,920"), ("c002", "809"), ("c003", "1,920")]


HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[a](javascript:alert(1))",
    "[a](https://a.example)",
    "<https://a.example>",
    "![a](https://a.example/x.png)",
    "![a](data:image/svg+xml;base64,AAAA)",
    "</article><h1>x",
    '<data data-claim="c001">9</data>',
    "\n\n<div>\n\n",
    "[a]: https://a.example\n\n[a]",
    "[a](#c001)",
    "![a](#c001)",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_strangers_makes_no_element_and_no_link(text: str) -> None:
    """Even where the writer forgot to escape it for Markdown."""
    html = rendered(f"x {text} y\n", Document(sha256="0" * 64, spans=()), {}, deeper=1)
    tags = {tag for tag, _ in Read(html).tags}
    assert tags <= {"p", "em", "code"}, html


@pytest.mark.parametrize("text", HOSTILE)
def test_escaped_text_of_strangers_reads_as_it_is(text: str) -> None:
    line = text.replace("\n", " ").strip()
    read = Read(rendered(f"x {markdown(line)} y\n", Document(sha256="0" * 64, spans=()), {}, deeper=1))
    assert re.sub(r"\s+", " ", read.text).strip() == f"x {re.sub(' +', ' ', line)} y"


@pytest.mark.parametrize("text", ["a \ue000 b", "\ue010", "x\uf8ff"])
def test_a_text_with_the_characters_of_marks_is_refused(text: str) -> None:
    with pytest.raises(AskedWrongly, match=r"U\+"):
        rendered(text, Document(sha256="0" * 64, spans=()), {}, deeper=1)


def test_what_cannot_be_seen_is_shown_by_its_code_point() -> None:
    html = rendered("a\u202eb\x1b[31m\n\n    c\x00\td\n", Document(sha256="0" * 64, spans=()), {}, deeper=1)
    assert not re.search("[\x00\x1b\u202e\t]", html)
    assert "a⟨U+202E⟩b⟨U+001B⟩[31m" in html


def test_headings_stand_below_those_of_the_page_and_tables_can_be_scrolled() -> None:
    html = rendered("# a\n\n###### b\n\n| a |\n|---|\n| b |\n", Document(sha256="0" * 64, spans=()), {}, deeper=1)
    tags = [tag for tag, _ in Read(html).tags]
    assert tags[:2] == ["h2", "h6"]
    assert '<div class="scroll" tabindex="0"><table>' in html


def test_each_cell_carries_the_name_of_its_column() -> None:
    text, document, claims = filled(["| field | `a` {} |\n|---|---|\n| x | {} |\n| y |\n"], ["809"])
    read = Read(rendered(text, document, claims, deeper=1))
    names = [attributes["data-name"] for tag, attributes in read.tags if tag == "td"]
    assert names == ["field", "a 809", "field", "a 809"]
