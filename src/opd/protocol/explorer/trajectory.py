"""The trajectory of an exploration: what its harness recorded, and beside each step what we saw meanwhile.

    trajectory/native.jsonl  times.jsonl    the harness's own record, and when it came    ─┐
    commands.jsonl  desk.jsonl              what its shells ran, what it asked of us       ├─> trajectory/atif.json
    device.jsonl                            how busy the device was, second by second     ─┘

A step lasts until the next one. Its `extra` holds `idle_seconds`, in which the device did nothing, and `desk`, what
was asked of us, for a harness whose own record doesn't tell.
"""

from bisect import bisect_right
from collections import defaultdict
from pathlib import Path

from opd.protocol.explorer.adapters import Adapter, Sources
from opd.protocol.explorer.draft import Draft, OpenStep, Room
from opd.protocol.explorer.native import Line, Times, lines, moment
from opd.protocol.supervision.device import Second
from opd.records.attempts import Identity
from opd.records.errors import AskedWrongly
from opd.records.files import PARTIAL
from opd.records.settings import validated
from opd.records.trajectories import Agent, Trajectory, write_trajectory

FOLDER = "trajectory"
TIMES = "times.jsonl"
ATIF = "atif.json"


def record_trajectory(
    adapter: Adapter, folder: Path, *, identity: Identity, version: str, instruction: str
) -> Trajectory:
    """The trajectory of the try that this folder holds, after it has been written into it.

    Whatever a harness wrote, there is a trajectory; what of it has no place there is named in its notes.
    """
    draft = Draft(Room())
    first = draft.step("user")
    first.message.append(draft.room.kept(instruction))
    record = folder / FOLDER / adapter.native
    sources = Sources(
        record=record,
        times=Times(folder / FOLDER / TIMES),
        commands=folder / "commands.jsonl",
        desk=folder / "desk.jsonl",
    )
    if record.exists():
        adapter.read(sources, draft)
    else:
        draft.note(f"there is no {record.name}: the harness was not started")
    if adapter.program is not None:
        _put_desk_beside(draft.steps, sources.desk, draft)
    _put_idle_beside(draft.steps, folder / "device.jsonl", draft)
    agent = Agent(
        name=adapter.name, version=version, model_name=identity.model, extra={"command": list(identity.command)}
    )
    for step in draft.steps:
        if step.source == "agent" and identity.effort is not None and adapter.needs_model:
            step.effort = identity.effort
    trajectory = draft.closed(agent, identity=f"{identity.case}/explore/{folder.name.removesuffix(PARTIAL)}")
    write_trajectory(folder / FOLDER / ATIF, trajectory)
    return trajectory


def _put_desk_beside(steps: list[OpenStep], desk: Path, draft: Draft) -> None:
    """What was asked of us, at the step in which it was."""
    at_step = _Windows(steps)
    for line in lines(desk) if desk.exists() else ():
        if not isinstance(line, Line):
            draft.note(f"line {line.number} of {desk.name} {line.why}")
            continue
        asked = {name: line.event.get(name) for name in ("command", "arguments", "exit", "seconds", "began")}
        step = at_step.of(moment(line.event.get("began")))
        if step is None or draft.room.is_full:
            draft.pass_over("desk.jsonl")
        else:
            step.extra.setdefault("desk", []).append(asked)
            draft.room.take(len(str(asked)))


def _put_idle_beside(steps: list[OpenStep], device: Path, draft: Draft) -> None:
    """How many of its seconds the device did nothing, at each step of which a second was seen."""
    at_step = _Windows(steps)
    idle: defaultdict[int, int] = defaultdict(int)
    for line in lines(device) if device.exists() else ():
        try:
            second = validated(Second, line.event, source=device.name) if isinstance(line, Line) else None
        except AskedWrongly:
            second = None
        if second is None:
            draft.note(f"line {line.number} of {device.name} is no second of the device")
        elif (place := at_step.place(moment(second.utc))) is not None:
            idle[place] += second.is_idle
    for place, seconds in idle.items():
        steps[place].extra["idle_seconds"] = seconds


class _Windows:
    """Which step a moment belongs to: the last one that had begun."""

    def __init__(self, steps: list[OpenStep]) -> None:
        self._steps = steps
        timed = sorted((step.at, place) for place, step in enumerate(steps) if step.at is not None)
        self._began = [began for began, _ in timed]
        self._places = [place for _, place in timed]

    def place(self, at: str | None) -> int | None:
        """The step's place in the list; the first step for what came before any; None where no time is known."""
        if at is None or not self._began:
            return None
        found = bisect_right(self._began, at) - 1
        return self._places[found] if found >= 0 else 0

    def of(self, at: str | None) -> OpenStep | None:
        place = self.place(at)
        return None if place is None else self._steps[place]
