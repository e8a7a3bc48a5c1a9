"""Workers on the machines of a cluster, and the work that is handed out to them.

    asked for ── introduced ── has tried the folder ── begun ── idle ⇄ at work
        a machine with another install, or without the folder, is refused by name before anything is run

Ray places a worker wherever its device is free. One that is lost, with its machine or alone, gives its work back, and
Ray is asked for another in its place; work that fails goes to whoever is free. What failed twice, or was asked
wrongly, is over, with its last error. Nothing is remembered here that a later call needs: what is done stands on the
disk.
"""

import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from opd.fanout import remote
from opd.fanout.cluster import Cluster
from opd.fanout.comparing import SharedFolder, refuse_other_install
from opd.records.errors import AnswerIsNo, AskedWrongly, OpdError

MOST_TRIES = 2
WAIT_SECONDS = 15.0  # then it is said that the cluster has no place yet
FOLDER_SECONDS = 90.0  # a share that recovers takes some tens of seconds; one that is gone holds whoever asks
_TICK_SECONDS = 1.0
_DETAIL = re.compile(r"Worker exit detail: (.*?)(?: Some common causes|$)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Call:
    """One piece of work: what it is called where it fails, and what `do` is given."""

    name: str
    values: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a call: an answer, or the last error of those that it met."""

    call: Call
    answer: Any = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What every worker begins with, and what it is given."""

    target: str
    """`module:function` of the install: values → what does a call."""
    values: Any
    needs: Mapping[str, float]
    """Of Ray's resources: `CPU`, `GPU`."""
    folder: SharedFolder


@dataclass(slots=True, kw_only=True, eq=False)
class _Worker:
    number: int
    actor: Any
    waits: Any  # Ray's reference to the answer that is due
    at: str = "introduce"
    place: Mapping[str, str] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)  # it was asked what it is asked now
    is_late: bool = False
    call: Call | None = None
    asked_wrongly: bool = False  # its last call, which would fail every time
    replaces: bool = False  # one that was lost before it had begun

    @property
    def name(self) -> str:
        """As a person would look for it."""
        if not self.place:
            return f"worker {self.number}"
        gpu = f", GPU {self.place['gpus']}" if self.place["gpus"] else ""
        return f"worker {self.number} ({self.place['host']}{gpu}, process {self.place['process']})"

    @property
    def has_begun(self) -> bool:
        """Whether it has what it works with."""
        return self.at == "work"


class Pool:
    """So many workers, while it is entered; `start` it before it works.

    `say` is told in a sentence of what isn't progress, `count` how many workers there are whenever that changes.
    """

    def __init__(
        self,
        cluster: Cluster,
        work: Work,
        *,
        say: Callable[[str], None] = lambda _: None,
        count: Callable[[int], None] = lambda _: None,
    ) -> None:
        import ray

        self._ray = ray
        self._cluster = cluster
        self._asked = work
        self._say = say
        self._count = count
        self._install = remote.install()
        self._workers: list[_Worker] = []
        self._hired = 0
        ray.cloudpickle.register_pickle_by_value(remote)
        self._kind = ray.remote(remote.RemoteWorker)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            self._ray.kill(worker.actor)

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The processes of the workers that have introduced themselves, on whatever machine."""
        return tuple(int(worker.place["process"]) for worker in self._workers if worker.place)

    def start(self, count: int) -> None:
        """So many have been compared with this process and have begun.

        Raises `AnswerIsNo` for another install, for a folder that can't be used, and when one is lost twice; what the
        target raises as an `OpdError` comes through as it is.
        """
        for _ in range(count):
            self._ask_for()
        while not all(worker.has_begun for worker in self._workers):
            for worker in self._heard():
                self._lead(worker)
        hosts = len({worker.place["host"] for worker in self._workers})
        machines = f"{hosts} machine{'' if hosts == 1 else 's'} of a Ray cluster"
        where = "this machine, with a Ray of its own" if self._cluster.is_local else machines
        self._say(f"{count} worker{'' if count == 1 else 's'} on {where}")
        self._count(count)

    def work(
        self,
        calls: Sequence[Call],
        *,
        interrupted: Callable[[], bool] = lambda: False,
        fault: Callable[[Call, Any], str | None] = lambda *_: None,
    ) -> Iterator[Outcome]:
        """What came of each call, as soon as it is known; none is handed out any more once it is interrupted.

        `fault` says of an answer why it doesn't count, and then the call has failed.
        """
        due = deque(calls)
        failures: dict[Call, list[str]] = {call: [] for call in calls}
        while True:
            if interrupted():
                due.clear()
            for worker in self._workers:
                if worker.has_begun and worker.call is None and due:
                    worker.call, worker.asked_wrongly = due.popleft(), False
                    worker.waits = worker.actor.do.remote(worker.call.values)
            if not due and not any(worker.call for worker in self._workers):
                return
            for worker in self._heard():
                if not worker.has_begun:
                    self._lead(worker)
                    continue
                call = worker.call
                assert call is not None, "it was at work"
                answer, error = self._answer(worker)
                worker.call = None
                error = error or fault(call, answer)
                if error is None:
                    yield Outcome(call=call, answer=answer)
                    continue
                failures[call].append(error)
                if len(failures[call]) < MOST_TRIES and not worker.asked_wrongly:
                    self._say(f"{call.name} failed and is tried again: {error}")
                    due.append(call)
                else:
                    yield Outcome(call=call, error=error)

    def _heard(self) -> list[_Worker]:
        """Those that have an answer, or are lost; waits a moment for one."""
        waiting = {worker.waits: worker for worker in self._workers if worker.waits is not None}
        if not waiting:
            raise AnswerIsNo("no worker is left; what stands is kept, and the same command goes on from there")
        heard, _ = self._ray.wait(list(waiting), num_returns=1, timeout=_TICK_SECONDS)
        self._watch(worker for ref, worker in waiting.items() if ref not in heard)
        return [waiting[ref] for ref in heard]

    def _lead(self, worker: _Worker) -> None:
        """Takes a worker that has answered one step closer to its work."""
        answer, error = self._answer(worker)
        if error is not None:
            if worker.at == "lost":
                return
            raise AnswerIsNo(f"{worker.name} can't begin: {error}")
        worker.since = time.monotonic()
        if worker.at == "introduce":
            worker.place = answer["place"]
            refuse_other_install(answer["install"], self._install, where=worker.name)
            known = self._asked.folder
            worker.at = "folder"
            worker.waits = worker.actor.try_folder.remote(str(known.path), known.name, known.content)
        elif worker.at == "folder":
            self._asked.folder.refuse(answer, where=f"by {worker.name}")
            worker.at = "begin"
            worker.waits = worker.actor.begin.remote(self._asked.target, self._asked.values)
        else:
            worker.at = "work"
            self._count(sum(one.has_begun for one in self._workers))

    def _answer(self, worker: _Worker) -> tuple[Any, str | None]:
        """What a worker said, or why it didn't; one that is lost is replaced."""
        ref, worker.waits = worker.waits, None
        try:
            return self._ray.get(ref), None
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, OpdError) and not worker.has_begun:
                raise error.cause from None
            worker.asked_wrongly = isinstance(error.cause, AskedWrongly)
            return None, f"{worker.name}: {_of_task(error)}"
        except self._ray.exceptions.RayError as error:
            return None, self._lost(worker, _of_loss(error))

    def _lost(self, worker: _Worker, why: str) -> str:
        """Says that it is lost, and asks for another; raises `AnswerIsNo` when that one was lost so early, too."""
        self._workers.remove(worker)
        early = not worker.has_begun
        doing = worker.call.name if worker.call else "before it had begun" if early else "between two calls"
        lost = f"{worker.name} was lost ({doing}): {why}"
        worker.at = "lost"
        if early and worker.replaces:
            raise AnswerIsNo(f"{lost}; so was the one before it. What stands is kept")
        self._say(f"{lost}; another is asked for")
        self._count(sum(one.has_begun for one in self._workers))
        self._ask_for(replaces=early)
        return lost

    def _ask_for(self, *, replaces: bool = False) -> None:
        needs = dict(self._asked.needs)
        actor = self._kind.options(
            num_cpus=needs.pop("CPU", 0), num_gpus=needs.pop("GPU", 0), resources=needs, max_restarts=0
        ).remote()
        self._workers.append(
            _Worker(number=self._hired, actor=actor, waits=actor.introduce.remote(), replaces=replaces)
        )
        self._hired += 1

    def _watch(self, workers: Iterator[_Worker]) -> None:
        """Says once of a worker that Ray has no place for it; refuses a folder whose server must be gone."""
        for worker in workers:
            seconds = time.monotonic() - worker.since
            if worker.at == "introduce" and seconds > WAIT_SECONDS and not worker.is_late:
                worker.is_late = True
                self._say(f"Ray has no place for {worker.name} yet; waiting for one")
            if worker.at == "folder" and seconds > FOLDER_SECONDS:
                fault = f"it has not answered for {FOLDER_SECONDS:g} seconds"
                self._asked.folder.refuse(fault, where=f"by {worker.name}")


def _of_task(error: Any) -> str:
    """The last error that a call raised, in a line."""
    cause = getattr(error, "cause", None) or error
    said = str(cause).strip().splitlines()
    return f"{type(cause).__name__}: {said[-1]:.300}" if said else type(cause).__name__


def _of_loss(error: Exception) -> str:
    """How a worker ended, in a line of Ray's own words."""
    text = str(error)
    found = _DETAIL.search(text)
    return " ".join((found.group(1) if found else text.partition("\n")[0]).split())[:300]
