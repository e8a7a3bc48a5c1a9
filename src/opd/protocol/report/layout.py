"""Markdown of several cells, words or sentences."""

from collections.abc import Iterable, Sequence


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table of GitHub's Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def spoken(sentences: Iterable[str]) -> str:
    """One after the other, without those that say nothing."""
    return " ".join(filter(None, sentences))


def points(said: str, each: Iterable[str]) -> str:
    """A list below what is said of it; where nothing is on the list, not even that."""
    lines = "\n".join(f"- {one}" for one in each)
    return f"{said}\n\n{lines}" if lines else ""


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = words or ("",)
    return f"{', '.join(most)} and {last}" if most else last
