"""What is said of a task, whatever its form: sections of names and values, made safe to print."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from opd.protocol.packages.quantities import seconds
from opd.records.settings import Settings

LONGEST = 2_000  # characters of a value that are shown


class Row(Settings):
    """A name and what is said of it."""

    name: str
    value: str


class Section(Settings):
    """Rows under a heading."""

    title: str
    rows: tuple[Row, ...]


class Explanation(Settings):
    """All that is said of a task."""

    kind: Literal["opd", "AI4AI-Bench", "Harbor"]
    name: str
    sections: tuple[Section, ...]

    def section(self, title: str) -> Mapping[str, str]:
        """The rows of the section with this title, by name."""
        return {row.name: row.value for one in self.sections if one.title == title for row in one.rows}


def section(title: str, rows: Iterable[tuple[str, Any]]) -> Section:
    """A section of what is there: rows with None are left out."""
    said = [Row(name=printable(name), value=printable(value)) for name, value in rows if value is not None]
    return Section(title=title, rows=tuple(said))


def table_in(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The table under this key; an empty one where there is none, or something else."""
    found = values.get(key)
    return found if isinstance(found, Mapping) else {}


def first_of(*values: Any) -> Any:
    """The first that is not None; None where there is none."""
    return next((value for value in values if value is not None), None)


def as_time(value: Any) -> Any:
    """A number of seconds in words; anything else as it is, for a stranger may have written it."""
    is_time = isinstance(value, int | float) and not isinstance(value, bool)
    return seconds(value) if is_time else value


def printable(value: Any) -> str:
    """A value as text that moves no cursor and rings no bell, cut where it is too long to be read."""
    text = value if isinstance(value, str) else written(value)
    safe = "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in text)
    return safe if len(safe) <= LONGEST else f"{safe[:LONGEST]}… ({len(safe):,} characters)"


def written(value: Any) -> str:
    """A value of a file as a person writes it: yes and no, thousands with commas, lists with commas between."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {written(one)}" for key, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(written(one) for one in value)
    return str(value)
