"""Claude Code, headless: `claude --print --output-format stream-json`, one event a line.

    system/init    session, model, tools, version
    assistant      one block of one answer of the model: text, thinking or a tool call; `message.id` names the answer
    user           results of tool calls, each naming its call
    result         cost and usage of the session so far; the last one counts

Several `assistant` lines with one `message.id` are one answer, and its usage, which each repeats, counts once.
An event with `parent_tool_use_id` is of the sub-agent that this call started.
"""

import re
from collections.abc import Mapping
from typing import Any

from opd.protocol.explorer.adapters import Adapter, Sources
from opd.protocol.explorer.draft import Draft, OpenStep
from opd.protocol.explorer.endpoint import PORT
from opd.protocol.explorer.native import Damaged, Line, lines, moment
from opd.records.trajectories import FinalMetrics, Metrics

_EXIT_CODE = re.compile(r"Exit code (\d+)")  # the first words of a failed command's result


def _arguments(model: str | None, effort: str | None) -> list[str]:
    # Everything is allowed: what an explorer may not do, the sandbox prevents.
    asked = ["--print", "--output-format", "stream-json", "--verbose", "--permission-mode", "bypassPermissions"]
    return [*asked, *(["--model", model] if model else []), *(["--effort", effort] if effort else [])]


def _read(sources: Sources, draft: Draft) -> None:
    reader = _Reader(sources, draft)
    for line in lines(sources.record):
        if isinstance(line, Damaged):
            draft.note(f"line {line.number} of the record {line.why}")
        else:
            reader.take(line)
    reader.close()


class _Reader:
    """Follows a record, event by event."""

    def __init__(self, sources: Sources, draft: Draft) -> None:
        self._times = sources.times
        self._draft = draft
        self._answers: dict[str, OpenStep] = {}  # by message.id
        self._usage: dict[str, Mapping[str, Any]] = {}  # by message.id, sub-agents' too

    def take(self, line: Line) -> None:
        event = line.event
        draft = self._of(event)
        at = self._times.at(line.end) or moment(event.get("timestamp"))
        kind = str(event.get("type"))
        content = _content(event)
        if draft.room.is_full and kind != "result":
            draft.pass_over(kind)
        elif kind == "assistant" and content is not None:
            self._answer(draft, event, content, at)
        elif kind == "user" and content:
            self._turn(draft, event, content, at)
        elif kind == "system" and event.get("subtype") == "init":
            self._begin(draft, event)
        elif kind == "result":
            self._end(event)
        else:
            draft.pass_over("/".join([kind, *([str(event["subtype"])] if "subtype" in event else [])]))

    def close(self) -> None:
        """The sums, where the harness came to no end that would have told them."""
        if self._draft.totals is None and self._usage:
            counts = [_counts(usage) for usage in self._usage.values()]
            prompt, cached, completion = (sum(numbers) for numbers in zip(*counts, strict=True))
            self._draft.totals = FinalMetrics(
                total_prompt_tokens=prompt, total_cached_tokens=cached, total_completion_tokens=completion
            )
            self._draft.note("the record ends without a result: the sums are those of the answers in it")

    def _of(self, event: Mapping[str, Any]) -> Draft:
        parent = event.get("parent_tool_use_id")
        if not isinstance(parent, str):
            return self._draft
        return self._draft.inner.setdefault(parent, Draft(self._draft.room))

    def _begin(self, draft: Draft, event: Mapping[str, Any]) -> None:
        draft.session_id = _text(event.get("session_id"))
        draft.model = _text(event.get("model"))
        said = {name: event[name] for name in ("claude_code_version", "permissionMode", "tools") if name in event}
        draft.agent_extra.update(said)

    def _answer(self, draft: Draft, event: Mapping[str, Any], content: list[Any], at: str | None) -> None:
        message = event["message"]
        identity = str(message.get("id", f"answer without an id, event {len(self._answers)}"))
        step = self._answers.get(identity)
        if step is None:
            step = self._answers[identity] = draft.step("agent", at=at)
            step.model, step.model_calls = _text(message.get("model")), 1
        for block in content:
            _take_block(draft, step, block, at)
        if isinstance(usage := message.get("usage"), dict):
            self._usage[identity] = usage
            step.metrics = _metrics(usage)
        if error := event.get("error"):
            step.extra["error"] = draft.room.kept(error)

    def _turn(self, draft: Draft, event: Mapping[str, Any], content: list[Any], at: str | None) -> None:
        said = []
        for block in content:
            if isinstance(block, dict) and block.get("type") == "tool_result":
                _take_result(draft, block, event.get("tool_use_result"), at)
            else:
                said.append(draft.room.kept(_words(block)))
        if said:
            draft.step("user", at=at).message += said

    def _end(self, event: Mapping[str, Any]) -> None:
        usage = event.get("usage") if isinstance(event.get("usage"), dict) else {}
        models = event.get("modelUsage")
        prompt, cached, completion = (
            _of_models(models) if isinstance(models, dict) and models else _counts(usage or {})
        )
        cost = event.get("total_cost_usd")
        names = ("subtype", "is_error", "num_turns", "duration_ms", "duration_api_ms", "modelUsage")
        self._draft.totals = FinalMetrics(
            total_prompt_tokens=prompt,
            total_cached_tokens=cached,
            total_completion_tokens=completion,
            total_cost_usd=cost if _is_number(cost) else None,
            extra={name: event[name] for name in names if name in event} or None,
        )


def _take_block(draft: Draft, step: OpenStep, block: Any, at: str | None) -> None:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text":
        step.message.append(draft.room.kept(block.get("text", "")))
    elif kind == "thinking":
        step.reasoning.append(draft.room.kept(block.get("thinking", "")))
    elif kind in {"tool_use", "server_tool_use"}:
        draft.call(
            step, identity=str(block.get("id")), name=str(block.get("name")), arguments=block.get("input"), at=at
        )
    elif kind is not None and str(kind).endswith("_tool_result"):
        draft.result(identity=str(block.get("tool_use_id")), content=_words(block.get("content")), at=at, extra={})
    else:
        step.extra.setdefault("blocks", []).append(draft.room.kept(block))


def _take_result(draft: Draft, block: Mapping[str, Any], beside: Any, at: str | None) -> None:
    words = _words(block.get("content"))
    extra: dict[str, Any] = {}
    if block.get("is_error"):
        extra["is_error"] = True
        if isinstance(words, str) and (stated := _EXIT_CODE.match(words)):
            extra["exit_code"] = int(stated[1])
    if isinstance(beside, dict) and beside.get("interrupted"):
        extra["interrupted"] = True
    draft.result(identity=str(block.get("tool_use_id")), content=words, at=at, extra=extra)


def _content(event: Mapping[str, Any]) -> list[Any] | None:
    """The blocks of an event's message; a message that is one text is one block; None where there is no message."""
    message = event.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else None


def _words(value: Any) -> Any:
    """The text of a block or of a list of blocks; what is no text stays a value."""
    if isinstance(value, dict) and value.get("type") == "text":
        return value.get("text", "")
    if isinstance(value, list) and all(isinstance(one, dict) and one.get("type") == "text" for one in value):
        return "\n".join(str(one.get("text", "")) for one in value)
    return value


def _metrics(usage: Mapping[str, Any]) -> Metrics:
    prompt, cached, completion = _counts(usage)
    written = usage.get("cache_creation_input_tokens")
    return Metrics(
        prompt_tokens=prompt,
        cached_tokens=cached,
        completion_tokens=completion,
        extra={"cache_creation_input_tokens": written} if written else None,
    )


def _counts(usage: Mapping[str, Any]) -> tuple[int, int, int]:
    """Prompt tokens with those from and into the cache, those from the cache, and completion tokens."""
    fresh, written, cached, completion = (
        _count(usage.get(name))
        for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    )
    return fresh + written + cached, cached, completion


def _of_models(models: Mapping[str, Any]) -> tuple[int, int, int]:
    """The same over all models of a session, sub-agents' included."""
    names = ("inputTokens", "cacheCreationInputTokens", "cacheReadInputTokens", "outputTokens")
    used = [one for one in models.values() if isinstance(one, dict)]
    fresh, written, cached, completion = (sum(_count(one.get(name)) for one in used) for name in names)
    return fresh + written + cached, cached, completion


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


ADAPTER = Adapter(
    name="claude-code",
    program="claude",
    native="native.jsonl",
    arguments=_arguments,
    read=_read,
    variables={
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{PORT}",
        "ANTHROPIC_API_KEY": "held-outside",  # it does not start without one
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",  # it refuses to be allowed everything as root elsewhere
    },
)
