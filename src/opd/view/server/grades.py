"""Right or wrong, of the rollouts of a step: as the install's `opd grade` says, by the house rules."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from opd.view.server.answers import Gone, Unreadable
from opd.view.server.places import Place
from opd.view.server.programs import WAITING, Programs, Said
from opd.view.server.shelf import Shelf
from opd.view.server.tables import Table, table_place
from opd.view.server.texts import Texts

_KEPT = 64  # steps
_LIMIT_SECONDS = 300.0

Verdicts = Sequence[Mapping[str, Any]]


class Grades:
    """Has each table graded once."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._shelf: Shelf[Said] = Shelf(_KEPT, waiting=WAITING)

    def of(self, run: Place, step: int, table: Table, texts: Texts) -> tuple[Verdicts | None, str | None]:
        """A line of `opd grade` for each rollout, in order; or None and why there is none."""
        place = table_place(run, step)
        said = self._shelf.get(place, place.stamp(), lambda _: self._graded(run, table, texts))
        return said.value, said.missing

    def _graded(self, run: Place, table: Table, texts: Texts) -> Said:
        cut = [facts["stop"] == "length" for facts in table.facts]
        ids = [table.ids[table.span(index)].tolist() for index in range(len(table.facts))]
        try:
            # the end-of-sequence token goes, as it does before a run grades its own
            responses = texts.responses(
                run, (own if short else own[:-1] for own, short in zip(ids, cut, strict=True))
            )
        except (Gone, Unreadable) as error:
            return Said(value=None, missing=str(error))
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
            for index, (facts, response, short) in enumerate(zip(table.facts, responses, cut, strict=True)):
                row = {"id": index, "response": response, "gold": str(facts["answer"]), "cut_short": short}
                file.write(json.dumps(row) + "\n")
            file.flush()
            said = self._programs.ask("grade", file.name, limit_seconds=_LIMIT_SECONDS, lines=True)
        if said.value is not None and len(said.value) != len(table.facts):
            return Said(value=None, missing=f"{len(said.value)} verdicts came for {len(table.facts)} rollouts")
        return said
