"""Codex, headless: `codex exec --json`, one event a line.

    thread.started                  the session
    item.started  item.completed    agent_message, reasoning, command_execution, file_change, mcp_tool_call, …
    turn.completed                  usage of the whole thread so far, not of the turn
    turn.failed  error              why it went no further

The model's answers are not told apart in it: each item is a step, and usage is known for the whole alone.
"""

from collections.abc import Mapping
from typing import Any

from opd.protocol.explorer.adapters import Adapter, Sources
from opd.protocol.explorer.draft import Draft
from opd.protocol.explorer.endpoint import PORT
from opd.protocol.explorer.native import Damaged, Line, lines
from opd.records.trajectories import FinalMetrics

_CALLS = {  # by kind of item: what a call is asked with, and what comes back
    "command_execution": (("command",), ("aggregated_output",)),
    "file_change": (("changes",), ()),
    "mcp_tool_call": (("server", "tool", "arguments"), ("result", "error")),
    "collab_tool_call": (("tool", "prompt", "receiver_thread_ids"), ("agents_states",)),
    "web_search": (("query", "action"), ()),
}
_SAYINGS = {"agent_message": "message", "plan": "message", "reasoning": "reasoning"}


def _arguments(model: str | None, effort: str | None) -> list[str]:
    # Everything is allowed: what an explorer may not do, the sandbox prevents.
    asked = ["exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    provider = {
        "model_provider": '"opd"',
        "model_providers.opd.name": '"opd"',
        "model_providers.opd.base_url": f'"http://127.0.0.1:{PORT}/v1"',
        "model_providers.opd.env_key": '"OPENAI_API_KEY"',
        "model_providers.opd.wire_api": '"responses"',
        **({"model_reasoning_effort": f'"{effort}"'} if effort else {}),
    }
    settings = [word for name, value in provider.items() for word in ("-c", f"{name}={value}")]
    return [*asked, *settings, *(["--model", model] if model else []), "-"]


def _read(sources: Sources, draft: Draft) -> None:
    for line in lines(sources.record):
        if isinstance(line, Damaged):
            draft.note(f"line {line.number} of the record {line.why}")
        else:
            _take(draft, line, sources.times.at(line.end))


def _take(draft: Draft, line: Line, at: str | None) -> None:
    event = line.event
    kind, item = str(event.get("type")), event.get("item")
    if kind == "thread.started" and isinstance(event.get("thread_id"), str):
        draft.session_id = event["thread_id"]
    elif kind in {"item.started", "item.completed"} and isinstance(item, dict):
        _take_item(draft, item, at, is_over=kind == "item.completed")
    elif kind == "turn.completed" and isinstance(event.get("usage"), dict):
        draft.totals = _totals(event["usage"])
    elif kind in {"turn.failed", "error"}:
        draft.step("system", at=at).message.append(draft.room.kept(_message(event)))
    else:
        draft.pass_over(kind)


def _take_item(draft: Draft, item: Mapping[str, Any], at: str | None, *, is_over: bool) -> None:
    kind, identity = str(item.get("type")), str(item.get("id"))
    if kind in _CALLS:
        _take_call(draft, kind, identity, item, at, is_over=is_over)
    elif not is_over:
        draft.pass_over(f"item.started/{kind}")
    elif kind in _SAYINGS:
        step = draft.step("agent", at=at)
        getattr(step, _SAYINGS[kind]).append(draft.room.kept(item.get("text", "")))
    elif kind == "error":
        draft.step("system", at=at).message.append(draft.room.kept(_message(item)))
    else:
        draft.pass_over(f"item.completed/{kind}")


def _take_call(
    draft: Draft, kind: str, identity: str, item: Mapping[str, Any], at: str | None, *, is_over: bool
) -> None:
    asked, answered = _CALLS[kind]
    if not draft.has_call(identity):  # some are told only when they are over
        arguments = {name: item[name] for name in asked if name in item}
        draft.call(draft.step("agent", at=at), identity=identity, name=kind, arguments=arguments, at=at)
    if is_over:
        content = [item[name] for name in answered if item.get(name) is not None]
        extra = {name: item[name] for name in ("exit_code", "status") if item.get(name) is not None}
        draft.result(identity=identity, content=content[0] if content else None, at=at, extra=extra)


def _totals(usage: Mapping[str, Any]) -> FinalMetrics:
    counts = {name: value for name, value in usage.items() if isinstance(value, int) and value >= 0}
    return FinalMetrics(
        total_prompt_tokens=counts.pop("input_tokens", None),
        total_cached_tokens=counts.pop("cached_input_tokens", None),
        total_completion_tokens=counts.pop("output_tokens", None),
        extra=counts or None,
    )


def _message(value: Mapping[str, Any]) -> object:
    """What an error says."""
    inner = value.get("error")
    if isinstance(inner, dict):
        return inner.get("message", inner)
    return value.get("message", dict(value))


ADAPTER = Adapter(
    name="codex",
    program="codex",
    native="native.jsonl",
    arguments=_arguments,
    read=_read,
    variables={"OPENAI_API_KEY": "held-outside"},  # it does not start without one
)
