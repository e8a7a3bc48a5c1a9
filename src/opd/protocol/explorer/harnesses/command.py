"""Any program: what it prints is its record; its steps are what its shells ran and what it asked of us.

Each command of a shell is a step. Its exit code is told by the next command of the same shell, and its seconds are
those until then. A command of ours (fast-eval, submit …) is a step of its own, with what was answered.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from opd.protocol.explorer.adapters import Adapter, Sources
from opd.protocol.explorer.draft import LONGEST_TEXT, MOST_STEPS, Draft, seconds_between
from opd.protocol.explorer.native import Damaged, Line, lines, moment

_ROOM_FOR_OURS = 2_000  # steps that are kept free for what the explorer asked of us, however much its shells ran


def _read(sources: Sources, draft: Draft) -> None:
    ours = list(islice(_asked(sources.desk, draft), _ROOM_FOR_OURS))
    ran = list(_ran(sources.commands, draft, most=MOST_STEPS - _ROOM_FOR_OURS - len(draft.steps) - 1))
    for number, step in enumerate(sorted([*ours, *ran], key=lambda one: one["at"] or ""), start=1):
        _take(draft, step, number)
    printed = _last_words(sources.record)
    closing = draft.step("agent", at=None)
    closing.message.append(draft.room.kept(printed))


def _take(draft: Draft, one: dict[str, Any], number: int) -> None:
    identity = f"call-{number}"
    step = draft.step("agent", at=one["at"])
    draft.call(step, identity=identity, name=one["name"], arguments=one["arguments"], extra=one["call"])
    draft.result(identity=identity, content=one["said"], extra=one["result"])


def _asked(desk: Path, draft: Draft) -> Iterator[dict[str, Any]]:
    """What was asked of us, with how it ended."""
    for event in _events(desk, draft):
        said = event.get("said")
        yield {
            "at": moment(event.get("began")),
            "name": str(event.get("command")),
            "arguments": event.get("arguments", {}),
            "call": {name: event[name] for name in ("folder", "pid") if name in event},
            "said": "\n".join(map(str, said)) if isinstance(said, list) else None,
            "result": {"exit_code": event.get("exit"), "seconds": event.get("seconds")},
        }


def _ran(commands: Path, draft: Draft, *, most: int) -> Iterator[dict[str, Any]]:
    """What the shells ran, each with the exit code and the time that the next one of its shell tells."""
    before: dict[Any, dict[str, Any]] = {}
    count = 0
    for event in _events(commands, draft):
        if "lost_bytes" in event:
            draft.note(f"{event['lost_bytes']} bytes of commands came when {commands.name} was full, and are lost")
            continue
        count += 1
        at = moment(event.get("at"))
        text, shell = event.get("command", event.get("as_it_came")), event.get("process")
        if (last := before.pop(shell, None)) is not None and shell is not None:
            last["result"]["exit_code"] = event.get("last_exit")
            if last["at"] and at:
                last["result"]["seconds"] = seconds_between(last["at"], at)
        if count > most or text is None or text == "exit":  # the end of a shell is no command of anybody
            continue
        one = {
            "at": at, "name": "bash", "arguments": {"command": text}, "said": None, "result": {},
            "call": {name: event[name] for name in ("shell", "process") if name in event},
        }  # fmt: skip
        before[shell] = one
        yield one
    if count > most:
        draft.note(
            f"{count - most:,} lines of {commands.name} came after the first {most:,} and are only in that file"
        )


def _events(path: Path, draft: Draft) -> Iterator[dict[str, Any]]:
    for line in lines(path) if path.exists() else ():
        if isinstance(line, Line):
            yield line.event
        elif isinstance(line, Damaged):
            draft.note(f"line {line.number} of {path.name} {line.why}")


def _last_words(record: Path) -> str:
    """The end of what the program printed, as much of it as a step holds."""
    if not record.exists():
        return ""
    with record.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - LONGEST_TEXT))
        text = file.read().decode("utf-8", "replace")
    return text if size <= LONGEST_TEXT else f"[{size - LONGEST_TEXT:,} bytes before]{text}"


ADAPTER = Adapter(
    name="command",
    program=None,
    native="native.log",
    arguments=lambda _model, _effort: (),
    read=_read,
    needs_model=False,
)
