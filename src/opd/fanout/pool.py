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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from opd.fanout import remote
from opd.fanout.calls import Call, Calls, Fault, Outcome
from opd.fanout.cluster import Cluster
from opd.fanout.comparing import SharedFolder, refuse_other_install
from opd.records import install
from opd.records.errors import AnswerIsNo, AskedWrongly, OpdError

WAIT_SECONDS = 15.0  # then it is said that the cluster has no place yet
FOLDER_SECONDS = 90.0  # a share that recovers takes some tens of seconds; one that is gone holds whoever asks
LONG_SECONDS = 600.0  # of one piece of work; then it is said, and again after twice as long
BEGIN_SECONDS = 1_800.0  # a large model from a slow share takes some minutes; one from a share that is dead, for ever
_TICK_SECONDS = 1.0
_LOOK_SECONDS = 0.2  # between two looks for what is not seen yet
_DETAIL = re.compile(r"Worker exit detail: (.*?)(?: Some common causes|$)", re.DOTALL)


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
    said_after: float = LONG_SECONDS  # it has been at what it is asked now, when that is said
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

    def asked_now(self) -> None:
        """It has been asked for the next thing."""
        self.since, self.said_after = time.monotonic(), LONG_SECONDS


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
        self._install = install.install()
        self._workers: list[_Worker] = []
        self._hired = 0
        for module in (remote, install):
            ray.cloudpickle.register_pickle_by_value(module)
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

        One that has not begun after half an hour is taken for lost.

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
        fault: Fault = lambda *_: None,
    ) -> Iterator[Outcome]:
        """What came of each call, as soon as it is known; none is handed out any more once it is interrupted.

        Where `fault` says that an answer doesn't count, it is asked again for a while, in which the workers go on:
        what was written elsewhere may be seen here late.
        """
        all_calls = Calls(calls, say=self._say)
        while True:
            if interrupted():
                all_calls.stop()
            for worker in self._workers:
                if worker.has_begun and worker.call is None and all_calls.are_due:
                    self._hand(worker, all_calls.next())
            if not (all_calls.are_due or all_calls.are_looked_for or any(one.call for one in self._workers)):
                return
            for worker in self._heard(looking=all_calls.are_looked_for):
                if worker.has_begun:
                    yield from self._take(worker, all_calls)
                else:
                    self._lead(worker)
            yield from all_calls.seen(fault)

    def _take(self, worker: _Worker, calls: Calls) -> Iterator[Outcome]:
        """What a worker that was at work says of it, which is over where that was its last try."""
        call = worker.call
        assert call is not None, "it was at work"
        answer, error = self._answer(worker)
        worker.call = None
        if error is None:
            calls.answered(call, answer)
        else:
            yield from calls.failed(call, error, for_good=worker.asked_wrongly)

    def _hand(self, worker: _Worker, call: Call) -> None:
        """The worker is at this call from now on."""
        worker.call, worker.asked_wrongly = call, False
        worker.asked_now()
        worker.waits = worker.actor.do.remote(call.values)

    def _heard(self, *, looking: bool = False) -> list[_Worker]:
        """Those that have an answer, or are lost; waits a moment for one, a shorter one for who is `looking`."""
        waiting = {worker.waits: worker for worker in self._workers if worker.waits is not None}
        moment = _LOOK_SECONDS if looking else _TICK_SECONDS
        if not waiting and looking:
            time.sleep(moment)
            return []
        if not waiting:
            raise AnswerIsNo("no worker is left; what stands is kept, and the same command goes on from there")
        heard, _ = self._ray.wait(list(waiting), num_returns=1, timeout=moment)
        self._watch([worker for ref, worker in waiting.items() if ref not in heard])
        return [waiting[ref] for ref in heard]

    def _lead(self, worker: _Worker) -> None:
        """Takes a worker that has answered one step closer to its work."""
        answer, error = self._answer(worker)
        if error is not None:
            if worker.at == "lost":
                return
            raise AnswerIsNo(f"{worker.name} can't begin: {error}")
        worker.asked_now()
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

    def _watch(self, workers: Sequence[_Worker]) -> None:
        """Says of a worker that Ray has no place for it, or that it has been at one thing for long.

        Refuses a folder whose server must be gone, and has one that does not begin replaced.
        """
        for worker in workers:
            seconds = time.monotonic() - worker.since
            if worker.at == "introduce":
                if seconds > WAIT_SECONDS and not worker.is_late:
                    worker.is_late = True
                    self._say(f"Ray has no place for {worker.name} yet; waiting for one")
            elif worker.at == "folder":
                if seconds > FOLDER_SECONDS:
                    fault = f"it has not answered for {FOLDER_SECONDS:g} seconds"
                    self._asked.folder.refuse(fault, where=f"by {worker.name}")
            elif worker.at == "begin" and seconds > BEGIN_SECONDS:
                worker.waits = None
                self._ray.kill(worker.actor)
                self._lost(worker, f"it had not begun after {_spoken(seconds)}, as where what it loads is gone")
            elif seconds > worker.said_after:
                worker.said_after *= 2
                doing = "loading what it works with" if worker.call is None else f"at {worker.call.name}"
                self._say(
                    f"{worker.name} has been {doing} for {_spoken(seconds)}; if it hangs, as on a share that is gone "
                    "there, end that process: another goes on in its place"
                )


def _spoken(seconds: float) -> str:
    """In minutes, as people say it; in seconds where it is less than two."""
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"


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
