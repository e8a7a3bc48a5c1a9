"""Fixed inputs: found, pinned, and the same afterwards."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from opd.protocol.attempts.attempt import Attempt
from opd.protocol.inputs import INPUTS_LOCK, changed, find, lock, locked
from opd.protocol.packages import catalogue
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.tasks import Contract, DataInput


@pytest.fixture
def contract() -> Contract:
    return catalogue.find("arith_tiny")[0].contract


def test_what_ships_is_found_and_is_what_the_task_pins(contract: Contract) -> None:
    inputs = find(contract, {})
    assert {one.role: one.sha256 for one in inputs.fixed} == {
        "student": contract.student.files_sha256,
        "teacher": contract.teacher.files_sha256,
        "data": contract.data.sha256,
    }
    assert all(Path(one.path).is_absolute() for one in inputs.fixed)
    assert changed(inputs) == ()


def test_an_input_that_is_not_what_the_task_pins_is_refused(contract: Contract, tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text("{}\n")
    with pytest.raises(AnswerIsNo, match=r"the data .*train\.jsonl has digest .* and the task pins 8db27da8f004"):
        find(contract, {"data": tmp_path / "train.jsonl"})


def test_a_role_that_the_task_does_not_have_is_refused(contract: Contract, tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match=r"the task has no input \['verifier'\]; it has student, teacher, data"):
        find(contract, {"verifier": tmp_path})


def test_an_input_that_is_nowhere_says_how_to_name_it(contract: Contract, tmp_path: Path) -> None:
    elsewhere = contract.changed(["data.source=nowhere/problems.jsonl"])
    with pytest.raises(AskedWrongly, match="--input data=PATH"):
        find(elsewhere, {})
    with pytest.raises(AskedWrongly, match="does not exist"):
        find(elsewhere, {"data": tmp_path / "nothing.jsonl"})


def test_a_path_that_is_given_holds_from_everywhere(
    contract: Contract, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path(find(contract, {}).path("data"))
    (tmp_path / "mine.jsonl").write_bytes(source.read_bytes())
    monkeypatch.chdir(tmp_path)
    inputs = find(contract, {"data": Path("mine.jsonl")})
    monkeypatch.chdir("/")
    assert inputs.path("data") == tmp_path / "mine.jsonl"
    assert changed(inputs) == ()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda folder: (folder / "student/model.safetensors").write_bytes(b"studenT"),
            "the student .* was .* and is",
        ),
        (lambda folder: (folder / "student/added.py").write_text(""), "the student .* was .* and is"),
        (lambda folder: (folder / "train.jsonl").unlink(), "the data .* can't be read any more"),
    ],
)
def test_a_change_of_any_byte_or_name_is_seen_when_it_is_read_again(lab: Any, change: Any, says: str) -> None:
    """faults H38: the same before and after."""
    inputs = locked(Attempt(lab.folder))
    assert changed(inputs) == ()
    change(lab.folder.with_name(f"{lab.folder.name}-inputs"))
    (sentence,) = changed(inputs)
    assert re.search(says, sentence)


def rows(folder: Path) -> tuple[DataInput, list[bytes]]:
    """Problems of which some are held out, and a task that says so."""
    lines = [
        json.dumps({"problem": f"{n}+1", "projection": "held" if n % 3 else "train"}).encode() + b"\n"
        for n in range(9)
    ]
    (folder / "all.jsonl").write_bytes(b"".join(lines))
    taken = [line for number, line in enumerate(lines) if number % 3 == 0]
    return DataInput(
        source="all.jsonl",
        sha256=hashlib.sha256(b"".join(lines)).hexdigest(),
        rows=3,
        where={"projection": "train"},
        chosen_sha256=hashlib.sha256(b"".join(taken)).hexdigest(),
    ), taken


def test_rows_that_are_left_out_are_not_there_to_be_had(contract: Contract, lab: Any, tmp_path: Path) -> None:
    data, taken = rows(tmp_path)
    assert data.sha256 != data.given_sha256, "something is left out"
    with_rows = contract.model_copy(update={"data": data})
    inputs = find(with_rows, {"data": tmp_path / "all.jsonl"}, made_in=lab.folder)
    assert inputs.sha256("data") == data.given_sha256
    (lab.folder / INPUTS_LOCK).unlink()
    lock(lab.folder, inputs)
    moved = lab.folder.with_name("moved")
    lab.folder.rename(moved)
    there = locked(Attempt(moved))
    assert there.path("data").read_bytes() == b"".join(taken)
    assert there.path("data").is_relative_to(moved), "it moves with the attempt"
    assert changed(there) == ()


def test_a_file_other_than_the_one_whose_rows_are_chosen_is_refused(
    contract: Contract, lab: Any, tmp_path: Path
) -> None:
    data, _ = rows(tmp_path)
    (tmp_path / "other.jsonl").write_text('{"projection": "train"}\n')
    with pytest.raises(AnswerIsNo, match="and the task pins"):
        find(contract.model_copy(update={"data": data}), {"data": tmp_path / "other.jsonl"}, made_in=lab.folder)
