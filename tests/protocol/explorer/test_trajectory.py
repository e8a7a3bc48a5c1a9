"""What becomes of a harness's record, be it sound or not, and of what we saw meanwhile.

The records here are made up; the forms are those that Claude Code and Codex document for their headless use.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opd.protocol.explorer.adapters import adapter_of
from opd.protocol.explorer.draft import Draft, Room
from opd.protocol.explorer.native import Arrivals, Damaged, Line, Times, lines, moment
from opd.protocol.explorer.trajectory import record_trajectory
from opd.records.attempts import Identity
from opd.records.trajectories import Agent, Step, Trajectory, read_trajectory


def identity(harness: str) -> Identity:
    """What a trajectory takes of an attempt's identity."""
    return Identity.model_construct(
        case="h__t__m__e", harness=harness, command=("run", "it"), model="m", effort="high"
    )


def at(second: float) -> str:
    return f"2026-01-31T12:00:{second:06.3f}Z"


def jsonl(path: Path, *events: Any) -> None:
    """Each event a line; what is no dictionary is written as it is."""
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        for event in events:
            text = event if isinstance(event, bytes) else json.dumps(event).encode()
            file.write(text + b"\n")


def recorded(folder: Path, harness: str, *events: Any, seconds: list[float] | None = None) -> Trajectory:
    """The trajectory of a record whose lines arrived at these seconds."""
    adapter = adapter_of(harness)
    record = folder / "trajectory" / adapter.native
    jsonl(record, *events)
    if seconds is not None:
        ends = [
            sum(map(len, record.read_bytes().splitlines(keepends=True)[: number + 1]))
            for number in range(len(events))
        ]
        jsonl(
            folder / "trajectory" / "times.jsonl",
            *({"bytes": end, "utc": at(s)} for end, s in zip(ends, seconds, strict=True)),
        )
    made = record_trajectory(adapter, folder, identity=identity(harness), version="1.2", instruction="improve it")
    assert read_trajectory(folder / "trajectory" / "atif.json") == made
    return made


def results(step: Step) -> list[tuple[str | None, Any, Any]]:
    return [
        (one.source_call_id, one.content, one.extra) for one in (step.observation.results if step.observation else ())
    ]


def answer(identity: str, *blocks: dict[str, Any], parent: str | None = None, output: int = 5) -> dict[str, Any]:
    usage = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 100,
        "output_tokens": output,
    }
    message = {"id": identity, "model": "claude-x", "role": "assistant", "content": list(blocks), "usage": usage}
    return {"type": "assistant", "message": message, "parent_tool_use_id": parent, "session_id": "s"}


def call(identity: str, name: str = "Bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": identity, "name": name, "input": arguments}


def came_back(identity: str, content: Any, *, is_error: bool = False, parent: str | None = None) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": identity, "content": content, "is_error": is_error}
    return {"type": "user", "message": {"role": "user", "content": [block]}, "parent_tool_use_id": parent}


INIT = {
    "type": "system",
    "subtype": "init",
    "session_id": "s",
    "model": "claude-x",
    "tools": ["Bash"],
    "claude_code_version": "2.1",
}


def used(fresh: int, cached: int, written: int, output: int) -> dict[str, int]:
    names = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "outputTokens")
    return dict(zip(names, (fresh, cached, written, output), strict=True))


END = {
    "type": "result", "subtype": "success", "is_error": False, "num_turns": 3, "duration_ms": 900, "result": "done",
    "total_cost_usd": 0.25, "usage": {"input_tokens": 6, "cache_read_input_tokens": 200, "output_tokens": 10},
    "modelUsage": {"claude-x": used(6, 200, 40, 12), "claude-y": used(1, 0, 0, 2)},
}  # fmt: skip


# Claude Code


def test_an_answer_in_several_lines_is_one_step_and_its_usage_counts_once(tmp_path: Path) -> None:
    made = recorded(
        tmp_path, "claude-code", INIT,
        answer("m1", {"type": "thinking", "thinking": "hm", "signature": "…"}),
        answer("m1", {"type": "text", "text": "I look."}),
        answer("m1", call("c1", command="false")),
        came_back("c1", "Exit code 3\nno", is_error=True),
        answer("m2", {"type": "text", "text": "Done."}),
        END,
        seconds=[1, 2, 2, 3, 5.5, 7, 7],
    )  # fmt: skip
    user, first, second = made.steps
    assert (user.source, user.message) == ("user", "improve it")
    assert (first.message, first.reasoning_content, first.model_name, first.reasoning_effort) == (
        "I look.",
        "hm",
        "claude-x",
        "high",
    )
    assert (first.timestamp, second.timestamp) == (at(2), at(7))
    assert first.metrics is not None
    assert (first.metrics.prompt_tokens, first.metrics.cached_tokens, first.metrics.completion_tokens) == (
        123,
        100,
        5,
    )
    assert first.tool_calls is not None
    assert (first.tool_calls[0].function_name, first.tool_calls[0].arguments) == ("Bash", {"command": "false"})
    assert results(first) == [("c1", "Exit code 3\nno", {"is_error": True, "exit_code": 3, "seconds": 2.5})]
    totals = made.final_metrics
    assert totals is not None
    assert (totals.total_prompt_tokens, totals.total_cached_tokens, totals.total_completion_tokens) == (247, 200, 14)
    assert totals.total_cost_usd == 0.25
    assert made.session_id == "s"
    assert (made.agent.name, made.agent.version, made.agent.model_name) == ("claude-code", "1.2", "claude-x")
    assert made.notes is None


def test_without_a_result_the_sums_are_those_of_the_answers_and_are_said_to_be(tmp_path: Path) -> None:
    made = recorded(
        tmp_path, "claude-code", INIT, answer("m1", call("c1")), answer("m1", call("c2")), answer("m2", output=9)
    )
    assert made.final_metrics is not None
    assert made.final_metrics.total_completion_tokens == 5 + 9
    assert made.final_metrics.total_cost_usd is None
    assert "ends without a result" in (made.notes or "")


def test_a_sub_agents_steps_stand_in_a_trajectory_of_their_own_that_its_result_names(tmp_path: Path) -> None:
    made = recorded(
        tmp_path, "claude-code", INIT,
        answer("m1", call("task", "Task", prompt="look")),
        answer("m2", call("inner"), parent="task"),
        came_back("inner", "seen", parent="task"),
        came_back("task", [{"type": "text", "text": "it said"}, {"type": "text", "text": "so"}]),
    )  # fmt: skip
    assert [step.source for step in made.steps] == ["user", "agent"]
    assert made.steps[1].observation is not None
    (result,) = made.steps[1].observation.results
    assert result.content == "it said\nso"
    assert result.subagent_trajectory_ref is not None
    assert result.subagent_trajectory_ref[0].trajectory_id == "task"
    (inner,) = made.subagent_trajectories or ()
    assert inner.trajectory_id == "task"
    assert results(inner.steps[0]) == [("inner", "seen", None)]


def test_parallel_calls_get_each_its_own_result_and_a_result_for_nobody_is_kept(tmp_path: Path) -> None:
    made = recorded(
        tmp_path, "claude-code", answer("m1", call("a"), call("b")),
        came_back("b", "B"), came_back("lost", "L"), came_back("a", "A"),
    )  # fmt: skip
    assert results(made.steps[1]) == [("b", "B", None), ("a", "A", None)]
    assert made.steps[2].source == "system"
    assert results(made.steps[2]) == [(None, "L", None)]


def test_a_damaged_line_is_named_and_costs_nothing_else(tmp_path: Path) -> None:
    made = recorded(
        tmp_path, "claude-code", INIT, b'{"type": "assist', b"[1]", b"", b'{"type": "new", "subtype": "kind"}',
        answer("m1", {"type": "text", "text": "here"}), b'{"x": NaN}', b'{"x": 1e999}', b"[" * 5000,
        b'{"x": ' * 200 + b"1" + b"}" * 200,
    )  # fmt: skip
    notes = made.notes or ""
    for number in (2, 3, 7, 8, 9, 10):
        assert f"line {number} of the record" in notes
    assert "new/kind × 1" in notes
    assert [step.message for step in made.steps] == ["improve it", "here"]


def test_half_a_surrogate_pair_does_not_keep_the_trajectory_from_being_written(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError):
        json.loads(rb'"\ud800"').encode()
    made = recorded(tmp_path, "claude-code", answer("m1", call("c", command="\ud800x")))
    assert made.steps[1].tool_calls is not None
    assert made.steps[1].tool_calls[0].arguments == {"command": "?x"}


# Codex


def item(kind: str, identity: str, *, over: bool = True, **rest: Any) -> dict[str, Any]:
    return {"type": "item.completed" if over else "item.started", "item": {"id": identity, "type": kind, **rest}}


def test_a_codex_record_becomes_steps_with_exit_codes_seconds_and_the_threads_sums(tmp_path: Path) -> None:
    made = recorded(
        tmp_path, "codex",
        {"type": "thread.started", "thread_id": "th"},
        {"type": "turn.started"},
        item("reasoning", "i0", text="think"),
        item("command_execution", "i1", over=False, command="ls", aggregated_output="", status="in_progress"),
        item("command_execution", "i1", command="ls", aggregated_output="a\n", exit_code=2, status="failed"),
        item("file_change", "i2", changes=[{"path": "x", "kind": "add"}], status="completed"),
        {"type": "item.updated", "item": {"id": "i3", "type": "todo_list", "items": []}},
        item("agent_message", "i4", text="done"),
        {"type": "turn.completed", "usage": {"input_tokens": 50, "cached_input_tokens": 40, "output_tokens": 6}},
        {"type": "turn.completed", "usage": {"input_tokens": 70, "cached_input_tokens": 60, "output_tokens": 8}},
        {"type": "turn.failed", "error": {"message": "out of tokens"}},
        seconds=[1, 1, 1, 2, 6, 6, 6, 7, 8, 9, 9],
    )  # fmt: skip
    assert made.session_id == "th"
    assert [(s.source, s.message, s.reasoning_content) for s in made.steps] == [
        ("user", "improve it", None), ("agent", "", "think"), ("agent", "", None), ("agent", "", None),
        ("agent", "done", None), ("system", "out of tokens", None),
    ]  # fmt: skip
    assert results(made.steps[2]) == [("i1", "a\n", {"exit_code": 2, "status": "failed", "seconds": 4.0})]
    assert results(made.steps[3]) == [("i2", None, {"status": "completed", "seconds": 0.0})]
    totals = made.final_metrics
    assert totals is not None
    assert (totals.total_prompt_tokens, totals.total_cached_tokens, totals.total_completion_tokens) == (70, 60, 8)
    assert "item.updated × 1" in (made.notes or "")


# A command, and what we saw beside it


def test_a_commands_steps_are_its_shells_commands_and_what_it_asked_of_us(tmp_path: Path) -> None:
    def ran(second: float, process: int, last: int, command: str) -> dict[str, Any]:
        return {
            "at": at(second),
            "monotonic": second,
            "shell": process,
            "process": process,
            "last_exit": last,
            "command": command,
        }

    jsonl(
        tmp_path / "commands.jsonl",
        ran(1, 10, 0, "python train.py"), ran(2, 11, 0, "ls"), ran(4, 10, 3, "fast-eval x"), ran(4.5, 11, 0, "exit"),
        {"at": at(5), "as_it_came": "garbage"}, ran(9, 10, 75, "exit"), {"at": at(9), "lost_bytes": 70},
    )  # fmt: skip
    desk = {
        "began": at(4.1),
        "ended": at(8.1),
        "seconds": 4.0,
        "command": "fast-eval",
        "arguments": {"checkpoint": "x"},
        "folder": "/workspace",
        "pid": 5,
        "exit": 75,
    }
    jsonl(tmp_path / "desk.jsonl", desk | {"said": ["busy", "later"]})
    made = recorded(tmp_path, "command", b"epoch 1", b"bye \xff")
    shown = [
        (step.tool_calls[0].function_name, step.tool_calls[0].arguments, results(step)[0][1:])
        for step in made.steps
        if step.tool_calls
    ]
    assert shown == [
        ("bash", {"command": "python train.py"}, (None, {"exit_code": 3, "seconds": 3.0})),
        ("bash", {"command": "ls"}, (None, {"exit_code": 0, "seconds": 2.5})),
        ("bash", {"command": "fast-eval x"}, (None, {"exit_code": 75, "seconds": 5.0})),
        ("fast-eval", {"checkpoint": "x"}, ("busy\nlater", {"exit_code": 75, "seconds": 4.0})),
        ("bash", {"command": "garbage"}, (None, None)),
    ]
    assert made.steps[-1].message == "epoch 1\nbye �\n"
    assert "70 bytes of commands came when commands.jsonl was full" in (made.notes or "")
    assert all(step.reasoning_effort is None for step in made.steps)


def test_idle_seconds_and_what_was_asked_of_us_stand_at_the_step_in_which_they_fell(tmp_path: Path) -> None:
    busy, idle = {"cpu_share": 0.9}, {"cpu_share": 0.01}
    looks = [(0.5, idle), (1.5, busy), (2.5, idle), (3.5, idle), (4.5, idle), (5.5, busy)]
    jsonl(
        tmp_path / "device.jsonl",
        *({"monotonic": s, "utc": at(s), "processes": 1, "evaluating": s == 3.5} | share for s, share in looks),
        b'{"torn',
    )  # fmt: skip
    jsonl(tmp_path / "desk.jsonl", {"began": at(3.2), "command": "timer", "arguments": {}, "exit": 0, "seconds": 0.1})
    made = recorded(
        tmp_path, "claude-code", answer("m1", call("c")), came_back("c", ""), answer("m2"), seconds=[1, 3, 5]
    )
    assert [(step.extra or {}).get("idle_seconds") for step in made.steps] == [1, 2, 0]
    assert "line 7 of device.jsonl" in (made.notes or "") or "no second of the device" in (made.notes or "")
    assert [asked["command"] for asked in (made.steps[1].extra or {})["desk"]] == ["timer"]


def test_a_harness_that_never_started_has_a_trajectory_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "trajectory").mkdir()
    made = record_trajectory(adapter_of("codex"), tmp_path, identity=identity("codex"), version="?", instruction="do")
    assert len(made.steps) == 1
    assert "was not started" in (made.notes or "")


# Whatever is written

WORDS = st.sampled_from(
    [
        *(
            "type",
            "assistant",
            "user",
            "result",
            "system",
            "init",
            "subtype",
            "message",
            "content",
            "id",
            "m1",
            "usage",
        ),
        *("tool_use", "tool_result", "tool_use_id", "text", "thinking", "input", "name", "is_error", "item", "error"),
        *("item.completed", "item.started", "command_execution", "agent_message", "exit_code", "turn.completed"),
        *("modelUsage", "total_cost_usd", "parent_tool_use_id", "timestamp", "input_tokens", "arguments", "changes"),
        *("file_change", "2026-01-31T12:00:00", "9999-12-31T23:59:59-14:00"),
    ]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False)
    | WORDS
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=12,
)
KINDS = st.sampled_from(
    [
        "assistant",
        "user",
        "system",
        "result",
        "item.started",
        "item.completed",
        "turn.completed",
        "error",
        "thread.started",
    ]
)
BLOCKS = st.dictionaries(WORDS, VALUES, max_size=4).flatmap(
    lambda rest: st.sampled_from(["text", "thinking", "tool_use", "tool_result"]).map(
        lambda kind: rest | {"type": kind}
    )
)
EVENTS = st.tuples(
    KINDS, st.dictionaries(WORDS, VALUES, max_size=4), st.lists(BLOCKS | VALUES, max_size=3), VALUES
).map(
    lambda one: one[1] | {"type": one[0], "message": {"content": one[2], "id": "m1", "usage": one[3]}, "item": one[1]}
)


@pytest.mark.parametrize("harness", ["claude-code", "codex", "command"])
@settings(max_examples=40, deadline=None)
@given(
    events=st.lists(
        EVENTS | VALUES.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=20), max_size=8
    )
)
def test_whatever_a_harness_writes_there_is_a_valid_trajectory(
    tmp_path_factory: Any, harness: str, events: list[Any]
) -> None:
    folder = tmp_path_factory.mktemp("record")
    kept = [event.replace(b"\n", b" ") if isinstance(event, bytes) else event for event in events]
    for name in ("commands.jsonl", "desk.jsonl", "device.jsonl"):
        jsonl(folder / name, *kept)
    recorded(folder, harness, *kept)


def test_a_line_without_end_and_a_record_of_great_length_stay_within_bounds(tmp_path: Path) -> None:
    jsonl(tmp_path / "long", b'{"a": "' + b"x" * 5000 + b'"}', {"b": 1}, b"y" * 3000)
    found = list(lines(tmp_path / "long", longest=1000))
    assert [type(one) for one in found] == [Damaged, Line, Damaged]
    assert isinstance(found[1], Line)
    assert (found[1].number, found[1].event) == (2, {"b": 1})
    room = Room(longest=100, most=1000)
    draft = Draft(room)
    for number in range(50):
        step = draft.step("agent")
        step.message.append(room.kept("z" * 150))
        draft.call(step, identity=str(number), name="n", arguments={"a": "b" * 300})
    made = draft.closed(Agent(name="a", version="1"))
    assert len(made.model_dump_json()) < 5000
    assert "50 characters more" in str(made.steps[0].message)
    assert "steps after the last one here × " in (made.notes or "")


MEASURED = """
import resource, sys
from pathlib import Path
from opd.protocol.explorer.adapters import adapter_of
from opd.protocol.explorer.trajectory import record_trajectory
from opd.records.attempts import Identity

identity = Identity.model_construct(case="c", harness="claude-code", command=("x",), model="m", effort="high")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
record_trajectory(adapter_of("claude-code"), Path(sys.argv[1]), identity=identity, version="1", instruction="")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_record_of_great_length_takes_little_memory(tmp_path: Path) -> None:
    (tmp_path / "trajectory").mkdir()
    record = tmp_path / "trajectory" / "native.jsonl"
    with record.open("w") as file:
        line = json.dumps(answer("NAME", call("NAME", text="x" * 9_000))) + "\n"
        for number in range(7_000):
            file.write(line.replace("NAME", f"m{number}"))
    assert record.stat().st_size > 55 << 20
    grown = subprocess.run(
        [sys.executable, "-c", MEASURED, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert int(grown.stdout) * 1024 < 160 << 20


# Arrival


def test_a_line_arrived_when_the_record_was_first_seen_that_long(tmp_path: Path) -> None:
    record, log = tmp_path / "native.jsonl", tmp_path / "times.jsonl"
    arrivals = Arrivals(record, log)
    arrivals.tick()
    assert not log.exists()
    record.write_bytes(b"12345")
    arrivals.tick()
    arrivals.tick()
    with record.open("ab") as file:
        file.write(b"678")
    arrivals.tick()
    looks = [json.loads(line) for line in log.read_text().splitlines()]
    assert [look["bytes"] for look in looks] == [5, 8]
    times = Times(log)
    assert [times.at(end) for end in (1, 5, 6, 8, 9)] == [looks[0]["utc"]] * 2 + [looks[1]["utc"]] * 2 + [None]


def test_a_moment_has_a_zone_and_is_told_in_utc() -> None:
    assert moment("2026-01-31T14:00:00+02:00") == "2026-01-31T12:00:00.000Z"
    assert [moment(value) for value in ("2026-01-31T12:00:00", "soon", 7, None, "9999-12-31T23:59:59-14:00")] == [
        None
    ] * 5
