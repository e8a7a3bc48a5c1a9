"""A formal try, really run in the best sandbox of this machine, with candidates of every kind."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

import opd
from opd.protocol.attempts.verify import verify
from opd.protocol.audit.assessing import assess
from opd.protocol.audit.catalogue import checks
from opd.protocol.audit.collection import collect
from opd.protocol.sandbox.ladder import climb
from opd.protocol.sandbox.view import Mount, View
from opd.protocol.stages import formal as stage
from opd.protocol.supervision.processes import command_of, numbers
from opd.records.attempts import Replayed, Stage
from opd.records.audits import Verdict as Found
from opd.records.causes import Verdict
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.receipts import faults, is_sealed

TRAINS = "python3 -I train.py\n"
NVIDIA_SMI = """#!/bin/sh
case $1 in
  *compute*) grep -al takes-a-gpu /proc/[0-9]*/cmdline 2>/dev/null | sed 's|/proc/\\([0-9]*\\)/.*|GPU-b, \\1|';;
  *) printf '0, GPU-a, 0, 0, 40\\n1, GPU-b, 90, 512, 300\\n';;
esac
"""


def run(script: str) -> dict[str, str]:
    return {"run.sh": f"#!/usr/bin/env bash\nset -uo pipefail\n{script}"}


def running(marker: str) -> list[int]:
    return [pid for pid in numbers() if marker in command_of(pid)]


def test_the_base_itself_completes_and_its_three_greatest_checkpoints_count(toy: Any) -> None:
    toy.submit()
    receipt, formal = toy.replay()
    assert (receipt.outcome, formal.cause.verdict, formal.stop) == (Replayed.COMPLETED, Verdict.NONE, "by_itself")
    assert [(one.step, one.folder) for one in formal.artifacts] == [
        (step, f"checkout/checkpoints/checkpoint-{step}") for step in (9, 10, 100)
    ]
    assert faults(toy.file("formal/attempt-001")) == ()
    assert toy.status.state == "replayed"
    assert [one.name for one in toy.status.due] == ["step-000009", "step-000010", "step-000100"]
    assert toy.status.contradictions == ()


@pytest.mark.parametrize("name", ["unshare", "landlock", "group"])
def test_on_every_rung_the_same_checkpoints_come_of_it_and_the_receipt_says_which(toy: Any, name: str) -> None:
    """On a rung without mounts every place lies elsewhere; the contract's variables say where."""
    try:
        toy.sandbox = climb(name)
    except AskedWrongly as error:
        pytest.skip(str(error))
    toy.submit()
    receipt, formal = toy.replay()
    assert (receipt.outcome, formal.isolation) == (Replayed.COMPLETED, name), receipt.because
    assert [one.step for one in formal.artifacts] == [9, 10, 100]
    isolation = json.loads(toy.file("formal/attempt-001/isolation.json").read_text())
    prevented = {probe["name"] for probe in isolation["probes"] if probe["outcome"] == "prevented"}
    assert ("tcp" in prevented) is (name != "group")
    assert set(isolation["refused"]) == set()


def test_what_the_device_did_is_recorded_and_vouched_for(toy: Any) -> None:
    toy.submit(run(f"timeout 3 python3 -c 'while True: pass'\n{TRAINS}"))
    toy.replay()
    folder = toy.file("formal/attempt-001")
    seconds = [json.loads(line) for line in (folder / "device.jsonl").read_text().splitlines()]
    assert max(line["cpu_share"] for line in seconds) > 0.3, "the loop was seen"
    assert {line["evaluating"] for line in seconds} == {False}
    assert any("while True" in line for line in (folder / "processes.jsonl").read_text().splitlines())
    assert verify(toy.attempt).holds
    for name in ("device.jsonl", "processes.jsonl"):
        whole = (folder / name).read_bytes()
        (folder / name).chmod(0o644)
        (folder / name).write_bytes(whole.replace(b"1", b"2", 1))
        (folder / name).chmod(0o444)
        wrong = [fault for one in verify(toy.attempt).folders for fault in one.faults]
        assert len(wrong) == 1
        assert wrong[0].startswith(f"formal/attempt-001/{name}: sha256 was ")
        (folder / name).chmod(0o644)
        (folder / name).write_bytes(whole)
        (folder / name).chmod(0o444)
    assert verify(toy.attempt).holds


def test_a_second_gpu_that_a_formal_try_takes_is_confirmed_by_the_audit(
    new_toy: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver, a small stand-in, names every process of the try on a GPU that is not the attempt's."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "nvidia-smi"
    program.write_text(NVIDIA_SMI)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    toy = new_toy()
    toy.submit(run(f"{TRAINS}exec -a takes-a-gpu sleep 8\n"))
    toy.replay()
    found = assess("single_device", checks()["single_device"], collect(toy.attempt))
    assert found.verdict is Found.CONFIRMED
    assert "formal/attempt-001 used 1 GPU, and the task gives 0: GPU-b for " in found.sentence


def test_run_sh_gets_the_five_variables_and_nothing_of_the_callers(toy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "s3cret")
    toy.submit(run("env > checkpoints/environment\npwd >> checkpoints/environment\n"))
    toy.replay()
    held = toy.file("formal/attempt-001/checkout/checkpoints/environment").read_text()
    names = {line.partition("=")[0] for line in held.splitlines() if "=" in line}
    five = {"STUDENT_MODEL", "TEACHER_MODEL", "TRAIN_DATA", "MAX_WALL_TIME_SECONDS", "DEADLINE_RESERVE_SECONDS"}
    assert five <= names
    assert "MAX_WALL_TIME_SECONDS=60\n" in held
    assert "DEADLINE_RESERVE_SECONDS=4\n" in held
    assert not names & {"SECRET_KEY", "PYTHONPATH", "OPD_DESK", "BASH_ENV", "VIRTUAL_ENV", "USER"}


@pytest.mark.parametrize(
    "script",
    [
        'echo "OSError: [Errno 70] Communication error on send: checkpoints/checkpoint-540"; exit 70',
        """python3 -c 'raise OSError(70, "Communication error on send", "checkpoints/checkpoint-540")'""",
        "kill -ABRT $$",
        "exit 1",
    ],
)
def test_printed_text_buys_no_second_try(toy: Any, script: str) -> None:
    """Acceptance: a forged "Errno 70" is the candidate's failure (faults H46)."""
    toy.submit(run(script))
    receipt, formal = toy.replay()
    assert (receipt.outcome, formal.cause.verdict) == (Replayed.FAILED_CANDIDATE, Verdict.CANDIDATE)
    assert [due.stage for due in toy.status.due] == [Stage.AUDIT]
    assert toy.status.official is None
    assert "failed_candidate" in (toy.status.missing or "")


CLAIM = {
    "exceptions": [
        {"kind": "OSError", "message": "gone", "errno": 70, "errno_name": "ECOMM", "path": "checkpoints/x"},
    ],
    "errno": 70, "errno_name": "ECOMM", "path": "checkpoints/x", "phase": "save", "signal": None, "step": 540,
    "seconds": 10.0, "checkpoint": None, "state": None,
}  # fmt: skip


def test_a_forged_statement_waits_for_a_person_and_neither_ends_nor_repeats_the_attempt(toy: Any) -> None:
    """A typed claim of errno 70 beside a healthy disk: it may be true, and nothing but the candidate says so."""
    toy.submit(run(f"cat > checkpoints/failure.json <<'E'\n{json.dumps(CLAIM)}\nE\nexit 1\n"))
    receipt, formal = toy.replay()
    assert (receipt.outcome, formal.cause.rule) == (Replayed.AMBIGUOUS, "shared_fs")
    assert formal.cause.evidence.storage_probe is not None
    assert formal.cause.evidence.storage_probe.ok
    assert toy.status.due == ()
    assert "formal/attempt-001" in (toy.status.waits_for or "")


def test_a_candidate_that_fails_after_a_checkpoint_keeps_it_and_is_named(toy: Any) -> None:
    toy.submit(run(f"{TRAINS}exit 3\n"))
    receipt, formal = toy.replay()
    assert (receipt.outcome, formal.cause.verdict, formal.exit_code) == (Replayed.COMPLETED, Verdict.CANDIDATE, 3)
    assert [one.step for one in formal.artifacts] == [9, 10, 100]
    assert receipt.because == "it ended by itself with 3, and nothing points to the machine"


def test_what_runs_past_its_time_is_ended_with_all_it_started_and_its_checkpoints_count(
    new_toy: Callable[..., Any],
) -> None:
    """faults H1 to H4: a program that ignores SIGTERM, with a child in a session of its own."""
    toy = new_toy(formal_seconds=4, reserve_seconds=1)
    marker = f"marker-{time.time_ns()}"
    script = f"trap '' TERM\nsetsid python3 -c 'import time; time.sleep(600)' {marker} &\n{TRAINS}sleep 600\n"
    toy.submit(run(script))
    seen: list[list[int]] = []

    def cancelled() -> bool:
        seen.append(running(marker))
        return False

    receipt, formal = toy.replay(cancelled=cancelled)
    assert any(seen), "the marker was alive meanwhile"
    assert running(marker) == []
    assert (receipt.outcome, formal.stop, formal.cause.verdict) == (Replayed.COMPLETED, "wall_clock", Verdict.NONE)
    assert any(marker in command for command in formal.left_processes)
    assert 4 <= formal.seconds < 10


def test_a_daemon_that_outlives_its_program_is_ended_and_named(toy: Any) -> None:
    marker = f"marker-{time.time_ns()}"
    daemon = f"(setsid python3 -c 'import time; time.sleep(600)' {marker} </dev/null >/dev/null 2>&1 &)"
    toy.submit(run(f"{daemon}\n{TRAINS}sleep 0.5\n"))
    _, formal = toy.replay()
    assert running(marker) == []
    assert any(marker in command for command in formal.left_processes)
    assert len(formal.artifacts) == 3


def test_nothing_outside_is_to_be_read_or_written(toy: Any, sandbox: Any) -> None:
    """Inputs can't be changed; other folders of the attempt, the final questions and the install can't be seen."""
    if sandbox.rung.name not in {"bubblewrap", "unshare"}:
        pytest.skip(
            f"the sandbox {sandbox.rung.name} has no file tree of its own; its guarantees are tested where it is"
        )
    hidden = [str(toy.attempt.folder), str(Path.cwd() / "tests"), str(Path(opd.__file__).parent / "evaluate"), "/mnt"]
    lines = [f"ls {place} > /dev/null 2>&1 && echo 'SEEN {place}'" for place in hidden]
    lines += [
        'echo x >> "$STUDENT_MODEL/config.json" 2>/dev/null && echo "WROTE the student"',
        'rm "$TEACHER_MODEL/model.safetensors" 2>/dev/null && echo "REMOVED the teacher"',
        'chmod 777 "$TRAIN_DATA" 2>/dev/null && echo "CHMOD the data"',
        "mkdir -p /logs/verifier 2>/dev/null && echo 1 > /logs/verifier/reward.txt && echo 'WROTE a reward'",
        "python3 -c 'import opd.evaluate' 2>/dev/null && echo 'IMPORTED the install'",
        "find / -name 'final.jsonl' -not -path '/proc/*' 2>/dev/null | sed 's/^/FOUND /'",
        "(exec 3<>/dev/tcp/127.0.0.1/22) 2>/dev/null && echo 'CONNECTED'",
    ]
    toy.submit(run("\n".join(["ls -d $STUDENT_MODEL && echo HERE", *lines, TRAINS])))
    receipt, formal = toy.replay()
    printed = toy.file("formal/attempt-001/stdout.log").read_text()
    assert "HERE" in printed, "the script ran"
    assert not [line for line in printed.splitlines() if line.split()[0].isupper() and line != "HERE"], printed
    assert receipt.outcome == Replayed.COMPLETED
    assert len(formal.artifacts) == 3


def test_what_it_plants_beside_itself_is_not_run_by_the_judge(toy: Any) -> None:
    """faults H39: the judge's programs start isolated, elsewhere; here the files are at least no checkpoint."""
    plant = "for f in sitecustomize.py conftest.py usercustomize.py; do echo 'raise SystemExit(9)' > $f; done\n"
    plant += "mkdir -p opd && echo 'raise SystemExit(9)' > opd/__init__.py\ncp sitecustomize.py checkpoints/\n"
    toy.submit(run(f"{plant}{TRAINS}"))
    _, formal = toy.replay()
    assert [one.step for one in formal.artifacts] == [9, 10, 100]
    assert formal.cause.verdict is Verdict.NONE


def test_without_a_checkpoint_there_is_no_result_and_no_second_try(toy: Any) -> None:
    toy.submit(run("true\n"))
    receipt, formal = toy.replay()
    assert (receipt.outcome, formal.artifacts) == (Replayed.FAILED_CANDIDATE, ())
    assert receipt.because == "it ended by itself with 0, and left no checkpoint"


def test_a_filled_disk_and_a_fork_bomb_end_the_try_and_not_the_machine(new_toy: Callable[..., Any]) -> None:
    toy = new_toy(formal_seconds=20, reserve_seconds=1)
    toy.submit(run(":(){ :|:& };: 2>/dev/null\nsleep 0.2\nhead -c 8G /dev/zero > checkpoints/big\nsleep 30\n"))
    receipt, _ = toy.replay()
    assert receipt.outcome in {Replayed.FAILED_CANDIDATE, Replayed.AMBIGUOUS}
    assert len(numbers()) < 2000


def test_a_changed_input_stops_the_replay_before_it_begins(toy: Any, tmp_path: Path) -> None:
    toy.submit()
    lock = json.loads(toy.file("inputs.lock.json").read_text())
    for one in lock["fixed"]:
        if one["role"] == "data":
            one["sha256"] = "0" * 64
    toy.file("inputs.lock.json").write_text(json.dumps(lock))
    with pytest.raises(AnswerIsNo, match=r"the data .* was 000000000000…"):
        toy.replay()
    assert not toy.file("formal").exists()


def test_an_operators_stop_is_an_interruption_and_orders_a_further_try_of_the_same_patch(toy: Any) -> None:
    """faults H14, H20, H21: the first try stays, and nothing of it is in the tree of the second."""
    toy.submit(run(f"echo mine > left\ntest -e checkpoints/never || sleep 2\n{TRAINS}"))
    first, before = toy.replay(cancelled=lambda: True)
    assert first.outcome == Replayed.INTERRUPTED
    assert [str(one.stage) for one in toy.status.due] == ["formal"]
    second, formal = toy.replay()
    assert second.outcome == Replayed.COMPLETED
    assert formal.checkout_sha256 == before.checkout_sha256
    order = json.loads(toy.file("formal/attempt-002/retry-order.json").read_text())
    assert (order["after"], order["by"], order["number"], order["most"]) == ("formal/attempt-001", "rule", 2, 3)
    assert order["patch_sha256"] == formal.patch_sha256
    assert is_sealed(toy.file("formal/attempt-001"))
    assert faults(toy.file("formal/attempt-001")) == ()
    assert toy.status.contradictions == ()


def _broken_disk(broken: pytest.MonkeyPatch, faults: Any) -> None:
    """The candidate's writes to its second checkpoint fail with errno 70, and so do the writes of our own probe."""
    for name, value in faults(".opd-probe-", call="write", errno=70).items():
        broken.setenv(name, value)
    inside = {
        name: value for name, value in faults("checkpoint-10", call="write", errno=70).items() if "FAULT" in name
    }
    library = os.environ["LD_PRELOAD"]
    as_it_is = stage.candidate_view

    def failing(**given: Any) -> View:
        view = as_it_is(**given)
        mount = Mount(source=Path(library), target=PurePosixPath(library))
        environment = {**view.environment, **inside, "LD_PRELOAD": library}
        return replace(view, mounts=(*view.mounts, mount), environment=environment)

    broken.setattr(stage, "candidate_view", failing)


def test_a_storage_failure_that_our_own_write_meets_too_orders_a_further_try_and_the_first_stays(
    toy: Any, faults: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acceptance: errno 70 at a checkpoint's write gives attempt-002, with attempt-001 intact and verified (H14)."""
    toy.submit(run(f"{TRAINS.strip()} || {{ echo '{json.dumps(CLAIM)}' > checkpoints/failure.json; exit 1; }}\n"))
    with monkeypatch.context() as broken:
        _broken_disk(broken, faults)
        first, formal = toy.replay()
    assert "[Errno 70]" in toy.file("formal/attempt-001/stderr.log").read_text(), "the disk failed"
    assert (first.outcome, formal.cause.verdict) == (Replayed.INFRA_FAILED, Verdict.SHARED_FS)
    assert formal.artifacts == (), "nothing of it is a result"
    second, formal = toy.replay()
    assert (second.outcome, [one.step for one in formal.artifacts]) == (Replayed.COMPLETED, [9, 10, 100])
    order = json.loads(toy.file("formal/attempt-002/retry-order.json").read_text())
    assert (order["after"], order["outcome"]) == ("formal/attempt-001", "infra_failed")
    assert order["rule"].startswith("shared_fs ")
    assert is_sealed(toy.file("formal/attempt-001"))
    assert verify(toy.attempt).faults == ()
