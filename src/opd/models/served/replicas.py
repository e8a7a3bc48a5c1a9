"""Several servers of one teacher: who is asked next, who is left out, and when all is lost.

A rollout goes to the server with the fewest tokens under way; at most `in_flight` requests are, and the others wait
here. The longest go first, so that none is left alone at the end of a step.

    ok ──MayPass──► out, for a pause ──► proven anew ──► ok
     │                  └──────────── MayPass ◄┘ └── Refused, WrongReply ──► left out for good
     └──status 429──► ok, asked again after a pause

What a server answered counts once it has been proven after its last answer of the step: a server that goes wrong
answers as quickly as before. The answers of one that fails are dropped, and the others are asked.

All of it runs in one event loop, a step at a time; what is known of a server outlives the step.
"""

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from opd.models.served.exchange import MayPass, Refused, WrongReply
from opd.models.served.reply import Scores
from opd.records.errors import AnswerIsNo
from opd.records.served import TeacherServer

LONGEST_PAUSE_SECONDS = 60.0
MOST_DOUBLINGS = 10
MOST_PROOFS = 3  # that fail, after what a server answered; then others are asked
_LOG = logging.getLogger(__name__)
_CHANCE = random.SystemRandom()  # the run's own random numbers are not touched


@dataclass(slots=True, kw_only=True)
class Replica:
    """What is known of one server."""

    facts: TeacherServer
    first_pause_seconds: float
    is_said: bool = True  # what happens to it; several ranks see the same, and one of them says it
    scored: int = 0
    failures: int = 0
    last: str | None = None  # its last failure
    refused: bool = False  # left out for good
    out_since: float | None = None  # by `time.monotonic`; None: it serves
    back_at: float = 0.0  # it is not asked before
    pauses: int = 0  # in a row

    @property
    def record(self) -> TeacherServer:
        """What a run keeps of it."""
        done = {"scored": self.scored, "failures": self.failures, "last_failure": self.last}
        return self.facts.model_copy(update=done)

    def failed(self, error: MayPass, *, now: float) -> None:
        """It is not asked for a while; unless it was busy alone, it has to be proven anew."""
        self.failures += 1
        self.last = str(error)
        if not error.busy and self.out_since is None:
            self.out_since = now
            self.say(f"is left out for a while: {error}")
        if now < self.back_at:  # others of its requests failed before, of the same
            return
        own = self.first_pause_seconds * 2 ** min(self.pauses, MOST_DOUBLINGS) * _CHANCE.uniform(0.5, 1.5)
        self.pauses += 1
        self.back_at = now + min(max(own, error.pause_seconds), LONGEST_PAUSE_SECONDS)

    def refuse(self, error: Refused | WrongReply, *, now: float) -> None:
        """It is not asked again."""
        self.failures += 1
        self.last = str(error)
        if self.refused:  # others of its requests were under way
            return
        self.refused, self.out_since = True, now
        self.say(f"is left out from now on: {error}")

    def say(self, what: str) -> None:
        """A line on the server."""
        _LOG.log(
            logging.WARNING if self.is_said else logging.INFO, "the teacher's server %s %s", self.facts.url, what
        )


@dataclass(slots=True, kw_only=True, eq=False)
class _Lane:
    """What goes on with one replica in this step."""

    replica: Replica
    under_way: int = 0
    tokens: int = 0  # under way
    proving: bool = False
    unproven: bool = False  # since an answer of its

    def free(self, now: float, in_flight: int) -> bool:
        one = self.replica
        return not one.refused and now >= one.back_at and not self.proving and self.under_way < in_flight


@dataclass(slots=True, kw_only=True)
class Step:
    """The requests of one step, over all replicas.

    `ask` gives the scores of a rollout's tokens by a server; `prove` gives what a server is, when it comes back and
    after its answers.
    """

    replicas: Sequence[Replica]
    in_flight: int
    patience_seconds: float
    ask: Callable[[TeacherServer, int], Awaitable[Scores]]
    prove: Callable[[TeacherServer], Awaitable[TeacherServer]]
    _lanes: list[_Lane] = field(init=False)
    _changed: asyncio.Event = field(init=False, default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._lanes = [_Lane(replica=one) for one in self.replicas]

    async def scored(self, tokens: Sequence[int]) -> list[Scores]:
        """The scores of each rollout, in order, by servers that were proven since; `tokens` are their lengths.

        Raises `AnswerIsNo` when a rollout can't be scored in time, or no server is left that gives scores.
        """
        found: dict[int, tuple[_Lane, Scores]] = {}
        due: Sequence[int] = range(len(tokens))
        dropped_since: float | None = None
        while due:
            found |= await self._answers(due, tokens)
            unproven = await self._unproven({lane for lane, _ in found.values() if lane.unproven})
            due = [index for index, (lane, _) in found.items() if lane in unproven]
            now = time.monotonic()
            dropped_since = dropped_since or (now if due else None)
            if due and dropped_since and now - dropped_since > self.patience_seconds:
                raise AnswerIsNo(self._lost("no server was proven after what it answered", now - dropped_since))
        for lane, _ in found.values():
            lane.replica.scored += 1
        return [found[index][1] for index in range(len(tokens))]

    async def _answers(self, due: Sequence[int], tokens: Sequence[int]) -> dict[int, tuple[_Lane, Scores]]:
        """What came back for each of these rollouts, and from where."""
        found: dict[int, tuple[_Lane, Scores]] = {}
        waiting = deque(sorted(due, key=lambda index: -tokens[index]))

        async def work() -> None:
            while waiting:
                index = waiting.popleft()
                found[index] = await self._scored(index, tokens[index])

        workers = [asyncio.create_task(work()) for _ in range(min(len(due), self.in_flight * len(self._lanes)))]
        await _all_of(workers)
        return found

    async def _scored(self, index: int, tokens: int) -> tuple[_Lane, Scores]:
        failing_since: float | None = None
        while True:
            lane = await self._free_lane()
            replica = lane.replica
            lane.under_way += 1
            lane.tokens += tokens
            try:
                if replica.out_since is not None:
                    await self._prove(lane)
                scores = await self.ask(replica.facts, index)
            except MayPass as error:
                now = time.monotonic()
                replica.failed(error, now=now)
                failing_since = failing_since or now
                if now - failing_since > self.patience_seconds:
                    raise AnswerIsNo(self._lost("a rollout could not be scored", now - failing_since)) from error
            except (Refused, WrongReply) as error:
                replica.refuse(error, now=time.monotonic())
            else:
                lane.unproven = True
                if replica.out_since is None:  # else only a proof brings it back: this may be of what it was before
                    replica.pauses = 0
                return lane, scores
            finally:
                lane.under_way -= 1
                lane.tokens -= tokens
                self._tell()

    async def _unproven(self, lanes: Collection[_Lane]) -> set[_Lane]:
        """Those that are not the teacher any more, or can't be asked: what they answered is dropped."""
        tasks = {lane: asyncio.create_task(self._still_the_teacher(lane)) for lane in lanes}
        await _all_of(tasks.values())
        return {lane for lane, task in tasks.items() if not task.result()}

    async def _still_the_teacher(self, lane: _Lane) -> bool:
        """Whether it was proven after its last answer; it is asked again while it is busy, and else a few times."""
        replica, began, failures = lane.replica, time.monotonic(), 0
        while not replica.refused:
            await asyncio.sleep(max(0.0, replica.back_at - time.monotonic()))
            try:
                await self._prove(lane)
            except MayPass as error:
                now = time.monotonic()
                replica.failed(error, now=now)
                failures += not error.busy
                if failures == MOST_PROOFS or now - began > self.patience_seconds:
                    break
            except (Refused, WrongReply) as error:
                replica.refuse(error, now=time.monotonic())
            else:
                replica.pauses = 0
                return True
        lane.unproven = False  # nothing that it answered is left
        return False

    async def _prove(self, lane: _Lane) -> None:
        """The replica is the teacher still; nothing else is asked of it meanwhile."""
        replica = lane.replica
        lane.proving = True
        try:
            replica.facts = await self.prove(replica.facts)
        finally:
            lane.proving = False
        if replica.out_since is not None:
            replica.out_since = None
            replica.say("is back")
        lane.unproven = False
        self._tell()

    async def _free_lane(self) -> _Lane:
        """The one with the fewest tokens under way, once one has room. Raises `AnswerIsNo` when all are lost."""
        while True:
            now = time.monotonic()
            if free := [lane for lane in self._lanes if lane.free(now, self.in_flight)]:
                return min(free, key=lambda lane: lane.tokens)
            self._check_left(now)
            changed = self._changed
            later = [one.back_at - now for one in self.replicas if not one.refused and one.back_at > now]
            try:
                async with asyncio.timeout(min(later, default=None)):
                    await changed.wait()
            except TimeoutError:
                continue

    def _check_left(self, now: float) -> None:
        since = [one.out_since for one in self.replicas]
        left = [one for one in self.replicas if not one.refused]
        out = [one for one in since if one is not None]
        if not left:
            raise AnswerIsNo(self._lost("all of the teacher's servers are left out"))
        if len(out) < len(since):
            return
        if now - max(out) > self.patience_seconds:
            raise AnswerIsNo(self._lost("none of the teacher's servers answers", now - max(out)))

    def _tell(self) -> None:
        """Who waits looks again."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _lost(self, what: str, seconds: float | None = None) -> str:
        each = [f"{one.facts.url}: {one.last or 'no failure'}" for one in self.replicas]
        since = "" if seconds is None else f", for {seconds:.0f} s"
        return "\n  - ".join([f"{what}{since}; nothing was updated. The last that each said:", *each])


async def _all_of(tasks: Collection[asyncio.Task[Any]]) -> None:
    """All have ended well; where one has failed, or somebody has interrupted, the others are for nothing."""
    try:
        await asyncio.gather(*tasks)
    finally:
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
