"""How a value is written: one function, for whoever writes a report and for whoever checks it.

Nothing that stands in a file of an attempt can act in the text: what Markdown would take for markup is escaped, and
the characters by which marks are made are left out.
"""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from opd.records.claims import Form

_MINUS = "\N{MINUS SIGN}"
_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
_ACTS = re.compile(  # anywhere in a line; an underscore within a word is one
    r"([\\`*\[\]<>|~$&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))"
)
_BEGINS = re.compile(
    r"^(\s*)(#{1,6}|[-+]|=+|-+|\d+[.)])(?=\s|$)", re.MULTILINE
)  # lists, rules and headings, at the beginning of one
_LONGEST_QUOTE, _LONGEST_TEXT, _LONGEST_CODE = 1_200, 2_000, 300  # characters
_NOTHING = "null"
_EXACT = 1e-9  # nearer to a rounded value is that value: 0.1 + 0.2 is 0.3
SMALLEST_CHANCE = 0.0001  # below it, more digits would say nothing


def rendered(value: Any, form: Form) -> str:
    """The value in this form; raises `TypeError` or `ValueError` for one that can't take it."""
    return _NOTHING if value is None else _FORMS[form](value)


def visible(text: str) -> str:
    """The text without what can't be seen: control characters, and those of private use, which marks are made of."""
    return "".join(c for c in text if c.isprintable() or c == "\n")


def plain(text: str) -> str:
    """The text so that Markdown shows it as it is."""
    escaped = _ACTS.sub(r"\\\1", visible(text))
    return _BEGINS.sub(lambda found: f"{found[1]}{_backslashed(found[2])}", escaped)


def one_line(text: str) -> str:
    """The same on one line."""
    return plain(" ".join(visible(text).split()))


def code(text: str) -> str:
    """The text as code within a line; in a cell of a table as well."""
    words = " ".join(visible(text).split()).replace("|", "\N{BROKEN BAR}")
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", words)), default=0))
    pad = " " if words.startswith("`") or words.endswith("`") else ""
    return f"{ticks}{pad}{words}{pad}{ticks}"


def cut(text: str, *, most: int) -> str:
    """The text, or its beginning up to the end of a word, with a sign that it goes on."""
    if len(text) <= most:
        return text
    beginning = text[:most].rsplit(maxsplit=1)[0]
    return f"{beginning} […]"


def quote(text: str) -> str:
    """A block of quotation."""
    words = cut(visible(text).strip(), most=_LONGEST_QUOTE)
    return "\n".join(f"> {plain(line)}".rstrip() for line in words.split("\n"))


def listing(text: str) -> str:
    """A fenced block, character by character."""
    lines = visible(text).rstrip("\n")
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", lines)), default=0))
    return f"{ticks}diff\n{lines}\n{ticks}"


def duration(seconds: float) -> str:
    """`0.4 s`, `45 s`, `2 min 5 s`, `3 h 5 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    minutes = round(seconds / 60)
    return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")


def _decimals(value: float, *, least: int, most: int) -> str:
    """So few decimals where the value has no more, else so many: numbers beside each other end alike."""
    return f"{value:,.{least if abs(value - round(value, least)) < _EXACT else most}f}"


def _minus(text: str) -> str:
    return text.replace("-", _MINUS)


def _signed(text: str) -> str:
    return _minus(text if text.startswith("-") else f"+{text}")


def _word(value: int) -> str:
    return _WORDS[value] if 0 <= value < len(_WORDS) else f"{value:,}"


def _nth(value: int) -> str:
    ending = "th" if value % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
    return f"{value}{ending}"


def _chance(value: float) -> str:
    return f"< {SMALLEST_CHANCE}" if value < SMALLEST_CHANCE else f"{value:.2g}"


def _moment(value: str) -> datetime:
    return datetime.fromisoformat(value).astimezone(UTC)


def _word_of(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else cut(str(value), most=_LONGEST_CODE)


def _backslashed(marker: str) -> str:
    return f"{marker[:-1]}\\{marker[-1]}"


_FORMS: dict[Form, Callable[[Any], str]] = {
    Form.INTEGER: lambda value: _minus(f"{int(value):,}"),
    Form.STEP: lambda value: f"{int(value)}",
    Form.MEAN: lambda value: _minus(_decimals(value, least=4, most=6)),
    Form.ERROR: lambda value: _decimals(value, least=4, most=6),
    Form.NUMBER: lambda value: _minus(_decimals(value, least=0, most=2)),
    Form.WHOLE: lambda value: _minus(f"{round(value):,}"),
    Form.DURATION: duration,
    Form.PERCENT: lambda value: f"{_minus(_decimals(100 * value, least=0, most=2))} %",
    Form.MULTIPLE: lambda value: f"{value:,.1f}",
    Form.SIGNED_INTEGER: lambda value: _signed(f"{int(value):,}"),
    Form.SIGNED_MEAN: lambda value: _signed(f"{value:.4f}"),
    Form.CHANCE: _chance,
    Form.WORD: _word,
    Form.NTH: _nth,
    Form.CLOCK: lambda value: f"{_moment(value):%H:%M} UTC",
    Form.MOMENT: lambda value: f"{_moment(value):%Y-%m-%d %H:%M} UTC",
    Form.DIGEST: lambda value: f"`{str(value)[:12]}…`",
    Form.ROUNDED: lambda value: _minus(f"{value:.4f}"),
    Form.CODE: lambda value: code(_word_of(value)),
    Form.TEXT: lambda value: one_line(cut(str(value), most=_LONGEST_TEXT)),
    Form.QUOTE: lambda value: quote(str(value)),
    Form.LISTING: lambda value: listing(str(value)),
    Form.HIDDEN: lambda _: "",
}
