"""Evidence is what the receipts list, read once; damage is named, believed by nobody, and nobody's exception."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from opd.protocol.audit.collection import collect
from opd.records.attempts import Explored, Stage
from opd.records.files import sha256

SECOND = {"monotonic": 1.0, "utc": "u", "processes": 1, "cpu_share": 0.5, "evaluating": False, "gpus": []}
ASKED = {
    "began": "b", "ended": "e", "seconds": 1.0, "command": "timer", "arguments": {}, "folder": "/workspace", "pid": 1,
    "exit": 0, "said": ["320 s are left"],
}  # fmt: skip


def lines(*values: Any) -> str:
    return "".join(f"{value if isinstance(value, str) else json.dumps(value)}\n" for value in values)


def explored(lab: Any, **files: str | bytes) -> None:
    """An exploration that left these files."""
    with lab.trying(lab.attempt.next(Stage.EXPLORE), {"base": lab.attempt.identity.base_sha256}) as this:
        for name, content in files.items():
            path = this.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        this.end(Explored.NO_CANDIDATE)


def test_each_fact_knows_its_file_its_line_and_the_digest_of_the_bytes(lab: Any) -> None:
    explored(lab, **{"desk.jsonl": lines(ASKED, "", ASKED), "device.jsonl": lines(SECOND)})
    (one,) = collect(lab.attempt).explorations
    assert one.asked is not None
    assert [asked.line for asked in one.asked.value] == [1, 3], "as an editor counts them"
    pointer = one.asked.at("line:3")
    assert (pointer.file, pointer.pointer) == ("explore/attempt-001/desk.jsonl", "line:3")
    assert pointer.sha256 == sha256(lab.folder / pointer.file)
    assert one.asked.bytes == (lab.folder / pointer.file).stat().st_size


def test_a_damaged_line_leaves_out_itself_alone_and_is_named(lab: Any) -> None:
    explored(lab, **{"desk.jsonl": lines(ASKED, "{", {"began": 1}, "[]", ASKED)})
    evidence = collect(lab.attempt)
    assert evidence.explorations[0].asked is not None
    assert len(evidence.explorations[0].asked.value) == 2
    assert [one.split(": ")[:2] for one in evidence.unread] == [
        ["explore/attempt-001/desk.jsonl", f"line {number}"] for number in (2, 3, 4)
    ]


def test_what_a_full_record_of_commands_lost_is_known(lab: Any) -> None:
    explored(lab, **{"commands.jsonl": lines({"at": "a", "command": "ls"}, {"at": "b", "lost_bytes": 70})})
    evidence = collect(lab.attempt)
    commands = evidence.explorations[0].commands
    assert commands is not None
    assert [(one.line, one.text, one.lost_bytes) for one in commands.value] == [(1, "ls", 0), (2, "", 70)]
    assert evidence.unread == ()


def test_what_is_not_as_its_receipt_says_is_left_out(lab: Any) -> None:
    explored(lab, **{"desk.jsonl": lines(ASKED), "device.jsonl": lines(SECOND)})
    assert collect(lab.attempt).unread == ()
    (lab.folder / "explore/attempt-001/desk.jsonl").unlink()
    (lab.folder / "explore/attempt-001/desk.jsonl").write_text(lines({**ASKED, "exit": 1}))
    (lab.folder / "explore/attempt-001/device.jsonl").unlink()
    evidence = collect(lab.attempt)
    (one,) = evidence.explorations
    assert (one.asked, one.seconds) == (None, None)
    assert set(evidence.unread) == {
        "explore/attempt-001/desk.jsonl: not as its receipt says",
        "explore/attempt-001/device.jsonl: gone",
    }


def test_no_link_is_followed_and_no_pipe_is_waited_for(lab: Any, tmp_path: Path) -> None:
    """faults H34."""
    explored(lab, **{"desk.jsonl": lines(ASKED), "device.jsonl": lines(SECOND)})
    outside = tmp_path / "outside.jsonl"
    outside.write_text(lines(ASKED))
    assert outside.read_text() == (lab.folder / "explore/attempt-001/desk.jsonl").read_text(), "the bytes would fit"
    for name, put in {"desk.jsonl": lambda path: path.symlink_to(outside), "device.jsonl": os.mkfifo}.items():
        path = lab.folder / "explore/attempt-001" / name
        path.unlink()
        put(path)
    (one,) = collect(lab.attempt).explorations
    assert (one.asked, one.seconds) == (None, None)


def test_control_files_are_found_and_the_protocols_own_are_none(lab: Any) -> None:
    explored(
        lab,
        **{
            "control.json": json.dumps({"status": "running"}),
            "runs/a/state.json": json.dumps({"state": {"step": 1}}),
            "runs/a/recipe.json": json.dumps({"steps": 1}),
            "runs/list.json": json.dumps([{"status": "running"}]),
            "runs/broken.json": b"{",
            "runs/deep.json": "[" * 100_000,
            "runs/text.txt": json.dumps({"status": "running"}),
            "runs/large.json": json.dumps({"status": "running", "x": "y" * (1 << 20)}),
        },
    )
    evidence = collect(lab.attempt)
    assert [one.file for one in evidence.states] == [
        "explore/attempt-001/control.json", "explore/attempt-001/runs/a/state.json",
    ]  # fmt: skip
    assert evidence.unread == (), "what a stranger wrote and is no control file is nobody's damage"


def test_a_name_that_is_no_text_is_read_by_what_it_means(lab: Any) -> None:
    explored(lab, **{os.fsdecode(b"runs/\xff.json"): json.dumps({"status": "running"})})
    assert [one.file for one in collect(lab.attempt).states] == [r"explore/attempt-001/runs/\xff.json"]


def test_a_task_that_was_changed_is_no_task(lab: Any) -> None:
    explored(lab)
    path = lab.folder / "task.lock.json"
    path.write_text(path.read_text().replace("arith", "other", 1))
    evidence = collect(type(lab.attempt)(lab.folder))
    assert evidence.task is None
    assert any(one.startswith("task.lock.json: ") for one in evidence.unread)


@pytest.mark.parametrize("stage", ["validation", "final"])
def test_every_stage_is_there_with_its_record(lab: Any, stage: str) -> None:
    lab.whole()
    evidence = collect(lab.attempt)
    assert evidence.counted == "formal/attempt-002"
    assert [one.name for one in evidence.formals] == ["formal/attempt-001", "formal/attempt-002"]
    assert [one.outcome for one in evidence.formals] == ["infra_failed", "completed"], (
        "as they count, after the ruling"
    )
    found = evidence.validations if stage == "validation" else evidence.finals
    assert [(one.step, one.facts is not None) for one in found] == [(10, True), (20, True)]
    assert [one.value.about for one in evidence.rulings] == ["formal/attempt-001"]
    assert {one.path for one in evidence.files} >= {
        "submission/candidate.patch", "rulings/001/ruling.json", "base/tree/run.sh",
        f"{stage}/step-000010/outcome.json",
    }  # fmt: skip
