"""What an agent said and did, step by step, in ATIF: the Agent Trajectory Interchange Format.

    Trajectory ─ agent, steps 1, 2, 3 …, final metrics, embedded trajectories of sub-agents
      Step ─ who, when, message; of an agent also reasoning, tool calls, token usage
        observation ─ the results, each naming a tool call of the same step

Written is version 1.7, which every reader since takes; read are versions 1.0 to 1.8.
"""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, NonNegativeFloat, NonNegativeInt, PositiveInt, model_validator

from opd.records.errors import AskedWrongly
from opd.records.files import read_json, write_json
from opd.records.settings import Settings, settings_in, validated

Version = Literal[
    "ATIF-v1.0", "ATIF-v1.1", "ATIF-v1.2", "ATIF-v1.3", "ATIF-v1.4",
    "ATIF-v1.5", "ATIF-v1.6", "ATIF-v1.7", "ATIF-v1.8",
]  # fmt: skip
UNREAD = "unread"  # the key of `extra` under which a reader keeps what a producer wrote and ATIF has no name for

_AGENTS_OWN = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
_OF_A_MODEL_CALL = ("metrics", "reasoning_content")


def _moment(text: str) -> str:
    """The text, when it is a date and time of ISO 8601."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise AskedWrongly(f"{text!r} is no moment; write it as 2026-01-31T12:00:00Z") from None
    return text


Moment = Annotated[str, AfterValidator(_moment)]
Extra = dict[str, Any]


class Media(Settings):
    """A picture or a recording, which lies elsewhere."""

    media_type: str
    """`image/png`, `audio/mpeg` …"""
    path: str
    """Relative to the trajectory, absolute, or a URL."""
    duration_sec: NonNegativeFloat | None = None
    """Of a recording."""


class ContentPart(Settings):
    """A part of a message that is more than one text."""

    type: Literal["text", "image", "audio"]
    text: str | None = None
    source: Media | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        has = (self.text is not None, self.source is not None)
        if has != ((True, False) if self.type == "text" else (False, True)):
            raise AskedWrongly(
                f'type = "{self.type}": a text has `text` alone, a picture or recording `source` alone'
            )
        if self.source is not None and not self.source.media_type.startswith(f"{self.type}/"):
            raise AskedWrongly(f'type = "{self.type}" and media_type = {self.source.media_type!r} are two kinds')
        return self


Content = str | tuple[ContentPart, ...]


class ToolCall(Settings):
    """What the agent asked for."""

    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]
    extra: Extra | None = None


class TrajectoryReference(Settings):
    """Where the trajectory of a sub-agent is: embedded in this document, or in a file."""

    trajectory_id: str | None = None
    session_id: str | None = None
    """For people; nothing is found by it."""
    trajectory_path: str | None = None
    extra: Extra | None = None

    @model_validator(mode="after")
    def _found(self) -> Self:
        if self.trajectory_id is None and self.trajectory_path is None:
            raise AskedWrongly("a reference names trajectory_id or trajectory_path; session_id alone finds nothing")
        return self


class ObservationResult(Settings):
    """What came back."""

    source_call_id: str | None = None
    """A tool call of the same step."""
    content: Content | None = None
    subagent_trajectory_ref: tuple[TrajectoryReference, ...] | None = None
    extra: Extra | None = None
    """`exit_code`, `seconds` and the like."""


class Observation(Settings):
    """All that came back in a step."""

    results: tuple[ObservationResult, ...]


class Metrics(Settings):
    """What a step's model calls took."""

    prompt_tokens: NonNegativeInt | None = None
    """Cached ones included."""
    completion_tokens: NonNegativeInt | None = None
    cached_tokens: NonNegativeInt | None = None
    cost_usd: NonNegativeFloat | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    completion_token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    """Nats, one for each completion token."""
    extra: Extra | None = None


class Step(Settings):
    """One turn of system, user or agent, with what came back."""

    step_id: PositiveInt
    timestamp: Moment | None = None
    source: Literal["system", "user", "agent"]
    model_name: str | None = None
    """Null: the agent's."""
    reasoning_effort: str | float | None = None
    message: Content
    reasoning_content: str | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: NonNegativeInt | None = None
    """0: no model decided on this step; null: nobody counted."""
    extra: Extra | None = None

    @model_validator(mode="after")
    def _who(self) -> Self:
        if self.source != "agent" and (named := self._given(_AGENTS_OWN)):
            raise AskedWrongly(
                f"step {self.step_id} is the {self.source}'s, and only an agent has {', '.join(named)}"
            )
        if self.source == "agent" and self.llm_call_count == 0 and (named := self._given(_OF_A_MODEL_CALL)):
            raise AskedWrongly(f"step {self.step_id} has llm_call_count = 0, and so no {', '.join(named)}")
        return self

    @model_validator(mode="after")
    def _answers(self) -> Self:
        asked = {call.tool_call_id for call in self.tool_calls or ()}
        answered = [result.source_call_id for result in (self.observation.results if self.observation else ())]
        for name in answered:
            if name is not None and name not in asked:
                raise AskedWrongly(f"step {self.step_id}: a result answers {name!r}, which this step never called")
        return self

    def _given(self, names: tuple[str, ...]) -> list[str]:
        return [name for name in names if getattr(self, name) is not None]


class Agent(Settings):
    """Whose trajectory it is."""

    name: str
    version: str
    model_name: str | None = None
    tool_definitions: tuple[dict[str, Any], ...] | None = None
    extra: Extra | None = None


class FinalMetrics(Settings):
    """Sums over a trajectory."""

    total_prompt_tokens: NonNegativeInt | None = None
    """Cached ones included."""
    total_completion_tokens: NonNegativeInt | None = None
    total_cached_tokens: NonNegativeInt | None = None
    total_cost_usd: NonNegativeFloat | None = None
    """Sub-agents included."""
    total_steps: NonNegativeInt | None = None
    extra: Extra | None = None


class Trajectory(Settings):
    """The whole; raises, while it is made, for whatever breaks a rule of the format."""

    schema_version: Version = "ATIF-v1.7"
    session_id: str | None = None
    """Of the run; several documents may share it."""
    trajectory_id: str | None = None
    """Of this document."""
    agent: Agent
    steps: tuple[Step, ...]
    notes: str | None = None
    final_metrics: FinalMetrics | None = None
    continued_trajectory_ref: str | None = None
    extra: Extra | None = None
    subagent_trajectories: tuple["Trajectory", ...] | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.steps:
            raise AskedWrongly("a trajectory has one step at least")
        for number, step in enumerate(self.steps, start=1):
            if step.step_id != number:
                raise AskedWrongly(f"step {number} calls itself {step.step_id}; steps count 1, 2, 3 …")
        return self

    @model_validator(mode="after")
    def _embedded(self) -> Self:
        names = [one.trajectory_id for one in self.subagent_trajectories or ()]
        for name in names:
            if name is None:
                raise AskedWrongly("an embedded trajectory needs a trajectory_id, by which it is found")
            if names.count(name) > 1:
                raise AskedWrongly(f"trajectory_id {name!r} is there {names.count(name)} times; which is it?")
        return self

    def document(self) -> dict[str, Any]:
        """Its JSON values, without what is null."""
        return self.model_dump(mode="json", exclude_none=True)


def write_trajectory(path: Path, trajectory: Trajectory) -> None:
    """The file holds this trajectory, whole or not at all."""
    write_json(path, trajectory.document())


def read_trajectory(path: Path) -> Trajectory:
    """The trajectory of a file, whoever wrote it: a key that ATIF doesn't have is kept in `extra["unread"]`.

    Raises `AskedWrongly` for a file that is no trajectory, with its first fault.
    """
    values = read_json(path)
    if not isinstance(values, dict):
        raise AskedWrongly(f"{path} holds a {type(values).__name__}, not a trajectory")
    return validated(Trajectory, _tolerated(Trajectory, values), source=str(path))


def _tolerated(kind: type[Settings], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, with each unknown key moved into the `extra` beside it, where the kind has one."""
    known: dict[str, Any] = {}
    unread: dict[str, Any] = {}
    for key, value in values.items():
        field = kind.model_fields.get(key)
        inner = settings_in(field.annotation) if field else None
        if field is None and "extra" in kind.model_fields:
            unread[key] = value
        elif inner is not None and isinstance(value, list):
            known[key] = [_tolerated(inner, one) if isinstance(one, dict) else one for one in value]
        else:
            known[key] = _tolerated(inner, value) if inner is not None and isinstance(value, dict) else value
    if unread:
        known["extra"] = {**(known.get("extra") or {}), UNREAD: unread}
    return known
