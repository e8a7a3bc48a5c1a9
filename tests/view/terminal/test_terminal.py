import io
import os
import sys
import warnings
from collections.abc import Sequence

import pytest
from rich.text import Text

from opd.view.terminal.terminal import Display, Screen, Unbreakable

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


class FakeTerminal(io.StringIO):
    """A stream that says it is a terminal and remembers what was drawn on it."""

    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True


def screen(stream: io.TextIOBase, *, quiet: bool = False, times: Sequence[float] = ()) -> Screen:
    clock = iter(times)
    return Screen(
        draw=lambda: Text("a frame"),
        line=lambda: "a line",
        quiet=quiet,
        stream=stream,  # type: ignore[arg-type]
        seconds_between_lines=10,
        clock=lambda: next(clock, 0.0),
    )


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> FakeTerminal:
    monkeypatch.setenv("TERM", "xterm-256color")
    return FakeTerminal()


def test_a_pipe_gets_lines_and_no_control_characters() -> None:
    pipe = io.StringIO()
    with screen(pipe) as shown:
        shown.changed()
    assert pipe.getvalue() == "a line\n"


def test_lines_come_first_then_when_it_is_time_and_at_the_end() -> None:
    pipe = io.StringIO()
    times = [0.0, 5.0, 9.9, 10.0, 10.0, 15.0]  # printed at 0; asked at 5, 9.9 and 10; printed at 10; asked
    with screen(pipe, times=times) as shown:
        counts = []
        for _ in range(5):
            shown.changed()
            counts.append(pipe.getvalue().count("\n"))
    assert counts == [1, 1, 1, 2, 2]
    assert pipe.getvalue().count("\n") == 3, "what had not been printed is printed at the end"


def test_quiet_writes_nothing_anywhere(terminal: FakeTerminal) -> None:
    with screen(terminal, quiet=True) as shown:
        shown.changed(last=True)
    assert terminal.getvalue() == ""


def test_a_dumb_terminal_gets_lines(terminal: FakeTerminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert screen(terminal).display is Display.LINES


def test_forced_colours_do_not_put_control_characters_into_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    pipe = io.StringIO()
    with screen(pipe) as shown:
        shown.changed()
    assert "\x1b" not in pipe.getvalue()


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_an_exception_leaves_the_cursor_visible_and_the_last_frame_readable(
    terminal: FakeTerminal, failure: type[BaseException]
) -> None:
    with pytest.raises(failure), screen(terminal):
        raise failure
    drawn = terminal.getvalue()
    assert HIDE in drawn
    assert drawn.rindex(SHOW) > drawn.rindex(HIDE)
    assert drawn.rindex("a frame") < drawn.rindex(SHOW)


def test_a_reader_that_has_gone_away_does_not_end_the_run() -> None:
    reading, writing = os.pipe()
    pipe = os.fdopen(writing, "w", buffering=1)
    os.close(reading)
    with pytest.raises(BrokenPipeError):  # the bad condition can occur
        print("to no one", file=pipe)
    with screen(pipe) as shown:  # type: ignore[arg-type]
        for _ in range(3):
            shown.changed(last=True)
    with pytest.raises(BrokenPipeError):
        pipe.close()


def test_a_closed_stream_does_not_end_the_run() -> None:
    pipe = io.StringIO()
    with screen(pipe) as shown:
        pipe.close()
        shown.changed(last=True)


def test_a_terminal_that_is_lost_in_the_middle_does_not_end_the_run(terminal: FakeTerminal) -> None:
    with screen(terminal) as shown:
        terminal.close()
        shown.changed(last=True)


def test_text_that_the_encoding_lacks_is_replaced() -> None:
    raw = io.BytesIO()
    stream = Unbreakable(io.TextIOWrapper(raw, encoding="ascii", write_through=True))
    stream.write("KL ▁▂▃ 0.1")
    stream.flush()
    assert raw.getvalue() == b"KL ??? 0.1"


def test_what_a_command_sends_to_a_file_is_not_drawn_on_the_terminal(
    terminal: FakeTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)
    with screen(terminal):
        sys.stdout.write("the answer\n")
    assert file.getvalue() == "the answer\n"
    assert "the answer" not in terminal.getvalue()


def test_a_warning_appears_above_the_frame(terminal: FakeTerminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    with warnings.catch_warnings(), screen(terminal):
        warnings.simplefilter("always")
        sys.stderr.write("mind the gap\n")
    drawn = terminal.getvalue()
    assert "mind the gap" in drawn
    assert drawn.rindex("a frame") > drawn.index("mind the gap")


def test_what_is_said_stays_above_the_frame_and_between_the_lines(terminal: FakeTerminal) -> None:
    with screen(terminal) as shown:
        shown.say("wandb was dropped [red]")
    drawn = terminal.getvalue()
    assert drawn.rindex("a frame") > drawn.index("wandb was dropped [red]")
    pipe = io.StringIO()
    with screen(pipe) as shown:
        shown.changed()
        shown.say("wandb was dropped [red]")
    assert pipe.getvalue() == "a line\nwandb was dropped [red]\n"


def test_what_is_said_to_nobody_does_not_end_the_run(terminal: FakeTerminal) -> None:
    with screen(terminal, quiet=True) as shown:
        shown.say("nothing")
    assert terminal.getvalue() == ""
    closed = io.StringIO()
    with screen(closed) as shown:
        closed.close()
        shown.say("nothing")
