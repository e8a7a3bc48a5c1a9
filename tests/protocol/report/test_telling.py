"""What a candidate says of its own end is its claim; what is established is not listed as what is not shown."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace as with_changes
from typing import Any

import pytest
from tests.protocol.report.conftest import Told, make_report, seal_audit

from opd.protocol.attempts.evidence import Evidence
from opd.protocol.attempts.state import status
from opd.protocol.clock import now
from opd.protocol.report.book import Book
from opd.protocol.report.comparing import Compared, Pair
from opd.protocol.report.drawing import drawn
from opd.protocol.report.exploring import Command
from opd.protocol.report.finals import references
from opd.protocol.report.formal import separated, used
from opd.protocol.report.marks import unmarked
from opd.protocol.report.pen import Pen
from opd.protocol.report.remarks import remarks
from opd.protocol.report.saying import Said
from opd.protocol.report.sources import Fact, Sources
from opd.protocol.report.story import label, story
from opd.protocol.report.telling import conduct, not_shown, shows
from opd.protocol.report.trainings import Match
from opd.protocol.report.units import explored
from opd.records.attempts import Explored, Stage

NO_TIME_LEFT = "no time was left unused by choice"
Change = Callable[..., Pen]


def fact(value: Any) -> Fact:
    return Fact(value=value, file="formal/attempt-002/outcome.json", pointer="", sha256="0" * 64)


@pytest.fixture
def pen(told: Told, tmp_path) -> Pen:
    attempt = told.attempt
    found = story(attempt, Sources(attempt.folder, tmp_path), Evidence(attempt, now()), status(attempt))
    return Pen(story=found, book=Book(), compared=Compared())


def judged(pen: Pen, axis: str, verdict: str | None) -> Pen:
    """The same with an audit that says this of one axis, and nothing of another."""
    findings = [{"axis": axis, "verdict": verdict}] if verdict else []
    return with_changes(pen, story=with_changes(pen.story, audit=fact({"findings": findings})))


def ended(pen: Pen, stop: str) -> str:
    return unmarked(used(pen, fact({"stop": stop, "seconds": 6.0, "given_seconds": 150.0}))).text


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("none_found", f"`wall_clock`, which the time that it used bears out: {NO_TIME_LEFT}."),
        ("confirmed", "`wall_clock`, which the time that it used does not bear out: what was left of the time"),
        ("suspected", "`wall_clock`, which the time that it used does not bear out: what was left of the time"),
        ("not_assessed", "`wall_clock`, which was held against nothing."),
        (None, "`wall_clock`, which was held against nothing."),
    ],
)
def test_that_the_clock_stopped_a_run_is_its_own_word_unless_the_time_bears_it_out(pen, verdict, words):
    assert pen.story.formal_file("run.json").value["stop"] == "wall_clock", "the candidate says so"
    said = ended(judged(pen, "budget_use", verdict), "by_itself")
    assert "(4 %) and ended by itself; its own record says " in said
    assert words in said
    assert (NO_TIME_LEFT in said) == (verdict == "none_found")


def test_a_run_that_was_seen_to_be_stopped_by_the_clock_needs_no_word_of_its_own(pen):
    assert f"and was stopped by the wall clock: {NO_TIME_LEFT}." in ended(
        judged(pen, "budget_use", None), "wall_clock"
    )


@pytest.mark.parametrize(
    ("verdict", "words"), [("suspected", "separation: **suspected**."), (None, "it says nothing of that.")]
)
def test_what_reached_formal_training_is_said_by_the_audit_alone(pen, verdict, words):
    assert unmarked(separated(judged(pen, "explore_formal_separation", verdict))).text.endswith(words)


@pytest.mark.parametrize("apart", [True, False])
def test_a_difference_that_is_established_is_shown_and_one_that_is_not_is_not(pen, apart):
    adopted, greatest = pen.story.adopted, pen.story.greatest
    assert adopted is not greatest
    found = fact({"distinguishable": apart, "difference": -0.005, "questions": 500, "p": 0.01, "ci95": None})
    pair = Pair(of="proxy", a=label(greatest), b=label(adopted), found=found, match=Match(unknown="none is known"))
    pen = with_changes(pen, compared=Compared(pairs=(pair,)))
    shown, doubts = (unmarked(" ".join(said(pen))).text for said in (shows, not_shown))
    assert ("U-04 (proxy 4) scored lower than U-02 (proxy 2)" in shown) == apart
    assert "scored lower" not in doubts
    assert ("any difference between U-04 (proxy 4) and U-02 (proxy 2)" in doubts) == (not apart)


@pytest.mark.parametrize("apart", [True, False])
def test_what_was_handed_in_is_set_beside_its_own_matched_control(pen, apart):
    """Whatever it is beside the greatest: that it can't be told from its control is what section 7 owes first."""
    adopted, control = pen.story.adopted, pen.story.baseline
    found = fact({"distinguishable": apart, "difference": 0.0195, "questions": 500, "p": 0.12, "ci95": None})
    match = Match(hunks=("a hunk",), same_steps=True)
    pair = Pair(of="proxy", a=label(control), b=label(adopted), found=found, match=match)
    pen = with_changes(pen, compared=Compared(pairs=(pair,)))
    shown, doubts = (unmarked(" ".join(said(pen))).text for said in (shows, not_shown))
    words = f"{pen.story.unit_of(adopted).id} (proxy 4) and {pen.story.unit_of(control).id} (proxy 1)"
    assert (f"any difference between {words}, because they cannot be told apart" in doubts) == (not apart)
    assert ("U-04 (proxy 4) scored higher than U-01 (proxy 1)" in shown) == apart


@pytest.mark.parametrize("text", ['on-device bash run.sh "${settings[@]}"', "on-device bash run.sh --set a=1"])
def test_a_command_with_variables_is_told_with_the_program_that_it_started(pen, text):
    unit = pen.story.explored.units[0]
    folder = unit.measured.training.folder
    programs = tuple(
        map(fact, ("python -m opd train x.toml", f"python -m opd train a.toml --out {folder} --set a=1"))
    )
    ran = Command(words=fact(text), begin=1.0, end=2.0, programs=programs)
    units = (with_changes(unit, commands=(ran,)),)
    found = with_changes(pen.story.explored, units=units)
    said = unmarked(explored(with_changes(pen, story=with_changes(pen.story, explored=found)))).text
    assert (f"variables filled in `{programs[1].value}`." in said) == ("$" in text)
    assert "x.toml" not in said


def beside(pen: Pen, **changes: Any) -> str:
    """The official result beside a single reference that the task declares."""
    record = pen.story.official.tried.outcome.value
    declared = {
        "name": "start",
        "of": "final",
        "samples": record["samples"],
        "correct": None,
        "stderr": None,
    } | changes
    task = fact({"metadata": {"opd": {"references": [declared]}}})
    return unmarked(" ".join(references(with_changes(pen, story=with_changes(pen.story, task=task))))).text


def test_as_many_correct_answers_as_a_reference_are_said_to_be_as_many(pen):
    said = beside(pen, score=809 / 1_920, correct=809, stderr=0.05)
    assert said.endswith(": as many correct answers.")


def test_a_distance_is_set_beside_the_errors_of_both_or_it_is_said_that_one_has_none(pen):
    mine, error = 809 / 1_920, 0.051593
    z = (mine - 0.5) / math.hypot(error, 0.05)
    assert f"below it (unpaired z −{abs(z):.2f}, of both clustered errors)" in beside(pen, score=0.5, stderr=0.05)
    alone = f"below it by {(0.5 - mine) / error:.2f} of the result's own clustered errors"
    assert f"{alone} (the reference has none of its own)" in beside(pen, score=0.5)


def test_notes_and_the_words_of_the_submission_are_quoted_without_a_measurement(lab):
    lines = [
        {
            "command": "note",
            "arguments": {"text": text, "about": None},
            "exit": 0,
            "began": "2026-01-31T12:00:00.000Z",
        }
        for text in ("the rows are never shuffled", "a second thought")
    ]
    with lab.trying(lab.attempt.next(Stage.EXPLORE), {"base": lab.attempt.identity.base_sha256}) as this:
        (this.folder / "desk.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        here, lab.holder = lab.holder, this._holder
        lab.submit(explored_in=this.place.name, note="shuffled, by hand")
        lab.holder = here
        this.end(Explored.SUBMITTED)
    seal_audit(lab.attempt)
    make_report(lab.attempt)
    text = (lab.folder / "report/attempt-001/analysis.md").read_text()
    assert "> the rows are never shuffled\n>\n> — `explore/attempt-001/desk.jsonl`, line 1" in text
    assert "> a second thought" in text
    assert "The explorer submitted what it handed in as “shuffled, by hand”." in text
    assert "Not established: what the submitted change is worth, because there is no official score." in text


def test_a_note_stands_in_its_unit_and_what_has_no_room_there_stands_behind_the_units(pen):
    explored = pen.story.explored
    own = [
        Said(words=with_changes(fact(f"thought {number}"), pointer=f"/{number}"), at=0.0, is_note=True, about="4")
        for number in range(4)
    ]
    found = with_changes(explored, said=tuple(own))
    assert [one.value for one in found.words(found.units[3]).motivation] == [
        f"thought {number}" for number in range(4)
    ]
    assert re.findall(r"^> (thought .)", unmarked(remarks(pen, found)).text, re.MULTILINE) == ["thought 3"]
    assert remarks(pen, with_changes(explored, said=tuple(own[:3]))) == ""


def without_gpu(pen: Pen) -> Pen:
    """The same of a task that takes none."""
    task = json.loads(json.dumps(pen.story.task.value))
    task["metadata"]["opd"]["needs"]["gpus"] = 0
    return with_changes(pen, story=with_changes(pen.story, task=with_changes(pen.story.task, value=task)))


def test_for_how_long_a_processor_was_idle_is_not_told(pen):
    """The explorer's own program runs on it: that something ran tells nothing of the device."""
    of_gpu, of_processor = (unmarked(explored(one)).text for one in (pen, without_gpu(pen)))
    assert re.search(r"The device did nothing in \d+ min( \d+ s)? of it \(\d+(\.\d+)? %\)\.", of_gpu)
    assert "did nothing" not in of_processor
    assert "for how long the device was idle is not told" in of_processor
    assert [drawn(one).exploring.device for one in (pen, without_gpu(pen))] == ["GPU", "processor"]


def test_what_was_left_is_the_submissions_own_figure_in_the_texts_and_in_the_picture(told):
    """The explorer's program ends a moment later, and the budget less its use is another number."""
    drawn_from = told.report.exploring
    assert drawn_from.left_seconds == 3_289
    assert drawn_from.given_seconds - drawn_from.used_seconds == pytest.approx(3_288.6)
    assert "with 3,289 s left" in told.analysis
    assert "3,288" not in told.analysis


@pytest.mark.parametrize(("left", "whole"), [(1_759.0, 1), (3_289.0, 1), (3_518.0, 2), (30_000.0, 17)])
def test_only_whole_trainings_would_have_fitted(pen, left, whole):
    """As the timer and the audit count them: with its measurement the shortest took 1,759 s."""
    submission = fact({**pen.story.submission.value, "remaining_seconds": left})
    said = unmarked(" ".join(conduct(with_changes(pen, story=with_changes(pen.story, submission=submission))))).text
    assert f"had taken 1,759 s: {whole} more in full would have fitted" in said
