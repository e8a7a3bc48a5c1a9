"""What the explorer said of its own accord, and which unit of the exploration it belongs to.

    note TEXT --about RUN      goes to the unit that it names: motivation before its result, interpretation afterwards
    a message with a command   that trains: the motivation of that training
    what else was said         between a result and the next training: the first is the result's interpretation, the
                               longest of the others motivation of what comes next

Where notes were made for a heading, they stand there alone. Nothing is quoted that was not said.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from opd.protocol.report.sources import Fact, Sources

DEVICE, SUBMIT = "on-device", "submit"  # commands of the explorer's
_WORD = re.compile(r"(?<![\w.-])(on-device|submit)(?![\w.-])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Words of the explorer's own."""

    words: Fact
    at: float  # seconds
    is_note: bool  # by `note`; else a message of its trajectory
    about: str | None = None
    beside: str | None = None  # of a message: DEVICE or SUBMIT, where it came with such a command


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A unit as far as words are sorted into it."""

    begin: float  # the end of the measurement before it
    trained: float  # when its first training began
    last_trained: float  # and its last
    end: float  # of its measurement
    names: frozenset[str]  # by which a note may mean it
    is_measured: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What was said of one unit, in order."""

    motivation: tuple[Fact, ...] = ()
    interpretation: tuple[Fact, ...] = ()


def notes(desk: Sequence[tuple[Fact, float]]) -> Iterator[Said]:
    """Those that the desk took."""
    for line, at in desk:
        text = line.get("arguments", "text")
        if line.value.get("command") == "note" and line.value.get("exit") == 0 and text is not None:
            about = line.get("arguments", "about")
            yield Said(words=text, at=at, is_note=True, about=str(about.value).rstrip("/") if about else None)


def messages(sources: Sources, exploration: str, seconds: Callable[[str], float]) -> Iterator[Said]:
    """What an agent said in its own trajectory, with the time that the trajectory gives it."""
    trajectory = sources.json(f"{exploration}/trajectory/atif.json")
    for step in trajectory["steps"].each() if trajectory else ():
        message, at = step.get("message"), step.get("timestamp")
        if step.value["source"] != "agent" or message is None or at is None:
            continue
        if isinstance(message.value, str) and message.value.strip():
            called = _WORD.search(json.dumps(step.value.get("tool_calls")))
            yield Said(words=message, at=seconds(str(at.value)), is_note=False, beside=called[1] if called else None)


def words(said: Sequence[Said], windows: Sequence[Window], place: int) -> Words:
    """What was said of the unit at this place."""
    window = windows[place]
    until = windows[place + 1].trained if place + 1 < len(windows) else float("inf")
    named = [one for one in said if one.about and _meant(one.about, windows) == place]
    before = [one for one in named if one.at < window.end] or _motives(said, windows, place)
    after = [one for one in named if one.at >= window.end] or _readings(said, window, until)
    return Words(motivation=tuple(one.words for one in before), interpretation=tuple(one.words for one in after))


def decision(said: Sequence[Said]) -> tuple[Fact, ...]:
    """What was said with the submission."""
    return tuple(one.words for one in said if one.beside == SUBMIT)[-1:]


def _motives(said: Sequence[Said], windows: Sequence[Window], place: int) -> list[Said]:
    window = windows[place]
    mine = [one for one in said if window.begin <= one.at <= window.last_trained and one.about is None]
    free = [one for one in mine if one.beside is None and one.at <= window.trained]
    readings = _readings(said, windows[place - 1], window.trained) if place else []
    others = [one for one in free if one not in readings]
    if noted := [one for one in others if one.is_note]:
        return noted
    with_command = [one for one in mine if one.beside == DEVICE]
    longest = max(others, key=lambda one: len(str(one.words.value)), default=None)
    found = [*with_command, *([longest] if longest else [])]
    return sorted(found, key=lambda one: one.at) or readings


def _readings(said: Sequence[Said], window: Window, until: float) -> list[Said]:
    """The first thing that was said after a result, or after the last training of what has none."""
    since = window.end if window.is_measured else window.last_trained
    free = [one for one in said if since <= one.at <= until and one.beside is None and one.about is None]
    noted = [one for one in free if one.is_note]
    return (noted or free)[:1]


def _meant(about: str, windows: Sequence[Window]) -> int | None:
    """The last unit that goes by this name."""
    return next((place for place in reversed(range(len(windows))) if about in windows[place].names), None)
