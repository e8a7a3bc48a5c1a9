"""The addresses of the API and what answers them; `docs/view.md` lists them for people.

Every endpoint is a plain function: the server runs each in a thread of its own, since all of them read files.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opd.records.scores import Verdict
from opd.view.runs.folders import Kind
from opd.view.server import rollouts, samples
from opd.view.server.answers import HANDLED, Gone, answer
from opd.view.server.attempts import Attempts
from opd.view.server.entries import Entry
from opd.view.server.grades import Grades
from opd.view.server.index import Index
from opd.view.server.programs import Programs
from opd.view.server.queries import flag, number, required, whole_number, word, words_of
from opd.view.server.rows import Links, listing
from opd.view.server.scores import Scores
from opd.view.server.tables import table_steps
from opd.view.server.texts import Texts
from opd.view.server.training import Training

_MOST_ROWS = 200
_MOST_POINTS = 5_000
_MOST_TOKENS = 20_000
_MOST_CHARACTERS = 200_000


class Api:
    """Everything that is asked about runs."""

    def __init__(self, index: Index, programs: Programs) -> None:
        texts = Texts()
        self._index = index
        self._metrics = index.metrics
        self._samples = samples.Samples()
        self._rollouts = rollouts.Rollouts(texts, Grades(programs))
        self._training = Training(self._metrics, programs)
        self._scores = Scores(self._samples, programs)
        self._attempts = Attempts(index, programs)

    def routes(self) -> list[Route]:
        """Address by address."""
        run = "/api/runs/{id}"
        endpoints: dict[str, Callable[[Request], Any]] = {
            "/api/runs": self._runs,
            "/api/events": self._events,
            "/api/defaults": lambda _: self._training.defaults(),
            "/api/compare": self._compare,
            run: self._run,
            f"{run}/plan": lambda asked: self._training.plan(self._of(asked, Kind.TRAIN)),
            f"{run}/metrics": self._metrics_page,
            f"{run}/rollouts": lambda asked: self._rollouts.listing(self._of(asked, Kind.TRAIN).place),
            f"{run}/rollouts/{{step}}": self._rollouts_page,
            f"{run}/rollouts/{{step}}/{{place}}": self._rollout,
            f"{run}/questions": lambda asked: self._samples.questions(self._of(asked, Kind.SCORE).place),
            f"{run}/samples": self._samples_page,
            f"{run}/samples/{{line}}": self._sample,
            f"{run}/status": lambda asked: self._attempts.status(self._of(asked, Kind.ATTEMPT)),
            f"{run}/log": self._log,
            f"{run}/receipt": self._receipt,
            f"{run}/device": self._device,
            f"{run}/desk": lambda asked: self._attempts.desk(self._of(asked, Kind.ATTEMPT), required(asked, "try")),
            f"{run}/audit": lambda asked: self._attempts.audit(self._of(asked, Kind.ATTEMPT), required(asked, "try")),
        }
        return [Route(path, _answering(endpoint), methods=["GET"]) for path, endpoint in endpoints.items()]

    def read_ahead(self, page: str, asked: Request) -> None:
        """Reads what a page is about while its scripts are loaded; what can't be read is said when it asks."""
        with suppress(*HANDLED):
            if page == "run":
                self._metrics.columns(self._of(asked, Kind.TRAIN).place)
            elif page == "rollouts":
                place = self._of(asked, Kind.TRAIN).place
                self._rollouts.table(place, number(asked, "step", max(table_steps(place), default=0)))
            elif page == "score":
                self._samples.index(self._of(asked, Kind.SCORE).place)
            elif page == "compare":
                for name in ("a", "b"):
                    self._samples.index(self._index.entry(required(asked, name)).place)
            else:
                self._index.entries()

    def _runs(self, _: Request) -> Any:
        entries = self._index.entries()
        index = self._index
        return listing(entries, version=index.version, roots=index.roots, closed=index.closed)

    def _events(self, asked: Request) -> Any:
        found = self._index.since(number(asked, "since", 0))
        values: dict[str, Any] = {"version": found.version, "all": found.everything}
        return values | {"changed": found.changed, "added": found.added, "gone": found.gone}

    def _run(self, asked: Request) -> Any:
        entry = self._index.entry(asked.path_params["id"])
        links = self._links(entry)
        if entry.kind is Kind.TRAIN:
            return self._training.whole(entry, links)
        return (self._scores if entry.kind is Kind.SCORE else self._attempts).whole(entry, links)

    def _metrics_page(self, asked: Request) -> Any:
        return self._metrics.page(
            self._of(asked, Kind.TRAIN).place,
            names=words_of(asked, "names"),
            after=number(asked, "from", 0),
            points=number(asked, "points", 1_000, least=10, most=_MOST_POINTS),
        )

    def _rollouts_page(self, asked: Request) -> Any:
        return self._rollouts.page(
            self._of(asked, Kind.TRAIN).place,
            whole_number(asked.path_params["step"], name="step"),
            offset=number(asked, "offset", 0),
            limit=number(asked, "limit", 50, least=1, most=_MOST_ROWS),
            filters=words_of(asked, "filter", known=rollouts.FILTERS),
            teachers=words_of(asked, "teacher"),
            sort=word(asked, "sort", rollouts.SORTS),
            graded=flag(asked, "grades"),
        )

    def _rollout(self, asked: Request) -> Any:
        return self._rollouts.one(
            self._of(asked, Kind.TRAIN).place,
            whole_number(asked.path_params["step"], name="step"),
            whole_number(asked.path_params["place"], name="place"),
            begin=number(asked, "from", 0),
            count=number(asked, "count", 4_000, least=1, most=_MOST_TOKENS),
        )

    def _samples_page(self, asked: Request) -> Any:
        return self._samples.page(
            self._of(asked, Kind.SCORE).place,
            offset=number(asked, "offset", 0),
            limit=number(asked, "limit", 50, least=1, most=_MOST_ROWS),
            verdicts=words_of(asked, "verdict", known=[one.value for one in Verdict]),
            question=asked.query_params.get("question"),
            stop=asked.query_params.get("stop"),
            disputed=flag(asked, "disputed"),
            sort=word(asked, "sort", samples.SORTS),
        )

    def _sample(self, asked: Request) -> Any:
        return self._samples.one(
            self._of(asked, Kind.SCORE).place,
            whole_number(asked.path_params["line"], name="line"),
            begin=number(asked, "from", 0),
            count=number(asked, "count", 20_000, least=1, most=_MOST_CHARACTERS),
        )

    def _compare(self, asked: Request) -> Any:
        a, b = (self._index.entry(required(asked, name)) for name in ("a", "b"))
        links = Links([*self._index.entries(), a, b])
        return self._scores.compared(
            a, b, links, counts_only=word(asked, "part", ("all", "questions")) == "questions"
        )

    def _log(self, asked: Request) -> Any:
        return self._attempts.log(self._of(asked, Kind.ATTEMPT), **_rows(asked, 100))

    def _receipt(self, asked: Request) -> Any:
        return self._attempts.receipt(self._of(asked, Kind.ATTEMPT), required(asked, "try"), **_rows(asked, 200))

    def _device(self, asked: Request) -> Any:
        points = number(asked, "points", 600, least=10, most=_MOST_POINTS)
        return self._attempts.device(self._of(asked, Kind.ATTEMPT), required(asked, "try"), points=points)

    def _of(self, asked: Request, kind: Kind) -> Entry:
        entry = self._index.entry(asked.path_params["id"])
        if entry.kind is not kind:
            raise Gone(f"{entry.name} is a {entry.kind}, and no {kind}")
        return entry

    def _links(self, entry: Entry) -> Links:
        """Among its own: of a run inside of an attempt those of that attempt."""
        if entry.parent is None:
            return Links(self._index.entries())
        return Links(self._index.parts(self._index.entry(entry.parent)))


def _rows(asked: Request, usual: int) -> dict[str, int]:
    return {
        "offset": number(asked, "offset", 0),
        "limit": number(asked, "limit", usual, least=1, most=_MOST_ROWS),
    }


def _answering(endpoint: Callable[[Request], Any]) -> Callable[[Request], Response]:
    def answering(request: Request) -> Response:
        return answer(endpoint(request))

    return answering
