"""Whose failure it was: every error of the table, inside and outside, with and without a second witness."""

import errno
import itertools
import os
from pathlib import Path
from typing import Any

import pytest

from opd.protocol.checkpoints.strangers import opened
from opd.protocol.failures.causes import TABLE, classify, read_claim, rules_sha256
from opd.records.causes import (
    Cause,
    Device,
    DeviceProbe,
    Ending,
    Evidence,
    Ruling,
    Storage,
    StorageProbe,
    Verdict,
)
from opd.records.failures import Failure, failure
from opd.records.files import write_json

# /usr/include/asm-generic/errno-base.h and errno.h, as the protocol's reference lists them
SHARED = {5: "EIO", 30: "EROFS", 67: "ENOLINK", 70: "ECOMM", 107: "ENOTCONN", 108: "ESHUTDOWN", 110: "ETIMEDOUT"}
SHARED |= {112: "EHOSTDOWN", 116: "ESTALE", 121: "EREMOTEIO"}
INSIDE, OUTSIDE = "/workspace/checkpoints/checkpoint-540.partial/model.safetensors", "/inputs/train.jsonl"


def claim(number: int | None, path: str | None = INSIDE, *, phase: str | None = "save") -> Failure:
    """What `opd train` writes when a call fails so."""
    error: Exception = ValueError("a bug") if number is None else OSError(number, os.strerror(number), path)
    return failure(error, phase=phase, step=540, seconds=10_873.0, checkpoint="checkpoint-520", state=None)


def storage(kind: str = "ext4", device: str = "8:1") -> Storage:
    return Storage(
        folder="/runs/x",
        kind=kind,
        source="somewhere",
        mount_point="/runs",
        device=device,
        network=kind == "nfs4",
        read_only=False,
        free_bytes=10**9,
        free_files=None,
    )


def written(failed_at: str | None = None, number: int | None = None, *, device: str = "8:1") -> StorageProbe:
    return StorageProbe(
        storage=storage(device=device),
        ok=failed_at is None,
        failed_at=failed_at,
        errno=number,
        errno_name=None if number is None else errno.errorcode[number],
        seconds=0.1,
    )


def evidence(**changes: Any) -> Evidence:
    """A program that ended by itself with 1, wrote nothing of its end, on a healthy local disk."""
    return Evidence(
        **{
            "ending": Ending.ENDED,
            "exit_code": 1,
            "signal": None,
            "oom_killed": False,
            "artifacts": 0,
            "output": ("/workspace/checkpoints", "/runs/x/formal/attempt-001.partial/output/checkpoints"),
            "working_folder": "/workspace",
            "claim": None,
            "storage": storage(),
            "storage_probe": written(),
        }
        | changes
    )


def verdict(**changes: Any) -> Verdict:
    return classify(evidence(**changes)).verdict


def ruling(said: str) -> Ruling:
    return Ruling.model_validate(
        {"about": "formal/attempt-001", "verdict": said, "because": "seen it", "by": "an operator"}
    )


def test_the_table_has_the_numbers_of_this_system() -> None:
    assert {number: name for name, number in TABLE.shared_fs.items()} == SHARED
    for name, number in (TABLE.shared_fs | TABLE.space | TABLE.memory).items():
        assert getattr(errno, name) == number


@pytest.mark.parametrize(
    "number", [*SHARED, errno.ENOENT, errno.EACCES, errno.EFBIG, errno.ENAMETOOLONG, 28, 122, 12, None]
)
def test_every_error_by_place_witnesses_and_ruling(number: int | None) -> None:
    """All of the table, against the sentences of the reference written down a second time."""
    for path, fails, network, said in itertools.product(
        (INSIDE, OUTSIDE), (False, True), (False, True), (None, "infrastructure", "candidate")
    ):
        inside = path == INSIDE
        if number in SHARED and inside and (fails or network):
            expected = Verdict.SHARED_FS
        elif (number in SHARED and inside) or (number in {28, 122} and inside) or number == errno.ENOMEM:
            expected = Verdict.AMBIGUOUS
        else:
            expected = Verdict.CANDIDATE
        if expected is Verdict.AMBIGUOUS and said:
            expected = Verdict.CANDIDATE if said == "candidate" else Verdict.RULED
        found = classify(
            evidence(
                claim=claim(number, path),
                storage=storage("nfs4" if network else "ext4"),
                storage_probe=written("fsync", errno.EIO) if fails else written(),
                ruling=None if said is None else ruling(said),
            )
        )
        assert found.verdict is expected, (path, fails, network, said, found)
        assert found.ruled == (
            said is not None and found.rule in {"shared_fs", "space"} and not found.because[0].startswith("it ")
        )
        assert found.retries == (expected in {Verdict.SHARED_FS, Verdict.RULED})


def test_a_claim_alone_never_buys_another_try() -> None:
    """Whatever a program states or how it ends, while disk, devices and supervisor say nothing."""
    claims = [claim(number, path) for number in [*SHARED, 12, 28, 122, 2, None] for path in (INSIDE, OUTSIDE, None)]
    ends = [(0, None), (1, None), (70, None), (137, None), (None, "SIGKILL"), (None, "SIGTERM"), (None, "SIGBUS")]
    for one, (code, signal), artifacts in itertools.product([None, *claims], ends, (0, 2)):
        assert not classify(evidence(claim=one, exit_code=code, signal=signal, artifacts=artifacts)).retries


@pytest.mark.parametrize(
    ("path", "phase", "counts"),
    [
        (INSIDE, None, True),
        ("checkpoints/checkpoint-540.partial/model.safetensors", None, True),
        ("/workspace/checkpoints", None, True),
        ("/runs/x/formal/attempt-001.partial/output/checkpoints/checkpoint-3/x", None, True),
        ("/workspace/checkpoints-2/x", None, False),
        ("/workspace/checkpoints/../train.py", None, False),
        ("/workspace/./checkpoints//x", None, True),
        ("/tmp/x", None, False),
        (None, "save", True),  # as the writer of safetensors says it: without a path
        (None, "sample", False),
        (None, None, False),
    ],
)
def test_a_claim_is_about_the_output_by_its_path_or_by_saving(
    path: str | None, phase: str | None, counts: bool
) -> None:
    found = verdict(claim=claim(70, path, phase=phase), storage_probe=written("write", 70))
    assert found is (Verdict.SHARED_FS if counts else Verdict.CANDIDATE)


@pytest.mark.parametrize(
    ("probe", "counts"),
    [
        (written("write", errno.ECOMM), True),
        (written("time"), True),
        (written("compare"), True),
        (written("open", errno.EROFS), True),
        (written("write", errno.ENOSPC), False),  # a candidate can fill a disk
        (written("open", errno.EACCES), False),  # or close a folder
        (written("write", errno.ECOMM, device="8:2"), False),  # another file system
        (written(), False),
        (None, False),
    ],
)
def test_our_own_write_is_a_witness_when_it_fails_as_no_candidate_can_make_it(
    probe: StorageProbe | None, counts: bool
) -> None:
    found = classify(evidence(claim=claim(70), storage_probe=probe))
    assert found.verdict is (Verdict.SHARED_FS if counts else Verdict.AMBIGUOUS)
    silent = verdict(claim=None, storage_probe=probe)
    assert silent is (Verdict.AMBIGUOUS if counts else Verdict.CANDIDATE)


def device(uuid: str = "GPU-1", errors: int | None = 0) -> Device:
    return Device(uuid=uuid, uncorrected_errors=errors)


def devices(*there: Device, xids: tuple[int, ...] = (), answered: bool = True) -> DeviceProbe:
    return DeviceProbe(devices=there, answered=answered, said="" if answered else "Unable", log_sequence=1, xids=xids)


@pytest.mark.parametrize(
    ("after", "broken"),
    [
        (devices(device()), False),
        (devices(device(), xids=(79,)), True),  # fallen off the bus
        (devices(device(), xids=(94, 13)), True),  # memory error
        (devices(device(), xids=(13, 31, 43, 45)), False),  # what a program brings about by itself
        (devices(device(errors=1)), True),
        (devices(device("GPU-2")), True),  # ours is gone
        (devices(device(), device("GPU-2", 7)), False),  # another one has come
        (devices(answered=False), True),
        (None, False),
    ],
)
def test_a_gpu_that_broke_in_this_time_is_the_machines_failure(after: DeviceProbe | None, broken: bool) -> None:
    expected = Verdict.DEVICE if broken else Verdict.CANDIDATE
    before = devices(device())
    assert verdict(devices_before=before, devices_after=after) is expected
    assert verdict(devices_before=before, devices_after=after, ending=Ending.DEADLINE) is expected
    assert verdict(devices_before=before, devices_after=after, exit_code=0, artifacts=3) is Verdict.NONE


def test_a_gpu_that_was_broken_before_is_no_excuse() -> None:
    before = devices(device(errors=4))
    assert verdict(devices_before=before, devices_after=before) is Verdict.CANDIDATE
    silent = devices(answered=False)
    assert verdict(devices_before=silent, devices_after=silent) is Verdict.CANDIDATE


class OutOfMemoryError(RuntimeError):
    """As torch calls it."""


@pytest.mark.parametrize(
    ("changes", "expected", "rule"),
    [
        ({"exit_code": 0, "artifacts": 3}, Verdict.NONE, "not_a_failure"),
        ({"exit_code": 0}, Verdict.CANDIDATE, "otherwise"),
        (
            {"ending": Ending.DEADLINE, "exit_code": None, "signal": "SIGKILL", "artifacts": 1},
            Verdict.NONE,
            "not_a_failure",
        ),
        ({"ending": Ending.DEADLINE, "exit_code": None, "signal": "SIGTERM"}, Verdict.CANDIDATE, "otherwise"),
        ({"ending": Ending.STOPPED, "because": "by the operator", "artifacts": 2}, Verdict.INTERRUPTED, "stopped"),
        ({"ending": Ending.NOT_STARTED, "because": "bwrap: no"}, Verdict.INTERRUPTED, "stopped"),
        ({"ending": Ending.LOST}, Verdict.AMBIGUOUS, "killed"),
        ({"ending": Ending.LIMIT, "because": "disk"}, Verdict.CANDIDATE, "limit"),
        ({"exit_code": None, "signal": "SIGKILL"}, Verdict.AMBIGUOUS, "killed"),
        ({"exit_code": 137}, Verdict.AMBIGUOUS, "killed"),
        ({"exit_code": None, "signal": "SIGKILL", "oom_killed": True}, Verdict.CANDIDATE, "limit"),
        ({"exit_code": 137, "oom_killed": True}, Verdict.CANDIDATE, "limit"),
        ({"exit_code": None, "signal": "SIGSEGV"}, Verdict.CANDIDATE, "otherwise"),
        ({"exit_code": None, "signal": "SIGTERM"}, Verdict.CANDIDATE, "otherwise"),
        ({"exit_code": 1, "artifacts": 3}, Verdict.CANDIDATE, "otherwise"),
        ({"claim": claim(None)}, Verdict.CANDIDATE, "otherwise"),
    ],
)
def test_how_a_program_ended(changes: dict[str, Any], expected: Verdict, rule: str) -> None:
    found = classify(evidence(**changes))
    assert (found.verdict, found.rule) == (expected, rule)
    assert found.because[0]


@pytest.mark.parametrize(
    "error", [OutOfMemoryError("CUDA out of memory"), FloatingPointError("loss is nan"), KeyError("x"), MemoryError()]
)
def test_an_error_without_a_number_is_the_candidates(error: Exception) -> None:
    said = failure(error, phase="update", step=3, seconds=1.0, checkpoint=None, state=None)
    assert verdict(claim=said) is Verdict.CANDIDATE


def test_a_ruling_counts_only_where_the_rules_leave_it_open() -> None:
    open_case = classify(evidence(claim=claim(70), ruling=ruling("infrastructure")))
    assert (open_case.verdict, open_case.ruled) == (Verdict.RULED, True)
    assert open_case.because[0] == "an operator ruled infrastructure: seen it"
    clear = classify(evidence(claim=claim(None), ruling=ruling("infrastructure")))
    assert (clear.verdict, clear.ruled) == (Verdict.CANDIDATE, False)
    assert "changes nothing" in clear.because[-1]


def test_what_a_cause_rests_on_is_in_its_record() -> None:
    found = classify(evidence(claim=claim(70), storage_probe=written("write", 70)))
    assert found.because[0] == (
        "it names ECOMM (70) about its output, and our own write to the same file system failed at write with ECOMM"
    )
    assert "its own claim: OSError" in found.because[1]
    assert (found.rules_version, found.rules_sha256) == (TABLE.version, rules_sha256())
    assert Cause.model_validate_json(found.model_dump_json()) == found


def test_the_digest_of_the_rules_is_of_the_table_and_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    from opd.protocol.failures import causes

    before = rules_sha256()
    monkeypatch.setattr(causes, "TABLE", TABLE.model_copy(update={"xids": (79,)}))
    changed = rules_sha256()
    monkeypatch.undo()
    monkeypatch.setattr(causes, "_RULES", dict(reversed(causes._RULES.items())))
    assert len({before, changed, rules_sha256()}) == 3


# what a candidate leaves as its statement


def stated(folder: Path) -> tuple[Failure | None, str | None]:
    with opened(folder) as place:
        return read_claim(place)


def test_a_statement_is_read_as_the_trainer_wrote_it(tmp_path: Path) -> None:
    assert stated(tmp_path) == (None, None)
    write_json(tmp_path / "failure.json", claim(70).resolved())
    assert stated(tmp_path) == (claim(70), None)


@pytest.mark.parametrize(
    "content", ["Errno 70", "[]", "{}", '{"errno": 70}', '{"errno": 70, "errno": 5}', "[" * 200_000]
)
def test_a_statement_that_is_none_is_a_fault_and_no_claim(tmp_path: Path, content: str) -> None:
    (tmp_path / "failure.json").write_text(content)
    found, fault = stated(tmp_path)
    assert found is None
    assert fault
    assert verdict(claim=found, claim_fault=fault) is Verdict.CANDIDATE


def test_a_statement_that_would_hold_up_its_reader_does_not(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "failure.json")
    assert stated(tmp_path)[0] is None
    (tmp_path / "failure.json").unlink()
    (tmp_path / "failure.json").symlink_to("/dev/zero")
    assert stated(tmp_path) == (None, "it is a symbolic link; a checkpoint consists of plain files")
    (tmp_path / "failure.json").unlink()
    (tmp_path / "failure.json").touch()
    os.truncate(tmp_path / "failure.json", 1 << 40)
    assert "at most" in (stated(tmp_path)[1] or "")
