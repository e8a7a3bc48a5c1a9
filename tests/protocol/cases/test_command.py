"""`opd cases` as it is typed: what it prints, what it writes, and how it ends."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opd.cli.main import run
from opd.records.attempts import Explored
from opd.records.cases import CaseTable
from opd.records.settings import validated


@pytest.fixture
def runs(new_case: Callable[..., Any], score: Callable[..., None]) -> Path:
    """A case with a score, and one that ended without."""
    score(new_case("scored"), [3] * 20)
    ended = new_case("ended")
    ended.explore(Explored.AGENT_ERROR)
    return Path(ended.folder.parent)


def test_it_prints_a_table_or_one_object_and_writes_a_page_once(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "cases.html"
    assert run(["cases", str(runs), "--html", str(page)]) == 0
    said = capsys.readouterr().out
    assert "command__arith_tiny__scored__none  0.7500" in said
    assert "command__arith_tiny__ended__none: terminal: nothing was submitted" in said
    assert f"→ {page}" in said
    assert "0.7500" in page.read_text(encoding="utf-8")
    before = page.read_bytes()
    assert run(["cases", str(runs), "--html", str(page)]) == 2
    assert "never overwritten" in capsys.readouterr().err
    assert page.read_bytes() == before
    assert run(["cases", str(runs), "--json"]) == 0
    made = validated(CaseTable, json.loads(capsys.readouterr().out), source="opd cases")
    assert made.tasks[0].cases[0].case == "command__arith_tiny__scored__none"


def test_what_does_not_hold_is_named_and_nothing_is_printed_or_written(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs / "command__arith_tiny__ended__none" / "explore" / "attempt-001" / "more").write_text("x")
    assert run(["cases", str(runs), "--html", str(tmp_path / "x.html")]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "1 of 2 attempts do not hold" in said.err
    assert "command__arith_tiny__ended__none" in said.err
    assert not (tmp_path / "x.html").exists()


def test_nothing_to_look_at_is_asked_wrongly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cases", str(tmp_path)]) == 2
    assert "give attempts, or a folder that they lie in" in capsys.readouterr().err
