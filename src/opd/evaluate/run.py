"""Benchmark × model → samples → score.

An interrupted evaluation goes on where it stopped. Questions are sampled in groups that depend on the settings
alone, so the rows are those that an uninterrupted one would have written; a row that stands is never made anew.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol as Typed

import torch

from opd.evaluate.benchmark import Benchmark, Question, read_questions
from opd.evaluate.folder import claim, is_settled, read_samples
from opd.evaluate.score import build_score
from opd.evaluate.settings import Evaluation
from opd.grading.grader import Grader
from opd.models.chat import check_fits, prompt_ids, response_text, user_text
from opd.models.interfaces import Sampler
from opd.models.load import LanguageModel, find_model, load_model, model_digest
from opd.models.machine import choose_device, describe
from opd.models.plain import PlainSampler
from opd.records.errors import AnswerIsNo
from opd.records.files import alone, append_lines, check_writable, write_json
from opd.records.places import locate
from opd.records.rollouts import Prompt, Rollout
from opd.records.scores import Sample, Score

Asked = tuple[Question, Prompt]


class Report(Typed):
    """Is told of samples: first of those `found` on disk, then of each group as it is graded."""

    def __call__(self, samples: Sequence[Sample], /, *, found: bool) -> None: ...


def evaluate(
    asked: Evaluation,
    model: str,
    out: Path,
    *,
    data: Path | None = None,
    report: Report = lambda _, *, found: None,  # noqa: ARG005
    interrupted: Callable[[], bool] = lambda: False,
) -> Score:
    """The score of a model (a reference, as in a recipe, `@revision` allowed); nothing is done twice.

    Raises `AskedWrongly` for data or a model that can't be used or a folder of something else, and `AnswerIsNo`
    when samples are missing at the end.
    """
    check_writable(out)
    questions = read_questions(asked.benchmark, data)
    reference, _, revision = (model, "", "") if locate(model).is_dir() else model.partition("@")
    path = find_model(reference, revision or None)
    torch.set_num_threads(asked.machine.threads)
    device = choose_device(asked.machine.device)
    loaded = load_model(path, dtype=asked.machine.dtype_on(device), device=device)
    benchmark, batch = asked.benchmark, asked.machine.largest_batch
    return evaluate_model(
        benchmark,
        questions,
        loaded,
        PlainSampler(loaded, benchmark.sampling, largest_batch=batch),
        out=out,
        weights_digest=model_digest(path),
        machine=describe(device) | {"dtype": str(loaded.module.dtype).removeprefix("torch.")},
        group_questions=max(1, batch // len(benchmark.seeds)),
        report=report,
        interrupted=interrupted,
    )


def evaluate_model(
    benchmark: Benchmark,
    questions: Sequence[Question],
    model: LanguageModel,
    sampler: Sampler,
    *,
    out: Path,
    weights_digest: str,
    machine: dict[str, str],
    group_questions: int,
    report: Report,
    interrupted: Callable[[], bool],
) -> Score:
    """The score of a loaded model, which also stands in `out/score.json`.

    Raises `AskedWrongly` for a folder of another evaluation, `AnswerIsNo` when samples are missing at the end
    because grading failed or the person interrupted it.
    """
    started = time.perf_counter()
    asked = [(question, _prompt(benchmark, model, question)) for question in questions]
    check_fits(model, [prompt for _, prompt in asked], limit_tokens=benchmark.limit_tokens)
    out.mkdir(parents=True, exist_ok=True)
    with alone(out), Grader() as grader:
        protocol = benchmark.protocol(grader=grader.identity())
        claim(out, protocol=protocol, weights_digest=weights_digest)
        samples = read_samples(out / "samples.jsonl")
        report(list(samples.values()), found=True)
        for group in groups(asked, size=group_questions):
            keys = [(question.id, sample) for question, _ in group for sample in range(len(benchmark.seeds))]
            missing = {key for key in keys if not is_settled(samples.get(key))}
            if not missing:
                continue
            if interrupted():
                raise AnswerIsNo(
                    f"interrupted with {len(samples)} samples graded; the same command goes on from there"
                )
            rollouts = sampler.sample([prompt for _, prompt in group], seeds=benchmark.seeds)
            answered = [
                (question, rollout)
                for (question, _), rollout in zip(_each(group, len(benchmark.seeds)), rollouts, strict=True)
                if (question.id, rollout.sample) in missing
            ]
            rows = _graded(grader, model, answered, benchmark.seeds)
            append_lines(out / "samples.jsonl", [sample.resolved() for sample in rows])
            samples |= {(sample.question, sample.sample): sample for sample in rows}
            report(rows, found=False)
    score = build_score(
        list(samples.values()),
        protocol=protocol,
        model=str(model.path),
        model_digest=weights_digest,
        seconds=time.perf_counter() - started,
        machine=machine,
    )
    write_json(out / "score.json", score.resolved())
    return score


def groups(asked: Sequence[Asked], *, size: int) -> Iterator[Sequence[Asked]]:
    """What is asked, in runs of `size` questions; the same runs every time."""
    for start in range(0, len(asked), size):
        yield asked[start : start + size]


def _each(group: Sequence[Asked], times: int) -> Iterator[Asked]:
    return (asked for asked in group for _ in range(times))


def _prompt(benchmark: Benchmark, model: LanguageModel, question: Question) -> Prompt:
    return Prompt(
        row=question.row,
        problem=question.problem,
        answer=question.gold,
        token_ids=prompt_ids(model.tokenizer, user_text(benchmark.prompt, question.problem)),
    )


def _graded(
    grader: Grader, model: LanguageModel, answered: Sequence[tuple[Question, Rollout]], seeds: Sequence[int]
) -> list[Sample]:
    responses = [response_text(model, rollout) for _, rollout in answered]
    judgements = grader.grade(
        [
            (text, question.gold, rollout.stop.cut_short)
            for text, (question, rollout) in zip(responses, answered, strict=True)
        ]
    )
    return [
        Sample(
            question=question.id,
            sample=rollout.sample,
            seed=seeds[rollout.sample],
            response=text,
            tokens=len(rollout.token_ids),
            stop=rollout.stop,
            gold=question.gold,
            judgement=judgement,
        )
        for (question, rollout), text, judgement in zip(answered, responses, judgements, strict=True)
    ]
