"""What is looked up beside a measurement: given, or missing with a reason, and never waited for."""

import threading

import pytest

from opd.protocol.explorer import aside as module
from opd.protocol.explorer.aside import aside
from opd.records.errors import AnswerIsNo


def test_what_comes_is_given() -> None:
    assert aside(lambda: "the source", name="x", missing=str.upper)() == "the source"


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), AnswerIsNo("no"), ValueError("\x1b[2J")])
def test_what_fails_is_missing_with_the_reason_and_nothing_is_raised(error: Exception) -> None:
    def fails() -> str:
        raise error

    said = aside(fails, name="x", missing=lambda why: f"missing: {why}")()
    assert said.startswith(f"missing: {type(error).__name__}: ")
    assert "\x1b" not in said


def test_what_does_not_come_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.01)
    held = threading.Event()
    request.addfinalizer(held.set)
    result = aside(lambda: str(held.wait(60)), name="x", missing=lambda why: why)
    assert result() == "it was not read by the end of the measurement"
