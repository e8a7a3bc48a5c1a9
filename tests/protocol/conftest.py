"""A small attempt on the embedded task, made through the protocol's own tries: no sandbox, no training, no torch.

lab       a new attempt, and a word for each thing that can happen to it: `lab.explore()`, `lab.formal(steps=(10,))` …
driver    a program of the GPUs' driver, which says what a test wants to be heard
faults    a disk that fails when it is told to: a library between the system and a program that a test starts
"""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

import opd
from opd.protocol.attempts.attempt import RULING, RUN, TASK_LOCK, Attempt, Place
from opd.protocol.attempts.lease import Holder, held
from opd.protocol.attempts.state import status
from opd.protocol.attempts.tries import Try, a_try
from opd.protocol.clock import now
from opd.protocol.inputs import Fixed, Inputs, lock, measure
from opd.protocol.packages import catalogue
from opd.protocol.patches.source import SourceFile, digest_of
from opd.records.attempts import (
    Artifact,
    Evaluated,
    Explored,
    Final,
    Formal,
    Handed,
    Identity,
    Replayed,
    Stage,
    Status,
    Submission,
    Validated,
    Validation,
)
from opd.records.causes import Cause, Ending, Evidence, Ruling, Verdict
from opd.records.checkpoints import Structure
from opd.records.files import digest, sha256, tree, write_json
from opd.records.receipts import NO_HEAD, RECEIPT, Receipt, begin, read_receipt, seal
from opd.records.tasks import Task

INSTALL = "1" * 64
PROTOCOL = "2" * 64
PATCH = b"--- a/run.sh\n+++ b/run.sh\n"
STRUCTURE = Structure(
    bytes=None, tensors=None, parameters=None, dtypes={}, tensor_sha256=None, compared=(), faults=()
)

NO_FAILURE = Cause(
    verdict=Verdict.NONE, rule="completed", because=("it ended well",), ruled=False, rules_version="1",
    rules_sha256="0" * 64,
    evidence=Evidence(
        ending=Ending.ENDED, exit_code=0, signal=None, oom_killed=False, artifacts=1, output=("/out",),
        working_folder="/workspace", claim=None,
    ),
)  # fmt: skip


def tiny_task(**budgets: Any) -> Task:
    """The embedded task, with other budgets where they are given."""
    task, _ = catalogue.find("arith_tiny")
    return task.changed([f"metadata.opd.budgets.{name}={value}" for name, value in budgets.items()])


def new_attempt(folder: Path, task: Task | None = None) -> Attempt:
    """What `opd attempt new` leaves, with small inputs and a small base."""
    task = task or tiny_task()
    partial = begin(folder / "base")
    (partial / "tree").mkdir()
    (partial / "tree" / "run.sh").write_text("exit 0\n")
    base = digest_of({PurePosixPath("run.sh"): SourceFile(content=b"exit 0\n")})
    inputs = folder.parent / f"{folder.name}-inputs"
    (inputs / "student").mkdir(parents=True)
    (inputs / "student" / "model.safetensors").write_bytes(b"student")
    (inputs / "train.jsonl").write_text("{}\n")
    places = {"student": inputs / "student", "data": inputs / "train.jsonl"}
    lock(folder, Inputs(fixed=tuple(Fixed(role=r, path=str(p), sha256=measure(p)) for r, p in places.items())))
    identity = Identity(
        case=folder.name, task=task.short_name, task_sha256=task.digest, harness="command", command=("true",),
        model=None, effort=None, shown=(), endpoint=None, opd_version=opd.__version__, install_sha256=INSTALL,
        base_sha256=base, created_utc=now().utc,
    )  # fmt: skip
    at = now().utc
    seal(
        folder / "base",
        Receipt(
            kind="base", outcome="sealed", because=None, began_utc=at, ended_utc=at, active_seconds=0.0,
            opd_version=opd.__version__, made_from={"task": task.digest}, events=NO_HEAD, files=(),
        ),
    )  # fmt: skip
    write_json(folder / TASK_LOCK, task.resolved())
    write_json(folder / RUN, identity.resolved())
    attempt = Attempt(folder)
    names = (RUN, TASK_LOCK, "inputs.lock.json", f"base/{RECEIPT}")
    attempt.events.add("created", actor="operator", files={name: sha256(folder / name) for name in names})
    return attempt


class Lab:
    """One attempt, and its only writer unless `lab.holder` is given away."""

    def __init__(self, folder: Path, task: Task | None = None) -> None:
        self.attempt = new_attempt(folder, task)
        self.folder = folder
        self.holder: Holder | None = None

    @property
    def status(self) -> Status:
        return status(Attempt(self.folder))

    @contextmanager
    def trying(self, place: Place, made_from: dict[str, str]) -> Iterator[Try]:
        """A try, with the lease held unless somebody holds it."""
        if self.holder:
            with a_try(self.attempt, self.holder, place, made_from=made_from) as this:
                yield this
            return
        with held(self.folder) as holder, a_try(self.attempt, holder, place, made_from=made_from) as this:
            yield this

    def explore(self, outcome: Explored = Explored.SUBMITTED, *, handing_in: bool | None = None) -> None:
        """An exploration; one that submitted hands in first, as the real one does."""
        with self.trying(self.attempt.next(Stage.EXPLORE), {"base": self.attempt.identity.base_sha256}) as this:
            (this.folder / "commands.jsonl").write_text("{}\n")
            if outcome is Explored.SUBMITTED if handing_in is None else handing_in:
                here, self.holder = self.holder, this._holder
                self.submit(explored_in=this.place.name)
                self.holder = here
            this.end(outcome)

    def submit(self, *, explored_in: str | None = None, patch: bytes = PATCH, **changes: Any) -> None:
        facts = {
            "origin": "explorer" if explored_in else "outside",
            "explored_in": explored_in,
            "note": None,
            "patch_sha256": hashlib.sha256(patch).hexdigest(),
            "patch_bytes": len(patch),
            "base_sha256": self.attempt.identity.base_sha256,
            "patched_sha256": hashlib.sha256(b"patched" + patch).hexdigest(),
            "changed_paths": ("run.sh",),
            "remaining_seconds": None,
            "processes": (),
        }
        with self.trying(self.attempt.submission, {"base": self.attempt.identity.base_sha256}) as this:
            (this.folder / "candidate.patch").write_bytes(patch)
            this.end(Handed.SEALED, Submission.model_validate(facts | changes))

    def formal(
        self,
        outcome: Replayed = Replayed.COMPLETED,
        *,
        steps: tuple[int, ...] = (),
        patch: bytes = PATCH,
        **changes: Any,
    ) -> None:
        """A formal try that leaves a checkpoint at each step."""
        place = self.attempt.next(Stage.FORMAL)
        before = self.attempt.place(Stage.FORMAL, place.number - 1).name
        with self.trying(place, self.receipts("submission", before)) as this:
            (this.folder / "stdout.log").write_text("step 1\n")
            this.end(outcome, self.formal_facts(this.folder, steps, patch, **changes))

    def formal_facts(self, folder: Path, steps: tuple[int, ...], patch: bytes = PATCH, **changes: Any) -> Formal:
        artifacts = []
        for step in steps:
            artifact = folder / "checkpoints" / f"checkpoint-{step}"
            artifact.mkdir(parents=True)
            (artifact / "model.safetensors").write_text(f"weights {step}")
            (artifact / ".complete").write_text("{}")
            where = artifact.relative_to(folder).as_posix()
            artifacts.append(Artifact(step=step, folder=where, sha256=digest(tree(artifact))))
        inputs = json.loads((self.folder / "inputs.lock.json").read_text())["fixed"]
        facts = {
            "patch_sha256": hashlib.sha256(patch).hexdigest(),
            "checkout_sha256": hashlib.sha256(b"patched" + patch).hexdigest(),
            "inputs_sha256": {one["role"]: one["sha256"] for one in inputs},
            "isolation": "group",
            "exit_code": 0,
            "signal": None,
            "stop": "steps",
            "seconds": 1.0,
            "given_seconds": 10.0,
            "last_step": max(steps, default=None),
            "artifacts": tuple(artifacts),
            "passed_over": {},
            "left_processes": (),
            "unexpected_files": (),
            "cause": NO_FAILURE,
        }
        return Formal.model_validate(facts | changes)

    def validate(self, step: int, outcome: Validated = Validated.VALID, *, of: str = "formal/attempt-001") -> None:
        facts = Validation(
            step=step, artifact_sha256=self.artifact(step, of), structure=STRUCTURE, loaded=None, faults=()
        )
        with self.trying(self.attempt.place(Stage.VALIDATION, step), self.receipts(of)) as this:
            this.end(outcome, facts)

    def final(self, step: int, mean: float | None, *, of: str = "formal/attempt-001", **changes: Any) -> None:
        """A final with this mean over 2,000 samples; None: it failed."""
        facts = {
            "step": step, "artifact_sha256": self.artifact(step, of), "benchmark": "arith_tiny_final",
            "protocol_sha256": PROTOCOL, "evaluator_sha256": INSTALL,
            "correct": None if mean is None else round(mean * 2000), "samples": 2000, "mean": mean,
            "stderr": 0.01, "cut_short": 0.0, "seconds": 1.0, "missing": None if mean is not None else "it broke",
        }  # fmt: skip
        place = self.attempt.place(Stage.FINAL, step)
        with self.trying(place, self.receipts(f"validation/{place.folder.name}")) as this:
            outcome = Evaluated.FAILED if mean is None else Evaluated.SCORED
            this.end(outcome, Final.model_validate(facts | changes), because=None if mean is not None else "it broke")

    def rule(self, verdict: str, *, about: str = "formal/attempt-001") -> None:
        """A person's ruling, sealed as the protocol seals one."""
        place = self.attempt.ruling_place(len(self.attempt.ruling_places()) + 1)
        ruling = Ruling.model_validate(
            {"about": about, "verdict": verdict, "because": "the log of the disk", "by": "ada"}
        )
        write_json(begin(place.folder) / RULING, ruling.resolved())
        seal(
            place.folder,
            Receipt(
                kind="ruling", outcome=verdict, because=None, began_utc=now().utc, ended_utc=now().utc,
                active_seconds=0.0, opd_version=opd.__version__,
                made_from={"task": self.attempt.identity.task_sha256, **self.receipts(about)},
                events=self.attempt.events.head(), files=(),
            ),
        )  # fmt: skip
        self.attempt.events.add(
            "sealed",
            actor=place.name,
            name=place.name,
            outcome=verdict,
            receipt_sha256=sha256(place.folder / RECEIPT),
        )

    def whole(self) -> None:
        """Everything that can happen, once, with a score."""
        self.explore()
        self.formal(Replayed.AMBIGUOUS)
        self.rule("infrastructure")
        self.formal(steps=(10, 20))
        for step in (10, 20):
            self.validate(step, of="formal/attempt-002")
        self.final(10, 0.5, of="formal/attempt-002")
        self.final(20, 0.75, of="formal/attempt-002")

    def receipts(self, *names: str) -> dict[str, str]:
        found = {f"{name}/{RECEIPT}": self.folder / name / RECEIPT for name in names}
        return {name: sha256(path) for name, path in found.items() if path.exists()}

    def artifact(self, step: int, of: str) -> str:
        facts = json.loads((self.folder / of / "outcome.json").read_text())
        return next((one["sha256"] for one in facts["artifacts"] if one["step"] == step), "0" * 64)

    def receipt(self, name: str) -> Receipt:
        return read_receipt(self.folder / name)


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """`driver(gpus, processes)`: what nvidia-smi says from now on."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def says(gpus: str, processes: str) -> None:
        program = folder / "nvidia-smi"
        program.write_text(f"#!/bin/sh\ncase $1 in *compute*) printf '{processes}';; *) printf '{gpus}';; esac\n")
        program.chmod(0o755)

    return says


@pytest.fixture
def lab(new_lab: Callable[..., Lab]) -> Lab:
    """A new attempt with nothing done."""
    return new_lab("command__arith_tiny__none__none")


@pytest.fixture
def new_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Lab]]:
    """`new_lab(name, formal_retries=0)`: further attempts, with other budgets.

    In memory where there is some, and nothing waits for a disk: no test here is about a power cut.
    """
    monkeypatch.setattr(os, "fsync", lambda _: None)
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else tmp_path) as folder:
        yield lambda name, **budgets: Lab(Path(folder) / "runs" / name, tiny_task(**budgets))


Faults = Callable[..., dict[str, str]]


@pytest.fixture(scope="session")
def fault_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled `disk.c`; a skip where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("injecting faults needs a C compiler, and there is no `cc`")
    library = tmp_path_factory.mktemp("faults") / "disk.so"
    source = Path(__file__).parent / "faults" / "disk.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


@pytest.fixture
def faults(fault_library: Path) -> Faults:
    """`faults("checkpoint-2", call="write", errno=70)`: the environment of a program whose disk fails so."""

    def environment(path: str, *, call: str, errno: int, first: int = 1, last: int | None = None) -> dict[str, str]:
        return os.environ | {
            "LD_PRELOAD": str(fault_library),
            "OPD_FAULT_PATH": path,
            "OPD_FAULT_CALL": call,
            "OPD_FAULT_ERRNO": str(errno),
            "OPD_FAULT_FROM": str(first),
            "OPD_FAULT_LAST": "" if last is None else str(last),
        }

    return environment
