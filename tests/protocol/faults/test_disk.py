"""Errors of a file system that really come out of the system's calls, and what is made of them."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from opd.protocol.checkpoints.strangers import opened
from opd.protocol.failures import filesystems
from opd.protocol.failures.causes import classify, read_claim
from opd.protocol.failures.filesystems import probe
from opd.protocol.supervision import asking
from opd.records.causes import Ending, Evidence, Verdict

Faults = Callable[..., dict[str, str]]
WRITER = """
import sys
for name in sys.argv[1:]:
    with open(name, "wb") as file:
        file.write(b"some bytes")
"""


def outcome(program: str, *words: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-c", program, *words], env=environment, capture_output=True, text=True, check=False
    )


def test_the_injected_error_comes_out_of_the_call_and_other_files_are_spared(faults: Faults, tmp_path: Path) -> None:
    environment = faults("bad", call="write", errno=errno.ECOMM)
    assert outcome(WRITER, str(tmp_path / "good"), environment=environment).returncode == 0
    failed = outcome(WRITER, str(tmp_path / "bad"), environment=environment)
    assert failed.returncode == 1
    assert "[Errno 70] Communication error on send" in failed.stderr
    assert (tmp_path / "good").read_bytes() == b"some bytes"
    assert (tmp_path / "bad").read_bytes() == b""


def test_only_the_calls_that_are_asked_for_fail(faults: Faults, tmp_path: Path) -> None:
    names = [str(tmp_path / f"bad-{number}") for number in range(3)]
    environment = faults("bad-", call="open", errno=errno.EROFS, first=2, last=2)
    failed = outcome(WRITER, *names, environment=environment)
    assert "[Errno 30]" in failed.stderr
    assert [Path(name).exists() for name in names] == [True, False, False]


@pytest.mark.parametrize(
    ("call", "number", "step"),
    [
        ("open", errno.EROFS, "open"),
        ("write", errno.ENOSPC, "write"),
        ("write", errno.ECOMM, "write"),
        ("fsync", errno.EIO, "fsync"),
        ("read", errno.ESTALE, "read"),
    ],
)
def test_a_probe_says_at_which_step_and_with_which_error_the_disk_fails(
    faults: Faults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, step: str
) -> None:
    for name, value in faults(".opd-probe-", call=call, errno=number).items():
        monkeypatch.setenv(name, value)
    found = probe(tmp_path)
    assert (found.ok, found.failed_at, found.errno) == (False, step, number)
    assert found.errno_name == errno.errorcode[number]
    assert found.storage is not None
    assert list(tmp_path.iterdir()) == []


def test_a_probe_notices_a_disk_that_gives_back_other_bytes(
    faults: Faults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in faults(".opd-probe-", call="read", errno=0).items():
        monkeypatch.setenv(name, value)
    found = probe(tmp_path)
    assert (found.ok, found.failed_at, found.errno) == (False, "compare", None)


def test_a_probe_of_a_disk_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real process that stands still, as one in the kernel's hands does: it was started, and is not waited for."""
    held = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"
    monkeypatch.setattr(filesystems, "probe_command", lambda _: [sys.executable, "-I", "-c", held])
    found = probe(tmp_path, limit_seconds=0.5)
    assert (found.ok, found.failed_at, found.storage) == (False, "time", None)
    left = asking.LEFT[-1]
    assert left.wait(timeout=5) == -signal.SIGKILL


TRAINER = """
import sys
from pathlib import Path

from opd.models.load import load_model
from opd.records.errors import AnswerIsNo
from opd.records.failures import failure
from opd.records.files import write_json
from opd.train.saved.checkpoint import Checkpoints
from opd.train.saved.retention import Retention

student, run = map(Path, sys.argv[1:])
model = load_model(student, dtype="float32", device="cpu")
checkpoints = Checkpoints(run, Retention(keep=3), pauses_seconds=(0.0, 0.0))
try:
    for step in (1, 2):
        checkpoints.save(model, step=step, recipe_digest="")
except AnswerIsNo as error:
    said = failure(error, phase="save", step=2, seconds=1.0, checkpoint="checkpoint-1", state=None)
    write_json(run / "failure.json", said.resolved())
    raise
"""


@pytest.fixture(scope="module")
def failed_save(fault_library: Path, random_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the trainer's own saving leaves when the disk gives errno 70 at the weights of step 2, at every try."""
    folder = tmp_path_factory.mktemp("checkpoints")
    environment = os.environ | {
        "LD_PRELOAD": str(fault_library),
        "OPD_FAULT_PATH": "checkpoint-2.partial/model.safetensors",
        "OPD_FAULT_CALL": "open",
        "OPD_FAULT_ERRNO": "70",
    }
    done = outcome(TRAINER, str(random_models / "student"), str(folder), environment=environment)
    assert done.returncode == 1
    assert "errno 70, ECOMM" in done.stderr
    return folder


@pytest.mark.parametrize(("disk_still_fails", "verdict"), [(True, Verdict.SHARED_FS), (False, Verdict.AMBIGUOUS)])
def test_a_save_that_really_fails_with_errno_70_is_the_machines_when_our_own_write_fails_too(
    faults: Faults, failed_save: Path, monkeypatch: pytest.MonkeyPatch, disk_still_fails: bool, verdict: Verdict
) -> None:
    """The reference case: attempt 1 ended at a checkpoint with errno 70; the earlier checkpoint is whole."""
    if disk_still_fails:
        for name, value in faults(".opd-probe-", call="write", errno=70).items():
            monkeypatch.setenv(name, value)
    with opened(failed_save) as folder:
        claim, fault = read_claim(folder)
    assert (fault, claim and claim.errno, claim and claim.step) == (None, 70, 2)
    assert (failed_save / "checkpoint-1" / ".complete").is_file()
    cause = classify(
        Evidence(
            ending=Ending.ENDED,
            exit_code=1,
            signal=None,
            oom_killed=False,
            artifacts=1,
            output=(str(failed_save),),
            working_folder=str(failed_save.parent),
            claim=claim,
            storage=filesystems.look(failed_save),
            storage_probe=probe(failed_save),
        )
    )
    assert (cause.verdict, cause.rule) == (verdict, "shared_fs")
