"""Markdown of several cells or words."""

from collections.abc import Iterable, Sequence


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table of GitHub's Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = words or ("",)
    return f"{', '.join(most)} and {last}" if most else last
