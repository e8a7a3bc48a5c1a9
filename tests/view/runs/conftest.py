"""Small real runs: training folders, scores with their samples, attempts with sealed stages."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from opd.evaluate.benchmark import find
from opd.evaluate.finished import finish
from opd.evaluate.score import build_score
from opd.records.files import append_lines, digest, publish, read_json, write_json
from opd.records.metrics import RunSummary, StepMetrics, StopCause
from opd.records.scores import Protocol, Sample, Score, Verdict

STUDENT, TEACHER = {"model.safetensors": "11" * 32}, {"model.safetensors": "22" * 32}

HOLD = """
import sys, time
from pathlib import Path
from opd.records.files import alone
with alone(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def recipe(**changes: Any) -> dict[str, Any]:
    """What matters of a resolved recipe."""
    return {
        "student": {"model": "opd:arith_tiny/student", "revision": None},
        "teacher": {"model": "opd:arith_tiny/teacher", "revision": None},
        "objective": {"name": "k1_policy_gradient", "clip": 0.2},
        "optimizer": {"lr": 6e-4, "betas": [0.9, 0.999]},
        "budget": {"steps": 12, "epochs": None},
        "data": {"where": {}},
    } | changes


def summary(**changes: Any) -> dict[str, Any]:
    """The run.json of a run that came to its end."""
    values: dict[str, Any] = {
        "recipe": "aa" * 32,
        "data": "bb" * 32,
        "stop": StopCause.STEPS,
        "steps": 12,
        "asked_steps": 12,
        "seconds": 34.5,
        "max_wall_seconds": None,
        "rows_seen": 192,
        "rows": 2000,
        "checkpoints": ("checkpoint-12",),
        "machine": {"opd": "0.1.0", "torch": "2.13.0"},
    }
    return RunSummary(**(values | changes)).resolved()


@pytest.fixture
def make_run(metrics_of: Callable[[int], StepMetrics]) -> Callable[..., Path]:
    """`make_run(path, steps=12, checkpoints=(6, 12), lr=6e-4, ended=True)`: a training run."""

    def made(
        path: Path, *, steps: int = 12, checkpoints: Sequence[int] = (6, 12), lr: float = 6e-4, ended: bool = True
    ) -> Path:
        path.mkdir(parents=True)
        write_json(path / "recipe.json", recipe(optimizer={"lr": lr, "betas": [0.9, 0.999]}))
        write_json(path / "began.json", {"data": "bb" * 32, "models": {"student": STUDENT, "teacher": TEACHER}})
        append_lines(path / "metrics.jsonl", [metrics_of(step).resolved() for step in range(1, steps + 1)])
        for step in checkpoints:
            with publish(path / f"checkpoint-{step}") as folder:
                write_json(folder / "config.json", {"of": str(path), "step": step})
        if ended:
            write_json(path / "run.json", summary(steps=steps))
        return path

    return made


def protocol(questions: int, samples: int) -> Protocol:
    whole = find("arith_tiny").protocol(grader="opd.grading 1f2e3d4c")
    return whole.model_copy(
        update={"questions": questions, "samples_per_question": samples, "seeds": tuple(range(samples))}
    )


@pytest.fixture
def make_score(sample_of: Callable[..., Sample]) -> Callable[..., Path]:
    """`make_score(path, [[1, 0], [1, 1]], model=checkpoint)`: a finished score, right where there is a 1."""

    def made(path: Path, right: Sequence[Sequence[int]], *, model: Path | str = "a/model", **changes: Any) -> Path:
        path.mkdir(parents=True)
        mark = Path(model) / ".complete"
        weights = digest(read_json(mark)["files"]) if mark.is_file() else changes.pop("model_digest", "ab" * 32)
        asked = protocol(len(right), len(right[0])).model_copy(update=changes.pop("protocol", {}))
        samples = [
            sample_of(question, at, Verdict.CORRECT if hit else Verdict.WRONG, tokens=20 + 3 * at + question)
            for question, hits in enumerate(right)
            for at, hit in enumerate(hits)
        ]
        append_lines(path / "samples.jsonl", [one.resolved() for one in samples])
        write_json(path / "protocol.json", {"protocol": asked.resolved(), "model_digest": weights})
        score = build_score(
            samples, protocol=asked, model=str(model), model_digest=weights, seconds=4.0, machine={"device": "cpu"}
        )
        finish(path, score.model_copy(update=changes), questions=list(dict.fromkeys(one.question for one in samples)))
        return path

    return made


@pytest.fixture
def make_attempt() -> Callable[..., Path]:
    """`make_attempt(path, finals={60: 0.8})`: an attempt with sealed stages, as far as a reader looks at them."""

    def made(path: Path, *, finals: dict[int, float | None] | None = None, report: bool = False) -> Path:
        path.mkdir(parents=True)
        write_json(path / "run.json", {"case": "command__t__m__none", "task": "t"})
        for name in ("task.lock.json", "inputs.lock.json"):
            write_json(path / name, {})
        (path / "lease.lock").touch()
        stage(path / "explore" / "attempt-001", "submitted")
        stage(path / "submission", "sealed")
        stage(path / "formal" / "attempt-001", "completed")
        for step, mean in (finals or {}).items():
            stage(path / "final" / f"step-{step:06d}", "scored", outcome_file=final(step, mean))
        if report:
            stage(path / "audit" / "attempt-001", "assessed")
            stage(path / "report" / "attempt-001", "rendered")
        return path

    return made


def stage(folder: Path, outcome: str, *, outcome_file: dict[str, Any] | None = None) -> None:
    folder.mkdir(parents=True)
    if outcome_file is not None:
        write_json(folder / "outcome.json", outcome_file)
    times = {"began_utc": "2026-01-01T00:00:00Z", "ended_utc": "2026-01-01T00:01:00Z", "active_seconds": 60.0}
    write_json(folder / "receipt.json", {"outcome": outcome, "because": None, **times})
    write_json(folder / ".complete", {})


def final(step: int, mean: float | None) -> dict[str, Any]:
    return {
        "step": step,
        "artifact_sha256": "cc" * 32,
        "benchmark": "b",
        "protocol_sha256": None,
        "evaluator_sha256": "dd" * 32,
        "correct": None if mean is None else round(mean * 10),
        "samples": 10,
        "mean": mean,
        "stderr": None if mean is None else 0.1,
        "cut_short": None,
        "seconds": 1.0,
        "missing": "no" if mean is None else None,
    }


@pytest.fixture
def held() -> Callable[[Path], AbstractContextManager[subprocess.Popen[str]]]:
    """`with held(path) as process:` another process is at work in the folder, or holds the lock of a file."""

    @contextmanager
    def holding(path: Path) -> Iterator[subprocess.Popen[str]]:
        command = [sys.executable, "-c", HOLD, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "held\n"
                yield process
            finally:
                process.kill()

    return holding


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def score_record() -> Callable[[Path], Score]:
    """`score.json` of a folder, as it stands."""
    return lambda path: Score.model_validate_json((path / "score.json").read_text())
