"""A score in full, and two of them side by side."""

from typing import Any

from opd.view.runs.folders import Kind
from opd.view.server.answers import Unreadable
from opd.view.server.entries import Entry
from opd.view.server.files import object_or_none, shortened
from opd.view.server.programs import WAITING, Programs, Said
from opd.view.server.rows import Links, row
from opd.view.server.samples import FILE, Samples
from opd.view.server.shelf import Shelf

_KEPT = 256  # comparisons


class Scores:
    """What is said of an evaluation."""

    def __init__(self, samples: Samples, programs: Programs) -> None:
        self._samples = samples
        self._programs = programs
        self._compared: Shelf[Said] = Shelf(_KEPT, waiting=WAITING)

    def whole(self, entry: Entry, links: Links) -> dict[str, Any]:
        """The page of a score, but for its samples."""
        claim = object_or_none(entry.place.at("protocol.json")) or {}
        score = object_or_none(entry.place.at("score.json"))
        facts = self._samples.facts(entry.place)
        damaged = facts.pop("damaged")
        trouble = dict.fromkeys(one for one in (entry.summary.trouble, damaged) if one)
        return {
            "row": row(entry, links),
            "score": shortened(score),
            "protocol": shortened((score or claim).get("protocol")),
            **facts,
            "trouble": list(trouble),
        }

    def compared(self, a: Entry, b: Entry, links: Links, *, counts_only: bool) -> dict[str, Any]:
        """Two scores by question, and what the install says of their difference; without that, it is quick."""
        for one in (a, b):
            if one.kind is not Kind.SCORE:
                raise Unreadable(f"{one.name} is no score; compare the folders of two evaluations")
        said = Said(value=None, missing=None) if counts_only else self._said(a, b)
        return {
            "a": row(a, links),
            "b": row(b, links),
            "comparison": said.value,
            "missing": said.missing,
            **self._by_question(a, b),
        }

    def _said(self, a: Entry, b: Entry) -> Said:
        files = [one.place.at(name).stamp() for one in (a, b) for name in (FILE, "score.json", "protocol.json")]
        paths = (str(a.place.path), str(b.place.path))
        return self._compared.get(
            (a.id, b.id), tuple(files), lambda _: self._programs.ask("compare", "--json", "--", *paths)
        )

    def _by_question(self, a: Entry, b: Entry) -> dict[str, list[Any]]:
        """How many samples of each question are right in the one and in the other, of those asked in both."""
        first, second = (self._samples.questions(one.place) for one in (a, b))
        places = {question: place for place, question in enumerate(second["questions"])}
        pairs = [(place, places[name]) for place, name in enumerate(first["questions"]) if name in places]
        return {
            "questions": [first["questions"][place] for place, _ in pairs],
            "a_right": [first["right"][place] for place, _ in pairs],
            "a_samples": [first["samples"][place] for place, _ in pairs],
            "b_right": [second["right"][place] for _, place in pairs],
            "b_samples": [second["samples"][place] for _, place in pairs],
        }
