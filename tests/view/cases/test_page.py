"""A table over cases on a terminal and as a page: what stands there, how it sorts, and that all text is only text."""

import base64
import hashlib
import re
import shutil
import subprocess
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from opd.records.cases import AttemptRow, CaseRow, CaseTable, Pair, Result, Standing, Tally, TaskTable
from opd.records.scores import Comparison
from opd.records.tasks import Reference
from opd.view.cases.page import render, write_page
from opd.view.cases.pictures import BEST, drawn
from opd.view.cases.text import terminal, told_apart

HOSTILE = '<script>alert(1)</script>" onload="x $x^2$ \x1b[31m\u202e </td> &amp; {{ 7*7 }}'
REFERENCES = (
    Reference(name="fixed start", of="final", score=0.252083, correct=484, samples=1920, source="the package"),
    Reference(name="shipped", of="final", score=0.427083, samples=1920, stderr=0.051615, source="the package"),
)
SCORES: dict[str, tuple[float | None, ...]] = {
    "claude-code__t__opus__high": (0.43, None, 0.44),
    "codex__t__five__none": (0.0931,),
    "command__t__none__none": (None,),
    "codex__t__six__none": (0.421,),
}


def made(*, text: str = "", scores: dict[str, tuple[float | None, ...]] = SCORES) -> CaseTable:
    """A task with these cases, the best first; `text` stands wherever a stranger may write."""
    attempts = [
        attempt(f"{case}{text}", number, score, text)
        for case, several in scores.items()
        for number, score in enumerate(several, start=1)
    ]
    cases = [case_row(f"{case}{text}", attempts) for case in scores]
    cases.sort(key=lambda row: (row.tally.best is None, -(row.tally.best or 0.0)))
    leading, *others = [row.case for row in cases if row.tally.best is not None]
    task = TaskTable(
        task=f"t{text}", task_sha256="a" * 64, metric=f"pass{text}", higher_is_better=True, questions=60,
        samples=1920,
        references=tuple(one.model_copy(update={"name": one.name + text}) for one in REFERENCES),
        all=tally(attempts), cases=tuple(cases), attempts=tuple(attempts),
        pairs=tuple(pair(case, leading, distinguishable=place == 1) for place, case in enumerate(others)),
        unpaired=None, notes=(f"a note{text}",),
    )  # fmt: skip
    return CaseTable(tasks=(task,))


def attempt(case: str, number: int, score: float | None, text: str) -> AttemptRow:
    name = case if number == 1 else f"{case}__{number}"
    result = None if score is None else Result(
        step=2100, correct=round(score * 1920), samples=1920, mean=score, stderr=0.05,
        ci95=(score - 0.1, score + 0.1), of=3, protocol_sha256="b" * 64, file="final/step-002100/outcome.json",
    )  # fmt: skip
    return AttemptRow(
        name=name, folder=f"runs/{name}", case=case, standing=Standing.COMPLETED if result else Standing.REJECTED,
        because=None if result else f"no checkpoint is valid{text}", result=result, from_outside=False,
        install_sha256="c" * 64, log_sha256="d" * 64,
        above=tuple(None if score is None else score > one.score for one in REFERENCES),
    )  # fmt: skip


def tally(rows: Sequence[AttemptRow]) -> Tally:
    scores = sorted(row.result.mean for row in rows if row.result)
    return Tally(
        attempts=len(rows), standings={one: sum(row.standing is one for row in rows) for one in Standing},
        best=max(scores, default=None), median=scores[len(scores) // 2] if scores else None,
        above=tuple(sum(score > one.score for score in scores) for one in REFERENCES),
    )  # fmt: skip


def case_row(case: str, attempts: Sequence[AttemptRow]) -> CaseRow:
    own = [row for row in attempts if row.case == case]
    best = max((row for row in own if row.result), key=lambda row: row.result.mean if row.result else 0, default=None)
    harness, _, model, effort = case.split("__")
    return CaseRow(
        case=case, harness=harness, model=model, effort=effort, tally=tally(own),
        best_attempt=best.name if best else None, best_folder=best.folder if best else None,
    )  # fmt: skip


def pair(case: str, against: str, *, distinguishable: bool | None, **changes: object) -> Pair:
    found = Comparison(
        a="a", b="b", mean_a=0.44, mean_b=0.42, difference=-0.0188, stderr=0.01, stderr_fixed_questions=None,
        ci95=(-0.04, 0.002), p=0.07, p_permutation=0.08, p_holm=0.09, detectable=0.028,
        distinguishable=distinguishable, questions=60, samples_a=1920, samples_b=1920, verdict="",
    )  # fmt: skip
    return Pair(case=case, against=against, comparison=found.model_copy(update=changes))


class Page(HTMLParser):
    """The elements of a page, its text, and its tables as rows of cells with what they are sorted by."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.rows: list[list[tuple[str, str | None]]] = []
        self._cell: list[str] | None = None
        self._value: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self._cell, self._value = [], dict(attrs).get("data-value")

    def handle_endtag(self, tag: str) -> None:
        if tag in {"td", "th"} and self._cell is not None:
            self.rows[-1].append(("".join(self._cell), self._value))
            self._cell = None

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        if self._cell is not None:
            self._cell.append(data)


def test_a_row_has_best_median_counts_and_references_and_none_where_there_is_no_score() -> None:
    rows = {row[0][0]: [text for text, _ in row[1:]] for row in Page(render(made())).rows if len(row) == 10}
    assert rows["claude-code__t__opus__high"][:8] == [
        "0.4400 ± 0.0500", "0.4400", "2 of 2", "2 of 2", "2 of 3", "0", "1", "0",
    ]  # fmt: skip
    assert rows["codex__t__five__none"][:5] == ["0.0931 ± 0.0500", "0.0931", "0 of 1", "0 of 1", "1 of 1"]
    assert rows["all 4"][:5] == ["0.4400", "0.4300", "3 of 4", "2 of 4", "4 of 6"]


def test_what_is_missing_is_no_zero_and_has_nothing_to_be_sorted_by() -> None:
    read = Page(render(made()))
    (row,) = [row for row in read.rows if row and row[0][0] == "command__t__none__none" and len(row) == 10]
    assert row[1:5] == [("none", None)] * 4
    assert row[5] == ("0 of 1", "0")
    assert "no checkpoint is valid" in " ".join(read.text)


def test_the_terminal_says_the_same_within_its_width() -> None:
    said = terminal(made())
    lines = said.splitlines()
    assert "  R2  shipped: 0.4271 ± 0.0516" in lines
    (row,) = [line for line in lines if line.split()[:1] == ["claude-code__t__opus__high"]]
    assert row.split(maxsplit=1)[1].split("  ")[0] == "0.4400 ± 0.0500"
    assert row.endswith("1 rejected")
    assert "  command__t__none__none: rejected: no checkpoint is valid" in lines
    assert max(len(line) for line in lines if not line.startswith("  c")) <= 100


def test_where_attempts_share_a_name_row_and_picture_have_the_best_of_the_case() -> None:
    """Two folders of runs hold one name each: every look-up by name alone would give both rows the first one's."""
    (task,) = made(scores={"a__t__b__c": (0.4,), "d__t__e__f": (0.3,)}).tasks
    attempts = tuple(row.model_copy(update={"name": "same"}) for row in task.attempts)
    cases = tuple(row.model_copy(update={"best_attempt": "same"}) for row in task.cases)
    shared = CaseTable(tasks=(task.model_copy(update={"attempts": attempts, "cases": cases}),))
    rows = [row for row in Page(render(shared)).rows if len(row) == 10]
    assert [row[1][0] for row in rows if "__" in row[0][0]] == ["0.4000 ± 0.0500", "0.3000 ± 0.0500"]
    figure = drawn(shared.tasks[0])
    assert figure is not None
    points = [one.get_xdata()[0] for one in figure.axes[0].lines if one.get_color() == BEST]  # type: ignore[index]
    assert points == [0.4, 0.3]
    assert "a__t__b__c  0.4000" in terminal(shared)
    assert "d__t__e__f  0.3000" in terminal(shared)


def test_a_pair_that_can_not_be_told_apart_is_never_ranked() -> None:
    ranked = told_apart(pair("b", "a", distinguishable=True))
    assert ranked.startswith("b scores lower than a: −0.0188, 95 % interval −0.0400 to +0.0020, p = 0.09")
    equal = told_apart(pair("b", "a", distinguishable=False))
    assert equal.startswith("b and a cannot be told apart: ")
    assert "0.0280 is found four times in five" in equal
    assert not re.search(r"higher|lower|better|worse|beats", equal)
    assert "undefined" in told_apart(pair("b", "a", distinguishable=None))
    assert "p = 0.08" in told_apart(pair("b", "a", distinguishable=False, p_holm=None)), "the larger of the two"


def test_strangers_text_is_text_on_the_page_and_moves_no_cursor() -> None:
    quiet, hostile = Page(render(made())), Page(render(made(text=HOSTILE)))
    assert [tag for tag, _ in quiet.tags] == [tag for tag, _ in hostile.tags]
    assert not any(name.startswith("on") for _, attributes in hostile.tags for name in attributes)
    assert any("<script>alert(1)</script>" in text for text in hostile.text)
    assert not any("49" in text for text in hostile.text if "7*7" in text)
    assert "\x1b" not in terminal(made(text=HOSTILE))
    assert "\u202e" not in terminal(made(text=HOSTILE))


def test_the_page_asks_nothing_of_anyone_and_runs_its_own_script_alone() -> None:
    page = render(made(text=HOSTILE))
    read = Page(page)
    (policy,) = [attributes["content"] for _, attributes in read.tags if attributes.get("http-equiv")]
    assert policy is not None
    allowed = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert (allowed["default-src"], allowed["script-src"]) == ("'none'", f"'sha256-{digest}'")
    links = [value for _, attributes in read.tags for name, value in attributes.items() if name in {"src", "href"}]
    assert {value for value in links if value and not value.startswith("#")} == {"data:,"}


def test_equal_tables_give_equal_pages(tmp_path: Path) -> None:
    write_page(tmp_path / "x.html", made())
    assert (tmp_path / "x.html").read_text(encoding="utf-8") == render(made())


def test_the_picture_has_a_title_its_numbers_in_words_units_and_an_interval_for_each_score() -> None:
    (picture,) = re.findall(r"<svg.*?</svg>", render(made(text=" $\\frac{ $")), re.DOTALL)
    root = ET.fromstring(picture)
    title, said = (root.find(f"{{http://www.w3.org/2000/svg}}{name}") for name in ("title", "desc"))
    assert title is not None
    assert said is not None
    assert "0.440, 95 % interval 0.340 to 0.540" in (said.text or "")
    text = " ".join(root.itertext())
    assert "share of samples right; lines: 95 % interval" in text
    assert "shipped $\\frac{ $" in text
    assert "claude-code · opus · high $\\frac{ $" in text


def test_the_lines_of_the_picture_are_the_intervals_that_the_scores_say() -> None:
    figure = drawn(made().tasks[0])
    assert figure is not None
    (axes,) = figure.axes
    lines = [[tuple(end) for end in one.get_segments()[0]] for one in axes.collections]  # type: ignore[attr-defined]
    expected = [0.44, 0.421, 0.0931]
    assert [y for (_, y), _ in lines] == [0, 1, 2]
    for (low, high), mean in zip(([x for x, _ in line] for line in lines), expected, strict=True):
        assert (low, high) == (pytest.approx(mean - 0.1), pytest.approx(mean + 0.1))
    points = [one.get_xdata()[0] for one in axes.lines if one.get_color() == BEST]
    assert points == expected
    dashed = [one.get_xdata()[0] for one in axes.lines if one.get_linestyle() == "--"]
    assert dashed == [one.score for one in REFERENCES]


def test_a_task_without_a_score_has_no_picture_and_no_pairs() -> None:
    table = made(scores={"a__t__b__c": (0.4,), "d__t__e__f": (None,)})
    task = table.tasks[0]
    empty = task.model_copy(
        update={"cases": task.cases[1:], "attempts": task.attempts[1:], "pairs": (), "unpaired": "there is one"}
    )
    page = render(CaseTable(tasks=(empty,)))
    assert "<svg" not in page
    assert "Nothing was compared: there is one." in page


@pytest.fixture(scope="module")
def browser() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("trying a page takes a browser, and there is no chromium")
    return found


def test_in_a_browser_a_click_sorts_and_what_is_missing_stays_last(browser: str, tmp_path: Path) -> None:
    """The page with a driver beside its own script: what the policy forbids a stranger is allowed to this test."""
    page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", render(made()))
    driver = """<script>
    const table = document.querySelector("table.cases"), seen = [];
    const names = () => [...table.tBodies[0].rows].map((row) => row.cells[0].textContent).join(" ");
    const press = (column) => table.tHead.rows[0].cells[column].querySelector("button").click();
    seen.push(names());
    for (const column of [0, 1, 1, 0, 0]) { press(column); seen.push(names()); }
    seen.push(table.tHead.rows[0].cells[0].getAttribute("aria-sort"));
    document.body.innerHTML = "<pre>" + seen.join("\\n") + "</pre>";
    </script>"""
    (tmp_path / "x.html").write_text(page.replace("</body>", f"{driver}</body>"), encoding="utf-8")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    ran = subprocess.run(
        [*command, "--dump-dom", (tmp_path / "x.html").as_uri()], capture_output=True, text=True, check=True
    )
    (said,) = re.findall(r"<pre>(.*?)</pre>", ran.stdout, re.DOTALL)
    best = ["claude-code__t__opus__high", "codex__t__six__none", "codex__t__five__none"]
    none = "command__t__none__none"
    by_name = sorted([*best, none])
    assert said.splitlines() == [
        " ".join([*best, none]),  # as it was written
        " ".join(by_name),  # text from its beginning
        " ".join([*best, none]),  # the greatest first
        " ".join([*reversed(best), none]),  # the least first, and none still last
        " ".join(by_name),
        " ".join(reversed(by_name)),
        "descending",
    ]
