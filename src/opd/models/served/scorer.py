"""The teacher behind its servers as a `Scorer`."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from opd.models.served.exchange import MayPass, Refused, Wire, WrongReply, client, servers_key
from opd.models.served.probe import Probe, reference_for
from opd.models.served.proof import Needs, proven, scores, takes_longest
from opd.models.served.replicas import Replica, Step
from opd.models.served.reply import Scores
from opd.models.served.settings import ServedSettings
from opd.records.errors import AskedWrongly
from opd.records.rollouts import Rollout, ScoredRollout
from opd.records.served import TeacherServer

T = TypeVar("T")


class ServedScorer:
    """A `Scorer` for sequences of at most `sequence_tokens` tokens, prompt and response together.

    `reference` is what each server is compared with, `alternatives` so many of the teacher's likeliest tokens at each
    place, `ranks` how many processes share the servers, `section` of the recipe where they are named; `is_said`: this
    one of them says what happens to a server. Nothing is asked before `start`, or `go_on` with what another rank's
    start has found.
    """

    def __init__(
        self,
        settings: ServedSettings,
        *,
        reference: Probe,
        sequence_tokens: int,
        alternatives: int = 0,
        ranks: int = 1,
        section: str = "machine",
        is_said: bool = True,
    ) -> None:
        self._settings = settings
        self._needs = Needs(
            reference=reference,
            model=settings.model,
            sequence_tokens=sequence_tokens,
            candidates=alternatives,
            section=section,
        )
        self._in_flight = max(1, settings.in_flight // ranks)
        self._is_said = is_said
        self._replicas: list[Replica] = []

    def start(self) -> tuple[TeacherServer, ...]:
        """The servers, each proven and tried with the longest sequence.

        Raises `AskedWrongly` with what is wrong with each of them; all have to be there at the start.
        """
        found = run_here(self._proven())
        faults = [
            f"{url}: {one}" for url, one in zip(self._settings.urls, found, strict=True) if isinstance(one, Exception)
        ]
        if faults:
            raise AskedWrongly(
                "\n  - ".join([f"{self._needs.section}.served: not every server can score for this run:", *faults])
            )
        servers = tuple(one for one in found if isinstance(one, TeacherServer))
        self.go_on(servers)
        return servers

    def go_on(self, servers: Sequence[TeacherServer]) -> None:
        """These servers are taken as they are: another process has proven them for this run."""
        self._replicas = [
            Replica(facts=one, first_pause_seconds=self._settings.pause_seconds, is_said=self._is_said)
            for one in servers
        ]

    def score(self, rollouts: Sequence[Rollout]) -> list[ScoredRollout]:
        """Each rollout with the teacher's log-probability (nats) of its tokens; see `Scorer`.

        Raises `AnswerIsNo` when no server answers for as long as patience lasts, or all of them answer wrongly.
        """
        if not rollouts:
            return []
        found = run_here(self._scored(rollouts))
        return [
            ScoredRollout(rollout=rollout, teacher_logp=one.logp, alternatives=one.alternatives)
            for rollout, one in zip(rollouts, found, strict=True)
        ]

    @property
    def records(self) -> tuple[TeacherServer, ...]:
        """What a run keeps of its teacher's servers."""
        return tuple(one.record for one in self._replicas)

    async def _proven(self) -> list[TeacherServer | Exception]:
        async with Wire(self._settings) as wire:
            return await asyncio.gather(*(self._tried(wire, url) for url in self._settings.urls))

    async def _tried(self, wire: Wire, url: str) -> TeacherServer | Exception:
        try:
            server = await proven(wire, url, self._needs)
            await takes_longest(wire, server, self._needs)
        except (MayPass, Refused, WrongReply) as error:
            return error
        return server

    async def _scored(self, rollouts: Sequence[Rollout]) -> list[Scores]:
        asked = [(*one.prompt.token_ids, *one.token_ids) for one in rollouts]
        async with Wire(self._settings) as wire:

            async def ask(server: TeacherServer, index: int) -> Scores:
                return await scores(
                    wire,
                    server.url,
                    server.model,
                    asked[index],
                    first=len(rollouts[index].prompt.token_ids),
                    candidates=self._needs.candidates,
                )

            async def prove(server: TeacherServer) -> TeacherServer:
                return await proven(wire, server.url, self._needs)

            step = Step(
                replicas=self._replicas,
                in_flight=self._in_flight,
                patience_seconds=self._settings.patience_seconds,
                ask=ask,
                prove=prove,
            )
            return await step.scored([len(ids) for ids in asked])


def served_scorer(
    settings: ServedSettings,
    teacher: Path,
    *,
    dtype: str,
    sequence_tokens: int,
    alternatives: int,
    ranks: int = 1,
    section: str = "machine",
    is_said: bool = True,
    first: Callable[[Callable[[], Any]], Any] = lambda call: call(),
) -> ServedScorer:
    """The scorer of a run whose teacher's directory is this, with every server proven.

    `first` gives each of the run's processes what the call gives at one of them. Raises `AskedWrongly` for a server
    that is not the teacher, or can't score the run's longest sequence.
    """
    scorer = ServedScorer(
        settings,
        reference=first(lambda: reference_for(settings, teacher, dtype=dtype)),
        sequence_tokens=sequence_tokens,
        alternatives=alternatives,
        ranks=ranks,
        section=section,
        is_said=is_said,
    )
    scorer.go_on(first(scorer.start))
    return scorer


def check_served(settings: ServedSettings | None, *, temperature: float, section: str = "machine") -> None:
    """Nothing, when a run can be scored by these servers; else `AskedWrongly` (faults E44)."""
    if settings is None:
        raise AskedWrongly(
            f'{section}.scorer = "served" needs the servers: {section}.served.urls = ["http://127.0.0.1:8000"]'
        )
    if temperature != 1:
        raise AskedWrongly(
            f"temperature = {temperature} with a teacher behind a server: its prompt_logprobs are those of "
            f'temperature 1; set rollouts.temperature = 1, or {section}.scorer = "plain"'
        )


def check_here(settings: ServedSettings | None, *, section: str = "machine") -> None:
    """Nothing, when this machine has what asking takes: the library and the key; else `AskedWrongly`."""
    client()
    servers_key(settings, section=section)


def run_here(work: Coroutine[Any, Any, T]) -> T:
    """What the coroutine gives, in a notebook too, whose own loop is running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
