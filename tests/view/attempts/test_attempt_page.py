"""The page as HTML: what stands there, that it asks nothing of anyone, and that nobody's text is markup."""

import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.view.attempts.made import Made, audit, write_made

from opd.records.audits import Verdict
from opd.records.claims import Claims
from opd.records.settings import read
from opd.view.attempts.page import VERDICTS, main, render, write_page

VOID = {"meta", "link", "br", "hr", "path", "use", "rect"}


class Page(HTMLParser):
    """Every start tag with its attributes, the text, the claims of each article, and what is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.claims: dict[str, list[tuple[str, str]]] = {}
        self.unbalanced: list[str] = []
        self._open: list[str] = []
        self._article = ""
        self._claim: str | None = None
        self.feed(text)
        self.unbalanced += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "article":
            self._article = dict(attrs)["data-document"] or ""
            self.claims[self._article] = []
        if tag == "data":
            self._claim = dict(attrs)["data-claim"]
            self.claims[self._article].append((self._claim or "", ""))

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self._open or self._open.pop() != tag:
            self.unbalanced.append(tag)
        if tag == "data":
            self._claim = None

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._claim is not None:
            id_, text = self.claims[self._article][-1]
            self.claims[self._article][-1] = (id_, text + data)

    def count(self) -> Counter[str]:
        """How many there are of each tag, the pictures' own left out."""
        own = {"use", "path", "g", "rect", "pattern", "text", "title"}
        return Counter(tag for tag, _ in self.tags if tag not in own)


def test_the_page_asks_nothing_of_anyone_and_runs_nothing(page: str) -> None:
    told = Page(page)
    links = [value for _, attributes in told.tags for name, value in attributes.items() if name in {"src", "href"}]
    assert {value for value in links if value and not value.startswith("#")} == {"data:,"}
    assert not {"script", "iframe", "img", "object", "form"} & set(told.count())
    (policy,) = [attributes["content"] for _, attributes in told.tags if attributes.get("http-equiv")]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", page)


def test_every_link_within_the_page_has_its_target(page: str) -> None:
    told = Page(page)
    ids = [attributes["id"] for _, attributes in told.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {attributes["href"] for tag, attributes in told.tags if tag == "a"}
    assert {str(target).removeprefix("#") for target in targets} <= set(ids)
    assert {"#brief", "#pictures", "#patch", "#audit", "#analysis", "#sources", "#c001"} <= targets


def test_the_page_is_well_formed_and_small(page: str) -> None:
    assert Page(page).unbalanced == []
    assert len(page.encode()) < 1_000_000


def test_the_numbers_of_each_text_are_its_claims_in_their_order(page: str, whole: Made) -> None:
    claims = read(Claims, whole.folder / "claims.json")
    by_id = claims.by_id()
    told = Page(page)
    for name, document in claims.documents.items():
        expected = [(span.of, by_id[span.of].text.strip("`")) for span in document.spans]
        assert told.claims[name] == expected
        assert expected


def test_every_claim_with_a_place_is_among_the_sources(page: str) -> None:
    rows = re.findall(r'<tr id="(c\d+)">.*?</tr>', page)
    assert rows == ["c001", "c002", "c003", "c004", "c005"]
    (row,) = re.findall(r'<tr id="c003">.*?</tr>', page)
    assert "c001 / c002" in row
    (row,) = re.findall(r'<tr id="c001">.*?</tr>', page)
    assert "final/step-002100/outcome.json /correct" in row


def test_every_figure_is_in_both_widths_named_described_and_says_its_files(page: str) -> None:
    figures = re.findall(r"<figure.*?</figure>", page, flags=re.DOTALL)
    assert len(figures) == 8
    for figure in figures:
        assert len(re.findall(r"<title id=[^>]*>[^<]{5,}</title>", figure)) == 2
        assert len(re.findall(r"<desc id=[^>]*>[^<]{5,}</desc>", figure)) == 2
        assert re.search(r'<figcaption>.*<span class="src">[^<]*\.(jsonl?|patch)', figure, flags=re.DOTALL)


def test_every_verdict_has_a_mark_and_a_word(page: str) -> None:
    assert (
        len({mark for mark, _ in VERDICTS.values()}) == len(Verdict) == len({word for _, word in VERDICTS.values()})
    )
    text = " ".join(Page(page).text.split())
    for finding in audit().findings:
        mark, word = VERDICTS[finding.verdict]
        assert f"{finding.axis.value.replace('_', ' ')} {mark} {word} {finding.sentence}" in text
    assert "The result holds: the identical patch was retried" in text
    assert "12 files, 5.1 MiB, 1 unread 1 of 2 found" in text


def test_the_lines_of_the_patch_have_numbers_and_signs(page: str) -> None:
    table = re.findall(r'<tr class="(\w+)"><td>(\d*)</td><td>(\d*)</td><td>(.)</td><td>(.*?)</td>', page)
    assert [row[:4] for row in table if row[0] in {"added", "removed", "beside"}] == [
        ("beside", "12", "12", " "),
        ("beside", "13", "13", " "),
        ("removed", "14", "", "\N{MINUS SIGN}"),
        ("added", "", "14", "+"),
        ("added", "", "15", "+"),
    ]


def test_all_questions_stand_on_the_page_with_their_counts(page: str) -> None:
    assert len(re.findall(r'<th scope="row">aime-\d\d</th>(<td>\d+/32</td>){3}', page)) == 60


def test_equal_files_give_equal_bytes(page: str, whole: Made, tmp_path: Path) -> None:
    again = write_made(tmp_path)
    write_page(again.folder, again.attempt)
    assert (again.folder / "index.html").read_bytes() == page.encode()


def test_text_of_strangers_is_only_text_wherever_it_stands(page: str, hostile_page: str) -> None:
    """The page has no other elements than without it, and nothing in it moves a cursor or turns the text around."""
    before, after = Page(page), Page(hostile_page)
    assert after.unbalanced == []
    assert after.count() == before.count()
    assert not re.search("[\x00\x1b\u202e]", hostile_page)
    assert after.text.count("<script>alert(1)</script>") > 20, "it is there, as text"
    attributes = [name for _, pairs in after.tags for name in pairs]
    assert not [name for name in attributes if name.startswith("on")]


NOTHING = {
    "stages": (),
    "exploring": None,
    "proxies": (),
    "finals": (),
    "comparisons": (),
    "coverages": (),
    "curves": (),
    "patch": None,
    "audit": None,
    "missing": "the explorer's program ended with an error, before anything was handed in",
}


def test_an_attempt_that_came_to_nothing_has_a_page_that_says_so(tmp_path: Path) -> None:
    made = write_made(tmp_path, **NOTHING)
    told = Page(render(made.folder, made.attempt))
    text = " ".join(told.text.split())
    assert told.unbalanced == []
    assert told.count()["figure"] == 0
    assert "Nothing was explored." in text
    assert "No official score. the explorer's program ended with an error" in text
    assert not re.search(r"\bNone\b|\bnan\b", text)


def test_the_program_writes_the_page_and_nothing_else(tmp_path: Path) -> None:
    made = write_made(tmp_path, **NOTHING)
    before = set(made.attempt.rglob("*"))
    command = [sys.executable, "-I", "-m", "opd.view.attempts.page", str(made.folder), str(made.attempt)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert set(made.attempt.rglob("*")) - before == {made.folder / "index.html"}


def test_a_report_that_is_not_there_is_a_line_and_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "none"), str(tmp_path)]) == 2
    assert "report.json does not exist" in capsys.readouterr().err
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("usage:")
