"""Read again from the first byte to the last: every change is found, and nothing that was not changed."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from opd.protocol.attempts.attempt import Attempt
from opd.protocol.attempts.lease import LOCK, held
from opd.protocol.attempts.verify import Verification, founding, verify
from opd.records.attempts import Replayed, Stage
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import COMPLETE, sha256, write_json
from opd.records.receipts import RECEIPT, Sealed, begin


@pytest.fixture
def whole(lab: Any) -> Any:
    lab.whole()
    return lab


def check(lab: Any, **arguments: Any) -> Verification:
    return verify(Attempt(lab.folder), **arguments)


def test_a_whole_attempt_holds_and_every_byte_was_read(whole: Any) -> None:
    found = check(whole)
    assert found.holds, found.text()
    assert found.head == whole.attempt.events.head()
    outside = {RECEIPT, COMPLETE, LOCK, "run.json", "events.jsonl", "task.lock.json", "inputs.lock.json"}
    sizes = [path.stat().st_size for path in whole.folder.rglob("*") if path.is_file() and path.name not in outside]
    marks = [path.stat().st_size for path in whole.folder.glob("formal/*/checkpoints/*/.complete")]
    assert found.bytes == sum(sizes) + sum(marks)
    assert {one.name for one in found.folders} == {
        "base", "explore/attempt-001", "submission", "formal/attempt-001", "formal/attempt-002", "rulings/001",
        "validation/step-000010", "validation/step-000020", "final/step-000010", "final/step-000020",
    }  # fmt: skip
    assert found.text().endswith("all holds")


def test_the_chain_from_the_task_to_the_score_is_named_link_by_link(whole: Any) -> None:
    assert [link.name for link in check(whole).lineage] == [
        "task → attempt",
        "base → attempt",
        "base → explore/attempt-001",
        "base → submission",
        "patch → submission",
        "patch → formal/attempt-001",
        "checkout → formal/attempt-001",
        "inputs → formal/attempt-001",
        "patch → formal/attempt-002",
        "checkout → formal/attempt-002",
        "inputs → formal/attempt-002",
        "formal/attempt-002 → step 10",
        "formal/attempt-002 → step 20",
        "step 10 → validation/step-000010",
        "step 20 → validation/step-000020",
        "step 10 → final/step-000010",
        "step 20 → final/step-000020",
    ]


def test_an_attempt_with_nothing_done_or_somebody_at_work_holds(lab: Any) -> None:
    assert check(lab).holds, check(lab).text()
    place = lab.attempt.next(Stage.EXPLORE)
    with held(lab.folder) as holder, holder.at(place.name):
        begin(place.folder)
        found = check(lab)
    assert found.holds, found.text()
    assert found.unsealed == ("explore/attempt-001",), "begun, and not vouched for"


def flips(path: Path) -> Iterator[int]:
    """Where to flip a byte: at both ends and in the midst."""
    size = path.stat().st_size
    yield from sorted({0, size // 2, size - 1} & {*range(size)})


@pytest.mark.patient
def test_one_flipped_byte_in_any_file_is_found(whole: Any) -> None:
    """faults H23: names and times are not believed."""
    files = sorted(path for path in whole.folder.rglob("*") if path.is_file() and path.name != LOCK)
    assert len(files) > 40
    missed = []
    for path in files:
        content, mode = path.read_bytes(), path.stat().st_mode
        for at in flips(path):
            path.chmod(0o644)
            path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            path.chmod(mode)
            if check(whole).holds:
                missed.append((path.relative_to(whole.folder), at))
        path.chmod(0o644)
        path.write_bytes(content)
        path.chmod(mode)
    assert missed == []
    assert check(whole).holds, "everything is as it was"


def _remove(folder: Path) -> None:
    (folder / "formal/attempt-002/stdout.log").unlink()


def _add(folder: Path) -> None:
    (folder / "formal/attempt-002/checkpoints/checkpoint-10/added.txt").write_text("")


def _add_folder(folder: Path) -> None:
    (folder / "explore/attempt-001/empty").mkdir()


def _rename(folder: Path) -> None:
    (folder / "explore/attempt-001/commands.jsonl").rename(folder / "explore/attempt-001/Commands.jsonl")


def _mode(folder: Path) -> None:
    (folder / "submission/candidate.patch").chmod(0o755)


def _folders_mode(folder: Path) -> None:
    (folder / "formal/attempt-002/checkpoints").chmod(0o700)


def _link(folder: Path) -> None:
    path = folder / "formal/attempt-002/stdout.log"
    shutil.copy(path, folder.parent / "same.log")
    path.unlink()
    path.symlink_to(folder.parent / "same.log")


def _receipt_as_a_link(folder: Path) -> None:
    path = folder / "formal/attempt-002" / RECEIPT
    path.rename(folder.parent / RECEIPT)
    path.symlink_to(folder.parent / RECEIPT)


def _whole_folder_as_a_link(folder: Path) -> None:
    (folder / "final/step-000010").rename(folder.parent / "elsewhere")
    (folder / "final/step-000010").symlink_to(folder.parent / "elsewhere")


def _receipt_and_mark(folder: Path) -> None:
    path = folder / "formal/attempt-001" / RECEIPT
    write_json(path, json.loads(path.read_text()) | {"because": "the disk, honestly"})
    write_json(path.with_name(COMPLETE), Sealed(kind="formal", receipt_sha256=sha256(path)).resolved())


def _files_receipt_and_mark(folder: Path) -> None:
    """All three, consistently; the log and what was made from it still say otherwise."""
    path = folder / "final/step-000010"
    outcome = json.loads((path / "outcome.json").read_text()) | {"mean": 0.99, "correct": 1980}
    write_json(path / "outcome.json", outcome)
    (path / "outcome.json").chmod(0o444)
    receipt = json.loads((path / RECEIPT).read_text())
    for entry in receipt["files"]:
        if entry["path"] == "outcome.json":
            entry |= {"sha256": sha256(path / "outcome.json"), "bytes": (path / "outcome.json").stat().st_size}
    write_json(path / RECEIPT, receipt)
    write_json(path / COMPLETE, Sealed(kind="final", receipt_sha256=sha256(path / RECEIPT)).resolved())


def _move_a_try(folder: Path) -> None:
    (folder / "formal/attempt-001").rename(folder / "formal/attempt-003")


def _remove_a_try(folder: Path) -> None:
    shutil.rmtree(folder / "explore/attempt-001")


def _remove_a_ruling(folder: Path) -> None:
    shutil.rmtree(folder / "rulings/001")


def _unmark(folder: Path) -> None:
    (folder / "formal/attempt-002" / COMPLETE).unlink()


def _stray_file(folder: Path) -> None:
    (folder / "notes.txt").write_text("")


def _stray_on_a_shelf(folder: Path) -> None:
    (folder / "final/notes.txt").write_text("")


def _stray_folder(folder: Path) -> None:
    (folder / "final/step-000030").mkdir()


def _no_log(folder: Path) -> None:
    (folder / "events.jsonl").unlink()


def _last_line_of_the_log(folder: Path) -> None:
    """No line follows it that would hold its digest."""
    path = folder / "events.jsonl"
    *before, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*before, last.replace(b'"actor":"final', b'"actor":"finaL')]))


def _torn_log(folder: Path) -> None:
    path = folder / "events.jsonl"
    path.write_bytes(path.read_bytes()[:-10])


def _no_identity_of_inputs(folder: Path) -> None:
    (folder / "inputs.lock.json").unlink()


def _half_an_identity(folder: Path) -> None:
    (folder / "run.json").write_text('{"case": ')


def _task_that_is_no_task(folder: Path) -> None:
    (folder / "task.lock.json").write_text("[]")


CHANGES = [value for name, value in list(globals().items()) if name.startswith("_") and callable(value)]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__.strip("_"))
def test_whatever_is_changed_by_hand_is_found(whole: Any, change: Callable[[Path], None]) -> None:
    assert check(whole).holds
    change(whole.folder)
    found = check(whole)
    assert not found.holds
    assert found.text().endswith("it does not hold")
    assert "WRONG" in found.text()


def test_an_identity_that_cannot_be_read_is_a_fault_and_all_else_is_read_again(whole: Any) -> None:
    """A damaged attempt is a failed check; a folder that is none is another question."""
    folders = check(whole).folders
    _half_an_identity(whole.folder)
    found = check(whole)
    assert "run.json is not as it was when the attempt was made" in found.faults
    assert any("so neither lineage nor contradictions can be worked out" in fault for fault in found.faults)
    assert (found.folders, found.lineage, found.contradictions) == (folders, (), ())
    (whole.folder / "run.json").unlink()
    with pytest.raises(AnswerIsNo, match=r"is a damaged attempt: its run\.json is gone"):
        Attempt(whole.folder)
    for name in ("events.jsonl", "task.lock.json"):  # by either it is an attempt still
        (whole.folder / name).unlink()
    with pytest.raises(AskedWrongly, match="is no attempt"):
        Attempt(whole.folder)


def test_folders_of_two_attempts_that_were_swapped_are_found_in_both(whole: Any, new_lab: Any) -> None:
    other = new_lab("other")
    other.whole()
    for name in ("formal/attempt-002", "submission", "base", "explore/attempt-001"):
        one, two, aside = whole.folder / name, other.folder / name, whole.folder.parent / "aside"
        for source, target in ((one, aside), (two, one), (aside, two)):
            source.rename(target)
        for lab in (whole, other):
            assert not check(lab).holds, name
        for source, target in ((one, aside), (two, one), (aside, two)):
            source.rename(target)
    assert check(whole).holds
    assert check(other).holds


def _forge(lab: Any) -> None:
    """The attempt again from its beginning, with a better end: one piece, by somebody else."""
    shutil.rmtree(lab.folder)
    shutil.rmtree(lab.folder.with_name(f"{lab.folder.name}-inputs"))
    again = type(lab)(lab.folder)
    again.explore()
    again.formal(Replayed.AMBIGUOUS)
    again.rule("infrastructure")
    again.formal(steps=(10, 20))
    for step in (10, 20):
        again.validate(step, of="formal/attempt-002")
        again.final(step, 0.99, of="formal/attempt-002")


def test_what_was_forged_as_one_piece_holds_alone_and_not_beside_a_head_that_was_written_down(whole: Any) -> None:
    """The limit of digests, and what helps."""
    head = check(whole).head
    assert check(whole, head=head.sha256).holds
    _forge(whole)
    assert check(whole).holds, "nothing inside can tell"
    found = check(whole, head=head.sha256)
    assert not found.holds
    assert any("does not pass through" in fault for fault in found.faults)


def test_a_head_holds_when_more_has_happened_since(lab: Any) -> None:
    head = check(lab).head
    lab.whole()
    assert check(lab, head=head.sha256).holds


def test_a_head_that_is_no_digest_is_refused(lab: Any) -> None:
    with pytest.raises(AskedWrongly, match="64 hexadecimal digits"):
        check(lab, head="abc")


def test_reading_changes_nothing(whole: Any) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole.folder.rglob("*")}
    check(whole)
    assert {path: path.stat().st_mtime_ns for path in whole.folder.rglob("*")} == before


def test_what_an_attempt_is_founded_on_is_all_that_is_not_sealed(lab: Any) -> None:
    (lab.folder / "inputs").mkdir()
    (lab.folder / "inputs/train.jsonl").write_text("{}\n")
    assert set(founding(lab.folder)) == {
        "run.json", "task.lock.json", "inputs.lock.json", "base/receipt.json", "inputs/train.jsonl",
    }  # fmt: skip
    assert any("inputs/train.jsonl belongs to nothing" in fault for fault in check(lab).faults)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_is_an_error_and_no_verdict(whole: Any) -> None:
    (whole.folder / "submission/candidate.patch").chmod(0)
    with pytest.raises(PermissionError):
        check(whole)
