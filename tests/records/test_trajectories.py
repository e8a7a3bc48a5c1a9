"""ATIF as records: what is refused, tolerated and written. The oracle, where it is at hand, is Harbor's own."""

import json
from pathlib import Path
from typing import Any

import pytest

from opd.records.errors import AskedWrongly
from opd.records.settings import validated
from opd.records.trajectories import Trajectory, read_trajectory, write_trajectory

CALL = {"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls", "timeout": None}}


def document(**changes: Any) -> dict[str, Any]:
    steps = [
        {"step_id": 1, "source": "user", "message": "do it", "timestamp": "2026-01-31T12:00:00Z"},
        {
            "step_id": 2,
            "source": "agent",
            "message": "",
            "tool_calls": [CALL],
            "observation": {"results": [{"source_call_id": "c1", "content": "a b", "extra": {"exit_code": 0}}]},
            "metrics": {"prompt_tokens": 10, "cached_tokens": 4, "completion_tokens": 2},
        },
    ]
    return {"schema_version": "ATIF-v1.7", "agent": {"name": "a", "version": "1"}, "steps": steps} | changes


def changed(place: str, value: Any) -> dict[str, Any]:
    whole = document()
    *path, last = place.split(".")
    here: Any = whole
    for part in path:
        here = here[int(part) if part.isdecimal() else part]
    here[int(last) if last.isdecimal() else last] = value
    return whole


def embedded(*names: str | None) -> dict[str, Any]:
    return document(
        subagent_trajectories=[document() | ({} if name is None else {"trajectory_id": name}) for name in names]
    )


FAULTS = {
    "a step that calls itself another number": changed("steps.1.step_id", 3),
    "a result for a call of another step": changed("steps.1.observation.results", [{"source_call_id": "c9"}]),
    "a user with a tool call": changed("steps.0.tool_calls", [CALL]),
    "a user with reasoning": changed("steps.0.reasoning_content", "hm"),
    "a system with token usage": changed("steps.0", {"step_id": 1, "source": "system", "message": "", "metrics": {}}),
    "usage where no model was called": changed("steps.1.llm_call_count", 0),
    "two embedded trajectories of one name": embedded("x", "x"),
    "an embedded trajectory without a name": embedded(None),
    "no steps": document(steps=[]),
    "a version that is to come": document(schema_version="ATIF-v1.9"),
    "a moment that is none": changed("steps.0.timestamp", "yesterday"),
    "a reference that finds nothing": changed(
        "steps.1.observation.results", [{"subagent_trajectory_ref": [{"session_id": "s"}]}]
    ),
    "a picture without a source": changed("steps.0.message", [{"type": "image"}]),
    "a text with a source": changed(
        "steps.0.message", [{"type": "text", "text": "x", "source": {"media_type": "image/png", "path": "p"}}]
    ),
    "a recording that calls itself a picture": changed(
        "steps.0.message", [{"type": "image", "source": {"media_type": "audio/mpeg", "path": "p"}}]
    ),
    "arguments that are no object": changed("steps.1.tool_calls", [CALL | {"arguments": "ls"}]),
    "no agent": {key: value for key, value in document().items() if key != "agent"},
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_breaks_a_rule_of_the_format_is_refused(name: str) -> None:
    validated(Trajectory, document(), source="whole")  # the same without the fault is fine
    with pytest.raises(AskedWrongly):
        validated(Trajectory, FAULTS[name], source=name)


@pytest.mark.parametrize("name", [*FAULTS, "whole"])
def test_harbors_own_models_refuse_the_same(name: str) -> None:
    trajectories = pytest.importorskip("harbor.models.trajectories", reason="harbor (Python ≥ 3.12) isn't installed")
    values = FAULTS.get(name, document())
    if name == "whole":
        trajectories.Trajectory.model_validate(values)
    else:
        with pytest.raises(ValueError, match=r"\w"):
            trajectories.Trajectory.model_validate(values)


@pytest.mark.parametrize("minor", range(9))
def test_each_version_up_to_1_8_is_read(tmp_path: Path, minor: int) -> None:
    path = tmp_path / "trajectory.json"
    path.write_text(json.dumps(document(schema_version=f"ATIF-v1.{minor}")))
    assert read_trajectory(path).schema_version == f"ATIF-v1.{minor}"


def test_what_is_written_is_read_back_with_every_null_argument_and_without_null_fields(tmp_path: Path) -> None:
    before = validated(Trajectory, document(), source="whole")
    write_trajectory(tmp_path / "t.json", before)
    assert read_trajectory(tmp_path / "t.json") == before
    written = json.loads((tmp_path / "t.json").read_text())
    assert written["steps"][1]["tool_calls"][0]["arguments"] == {"command": "ls", "timeout": None}
    assert written == document()


def test_a_key_that_atif_lacks_is_kept_beside_the_others(tmp_path: Path) -> None:
    strange = embedded("inner")
    strange["mood"] = "good"
    strange["steps"][1]["tool_calls"][0]["colour"] = ["red"]
    strange["subagent_trajectories"][0]["steps"][0]["extra"] = {"mine": 1}
    strange["subagent_trajectories"][0]["steps"][0]["weather"] = {"rain": None}
    with pytest.raises(AskedWrongly, match="unknown key"):
        validated(Trajectory, strange, source="strict")
    (tmp_path / "t.json").write_text(json.dumps(strange))
    read = read_trajectory(tmp_path / "t.json")
    assert read.extra == {"unread": {"mood": "good"}}
    assert read.steps[1].tool_calls is not None
    assert read.steps[1].tool_calls[0].extra == {"unread": {"colour": ["red"]}}
    assert read.subagent_trajectories is not None
    assert read.subagent_trajectories[0].steps[0].extra == {"mine": 1, "unread": {"weather": {"rain": None}}}


@pytest.mark.parametrize("text", ["", "[]", "{", '"x"', "[" * 100_000])
def test_a_file_that_is_no_trajectory_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(AskedWrongly, match=r"t\.json"):
        read_trajectory(tmp_path / "t.json")
