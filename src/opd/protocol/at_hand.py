"""Where a task's files of questions lie. They are no part of an attempt, so whoever works on one looks for them.

in the package      a source that ships
as the source says  from the folder that one works in
data/               of that folder
data/               of each folder above the attempt, so that what is found does not hang on where one works
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import sha256
from opd.records.places import SHIPPED, locate
from opd.records.tasks import Measure, QuestionSource

DATA = Path("data")


def near(attempt: Path) -> tuple[Path, ...]:
    """The folders of data above an attempt, the nearest first."""
    return tuple(place for above in attempt.resolve().parents if (place := above / DATA).is_dir())


def question_file(source: QuestionSource, measure: Measure, *, beside: Sequence[Path] = ()) -> Path:
    """The file, as the task pins it; `beside` are further folders to look into.

    Raises `AskedWrongly` where it is in none of its places, which are named, and `AnswerIsNo` where what lies there
    is another file.
    """
    if source.source.startswith(SHIPPED):
        places = [locate(source.source)]
    else:
        places = list(dict.fromkeys(place.absolute() for place in _places(source, beside)))
    there = [place for place in places if place.is_file()]
    held = {place: sha256(place) for place in there}
    if found := next((place for place in there if held[place] == source.sha256), None):
        return found
    if there:
        raise AnswerIsNo(f"{there[0]} has digest {held[there[0]][:12]}…, and the task pins {source.sha256[:12]}…")
    raise AskedWrongly(
        f"{source.source}, questions of {measure.metric}, is not at hand; put it into one of its places: "
        f"{', '.join(map(str, places))}"
    )


def _places(source: QuestionSource, beside: Sequence[Path]) -> Iterator[Path]:
    path = Path(source.source).expanduser()
    yield from (path, *(folder / path.name for folder in (DATA, *beside)))
