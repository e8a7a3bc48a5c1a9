"""One program until its end: within its time and its limits, and nothing of it left alive afterwards.

    started ── runs ──────────────────── deadline − grace ──── deadline
                 │ ends by itself            SIGTERM             SIGKILL to all
                 │ `stop` gives a reason ──> SIGTERM ── grace ── SIGKILL to all
                 │ a limit is passed ─────────────────────────── SIGKILL to all
                 └ in each case: what is left is named, then ended, then looked for once more

SIGTERM goes to the program's process group; when the program itself has obeyed, others of it may use the rest of the
grace, since a shell obeys at once while what it started is still saving. Time is active time: sleep of the machine
isn't charged. When this process dies, of SIGKILL even, the first process in the sandbox ends the rest.
"""

import select
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from opd.protocol.clock import Deadline, Stopwatch
from opd.protocol.sandbox import cgroups
from opd.protocol.sandbox.cgroups import Group
from opd.protocol.sandbox.first import First, NotStarted
from opd.protocol.sandbox.launch import Launch
from opd.protocol.supervision import processes
from opd.protocol.supervision.output import Stream
from opd.protocol.supervision.processes import Life
from opd.protocol.supervision.usage import Meter, Sample, Watch, held_by
from opd.records.settings import Settings

Reason = Literal["ended", "deadline", "stopped", "limit", "lost", "not_started"]

Streams = tuple[Stream, Stream]
"""Of what is printed, and of what is complained."""

OUTPUT_BYTES = 64 << 20

_MOST_NAMED = 50  # of what is left
_SETTLE_SECONDS = 0.5  # children that are just ending when their parent has are no daemons
_LOOK_SECONDS = 0.02
_BETWEEN_READS_SECONDS = 0.01
_END_SECONDS = 10.0  # for the first process to end everything; after that it is done from here


class Ended(Settings):
    """How a program ended, and what it took."""

    reason: Reason
    """ended: by itself. deadline: its time was up. stopped: someone asked. limit: it used too much of something.
    lost: its sandbox died under it. not_started: the sandbox, or the program in it, didn't come to life."""
    stopped_because: str | None
    """Who asked, which limit, what was heard of the sandbox; null for `ended` and `deadline`."""
    exit_code: int | None = None
    """The program's own; null when a signal ended it, or nothing is known of its end."""
    signal: str | None = None
    """SIGKILL and the like: what ended the program itself."""
    active_seconds: float
    suspended_seconds: float = 0.0
    cpu_seconds: float = 0.0
    """Of everything that it started."""
    largest_rss_bytes: int = 0
    """Of its largest process."""
    most_processes: int = 0
    """Seen at one moment."""
    oom_killed: bool = False
    """The kernel killed a process since the memory of this program's own control group was used up."""
    left_processes: tuple[Life, ...] = ()
    """What still ran when the program had ended or had to; all were killed."""
    survivors: tuple[Life, ...] = ()
    """What could not be killed within seconds; empty, but for a process that hangs in the kernel."""
    printed_bytes: int = 0
    left_out_bytes: int = 0
    """Of what was printed, not kept."""
    limits_held: dict[str, str] = {}
    """What held each limit: a control group, a limit of each process, or looks by the supervisor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Terms:
    """What was asked for."""

    deadline: Deadline | None
    grace_seconds: float
    stop: Callable[[], str | None]
    tick: Callable[[Sample], None]
    tick_seconds: float


def supervise(
    launch: Launch,
    *,
    deadline: Deadline | None,
    grace_seconds: float,
    out: Path,
    err: Path,
    stop: Callable[[], str | None] = lambda: None,
    tick: Callable[[Sample], None] = lambda sample: None,  # noqa: ARG005
    tick_seconds: float = 1.0,
    watch: Watch | None = None,
    output_bytes: int = OUTPUT_BYTES,
) -> Ended:
    """How the program ended; when this returns, or raises, nothing of it is alive.

    `stop` is asked and `tick` told every `tick_seconds`. What they raise, as does Ctrl-C, ends the program and goes
    on. `out` and `err` get what it prints, each at most about `output_bytes` of it.
    """
    terms = _Terms(deadline=deadline, grace_seconds=grace_seconds, stop=stop, tick=tick, tick_seconds=tick_seconds)
    for folder in launch.folders:
        folder.mkdir(parents=True, mode=0o700)
    streams = (Stream(out, most_bytes=output_bytes), Stream(err, most_bytes=output_bytes))
    try:
        return _supervised(launch, terms, streams=streams, watch=watch or Watch())
    finally:
        for stream in streams:
            stream.close()
        if launch.folders:
            shutil.rmtree(launch.folders[0].parent, ignore_errors=True)


def _supervised(launch: Launch, terms: _Terms, *, streams: Streams, watch: Watch) -> Ended:
    stopwatch = Stopwatch()
    try:
        first = First(launch, out=streams[0], err=streams[1])
    except NotStarted as error:
        for stream in streams:
            stream.drain()
        because = f"{error}: {streams[1].log.last_line()}"
        return Ended(reason="not_started", stopped_because=because, active_seconds=stopwatch.active_seconds)
    group = cgroups.join(launch.mark, launch.orders.limits, first.pid) if launch.own_group else None
    meter = Meter(pid=first.pid, group=group, limits=launch.orders.limits, watch=watch, scratch=launch.folders)
    run = _Run(first, meter, streams, stopwatch, terms)
    held = group.held if group is not None else {}
    try:
        first.give(launch.orders.to_json(memory_by_process="memory_bytes" not in held))
        run.attend()
    finally:
        survivors = run.end(group, launch.mark)
        oom_killed = group is not None and group.memory_kills() > 0
        if group is not None:
            group.remove()
    return run.report(survivors, held=held_by(launch, held), oom_killed=oom_killed)


class _Run:
    """A program at work."""

    def __init__(self, first: First, meter: Meter, streams: Streams, stopwatch: Stopwatch, terms: _Terms) -> None:
        self._first = first
        self._meter = meter
        self._streams = streams
        self._stopwatch = stopwatch
        self._terms = terms
        self._reason: Reason | None = None  # set when it is to be over now
        self._because: str | None = None
        self._asked: Reason | None = None  # why SIGTERM was sent
        self._grace_ends = float("inf")
        self._left: tuple[Life, ...] = ()

    def attend(self) -> None:
        """Returns when the program has ended, or has to."""
        next_tick = time.monotonic()
        while self._reason is None:
            at = time.monotonic()
            if at >= next_tick:
                self._tick()
                next_tick = at + self._terms.tick_seconds
            self._wait(min(next_tick - at, self._seconds_to_next_change()))
            self._decide()
        if self._reason == "ended":
            self._settle()
        self._left = processes.lives_of(self._meter.members()[:_MOST_NAMED])

    def _wait(self, seconds: float) -> None:
        """Takes in what is printed and said, until there was something or the time is over."""
        poll = select.poll()
        poll.register(self._first.socket, select.POLLIN)
        for stream in self._streams:
            if stream.open:
                poll.register(stream.reading, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(max(0.0, seconds) * 1000)}
        if self._first.socket.fileno() in ready:
            self._first.listen()
        taken_in = [stream.pump() for stream in self._streams if stream.reading in ready]
        if any(taken_in):
            time.sleep(_BETWEEN_READS_SECONDS)  # whoever prints without end is slowed down, and costs little

    def _seconds_to_next_change(self) -> float:
        """Until the deadline, the grace before it or after a stop, or a look whether all has obeyed."""
        if self._asked is not None and self._first.status is not None:
            return _LOOK_SECONDS
        until = [self._grace_ends - time.monotonic()]
        if self._terms.deadline is not None:
            left = self._terms.deadline.left()
            until.append(left if self._asked else left - self._terms.grace_seconds)
        return min(until)

    def _tick(self) -> None:
        self._stopwatch.tick()
        self._meter.look()
        for stream in self._streams:
            stream.log.flush()
        deadline = self._terms.deadline
        self._terms.tick(
            Sample(
                active_seconds=self._stopwatch.active_seconds,
                left_seconds=None if deadline is None else deadline.left(),
                processes=len(self._meter.pids),
                memory_bytes=self._meter.memory_bytes,
                cpu_seconds=self._meter.cpu_seconds,
                printed_bytes=sum(stream.log.written_bytes for stream in self._streams),
            )
        )
        if self._asked is None and (because := self._terms.stop()) is not None:
            self._soften("stopped", because)
        if (passed := self._meter.passed()) is not None:
            self._reason, self._because = "limit", passed

    def _decide(self) -> None:
        """Whether it is over, or SIGTERM is due. A sandbox that died says less than a program that had ended."""
        first, deadline = self._first, self._terms.deadline
        if first.unstarted is not None:
            self._reason, self._because = "not_started", first.unstarted
        elif first.status is not None and self._asked is None:
            self._reason = "ended"
        elif first.gone:
            self._reason, self._because = "lost", "the first process of the sandbox ended without a word"
        elif deadline is not None and deadline.left() <= 0:
            self._reason, self._because = "deadline", None
        elif time.monotonic() >= self._grace_ends or (first.status is not None and not self._living()):
            self._reason = self._asked
        elif deadline is not None and self._asked is None and deadline.left() <= self._terms.grace_seconds:
            self._soften("deadline", None)

    def _soften(self, reason: Reason, because: str | None) -> None:
        self._asked, self._because = reason, because
        self._grace_ends = time.monotonic() + self._terms.grace_seconds
        self._first.soften()

    def _living(self) -> bool:
        return bool(processes.lives_of(self._meter.members()))

    def _settle(self) -> None:
        ending = time.monotonic() + _SETTLE_SECONDS
        while time.monotonic() < ending and not self._first.gone and self._living():
            self._wait(_LOOK_SECONDS)

    def end(self, group: Group | None, mark: str) -> tuple[Life, ...]:
        """Nothing is alive, but for those that are given: they could not be killed."""
        known = dict.fromkeys((*self._meter.pids, *(group.members() if group else ())))
        lives = processes.lives_of(pid for pid in known if pid != self._first.pid)
        self._first.finish()
        ending = time.monotonic() + _END_SECONDS
        while not self._first.gone and time.monotonic() < ending:
            self._wait(_LOOK_SECONDS)
        orderly = self._first.used is not None
        if not orderly and group is not None:
            group.kill()
        if not (orderly and self._first.wait(_END_SECONDS)):
            self._first.kill()
        self._first.close()
        for stream in self._streams:
            stream.drain()

        def remaining() -> tuple[Life, ...]:
            found = {life.pid: life for life in lives if life.lives()}
            found |= {life.pid: life for life in processes.lives_of(group.members() if group else ())}
            if not orderly:
                found |= {life.pid: life for life in processes.marked(mark)}
            return tuple(found.values())

        return processes.end(remaining)

    def report(self, survivors: tuple[Life, ...], *, held: dict[str, str], oom_killed: bool) -> Ended:
        """The record of it."""
        assert self._reason is not None, "attended to until it was over"
        self._stopwatch.tick()
        status = self._first.status if self._reason != "not_started" else None  # it would be the first process's word
        used = self._first.used or {}
        return Ended(
            reason=self._reason,
            stopped_because=self._because,
            exit_code=status.exit_code if status else None,
            signal=status.signal if status else None,
            active_seconds=self._stopwatch.active_seconds,
            suspended_seconds=self._stopwatch.suspended_seconds,
            cpu_seconds=used.get("cpu_seconds", self._meter.cpu_seconds),
            largest_rss_bytes=used.get("rss_bytes", status.rss_bytes if status else 0),
            most_processes=self._meter.most_processes,
            oom_killed=oom_killed,
            left_processes=self._left,
            survivors=survivors,
            printed_bytes=sum(stream.log.written_bytes for stream in self._streams),
            left_out_bytes=sum(stream.log.left_out_bytes for stream in self._streams),
            limits_held=held,
        )
