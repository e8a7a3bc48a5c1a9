"""Each way in which an attempt can end, and what it counts as: a missing score is a reason, never a zero."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opd.protocol.cases.table import table
from opd.protocol.clock import now
from opd.records.attempts import Explored, Replayed, Validated
from opd.records.cases import AttemptRow, Standing


def row(lab: Any) -> AttemptRow:
    return table([lab.folder], at=now()).tasks[0].attempts[0]


def counts_as(lab: Any) -> Standing:
    found = row(lab)
    assert (found.result is None) is (found.standing is not Standing.COMPLETED)
    assert (found.because is None) is (found.standing is Standing.COMPLETED)
    return found.standing


def test_what_goes_on_is_open(new_case: Callable[..., Any]) -> None:
    lab = new_case("a")
    assert counts_as(lab) is Standing.OPEN
    lab.explore()
    assert counts_as(lab) is Standing.OPEN
    lab.formal(Replayed.AMBIGUOUS)
    assert counts_as(lab) is Standing.OPEN, "a person has to rule"
    lab.rule("infrastructure")
    lab.formal(steps=(10,))
    assert counts_as(lab) is Standing.OPEN, "the checkpoint was not checked"


@pytest.mark.parametrize(
    ("ended", "standing"),
    [
        (Explored.NO_CANDIDATE, Standing.TERMINAL),
        (Explored.ENDED_EARLY, Standing.TERMINAL),
        (Explored.AGENT_ERROR, Standing.TERMINAL),
        (Explored.DEADLINE, Standing.TERMINAL),
        (Explored.CANCELLED, Standing.INFRASTRUCTURE),
        (Explored.INFRA_FAILED, Standing.OPEN),
    ],
)
def test_an_exploration_without_a_submission(
    new_case: Callable[..., Any], ended: Explored, standing: Standing
) -> None:
    lab = new_case("a")
    lab.explore(ended)
    assert counts_as(lab) is standing


@pytest.mark.parametrize(
    ("asked", "refused", "standing"),
    [
        ([{"check": False}], True, Standing.REJECTED),
        ([{"check": True}], True, Standing.TERMINAL),  # it only asked
        ([], True, Standing.TERMINAL),
        ([{"check": False}], False, Standing.TERMINAL),  # what stood there at the end would have been one
    ],
)
def test_a_submission_that_was_refused_to_the_end_is_rejected(
    new_case: Callable[..., Any], asked: list[dict[str, Any]], refused: bool, standing: Standing
) -> None:
    lab = new_case("a")
    with lab.trying(lab.attempt.next("explore"), {"base": lab.attempt.identity.base_sha256}) as this:
        lines = [{"command": "submit", "arguments": arguments, "exit": 1} for arguments in asked]
        (this.folder / "desk.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        if refused:
            (this.folder / "recovery-refused.json").write_text("[]\n")
        this.end(Explored.DEADLINE, because="the budget ended")
    assert counts_as(lab) is standing


def test_a_candidate_that_fails_is_terminal_and_a_machine_that_fails_to_the_end_is_not(
    new_case: Callable[..., Any],
) -> None:
    failed = new_case("a")
    failed.explore()
    failed.formal(Replayed.FAILED_CANDIDATE)
    assert counts_as(failed) is Standing.TERMINAL
    machine = new_case("b", formal_retries=1)
    machine.explore()
    machine.formal(Replayed.INFRA_FAILED)
    assert counts_as(machine) is Standing.OPEN, "there is a further try"
    machine.formal(Replayed.INFRA_FAILED)
    assert counts_as(machine) is Standing.INFRASTRUCTURE


def test_no_checkpoint_is_terminal_and_none_that_is_valid_is_rejected(new_case: Callable[..., Any]) -> None:
    none = new_case("a")
    none.explore()
    none.formal(steps=())
    assert counts_as(none) is Standing.TERMINAL
    invalid = new_case("b")
    invalid.explore()
    invalid.formal(steps=(10, 20))
    for step in (10, 20):
        invalid.validate(step, Validated.INVALID)
    assert counts_as(invalid) is Standing.REJECTED
    assert row(invalid).because == "no checkpoint is valid"


@pytest.mark.parametrize(("seconds", "standing"), [(1e9, Standing.TERMINAL), (1.0, Standing.INFRASTRUCTURE)])
def test_a_final_that_had_all_its_time_is_the_candidates_and_one_whose_program_broke_is_not(
    new_case: Callable[..., Any], seconds: float, standing: Standing
) -> None:
    lab = new_case("a")
    lab.explore()
    lab.formal(steps=(10,))
    lab.validate(10)
    lab.final(10, None, seconds=seconds)
    assert counts_as(lab) is standing
    assert "it broke" in (row(lab).because or "")


def test_a_score_is_completed_whatever_else_failed(
    new_case: Callable[..., Any], score: Callable[..., None], tmp_path: Path
) -> None:
    lab = new_case("a")
    score(lab, [2] * 20)
    assert counts_as(lab) is Standing.COMPLETED
