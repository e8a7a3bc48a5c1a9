"""What is due, what has failed, and how long an answer is looked for that is not seen here."""

from typing import Any

from opd.fanout.calls import MOST_TRIES, SEEN_SECONDS, Call, Calls, Outcome


class Clock:
    """Shows what it is set to."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def three() -> tuple[list[Call], Calls, Clock, list[str]]:
    calls = [Call(name=name, values=name) for name in ("a", "b", "c")]
    said: list[str] = []
    clock = Clock()
    return calls, Calls(calls, say=said.append, now=clock), clock, said


def late(*names: str) -> Any:
    """A fault of these calls; nothing is known against the others."""
    return lambda call, answer: f"{answer} is not there" if call.name in names else None


def test_an_answer_that_is_not_seen_holds_nobody_up_and_counts_as_soon_as_it_is() -> None:
    (a, b, _), calls, clock, said = three()
    assert [calls.next(), calls.next()] == [a, b]
    calls.answered(a, "A")
    calls.answered(b, "B")
    assert list(calls.seen(late("a"))) == [Outcome(call=b, answer="B")]
    assert calls.are_looked_for
    assert calls.are_due, "c can be handed out meanwhile"
    clock.seconds += SEEN_SECONDS
    assert list(calls.seen(late("a"))) == []
    assert list(calls.seen(late())) == [Outcome(call=a, answer="A")]
    assert not calls.are_looked_for
    assert said == []


def test_an_answer_that_is_never_seen_is_a_failure_with_another_try() -> None:
    (a, b, c), calls, clock, said = three()
    assert [calls.next(), calls.next(), calls.next()] == [a, b, c]
    for tries in range(1, MOST_TRIES + 1):
        calls.answered(a, "A")
        clock.seconds += SEEN_SECONDS + 1
        found = list(calls.seen(late("a")))
        if tries < MOST_TRIES:
            assert found == []
            assert calls.next() is a
    assert found == [Outcome(call=a, error="A is not there")]
    assert said == ["a failed and is tried again: A is not there"]
    assert not calls.are_due


def test_what_was_asked_wrongly_has_no_second_try_and_what_is_stopped_none_either() -> None:
    (a, _, _), calls, _, said = three()
    calls.next()
    assert list(calls.failed(a, "no such thing", for_good=True)) == [Outcome(call=a, error="no such thing")]
    assert said == []
    calls.stop()
    assert not calls.are_due
