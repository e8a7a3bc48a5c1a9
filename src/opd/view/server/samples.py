"""The samples of an evaluation: an index of where each line stands and what it came to, and one at a time in full.

A file of 2,000 responses of 12,000 tokens has 80 MB, nearly all of it responses. The index is made without reading
them: what stands before and behind the response of a line is parsed as a line of its own. Two quotes with a blank
between them can't stand inside of a JSON string, where each has a backslash before it; so the last `", "tokens": `
is no part of the response. Were it one of a record behind it, the rest would close a bracket that nothing opened. A
line that is written otherwise is parsed as a whole.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from opd.view.server.answers import Gone, Unreadable
from opd.view.server.files import shortened
from opd.view.server.lines import Mark, beginning, lines_from, mark_at, object_in, opened
from opd.view.server.places import Place, stamp_of
from opd.view.server.shelf import Shelf

FILE = "samples.jsonl"
SORTS = ("order", "longest", "shortest")
_KEPT = 8
_BEGINS, _ENDS = b'"response": "', b'", "tokens": '
_START, _END, _SHORT = 160, 240, 300  # characters, in a list


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A sample without its texts."""

    at: int  # bytes
    length: int  # bytes
    question: str
    sample: int
    tokens: int
    stop: str
    gold: str
    verdict: str
    disputed: bool  # somebody who did not decide saw it otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """The lines of a file, in order."""

    lines: tuple[Line, ...]
    damaged: int  # lines that are no samples
    mark: Mark


class Samples:
    """Reads each file once, and then what is added to it."""

    def __init__(self) -> None:
        self._shelf: Shelf[Index] = Shelf(_KEPT)

    def index(self, score: Place) -> Index | None:
        """Where the samples stand; None where there are none yet. Raises `Unreadable` for a file that is closed."""
        place = score.at(FILE)
        stamp = place.stamp()
        if stamp is not None:
            return self._shelf.get(place, stamp, lambda before: _indexed(place, before))
        if why := place.why_closed():
            raise Unreadable(why)
        return None

    def facts(self, score: Place) -> dict[str, Any]:
        """How many there are and what they came to; null where the file can't be read, and then why."""
        try:
            found = self.index(score)
        except Unreadable as error:
            return {"lines": None, "verdicts": None, "stops": None, "damaged": str(error)}
        lines = found.lines if found else ()
        trouble = f"{found.damaged:,} lines of {FILE} are no samples" if found and found.damaged else None
        return {
            "lines": len(lines),
            "verdicts": dict(Counter(line.verdict for line in lines)),
            "stops": dict(Counter(line.stop for line in lines)),
            "damaged": trouble,
        }

    def questions(self, score: Place) -> dict[str, list[Any]]:
        """For each question, in the order of the file, how many samples it has and how many of them are right."""
        found = self.index(score)
        by_question: dict[str, list[Line]] = {}
        for line in found.lines if found else ():
            by_question.setdefault(line.question, []).append(line)
        groups = list(by_question.values())
        return {
            "questions": list(by_question),
            "right": [sum(line.verdict == "correct" for line in group) for group in groups],
            "samples": [len(group) for group in groups],
            "cut_short": [sum(line.stop == "length" for line in group) for group in groups],
            "gold": [group[0].gold for group in groups],
            "mean_tokens": [sum(line.tokens for line in group) / len(group) for group in groups],
        }

    def page(
        self,
        score: Place,
        *,
        offset: int,
        limit: int,
        verdicts: Sequence[str],
        question: str | None,
        stop: str | None,
        disputed: bool,
        sort: str,
    ) -> dict[str, Any]:
        """Some samples: those that pass, in this order, from one on. Only their lines are read."""
        found = self.index(score)
        lines = found.lines if found else ()
        passing = [
            number
            for number, line in enumerate(lines)
            if (not verdicts or line.verdict in verdicts)
            and (question is None or line.question == question)
            and (stop is None or line.stop == stop)
            and (line.disputed or not disputed)
        ]
        if sort != "order":
            sign = -1 if sort == "longest" else 1
            passing.sort(key=lambda number: (sign * lines[number].tokens, number))
        return {
            "total": len(lines),
            "matching": len(passing),
            "offset": offset,
            "verdicts": dict(Counter(line.verdict for line in lines)),
            "rows": [_row(number, value) for number, value in self._values(score, passing[offset : offset + limit])],
        }

    def one(self, score: Place, number: int, *, begin: int, count: int) -> dict[str, Any]:
        """A sample with so many characters of its response."""
        ((_, value),) = self._values(score, [number])
        response = str(value.pop("response", ""))
        return {
            "line": number,
            "sample": shortened(value),
            "response": response[begin : begin + count],
            "from": begin,
            "characters": len(response),
        }

    def _values(self, score: Place, numbers: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Each of these lines in full."""
        found = self.index(score)
        lines = found.lines if found else ()
        if not numbers:  # nor need there be a file
            return
        with score.at(FILE).open() as file:
            for number in numbers:
                if not 0 <= number < len(lines):
                    raise Gone(f"there is no sample {number}; the folder has {len(lines)}")
                file.seek(lines[number].at)
                value = _whole(file.read(lines[number].length))
                if value is None or value.get("question") != lines[number].question:
                    raise Unreadable(
                        f"sample {number} is not what it was: the file was written anew; load the page again"
                    )
                yield number, value


def _indexed(place: Place, before: Index | None) -> Index:
    with opened(place) as file:
        stamp = stamp_of(file)
        start = beginning(file, None if before is None else before.mark)
        lines = list(before.lines) if before and start else []
        damaged, end = (before.damaged if before and start else 0), start
        for at, text in lines_from(file, start):
            end = at + len(text) if text is not None else file.tell()
            if text is not None and text.isspace():
                continue
            line = None if text is None else _line(text, at)
            if line is None:
                damaged += 1
            else:
                lines.append(line)
        return Index(lines=tuple(lines), damaged=damaged, mark=mark_at(file, end, stamp))


def _line(text: bytes, at: int) -> Line | None:
    value: Any = _without_response(text)
    try:
        judgement, opinions = value["judgement"], value["opinions"]
        verdict = judgement["verdict"]
        return Line(
            at=at,
            length=len(text),
            question=_text(value["question"]),
            sample=int(value["sample"]),
            tokens=int(value["tokens"]),
            stop=_text(value["stop"]),
            gold=_text(value["gold"]),
            verdict=_text(verdict),
            disputed=any((one["verdict"] == "correct") != (verdict == "correct") for one in opinions),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _without_response(text: bytes) -> dict[str, Any] | None:
    """The object of a line with another response, where that can be had without reading it; else with its own."""
    begin, end = _response(text)
    return object_in(text[:begin] + text[end:]) or object_in(text)


def _whole(text: bytes) -> dict[str, Any] | None:
    """The object of a line. A response that is no JSON string, for a byte that was lost, stands as it does there."""
    value = object_in(text)
    if value is None and (value := _without_response(text)) is not None:
        begin, end = _response(text)
        value["response"] = text[begin:end].decode("utf-8", "replace")
    return value


def _response(text: bytes) -> tuple[int, int]:
    """Where the text of the response begins and ends in a line; nowhere in one that is written in another way."""
    begin = text.find(_BEGINS)
    end = text.rfind(_ENDS, begin + len(_BEGINS)) if begin >= 0 else -1
    return (begin + len(_BEGINS), end) if end >= 0 else (0, 0)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def _row(number: int, value: dict[str, Any]) -> dict[str, Any]:
    judgement, response = value["judgement"], str(value.get("response", ""))
    return {
        "line": number,
        **{name: value.get(name) for name in ("question", "sample", "seed", "tokens", "stop")},
        "gold": _cut(value.get("gold")),
        "verdict": judgement["verdict"],
        "correct": judgement["verdict"] == "correct",
        **{name: _cut(judgement.get(name)) for name in ("extracted", "stage", "reason", "by", "inside_reasoning")},
        "opinions": len(value["opinions"]),
        "start": response[:_START],
        "end": response[-_END:],
    }


def _cut(value: Any) -> Any:
    return f"{value[:_SHORT]}…" if isinstance(value, str) and len(value) > _SHORT else value
