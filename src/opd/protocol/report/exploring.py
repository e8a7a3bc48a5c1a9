"""The exploration in units: up to the end of each measurement, and what came after the last.

    U-01  from the beginning to the end of the first measurement
    U-02  from there to the end of the second …
    U-0n  what was trained and never measured, or done to the end, where there is any of it

Beside each unit stands what the explorer said of it; see `saying`.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from opd.protocol.report.saying import DEVICE, Said, Window, Words, messages, notes, words
from opd.protocol.report.sources import Fact, Sources
from opd.protocol.report.trainings import Training, training_of, unmeasured
from opd.protocol.supervision.device import IDLE_SHARE

_SHORTEST_STRETCH_SECONDS = 5.0  # of idle time that is shown: the window of the ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command that had the device."""

    words: Fact
    begin: float
    end: float
    programs: tuple[Fact, ...] = ()  # that were seen to begin meanwhile, as the system names them


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A proxy measurement."""

    proxy: Fact  # outcome.json
    score: Fact | None  # score.json
    training: Training | None

    @property
    def number(self) -> int:
        """1, 2, 3 …"""
        return int(self.proxy.value["number"])

    @property
    def evaluation(self) -> str | None:
        """The folder that `opd evaluate` left; None where there is no score."""
        return f"{self.proxy.file.rpartition('/')[0]}/evaluation" if self.score else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A unit."""

    number: int
    begin: float
    end: float
    measured: Measured | None
    commands: tuple[Command, ...] = ()
    trainings: tuple[Training, ...] = ()  # never measured

    @property
    def id(self) -> str:
        """U-01."""
        return f"U-{self.number:02d}"

    @property
    def training_began(self) -> float:
        """When its first command had the device; without one, when its measurement began."""
        if self.commands:
            return self.commands[0].begin
        return float(self.measured.proxy.value["began_at_seconds"]) if self.measured else self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """All of it."""

    name: str  # explore/attempt-001
    outcome: Fact | None  # outcome.json
    receipt: Fact
    began_utc: str
    began: Fact  # when its program was first seen to run, else when its try began
    units: tuple[Unit, ...]
    said: tuple[Said, ...]
    idle: tuple[tuple[float, float], ...]
    desk: tuple[tuple[Fact, float], ...]  # what was asked of us, and when

    def words(self, unit: Unit) -> Words:
        """What the explorer said of a unit."""
        return words(self.said, [_window(one) for one in self.units], self.units.index(unit))

    @property
    def measured(self) -> tuple[Measured, ...]:
        """All measurements, in order."""
        return tuple(unit.measured for unit in self.units if unit.measured)


class _Clock:
    """Active seconds since the explorer was started, of a moment by the calendar: the machine's sleep is left out."""

    def __init__(self, began_utc: str, seconds: Sequence[Fact]) -> None:
        self._began = datetime.fromisoformat(began_utc)
        known = [(datetime.fromisoformat(one.value["utc"]), float(one.value["monotonic"])) for one in seconds]
        self._at = [at for at, _ in known]
        self._monotonic = [monotonic for _, monotonic in known]

    def of(self, utc: str) -> float:
        at = datetime.fromisoformat(utc)
        place = bisect_right(self._at, at) - 1
        if place < 0:
            return max(0.0, (at - self._began).total_seconds())
        to_first = max(0.0, (self._at[0] - self._began).total_seconds())
        return to_first + self._monotonic[place] - self._monotonic[0] + (at - self._at[place]).total_seconds()


def exploration(sources: Sources, name: str, *, started_utc: str | None) -> Exploration:
    """The exploration of this try; `started_utc` is when its log says that the explorer was started."""
    receipt = sources.fact(f"{name}/receipt.json")
    began_utc = started_utc or str(receipt.value["began_utc"])
    seconds = [one for one in sources.lines(f"{name}/device.jsonl") if {"utc", "monotonic"} <= one.value.keys()]
    clock = _Clock(began_utc, seconds)
    measured = tuple(_measured(sources, name))
    desk = tuple((line, clock.of(line.value["began"])) for line in sources.lines(f"{name}/desk.jsonl"))
    trainings = tuple(unmeasured(sources, name, {one.training.folder for one in measured if one.training}))
    programs = [line for line in sources.lines(f"{name}/processes.jsonl") if {"at", "command"} <= line.value.keys()]
    commands = tuple(_commands(sources, name, clock, programs))
    outcome = sources.json(f"{name}/outcome.json")
    end = float(outcome.value["seconds"]) if outcome else clock.of(str(receipt.value["ended_utc"]))
    units = tuple(_units(measured, commands, trainings, end))
    said = tuple(sorted((*notes(desk), *messages(sources, name, clock.of)), key=lambda one: one.at))
    return Exploration(
        name=name, outcome=outcome, receipt=receipt, began_utc=began_utc,
        began=programs[0]["at"] if programs else receipt["began_utc"], units=units, said=said,
        idle=tuple(_idle(seconds, clock)), desk=desk,
    )  # fmt: skip


def _measured(sources: Sources, name: str) -> Iterator[Measured]:
    folder = sources.attempt / name / "proxy"
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        proxy = sources.json(f"{name}/proxy/{path.name}/outcome.json")
        if proxy is not None:
            score = sources.json(f"{name}/proxy/{path.name}/evaluation/score.json")
            yield Measured(
                proxy=proxy,
                score=score if proxy.value["mean"] is not None else None,
                training=training_of(sources, name, proxy),
            )


def _commands(sources: Sources, name: str, clock: _Clock, programs: Sequence[Fact]) -> Iterator[Command]:
    """Each lasts until the same shell begins the next."""
    lines = [line for line in sources.lines(f"{name}/commands.jsonl") if "command" in line.value]
    for place, line in enumerate(lines):
        if DEVICE not in str(line.value["command"]).split():
            continue
        later = (one for one in lines[place + 1 :] if one.value["process"] == line.value["process"])
        begin = clock.of(line.value["at"])
        after = next((clock.of(one.value["at"]) for one in later), begin)
        meanwhile = (one for one in programs if begin <= clock.of(one.value["at"]) < after)
        yield Command(
            words=line["command"], begin=begin, end=after, programs=tuple(one["command"] for one in meanwhile)
        )


def _idle(seconds: Sequence[Fact], clock: _Clock) -> Iterator[tuple[float, float]]:
    """Stretches in which the device did nothing, second after second."""
    begin = before = None
    for second in seconds:
        at = clock.of(second.value["utc"])
        if _busy(second) < IDLE_SHARE:
            begin = begin if begin is not None else (before if before is not None else at)
        elif begin is not None and before is not None:
            if before - begin >= _SHORTEST_STRETCH_SECONDS:
                yield begin, before
            begin = None
        before = at
    if begin is not None and before is not None and before - begin >= _SHORTEST_STRETCH_SECONDS:
        yield begin, before


def _busy(second: Fact) -> float:
    value = second.value
    if value.get("evaluating"):
        return 1.0
    return max((gpu.get("busy") or 0.0 for gpu in value.get("gpus") or ()), default=value.get("cpu_share") or 0.0)


def _units(
    measured: Sequence[Measured], commands: Sequence[Command], trainings: Sequence[Training], end: float
) -> Iterator[Unit]:
    """An unmeasured training goes to the unit whose command names its folder, else to the last."""
    begin = 0.0
    left = list(trainings)
    for number, one in enumerate(measured, start=1):
        until = float(one.proxy.value["ended_at_seconds"])
        mine = tuple(command for command in commands if begin <= command.begin < until)
        ours = tuple(training for training in left if any(_names(command, training) for command in mine))
        left = [training for training in left if training not in ours]
        yield Unit(number=number, begin=begin, end=until, measured=one, commands=mine, trainings=ours)
        begin = until
    rest = tuple(command for command in commands if command.begin >= begin)
    if rest or left:
        number = len(measured) + 1
        yield Unit(
            number=number, begin=begin, end=max(begin, end), measured=None, commands=rest, trainings=tuple(left)
        )


def _names(command: Command, training: Training) -> bool:
    """Whether a command's words hold the name of a training's folder, as a whole."""
    name = re.escape(training.folder.rpartition("/")[2])
    return re.search(rf"(?<![\w.-]){name}(?![\w.-])", str(command.words.value)) is not None


def _window(unit: Unit) -> Window:
    folders = [one.folder for one in unit.trainings]
    names = set()
    if unit.measured is not None:
        checkpoint = str(unit.measured.proxy.value["checkpoint"]).rstrip("/")
        folders += [checkpoint, checkpoint.rpartition("/")[0]]
        names = {str(unit.measured.number), f"{unit.measured.number:03d}"}
    names |= {*folders, *(folder.rpartition("/")[2] for folder in folders)}
    return Window(
        begin=unit.begin,
        trained=unit.training_began,
        last_trained=unit.commands[-1].begin if unit.commands else unit.training_began,
        end=unit.end,
        names=frozenset(filter(None, names)),
        is_measured=unit.measured is not None,
    )
