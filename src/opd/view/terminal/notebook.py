"""A board in a notebook: one block under the cell, drawn anew in place, by IPython's own display and no widget.

The block is the frame that a terminal shows, 80 columns of text, in ink that the page lends: only what is coloured
has a colour of its own, which can be read on a light page and on a dark one.
"""

import contextvars
import io
import sys
from collections.abc import Callable, Iterator
from html import escape
from threading import Event, Thread
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

COLUMNS = 80
SECONDS_BETWEEN_DRAWINGS = 1.0  # the clock in the frame has seconds

_PRE = "white-space:pre;overflow-x:auto;line-height:1.3;margin:0;font-family:monospace"
# Middling ink: at least 4 : 1 on white and on the near-black of dark notebooks. What is not here is the page's own.
_INKS = {"cyan": "#0b87a3", "yellow": "#a86f00"}
_FAINT = "0.3"  # of the part of the bar that is still to come


def in_notebook() -> bool:
    """Whether this process is a notebook's kernel, which draws; IPython in a terminal does not."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class Block:
    """Draws `draw()` once a second from `start` to `stop`, below the lines that were said."""

    def __init__(self, draw: Callable[[], RenderableType]) -> None:
        self._draw = draw
        self._said: tuple[str, ...] = ()
        self._over = Event()
        self._handle: Any = None
        self._thread: Thread | None = None

    def say(self, message: str) -> None:
        """A line above the frame, with the next drawing; it stays."""
        self._said = (*self._said, message)

    def start(self) -> None:
        """The first drawing, under the cell that is at work."""
        from IPython.display import display

        self._handle = display(self._bundle(), raw=True, display_id=True)  # type: ignore[no-untyped-call]  # IPython's
        # an output belongs to its cell by a variable of the context, which a thread has to be given
        context = contextvars.copy_context()
        self._thread = Thread(target=context.run, args=(self._keep_drawing,), name="opd-board", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """The last drawing, which stays in the notebook."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self._handle.update(self._bundle(), raw=True)

    def _keep_drawing(self) -> None:
        while not self._over.wait(SECONDS_BETWEEN_DRAWINGS):
            self._handle.update(self._bundle(), raw=True)

    def _bundle(self) -> dict[str, str]:
        """The block as a page shows it, and as text for what shows no pages."""
        lines = list(_lines(Group(*map(Text, self._said), self._draw())))
        html = "\n".join("".join(map(_span, line)) for line in lines)
        text = "\n".join("".join(part.text for part in line).rstrip() for line in lines)
        return {"text/html": f'<pre style="{_PRE}">{html}</pre>', "text/plain": text}


def _lines(drawn: RenderableType) -> Iterator[list[Segment]]:
    console = Console(
        file=io.StringIO(), width=COLUMNS, force_terminal=True, force_jupyter=False, color_system="standard"
    )
    yield from console.render_lines(drawn, pad=False)


def _span(part: Segment) -> str:
    css = "" if part.style is None else _css(part.style)
    return f'<span style="{css}">{escape(part.text)}</span>' if css else escape(part.text)


def _css(style: Style) -> str:
    """Weight, paleness and ink; a background, which no board has, is left out."""
    ink = None if style.color is None else _INKS.get(style.color.name)
    pale = _FAINT if ink is None and style.color is not None else "0.75" if style.dim else None
    said = {"font-weight": "bold" if style.bold else None, "opacity": pale, "color": ink}
    return ";".join(f"{name}:{value}" for name, value in said.items() if value is not None)
