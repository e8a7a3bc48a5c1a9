"""Where what lies, and which numbers are free."""

from pathlib import Path
from typing import Any

import pytest

from opd.protocol.attempts.attempt import TASK_LOCK, Attempt
from opd.records.attempts import Explored, Stage
from opd.records.errors import AskedWrongly
from opd.records.receipts import begin


def test_a_folder_without_a_run_is_no_attempt(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match=r"is no attempt: it has no run\.json"):
        Attempt(tmp_path)


def test_a_number_is_never_given_twice_whatever_became_of_it(lab: Any) -> None:
    """faults H14, H17."""
    assert lab.attempt.next(Stage.EXPLORE).name == "explore/attempt-001"
    lab.explore(Explored.DEADLINE)
    begin(lab.attempt.next(Stage.EXPLORE).folder)
    assert lab.attempt.next(Stage.EXPLORE).name == "explore/attempt-003"
    assert [place.name for place in lab.attempt.places(Stage.EXPLORE)] == [
        "explore/attempt-001",
        "explore/attempt-002",
    ]


def test_numbers_are_numbers_and_not_names(lab: Any) -> None:
    """faults H26."""
    for step in (9, 10, 100, 2_000_000):
        begin(lab.attempt.place(Stage.VALIDATION, step).folder)
    assert [place.number for place in lab.attempt.places(Stage.VALIDATION)] == [9, 10, 100, 2_000_000]


def test_names_that_are_not_the_protocols_are_no_tries(lab: Any) -> None:
    for name in ("attempt-1", "attempt-0001", "step-000001", "attempt-001x", "notes"):
        (lab.folder / "formal" / name).mkdir(parents=True)
    assert lab.attempt.places(Stage.FORMAL) == ()
    assert lab.status.state == "new"


def test_a_task_that_was_changed_afterwards_is_refused(lab: Any) -> None:
    """faults H15: and nothing is touched."""
    path = lab.folder / TASK_LOCK
    path.write_text(path.read_text().replace("arith_pass_at_1", "arith_pass_at_2"))
    with pytest.raises(AskedWrongly, match="an attempt keeps its task"):
        _ = Attempt(lab.folder).task
