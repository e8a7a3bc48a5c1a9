"""Several processes draw what one would have drawn; one that dies is named, and what stands is kept."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from opd.evaluate.benchmark import find
from opd.evaluate.drawing import Drawing, DrawingSettings, Job, jobs_for
from opd.evaluate.folder import Key
from opd.evaluate.questions import Question, read_questions
from opd.evaluate.run import Subject, evaluate, evaluate_subject
from opd.evaluate.settings import asked_of
from opd.evaluate.worker import job_of, values_of
from opd.evaluate.workers import WorkersDrawing, opening, visible_gpu
from opd.models.chat import prompt_ids
from opd.models.load import find_model, load_tokenizer
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.generation_table import Generation, read_generations
from opd.records.rollouts import Prompt
from opd.records.scores import Sample

STUDENT = "opd:arith_tiny/student"
ASKED = asked_of(find("arith_tiny"), questions=30, samples=2, sets=["machine.largest_batch=8", "machine.device=cpu"])
PATH = find_model(STUDENT)


def drawing_settings(**changes: Any) -> DrawingSettings:
    values: dict[str, Any] = {
        "model": str(PATH),
        "device": "cpu",
        "dtype": "float32",
        "threads": 1,
        "sampling": ASKED.benchmark.sampling,
        "seeds": ASKED.benchmark.seeds,
        "largest_batch": 8,
        "engine": "auto",
    }
    return DrawingSettings(**(values | changes))


def jobs_in(out: Path, questions: Sequence[Question]) -> list[Job]:
    tokenizer = load_tokenizer(PATH)
    asked = [
        (
            one.id,
            Prompt(row=one.row, problem=one.problem, answer=one.gold, token_ids=prompt_ids(tokenizer, one.problem)),
        )
        for one in questions
    ]
    missing: frozenset[Key] = frozenset((one.id, sample) for one in questions for sample in range(2))
    return jobs_for(asked, out=out, samples=2, group_questions=4, missing=missing)


def generations(out: Path) -> dict[str, list[Generation]]:
    return {path.name: read_generations(path) for path in sorted((out / "generations").iterdir())}


def process_ids(drawing: Drawing) -> list[int]:
    assert isinstance(drawing, WorkersDrawing)
    return list(drawing.process_ids)


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process makes of it."""
    out: Path = tmp_path_factory.mktemp("alone") / "out"
    evaluate(ASKED, STUDENT, out)
    return out


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drawing]:
    """Two workers that have loaded the student."""
    jobs = jobs_in(tmp_path_factory.mktemp("two"), read_questions(ASKED.benchmark))
    with opening(drawing_settings(), count=2)(jobs) as drawing:
        yield drawing


def test_a_job_comes_out_of_a_message_as_it_went_in(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path, read_questions(ASKED.benchmark))
    assert [job_of(json.loads(json.dumps(values_of(job)))) for job in jobs] == jobs


@pytest.mark.patient
def test_two_processes_write_the_same_rows_tokens_and_score_as_one(alone: Path, two: Drawing, tmp_path: Path) -> None:
    """E50: and the two don't share one noise: the samples of a question differ, whoever drew them."""
    out = tmp_path / "out"
    assert len({os.getpid(), *process_ids(two)}) == 3
    score = evaluated(lambda _: nullcontext(two), read_questions(ASKED.benchmark), out)
    assert (out / "samples.jsonl").read_text() == (alone / "samples.jsonl").read_text()
    assert generations(out) == generations(alone)
    before = json.loads((alone / "score.json").read_text())
    after = json.loads(json.dumps(score.resolved()))
    assert before | {"seconds": 0} == after | {"seconds": 0}
    drawn = {(one.question, one.sample): one.token_ids for group in generations(out).values() for one in group}
    differing = [name for name, sample in drawn if sample and drawn[name, 0] != drawn[name, 1]]
    assert len(differing) > 15  # of 30; the student is right, and alike, about half of the time


def evaluated(drawing: Any, questions: Sequence[Question], out: Path, **changes: Any) -> Any:
    from opd.models.load import model_digest

    subject = Subject(path=PATH, weights_digest=model_digest(PATH), tokenizer=load_tokenizer(PATH))
    told = {"report": lambda _, found: None, "interrupted": lambda: False} | changes
    return evaluate_subject(ASKED, questions, subject, drawing, out=out, **told)


@pytest.mark.patient
def test_a_worker_that_is_killed_is_named_and_what_stands_is_gone_on_with(alone: Path, tmp_path: Path) -> None:
    out, drawings = tmp_path / "out", []
    questions = read_questions(ASKED.benchmark)

    @contextmanager
    def watched(jobs: Sequence[Job]) -> Iterator[Drawing]:
        with opening(drawing_settings(), count=2)(jobs) as drawing:
            drawings.append(drawing)
            yield drawing

    def kill_one(samples: Sequence[Sample], *, found: bool) -> None:
        if not found:
            os.kill(process_ids(drawings[0])[1], signal.SIGKILL)

    with pytest.raises(AnswerIsNo, match=r"worker 1 \(cpu, process \d+\) ended with status -9"):
        evaluated(watched, questions, out, report=kill_one)
    assert not any(map(is_alive, process_ids(drawings[0])))
    assert not (out / "score.json").exists()
    stood = (out / "samples.jsonl").read_text().splitlines()
    assert 0 < len(stood) < 60
    evaluate(ASKED, STUDENT, out)
    assert (out / "samples.jsonl").read_text() == (alone / "samples.jsonl").read_text()


@pytest.mark.patient
def test_a_worker_that_can_not_go_on_says_why(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path, read_questions(ASKED.benchmark))
    (tmp_path / "generations").write_text("in the way")
    with (
        opening(drawing_settings(), count=2)(jobs) as drawing,
        pytest.raises(AnswerIsNo, match=r"Error: .*generations"),
    ):
        list(drawing.draw(jobs, interrupted=lambda: False))


@pytest.mark.patient
def test_what_is_asked_wrongly_is_said_before_anything_is_drawn(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path, read_questions(ASKED.benchmark))
    sampling = ASKED.benchmark.sampling.model_copy(update={"limit_tokens": 100_000})
    opened = opening(drawing_settings(sampling=sampling), count=2)
    with pytest.raises(AskedWrongly, match="exceed the context"), opened(jobs):
        raise AssertionError("it is not ready")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.patient
def test_an_interrupt_lets_the_groups_end_and_hands_out_no_more(two: Drawing, tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path, read_questions(ASKED.benchmark))
    (tmp_path / "generations").mkdir()
    asked = []

    def after_the_first_look() -> bool:
        asked.append(True)
        return len(asked) > 1

    paths = list(two.draw(jobs, interrupted=after_the_first_look))
    assert set(paths) == {jobs[0].path, jobs[1].path}
    assert {path.name for path in (tmp_path / "generations").iterdir()} == {path.name for path in paths}


PARENT = """
import sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_workers import ASKED, drawing_settings, jobs_in, process_ids
from opd.evaluate.questions import read_questions
from opd.evaluate.workers import opening

endless = ASKED.benchmark.sampling.model_copy(update={{"limit_tokens": 400, "temperature": 50.0}})
settings = drawing_settings(sampling=endless, largest_batch=4096, seeds=tuple(range(200)))
jobs = jobs_in(Path(sys.argv[1]), read_questions(ASKED.benchmark))
with opening(settings, count=2)(jobs) as drawing:
    print(*process_ids(drawing), flush=True)
    list(drawing.draw(jobs, interrupted=lambda: False))
"""


@pytest.mark.patient
def test_workers_end_with_their_parent_in_the_middle_of_a_group(tmp_path: Path) -> None:
    """H12: a worker that outlives the process that started it keeps its GPU's memory, and the next call fails."""
    program = PARENT.format(tests=str(Path(__file__).parent))
    (tmp_path / "generations").mkdir()
    parent = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    workers = [int(word) for word in parent.stdout.readline().split()]
    time.sleep(1)  # they are in their first groups, which take longer than this test
    assert len(workers) == 2
    assert all(map(is_alive, workers))
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 20
    while any(map(is_alive, workers)):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.05)
    assert not list(tmp_path.glob("generations/*.parquet")), "they had finished by themselves"


@pytest.mark.parametrize(("seen", "sees"), [(None, "1"), ("", "1"), ("4,6", "6"), ("GPU-a,GPU-b,GPU-c", "GPU-b")])
def test_a_worker_sees_one_of_the_gpus_that_this_process_sees(
    monkeypatch: pytest.MonkeyPatch, seen: str | None, sees: str
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if seen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", seen)
    assert visible_gpu(1) == sees


@pytest.mark.gpu
def test_more_workers_than_gpus_are_refused(tmp_path: Path) -> None:
    import torch

    asked = ASKED.changed([f"machine.workers={torch.cuda.device_count() + 1}", "machine.device=cuda"])
    with pytest.raises(AskedWrongly, match="one a worker"):
        evaluate(asked, STUDENT, tmp_path / "out")


@pytest.mark.gpu
def test_all_gpus_together_draw_every_sample_once(tmp_path: Path) -> None:
    """On GPUs of one kind even the tokens are those of one: a group is the same wherever it is drawn."""
    import torch

    one, all_of_them = ASKED.changed(["machine.device=cuda", "machine.dtype=float32"]), torch.cuda.device_count()
    evaluate(one, STUDENT, tmp_path / "one")
    evaluate(one.changed([f"machine.workers={all_of_them}"]), STUDENT, tmp_path / "all")
    assert (tmp_path / "all/samples.jsonl").read_text() == (tmp_path / "one/samples.jsonl").read_text()
    assert json.loads((tmp_path / "all/score.json").read_text())["machine"]["device"] == "cuda"
