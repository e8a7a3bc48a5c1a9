"""Benchmark × model → generations → samples → score.

An interrupted evaluation goes on where it stopped. Questions are sampled in groups that depend on the settings
alone, so the rows are those that an uninterrupted one would have written; what was drawn is never drawn anew, and
what is settled is never graded anew.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import Protocol as Typed

import torch

from opd.evaluate import fanout
from opd.evaluate.benchmark import Benchmark
from opd.evaluate.code import counted_here
from opd.evaluate.drawing import Drawing, DrawingSettings, Job, Opening, jobs_for
from opd.evaluate.fanout import Spread
from opd.evaluate.folder import Claim, claim_to_draw, refuse_other, refuse_vanished
from opd.evaluate.panel import open_panel
from opd.evaluate.questions import Question, pinned, read_questions
from opd.evaluate.score import build_score, standing_score
from opd.evaluate.settings import Evaluation
from opd.evaluate.standing import Standing
from opd.evaluate.workers import opening
from opd.models.chat import opens_reasoning, prompt_ids, user_text
from opd.models.load import find_model, load_tokenizer, model_digest
from opd.models.machine import choose_device, dtype_meant
from opd.records.errors import AnswerIsNo, AskedWrongly, OpdError
from opd.records.files import alone, check_writable
from opd.records.places import locate
from opd.records.rollouts import Prompt
from opd.records.scores import Sample, Score


class Report(Typed):
    """Is told of samples: first of those `found` settled on disk, then of each group as it is graded."""

    def __call__(self, samples: Sequence[Sample], /, *, found: bool) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The model that is evaluated, as far as it has to be here."""

    path: Path
    weights_digest: str
    tokenizer: Any


def evaluate(
    asked: Evaluation,
    model: str,
    out: Path,
    *,
    data: Path | None = None,
    report: Report = lambda _, *, found: None,  # noqa: ARG005
    say: Callable[[str], None] = lambda _: None,
    interrupted: Callable[[], bool] = lambda: False,
    spread: Spread | None = None,
) -> Score:
    """The score of a model (a reference, as in a recipe, `@revision` allowed); nothing is done twice.

    `say` is told in a sentence of what was found damaged and is done again. With `spread` the samples are drawn on a
    Ray cluster, and are the same.
    Raises `AskedWrongly` for data or a model that can't be used or a folder of something else, and `AnswerIsNo`
    when samples are missing at the end.
    """
    check_writable(out)
    asked = asked.model_copy(update={"benchmark": pinned(asked.benchmark, data)})
    questions = read_questions(asked.benchmark, data)
    reference, _, revision = (model, "", "") if locate(model).is_dir() else model.partition("@")
    path = find_model(reference, revision or None)
    subject = Subject(path=path, weights_digest=model_digest(path), tokenizer=load_tokenizer(path))
    if spread is None:
        drawing = opening(_drawing_settings(asked, path), count=asked.machine.workers)
    else:
        everywhere = fanout.Model.of(reference, revision or None, path, digest=subject.weights_digest)
        drawing = fanout.opening(everywhere, _settings_anywhere(asked, path), spread, say=say)
    return evaluate_subject(
        asked, questions, subject, drawing, out=out, report=report, say=say, interrupted=interrupted
    )


def evaluate_subject(
    asked: Evaluation,
    questions: Sequence[Question],
    subject: Subject,
    opening: Opening,
    *,
    out: Path,
    report: Report,
    say: Callable[[str], None] = lambda _: None,
    interrupted: Callable[[], bool],
) -> Score:
    """The score of a model whose tokens come out of `opening`; it also stands in `out/score.json`.

    Raises `AskedWrongly` for a folder of another evaluation, `AnswerIsNo` when samples are missing at the end
    because grading failed, a worker died or the person interrupted it.
    """
    benchmark, samples = asked.benchmark, len(asked.benchmark.seeds)
    prompts = [(question.id, _prompt(benchmark, subject, question)) for question in questions]
    with open_panel(asked) as panel, _own(out):
        claimed = Claim(protocol=panel.protocol(benchmark), model_digest=subject.weights_digest)
        refuse_other(out, claimed)
        standing = Standing(
            out,
            panel=panel,
            tokenizer=subject.tokenizer,
            questions=questions,
            samples=samples,
            reasoning_opened=all(opens_reasoning(subject.tokenizer, prompt.token_ids) for _, prompt in prompts),
            say=say,
        )
        if (stands := standing_score(out, standing.rows(), claimed.protocol)) is not None:
            return stands
        at_once = max(1, asked.machine.largest_batch // samples)
        jobs = jobs_for(prompts, out=out, samples=samples, group_questions=at_once, missing=standing.missing())
        with opening(jobs) if jobs else nullcontext() as drawing:
            claim_to_draw(out, claimed)
            report(standing.settled(), found=True)
            with _there(out, claimed) as look, closing(_files(standing, drawing, jobs, interrupted, look)) as files:
                for path in files:
                    look()
                    report(standing.settle(path), found=False)
        with _there(out, claimed):
            return _finished(standing, claimed, subject)


@contextmanager
def _there(out: Path, claimed: Claim) -> Iterator[Callable[[], None]]:
    """Inside, the folder is the one that was claimed, before each group and where anything can't be read or written.

    What is given looks again. Raises `AnswerIsNo`.
    """

    def look() -> None:
        refuse_vanished(out, claimed)

    look()
    try:
        yield look
    except (OSError, OpdError):
        look()
        raise


def _files(
    standing: Standing,
    drawing: Drawing | None,
    jobs: Sequence[Job],
    interrupted: Callable[[], bool],
    look: Callable[[], None],
) -> Generator[Path]:
    """The files to be settled: first those that stand, then each as it is drawn, until it is interrupted.

    `look` is called before each job.
    """

    def ended() -> bool:
        look()
        return interrupted()

    for path in standing.unsettled_files():
        if interrupted():
            return
        yield path
    if drawing is not None:
        yield from drawing.draw(jobs, interrupted=ended)


def _finished(standing: Standing, claimed: Claim, subject: Subject) -> Score:
    if standing.ungraded():
        graded = len(standing.settled())
        raise AnswerIsNo(f"interrupted with {graded} samples graded; the same command goes on from there")
    makings = standing.makings()
    score = build_score(
        standing.rows(),
        protocol=claimed.protocol,
        model=str(subject.path),
        model_digest=subject.weights_digest,
        seconds=sum(making.seconds for making in makings),
        machine=counted_here(_merged([making.machine for making in makings])),
    )
    return standing.finish(score)


def _merged(machines: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """What all machines that drew say of themselves; where they differ, what each says: `float32 + bfloat16`."""
    said = {
        key: dict.fromkeys(machine[key] for machine in machines if key in machine) for one in machines for key in one
    }
    return {key: " + ".join(values) for key, values in said.items()}


@contextmanager
def _own(out: Path) -> Iterator[None]:
    """The folder is there and nobody else is at work in it; one that was made and got nothing goes again."""
    made = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    try:
        with alone(out):
            yield
    finally:
        if made:
            with suppress(OSError):  # it is not empty
                out.rmdir()


def _drawing_settings(asked: Evaluation, path: Path) -> DrawingSettings:
    machine = asked.machine
    device = choose_device(machine.device)
    if device == "cuda" and machine.workers > torch.cuda.device_count():
        raise AskedWrongly(
            f"machine.workers = {machine.workers}, and torch sees {torch.cuda.device_count()} GPUs: one a worker"
        )
    return _settings_on(asked, path, device=device)


def _settings_anywhere(asked: Evaluation, path: Path) -> Callable[[str], DrawingSettings]:
    """What a cluster draws with, by the device that it has; the machine that asks need not have one.

    Raises `AskedWrongly` where it is said how many workers one machine has.
    """
    if (workers := asked.machine.workers) != 1:
        raise AskedWrongly(f"machine.workers = {workers} is of one machine; on Ray write --on ray:{workers}")
    meant = asked.machine.device
    return lambda device: _settings_on(asked, path, device=device if meant == "auto" else meant)


def _settings_on(asked: Evaluation, path: Path, *, device: str) -> DrawingSettings:
    benchmark, machine = asked.benchmark, asked.machine
    return DrawingSettings(
        model=str(path),
        device=device,
        dtype=dtype_meant(machine.dtype, device=device),
        threads=machine.threads,
        sampling=benchmark.sampling,
        seeds=benchmark.seeds,
        largest_batch=machine.largest_batch,
        engine=machine.engine,
        drafts=machine.drafts,
    )


def _prompt(benchmark: Benchmark, subject: Subject, question: Question) -> Prompt:
    ids = prompt_ids(subject.tokenizer, user_text(benchmark.prompt, question.problem))
    context = benchmark.context_tokens
    if context is not None and len(ids) + benchmark.limit_tokens > context:
        raise AskedWrongly(
            f"question {question.id}: {len(ids)} prompt tokens + limit_tokens = {benchmark.limit_tokens} exceed "
            f"context_tokens = {context} of {benchmark.name}"
        )
    return Prompt(row=question.row, problem=question.problem, answer=question.gold, token_ids=ids)
