"""Names with their values, as a terminal and a notebook show them; what a stranger wrote stays text."""

from collections.abc import Sequence
from html import escape

from opd.view.plain import shown

Fact = tuple[str, str]

_LONGEST = 1000  # characters of a value


def in_text(title: str, facts: Sequence[Fact]) -> str:
    """A line for each fact under the title."""
    width = max(len(name) for name, _ in facts)
    lines = [f"  {name:<{width}}  {shown(value, longest=_LONGEST)}" for name, value in facts]
    return "\n".join([shown(title, longest=_LONGEST), *lines])


def in_html(title: str, facts: Sequence[Fact]) -> str:
    """The same as a table for a page."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(shown(value, longest=_LONGEST))}</td></tr>'
        for name, value in facts
    )
    return f"<table><caption>{escape(shown(title, longest=_LONGEST))}</caption><tbody>{rows}</tbody></table>"
