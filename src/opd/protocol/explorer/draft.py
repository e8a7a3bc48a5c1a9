"""A trajectory while it is put together: steps that still grow, within a room that ends.

A result belongs into the step that asked for it, however much later it came; what answers nobody's question becomes a
step of the system's. Nothing that a harness wrote is lost by this: what has no place is counted in the notes, and the
harness's own record lies beside.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from opd.records.trajectories import (
    Agent,
    FinalMetrics,
    Metrics,
    Observation,
    ObservationResult,
    Step,
    ToolCall,
    Trajectory,
    TrajectoryReference,
)

LONGEST_TEXT = 64 << 10  # characters of one message, result or argument
MOST_STEPS = 20_000
_MOST_TEXT = 16 << 20  # characters of a trajectory
_AROUND = 200  # characters that each text, call or result costs beside its own
_MOST_NOTES = 100
_MOST_KINDS = 50
_LONGEST_KIND = 60

Source = Literal["system", "user", "agent"]


class Room:
    """What a trajectory may hold: texts are kept as they are while there is room, and then cut, and said to be."""

    def __init__(self, *, longest: int = LONGEST_TEXT, most: int = _MOST_TEXT) -> None:
        self._longest = longest
        self._left = most

    @property
    def is_full(self) -> bool:
        """Whether nothing more is taken."""
        return self._left <= 0

    def take(self, characters: int) -> None:
        """So many are used, and what is around them."""
        self._left -= characters + _AROUND

    def kept(self, value: object) -> str:
        """A text, or what a value is as JSON, cut where it is longer than a step may hold."""
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        most = max(0, min(self._longest, self._left))
        self.take(min(len(text), most))
        return text if len(text) <= most else f"{text[:most]}[… {len(text) - most:,} characters more]"

    def arguments(self, value: object) -> dict[str, Any]:
        """The arguments of a call, as an object."""
        if not isinstance(value, dict):
            return {"value": self.kept(value)}
        size = len(json.dumps(value, default=str))
        if size <= min(self._longest, self._left):
            self.take(size)
            return value
        return {str(key): self.kept(one) for key, one in value.items()}


@dataclass(slots=True, kw_only=True)
class OpenStep:
    """A step that is still being filled."""

    source: Source
    at: str | None = None  # UTC
    model: str | None = None
    effort: str | None = None
    message: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    results: list[ObservationResult] = field(default_factory=list)
    metrics: Metrics | None = None
    model_calls: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def closed(self, number: int, *, embedded: Collection[str]) -> Step:
        """The step as it is written; a result refers to the trajectory that is embedded under its call's name."""
        results = tuple(
            result.model_copy(update={"subagent_trajectory_ref": (TrajectoryReference(trajectory_id=name),)})
            if (name := result.source_call_id) in embedded
            else result
            for result in self.results
        )
        return Step(
            step_id=number,
            timestamp=self.at,
            source=self.source,
            model_name=self.model,
            reasoning_effort=self.effort,
            message="\n\n".join(self.message),
            reasoning_content="\n\n".join(self.reasoning) or None,
            tool_calls=tuple(self.calls) or None,
            observation=Observation(results=results) if results else None,
            metrics=self.metrics,
            llm_call_count=self.model_calls,
            extra=self.extra or None,
        )


class Draft:
    """A trajectory of the agent, or of one of its sub-agents."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.steps: list[OpenStep] = []
        self.session_id: str | None = None
        self.agent_extra: dict[str, Any] = {}
        self.model: str | None = None
        self.totals: FinalMetrics | None = None
        self.inner: dict[str, Draft] = {}  # of sub-agents, by the call that started each
        self._calls: dict[str, tuple[OpenStep, str | None]] = {}  # by id: the step, and when it was asked
        self._notes: list[str] = []
        self._more_notes = 0
        self._passed_over: Counter[str] = Counter()

    def step(self, source: Source, *, at: str | None = None) -> OpenStep:
        """A new last step. Beyond the most that are kept it is counted, and kept nowhere."""
        one = OpenStep(source=source, at=at)
        if len(self.steps) < MOST_STEPS and not self.room.is_full:
            self.steps.append(one)
            self.room.take(0)
        else:
            self.pass_over("steps after the last one here")
        return one

    def call(
        self, step: OpenStep, *, identity: str, name: str, arguments: object, at: str | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """The step asks for something."""
        if self.room.is_full:
            self.pass_over("calls")
            return
        if identity in self._calls:
            self.note(f"the call {identity!r} is there twice")
        asked = ToolCall(
            tool_call_id=identity,
            function_name=name,
            arguments=self.room.arguments(arguments),
            extra=extra or None,
        )
        step.calls.append(asked)
        self._calls[identity] = step, at

    def has_call(self, identity: str) -> bool:
        """Whether a step asked for this."""
        return identity in self._calls

    def result(self, *, identity: str, content: object, at: str | None = None, extra: Mapping[str, Any]) -> None:
        """What came back, in the step that asked; the seconds between are those of the two arrivals."""
        if self.room.is_full:
            self.pass_over("results")
            return
        values = dict(extra)
        text = None if content is None else self.room.kept(content)
        if identity not in self._calls:
            step = self.step("system", at=at)
            step.message.append(f"a result for the call {identity!r}, which is not in this record")
            step.results.append(ObservationResult(content=text, extra=values or None))
            return
        step, asked = self._calls[identity]
        if "seconds" not in values and asked and at:
            values["seconds"] = seconds_between(asked, at)
        step.results.append(ObservationResult(source_call_id=identity, content=text, extra=values or None))

    def note(self, text: str) -> None:
        """A sentence for whoever reads the trajectory; after the first hundred they are counted."""
        if len(self._notes) < _MOST_NOTES:
            self._notes.append(text)
        else:
            self._more_notes += 1

    def pass_over(self, kind: str) -> None:
        """Something of this kind has no place here."""
        known = (
            kind[:_LONGEST_KIND] if len(self._passed_over) < _MOST_KINDS or kind in self._passed_over else "others"
        )
        self._passed_over[known] += 1

    def closed(self, agent: Agent, *, identity: str | None = None, embedded: Collection[str] = ()) -> Trajectory:
        """The trajectory as it is written; `embedded` are the names of those that stand in the whole document."""
        if not self.steps:
            self.steps.append(OpenStep(source="system", message=["the harness recorded nothing"]))
        mine = agent.model_copy(
            update={
                "model_name": self.model or agent.model_name,
                "extra": {**(agent.extra or {}), **self.agent_extra} or None,
            }
        )
        names = {*embedded, *self.inner}
        inner = tuple(one.closed(agent, identity=name, embedded=names) for name, one in self.inner.items())
        return Trajectory(
            session_id=self.session_id,
            trajectory_id=identity,
            agent=mine,
            steps=tuple(step.closed(number, embedded=names) for number, step in enumerate(self.steps, start=1)),
            notes="\n".join(self._all_notes()) or None,
            final_metrics=self.totals,
            subagent_trajectories=inner or None,
        )

    def _all_notes(self) -> list[str]:
        notes = list(self._notes)
        if self._more_notes:
            notes.append(f"and {self._more_notes:,} notes more")
        if self._passed_over:
            kinds = ", ".join(f"{kind} × {count:,}" for kind, count in sorted(self._passed_over.items()))
            notes.append(f"only in the harness's own record: {kinds}")
        return notes


def seconds_between(began: str, ended: str) -> float:
    """Seconds from one UTC moment to another, to the millisecond."""
    return round((datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds(), 3)
