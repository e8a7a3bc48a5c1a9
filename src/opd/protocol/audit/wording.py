"""How findings word what they name: short digests, lists that end, numbers that people read."""

from collections.abc import Collection, Iterable

_MOST_NAMED = 5


def short(digest: str | None) -> str:
    """The beginning of a digest."""
    return f"{digest[:12]}…" if digest else "none"


def names(found: Iterable[str], *, most: int = _MOST_NAMED) -> str:
    """The first few, and how many more there are."""
    every = list(found)
    more = len(every) - most
    return ", ".join(every[:most]) + (f" and {more} more" if more > 0 else "")


def count(found: Collection[object] | int, noun: str) -> str:
    """`1 file`, `12 files`."""
    number = found if isinstance(found, int) else len(found)
    plural = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def seconds(value: float) -> str:
    """`41,701.93 s`, `3,289 s`: hundredths where there are some."""
    text = f"{value:,.2f}".rstrip("0").rstrip(".")
    return f"{text} s"
