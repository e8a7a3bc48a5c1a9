"""A try ends, whatever happens in it, and says how."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from opd.protocol.attempts.lease import held, read_lease
from opd.protocol.attempts.tries import FAILURE, a_try, mark_left, seal_left
from opd.protocol.clock import Instant, now
from opd.records.attempts import Due, Explored, Handed, Liveness, Replayed, Stage, Validated
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import COMPLETE, PARTIAL
from opd.records.receipts import RECEIPT, begin, faults, is_sealed, read_receipt

FACTS = Due(stage=Stage.FORMAL, name=None, because="any record will do")
LEFT = (Replayed.INTERRUPTED, "its orchestrator died")


def try_and(lab: Any, place: Any, *does: Callable[[Any], object]) -> None:
    """A try of this place in which these things happen, one after the other."""
    with held(lab.folder) as holder, a_try(lab.attempt, holder, place, made_from={}) as this:
        for do in does:
            do(this)


def breaks(error: BaseException) -> Callable[[Any], object]:
    """What raises this."""

    def do(_: Any) -> None:
        raise error

    return do


def events_of(lab: Any, name: str) -> list[str]:
    return [event.kind for event in lab.attempt.events.read() if event.actor == name]


def test_a_try_leaves_a_receipt_that_says_what_it_was_made_from_and_where_the_log_stood(lab: Any) -> None:
    place = lab.attempt.next(Stage.FORMAL)
    with held(lab.folder) as holder, a_try(lab.attempt, holder, place, made_from={"patch": "5" * 64}) as this:
        (this.folder / "stdout.log").write_text("1\n")
        this.end(Replayed.COMPLETED, FACTS, because="all steps done")
    receipt = read_receipt(place.folder)
    assert receipt.made_from == {"task": lab.attempt.identity.task_sha256, "patch": "5" * 64}
    assert (receipt.kind, receipt.outcome, receipt.because) == ("formal", "completed", "all steps done")
    assert [entry.path for entry in receipt.files] == ["outcome.json", "stdout.log"]
    assert events_of(lab, place.name) == ["began", "ended", "sealed"]
    assert lab.attempt.events.read()[receipt.events.seq - 1].kind == "ended"
    assert faults(place.folder) == ()


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (KeyboardInterrupt(), Replayed.INTERRUPTED),
        (OSError(70, "Communication error on send", "/shared/x"), Replayed.INFRA_FAILED),
        (ZeroDivisionError("a bug\nof ours"), Replayed.INFRA_FAILED),
    ],
)
def test_an_exception_ends_a_try_is_written_down_and_goes_on_upwards(
    lab: Any, error: BaseException, outcome: Replayed
) -> None:
    """faults H14, H22: no exception of ours is a result."""
    place = lab.attempt.next(Stage.FORMAL)
    with pytest.raises(type(error)):
        try_and(lab, place, lambda this: (this.folder / "evidence.log").write_text("kept"), breaks(error))
    receipt = read_receipt(place.folder)
    assert receipt.outcome == outcome
    assert receipt.because is not None
    assert receipt.because.startswith(type(error).__name__)
    assert "\n" not in receipt.because
    raised = json.loads((place.folder / FAILURE).read_text())
    assert raised[0]["errno"] == getattr(error, "errno", None)
    assert (place.folder / "evidence.log").read_text() == "kept"
    assert faults(place.folder) == ()


def test_an_outcome_that_could_not_be_written_is_not_the_outcome(lab: Any, full_disk: Any) -> None:
    """The disk is full in the midst of outcome.json: what is sealed says so, and not that it completed."""
    place = lab.attempt.next(Stage.FORMAL)
    big = FACTS.model_copy(update={"because": "x" * 200_000})

    def end(this: Any) -> None:
        with full_disk(100_000):
            this.end(Replayed.COMPLETED, big)

    with pytest.raises(OSError, match="File too large"):
        try_and(lab, place, end)
    assert read_receipt(place.folder).outcome == Replayed.INFRA_FAILED
    assert not (place.folder / "outcome.json").exists()


def test_a_place_that_is_taken_is_refused_and_nothing_is_said(lab: Any) -> None:
    """faults H15."""
    place = lab.attempt.next(Stage.FORMAL)
    begin(place.folder)
    before = lab.attempt.events.head()
    with pytest.raises(AskedWrongly, match="was begun already"):
        try_and(lab, place, lambda _: pytest.fail("two in one place"))
    assert lab.attempt.events.head() == before


def test_the_lease_says_where_it_is_until_the_folder_is_sealed(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    place = lab.attempt.next(Stage.FORMAL)
    seen = []
    from opd.protocol.attempts import tries

    real = tries.seal

    def look(*arguments: Any) -> Any:
        lease = read_lease(lab.folder)
        seen.append(lease.at if lease else None)
        return real(*arguments)

    monkeypatch.setattr(tries, "seal", look)
    with held(lab.folder) as holder, a_try(lab.attempt, holder, place, made_from={}) as this:
        this.end(Replayed.COMPLETED)
    assert seen == [(place.name,)]


def test_a_validation_that_broke_off_goes_on_in_its_folder_and_counts_both_parts(lab: Any) -> None:
    """faults H16, H21: what was done is there, and is not done again."""
    place = lab.attempt.place(Stage.VALIDATION, 10)

    def half(this: Any) -> None:
        (this.folder / "half.json").write_text("1")
        this.watch.began = earlier(this.watch.began, 40)

    with pytest.raises(OSError, match="shared"):
        try_and(lab, place, half, breaks(OSError("shared disk")))
    assert not place.folder.exists()
    with held(lab.folder) as holder, a_try(lab.attempt, holder, place, made_from={}) as this:
        assert (this.folder / "half.json").read_text() == "1"
        assert 40 <= this.before_seconds < 50
        this.watch.began = earlier(this.watch.began, 20)
        this.end(Validated.VALID)
    receipt = read_receipt(place.folder)
    assert 60 <= receipt.active_seconds < 75
    assert receipt.began_utc == lab.attempt.events.read()[1].at.utc, "it began when its first part began"
    assert events_of(lab, place.name) == ["began", "stopped", "went_on", "ended", "sealed"]


def earlier(at: Instant, seconds: float) -> Instant:
    return at.model_copy(update={"monotonic": at.monotonic - seconds})


def killed(lab: Any, place: Any, *, at: Instant, heard: float, ended: bool = False) -> None:
    """What is left of a try that began at this moment and was last heard of so many seconds later."""
    lab.attempt.events.add("began", actor=place.name, at=at, name=place.name, made_from={"task": "7" * 64})
    begin(place.folder)
    if ended:
        lab.attempt.events.add("ended", actor=place.name, outcome="completed", because=None, active_seconds=heard)
    with held(lab.folder) as holder, holder.at(place.name):
        lease = read_lease(lab.folder)
        assert lease is not None
        left = lease.model_copy(
            update={
                "heard": at.model_copy(update={"monotonic": at.monotonic + heard}),
                "holder": lease.holder.model_copy(update={"start_ticks": 1}),
            }
        )
    (lab.folder / "lease.json").write_text(json.dumps(left.resolved()))


def test_a_try_that_was_killed_had_used_what_was_heard_of_it(lab: Any) -> None:
    """faults H10: neither nothing, nor the hours until somebody looked."""
    place = lab.attempt.next(Stage.FORMAL)
    began = earlier(now(), 10_000)
    killed(lab, place, at=began, heard=700)
    with held(lab.folder) as holder:
        receipt = seal_left(lab.attempt, holder, place, outcome=LEFT)
    assert (receipt.outcome, receipt.because) == LEFT
    assert receipt.active_seconds == pytest.approx(700, abs=2)
    assert receipt.began_utc == began.utc
    assert receipt.made_from["task"] == "7" * 64, "as it was begun"


def test_a_validation_that_was_killed_goes_on_with_what_it_had_used(lab: Any) -> None:
    place = lab.attempt.place(Stage.VALIDATION, 10)
    killed(lab, place, at=earlier(now(), 10_000), heard=50)
    with held(lab.folder) as holder, a_try(lab.attempt, holder, place, made_from={}) as this:
        assert this.before_seconds == pytest.approx(50, abs=2)
        this.end(Validated.VALID)


def test_a_try_that_was_at_its_end_is_sealed_as_what_it_ended_as(lab: Any) -> None:
    """Twelve hours of training are not repeated because the last second was missing."""
    place = lab.attempt.next(Stage.FORMAL)
    killed(lab, place, at=earlier(now(), 10_000), heard=700, ended=True)
    with held(lab.folder) as holder:
        receipt = seal_left(lab.attempt, holder, place, outcome=LEFT)
    assert (receipt.outcome, receipt.because, receipt.active_seconds) == (
        "completed",
        None,
        pytest.approx(700, abs=2),
    )


def test_what_a_seal_that_was_killed_left_of_its_receipt_is_not_sealed_in(lab: Any) -> None:
    place = lab.attempt.next(Stage.FORMAL)
    killed(lab, place, at=now(), heard=0)
    for name in (RECEIPT, f"{RECEIPT}{PARTIAL}"):
        (place.partial / name).write_text("half")
        (place.partial / name).chmod(0o444)
    with held(lab.folder) as holder:
        receipt = seal_left(lab.attempt, holder, place, outcome=LEFT)
    assert [entry.path for entry in receipt.files] == []
    assert faults(place.folder) == ()


def test_a_folder_that_lacks_its_mark_or_its_line_is_marked_and_said_once(lab: Any) -> None:
    lab.explore(Explored.DEADLINE)
    folder = lab.folder / "explore/attempt-001"
    (folder / COMPLETE).unlink()
    assert lab.status.tries[0].liveness is Liveness.UNMARKED
    mark_left(lab.attempt, lab.attempt.place(Stage.EXPLORE, 1))
    mark_left(lab.attempt, lab.attempt.place(Stage.EXPLORE, 1))
    assert is_sealed(folder)
    assert events_of(lab, "explore/attempt-001").count("sealed") == 1
    assert lab.status.contradictions == ()


def test_a_mark_that_does_not_fit_is_no_crash_and_is_not_mended(lab: Any) -> None:
    lab.explore(Explored.DEADLINE)
    folder = lab.folder / "explore/attempt-001"
    (folder / COMPLETE).write_text("{}")
    with pytest.raises(AnswerIsNo, match="a mark that does not fit"):
        mark_left(lab.attempt, lab.attempt.place(Stage.EXPLORE, 1))
    assert (folder / COMPLETE).read_text() == "{}"


def test_an_error_while_a_submission_is_sealed_takes_nobodys_place(lab: Any) -> None:
    with pytest.raises(OSError, match="full"):
        try_and(lab, lab.attempt.submission, breaks(OSError("full")))
    assert not lab.attempt.submission.folder.exists()
    assert lab.status.tries[0].liveness is Liveness.LEFT


def test_a_try_within_another_ends_without_ending_the_other(lab: Any) -> None:
    """An exploration hands in while it goes on."""
    place = lab.attempt.next(Stage.EXPLORE)
    with held(lab.folder) as holder, a_try(lab.attempt, holder, place, made_from={}) as this:
        with a_try(lab.attempt, holder, lab.attempt.submission, made_from={}) as inner:
            inner.end(Handed.SEALED)
        lease = read_lease(lab.folder)
        assert lease is not None
        assert lease.at == (place.name,)
        assert lab.status.state in {"exploring", "inconsistent"}  # the submission here has no record
        this.end(Explored.SUBMITTED)


def test_a_try_is_ended_once(lab: Any) -> None:
    place = lab.attempt.next(Stage.EXPLORE)
    with pytest.raises(AssertionError, match="ended as deadline already"):
        try_and(lab, place, lambda this: this.end(Explored.DEADLINE), lambda this: this.end(Explored.SUBMITTED))
    assert read_receipt(place.folder).outcome == Explored.DEADLINE


def test_files_of_a_sealed_try_are_protected_and_its_folder_can_be_removed(lab: Any) -> None:
    lab.explore(Explored.DEADLINE)
    folder = lab.folder / "explore/attempt-001"
    assert (folder / "commands.jsonl").stat().st_mode & 0o222 == 0
    assert folder.stat().st_mode & 0o700 == 0o700
