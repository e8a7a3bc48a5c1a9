"""What the explorer said that stands in no unit: notes that no result gave a place, and what it handed in with."""

from collections.abc import Iterator

from opd.protocol.report import marks
from opd.protocol.report.audited import of_the_note
from opd.protocol.report.exploring import Exploration
from opd.protocol.report.layout import spoken
from opd.protocol.report.pen import Pen
from opd.protocol.report.saying import Said, decision
from opd.protocol.report.sources import Fact
from opd.records.claims import Form

MOST_QUOTES = 3  # of one unit and heading, and of the messages of an exploration without units
_MOST_NOTES = 12


def remarks(pen: Pen, found: Exploration) -> str:
    """All of it, below a heading; nothing where every word has its place."""
    parts = [*_quoted(pen, _unplaced(found)), *_handed_in(pen, found)]
    return "\n\n".join(["### Further words of the explorer", *parts]) if parts else ""


def _unplaced(found: Exploration) -> list[Fact]:
    """Notes that no unit quotes; without units the first messages as well."""
    placed = set()
    for unit in found.units:
        words = found.words(unit)
        for said in (words.motivation, words.interpretation):
            placed |= {_place(one) for one in said[:MOST_QUOTES]}
    messages = [one for one in found.said if _is_free(one)][:MOST_QUOTES] if not found.units else []
    unplaced = [one for one in found.said if one.is_note and _place(one.words) not in placed]
    return [one.words for one in sorted([*messages, *unplaced], key=lambda one: one.at)]


def _is_free(said: Said) -> bool:
    """Whether it is a message that came with no command of the explorer's."""
    return not said.is_note and said.beside is None


def _place(fact: Fact) -> tuple[str, str]:
    return fact.file, fact.pointer


def _quoted(pen: Pen, words: list[Fact]) -> Iterator[str]:
    if words:
        yield f"In the explorer's words:\n\n{pen.quotes(words[:_MOST_NOTES])}"
    if words[_MOST_NOTES:]:
        yield f"Further ones stand in {marks.path(words[_MOST_NOTES].file)}."


def _handed_in(pen: Pen, found: Exploration) -> Iterator[str]:
    """What was said with the submission, where no unit is what was handed in and says it."""
    story = pen.story
    if story.adopted is not None or story.submission is None:
        return
    if note := story.submission.get("note"):
        said = f"The explorer submitted what it handed in as “{pen.of(note, Form.TEXT)}”."
        yield spoken([said, of_the_note(pen)])
    if words := decision(found.said):
        yield f"With the submission it said:\n\n{pen.quotes(words)}"
