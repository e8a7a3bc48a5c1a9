"""Where a board is drawn: live on a terminal or in a notebook, as plain lines on a pipe, or nowhere.

    terminal        one frame, redrawn in place twice a second; the last frame stays
    notebook        the same frame as a block under the cell, once a second
    pipe or file    a line now and then, without control characters
    quiet           nothing

A board must not end a run: a reader that has gone away (a closed pipe, a lost terminal) silences it, and
that is all. Everything goes to standard error, so that standard output stays the command's own.
"""

import io
import os
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from opd.view.terminal.notebook import Block, in_notebook

REDRAWS_PER_SECOND = 2  # enough to see that it lives; each redraw takes some milliseconds from the run


class Display(StrEnum):
    """How much a stream can show."""

    LIVE = "live"
    NOTEBOOK = "notebook"
    LINES = "lines"
    NOTHING = "nothing"


class Unbreakable(io.TextIOBase):
    """A stream that passes text on and falls silent when the other end can't take it any more."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._open = True

    def write(self, text: str) -> int:
        """The length of the text, written or not."""
        if self._open:
            self._attempt(lambda: self._stream.write(self._encodable(text)))
        return len(text)

    def flush(self) -> None:
        """What was written is passed on, if anyone still reads."""
        if self._open:
            self._attempt(self._stream.flush)

    def isatty(self) -> bool:
        """Whether a terminal is at the other end; a closed stream has none."""
        try:
            return self._stream.isatty()
        except (OSError, ValueError):
            return False

    def fileno(self) -> int:
        """The stream's own descriptor, from which the width of the terminal is read."""
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # TextIOBase declares a plain attribute
        """The stream's encoding; a stream without one takes any text."""
        return self._stream.encoding or "utf-8"

    def _encodable(self, text: str) -> str:
        return text.encode(self.encoding, "replace").decode(self.encoding)

    def _attempt(self, act: Callable[[], object]) -> None:
        try:
            act()
        except (OSError, ValueError):  # a broken pipe, a full disk, a closed file
            self._open = False


class Screen:
    """Shows what `draw` and `line` return at the moment, in the way that the stream allows."""

    def __init__(
        self,
        *,
        draw: Callable[[], RenderableType],
        line: Callable[[], str],
        quiet: bool,
        stream: TextIO | None,
        seconds_between_lines: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._line = line
        self._clock = clock
        self._seconds_between_lines = seconds_between_lines
        self._printed_at: float | None = None
        self._unprinted = False
        self._stream = Unbreakable(stream or sys.stderr)
        self.display = Display.NOTHING if quiet else _display(self._stream, given=stream is not None)
        self._draw = draw
        self._live: Live | None = None  # made when entered, for rich draws as soon as there is one
        self._block = Block(draw) if self.display is Display.NOTEBOOK else None

    @property
    def ascii_only(self) -> bool:
        """Whether the stream can't take block characters; a notebook can."""
        return self.display is not Display.NOTEBOOK and not self._stream.encoding.lower().replace("-", "").startswith(
            "utf"
        )

    def __enter__(self) -> Self:
        if self.display is Display.LIVE:
            self._live = self._make_live(self._draw)
            self._live.start(refresh=True)
        elif self._block:
            self._block.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The terminal is as it was, whatever ended the block; the last state stays readable."""
        if self._live:
            self._live.stop()
        elif self._block:
            self._block.stop()
        elif self._unprinted:
            self._print()

    def changed(self, *, last: bool = False) -> None:
        """Called when there is something new; on a pipe it is printed first, last, and when it is time."""
        if self.display is not Display.LINES:
            return
        self._unprinted = True
        due = self._printed_at is None or self._clock() - self._printed_at >= self._seconds_between_lines
        if due or last:
            self._print()

    def say(self, message: str) -> None:
        """One line that stays: above the frame, or between the others."""
        if self._live:
            self._live.console.print(Text(message))
        elif self._block:
            self._block.say(message)
        elif self.display is not Display.NOTHING:
            self._stream.write(message + "\n")
            self._stream.flush()

    def tell(self, message: str) -> None:
        """One line before the frame is there, in any way of showing but none."""
        if self._block:
            self._block.say(message)
        elif self.display is not Display.NOTHING:
            self._stream.write(message + "\n")
            self._stream.flush()

    def _print(self) -> None:
        self._stream.write(self._line() + "\n")
        self._stream.flush()
        self._printed_at = self._clock()
        self._unprinted = False

    def _make_live(self, draw: Callable[[], RenderableType]) -> Live:
        console = Console(file=self._stream, force_terminal=True)  # type: ignore[arg-type]  # write, flush, isatty
        return Live(
            get_renderable=draw,
            console=console,
            refresh_per_second=REDRAWS_PER_SECOND,
            # warnings appear above the frame, but what is sent to a file must not be drawn on the terminal
            redirect_stdout=_is_terminal(sys.stdout),
            redirect_stderr=_is_terminal(sys.stderr),
        )


def _display(stream: io.TextIOBase, *, given: bool) -> Display:
    return Display.NOTEBOOK if not given and in_notebook() else display_of(stream)


def display_of(stream: io.TextIOBase) -> Display:
    """A terminal that can move its cursor is drawn on; anything else gets lines.

    A program that a notebook's cell starts with `!` is given a terminal, of which the notebook shows the text alone.
    """
    capable = os.environ.get("TERM", "") not in {"", "dumb", "unknown"} or sys.platform == "win32"
    capable = capable and "JPY_PARENT_PID" not in os.environ
    return Display.LIVE if stream.isatty() and capable else Display.LINES


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()
