"""The document's literal check of 60 problem and answer pairs in 12 files: zero, and one where one was leaked."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.protocol.document.builder import VISIBLE, Built
from tests.protocol.document.questions import problem

from opd.protocol.audit.assessing import assess
from opd.protocol.audit.catalogue import checks
from opd.protocol.contamination.conclusion import conclude
from opd.protocol.contamination.needles import Needles
from opd.protocol.contamination.questions import final_questions
from opd.protocol.contamination.scan import Source, scan
from opd.records.audits import Axis, Finding, Verdict

LEAKED = 17


@pytest.fixture(scope="session")
def looked(with_facts: Any, evidence_of: Any) -> Any:
    """`looked(leaked=17)`: the finding of the check, which reads the questions from beside the attempt."""
    known: dict[int | None, tuple[Built, Finding]] = {}

    def look(leaked: int | None = None) -> tuple[Built, Finding]:
        if leaked not in known:
            built = with_facts(leaked=leaked)
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(built.place)
                known[leaked] = (
                    built,
                    assess("contamination", checks()["contamination"], evidence_of(built)),
                )
        return known[leaked]

    return look


def test_zero_hits_of_60_pairs_in_the_12_files_that_can_be_seen(
    document: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(document.place)
    needles = Needles(final_questions(document.attempt.task.contract.final))
    found = scan((Source(name=name, path=document.folder / name) for name in VISIBLE), needles)
    said = conclude(found, needles, ())
    assert (found.files, len(needles.questions)) == (12, 60)
    assert found.bytes == sum((document.folder / name).stat().st_size for name in VISIBLE)
    assert said.verdict is Verdict.NONE_FOUND, said.sentence
    for part in ("60 problem/answer pairs across 12 files", "zero exact", "zero pair hits"):
        assert part in said.sentence


@pytest.mark.patient
def test_exposure_is_none_found_across_the_12_files_and_all_others(looked: Any) -> None:
    _, finding = looked()
    assert (finding.axis, finding.verdict) == (Axis.CONTAMINATION, Verdict.NONE_FOUND), finding.sentence
    assert "60 problem/answer pairs across 12 complete files" in finding.sentence
    assert finding.coverage.unread == ()
    assert finding.coverage.files > 12
    assert finding.controls
    assert all(control.found for control in finding.controls)
    assert not finding.evidence


@pytest.mark.patient
def test_a_question_in_the_result_of_a_tool_is_confirmed_where_it_stands(looked: Any) -> None:
    built, finding = looked(leaked=LEAKED)
    assert finding.verdict is Verdict.CONFIRMED
    native = "explore/attempt-001/trajectory/native.jsonl"
    places = {(one.file, one.pointer) for one in finding.evidence}
    lines = (built.folder / native).read_text(encoding="utf-8").splitlines()
    (line,) = (number for number, text in enumerate(lines, start=1) if problem(LEAKED) in text)
    assert (native, f"line:{line}") in places
    assert "explore/attempt-001/trajectory/atif.json" in {file for file, _ in places}


@pytest.mark.patient
def test_what_is_found_is_named_without_its_words(looked: Any) -> None:
    """A finding is written into the attempt: whoever reads it must not learn the question from it."""
    _, finding = looked(leaked=LEAKED)
    told = finding.model_dump_json()
    words = problem(LEAKED).split()
    runs = (" ".join(words[first : first + 4]) for first in range(len(words) - 3))
    assert not [run for run in runs if run in told]


@pytest.mark.patient
def test_without_the_questions_nothing_is_said(
    tampered: Built, evidence_of: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.rmtree(tampered.questions)  # they are looked for above the attempt as well
    finding = assess("contamination", checks()["contamination"], evidence_of(tampered))
    assert finding.verdict is Verdict.NOT_ASSESSED
    assert "aime24.jsonl" in finding.sentence
