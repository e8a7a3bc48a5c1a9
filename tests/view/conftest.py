"""Made-up records with plausible figures: what a run on the embedded task looks like to a view; and a browser."""

import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.view.browsing import launched
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from opd.evaluate.benchmark import find
from opd.records.metrics import Gap, StepMetrics
from opd.records.rollouts import Prompt, Rollout, ScoredRollout, StopReason
from opd.records.scores import Comparison, Judgement, Sample, Score, Verdict
from opd.view.story.story import EMBEDDED_CAVEATS, Cited, CurvePoint, NextCommand, Story

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MakeScore = Callable[..., Score]
MakeMetrics = Callable[[int], StepMetrics]

PROTOCOL = find("arith_tiny").protocol(grader="opd.grading 1f2e3d4c")


def score(model: str, mean: float, **changes: object) -> Score:
    """500 questions × 4 samples; the clustered error is larger than the naive one, as it is in life."""
    naive = math.sqrt(mean * (1 - mean) / 2000)
    clustered = 1.17 * naive
    values: dict[str, object] = {
        "benchmark": "arith_tiny",
        "model": model,
        "model_digest": "ab" * 32,
        "protocol": PROTOCOL,
        "protocol_digest": PROTOCOL.digest,
        "mean": mean,
        "stderr": clustered,
        "stderr_naive": naive,
        "ci95": (mean - 1.9647 * clustered, mean + 1.9647 * clustered),
        "design_effect": 1.37,
        "icc": 0.12,
        "stderr_seeds": 0.9 * naive,
        "questions": 500,
        "samples": 2000,
        "correct": round(2000 * mean),
        "cut_short": 0.0005,
        "answered": 0.9995,
        "tokens": 61_400,
        "mean_tokens": 30.7,
        "verdicts": {"correct": round(2000 * mean), "wrong": 2000 - round(2000 * mean)},
        "seconds": 4.1,
        "machine": {"device": "cpu", "torch": "2.13.0", "transformers": "5.24.0", "python": "3.11.2", "threads": "1"},
    }
    return Score(**(values | changes))


def metrics(step: int) -> StepMetrics:
    """A healthy run: KL falls from about 0.2 to 0.03 nats a token."""
    noise = random.Random(step)
    kl = 0.17 * math.exp(-step / 25) + 0.032 + noise.gauss(0, 0.009)
    return StepMetrics(
        step=step,
        loss=kl + noise.gauss(0, 0.002),
        kl=kl,
        clamped=0.0004,
        gradient_norm=0.9 * math.exp(-step / 50) + 0.4 + noise.gauss(0, 0.06),
        learning_rate=6e-4 * min(1.0, step / 5),
        rollouts=64,
        trained_tokens=1964 + noise.randrange(-40, 40),
        mean_tokens=30.7 + noise.gauss(0, 0.4),
        surprise=0.09 * math.exp(-step / 40) + 0.026,
        cut_short=0.0156 if step % 40 == 7 else 0.0,
        repeated=0.0,
        rows_seen=16 * step,
        gap=Gap(mean=1.1e-7, largest=2.4e-5, k3=3e-10),
        objective={"k1": kl, "ratio": 1.0},
        peak_bytes=812_000_000,
        seconds={"sample": 0.151, "score": 0.062, "update": 0.172, "save": 0.001, "total": 0.39},
    )


def sample(question: int, index: int, verdict: Verdict = Verdict.CORRECT, *, tokens: int = 30) -> Sample:
    """One graded sample."""
    return Sample(
        question=f"arith-final-{question:04}",
        sample=index,
        seed=index,
        response="9-2=7\n</think>\n\n\\boxed{7}",
        tokens=tokens,
        stop=StopReason.LENGTH if verdict is Verdict.CUT_SHORT else StopReason.EOS,
        gold="7",
        judgement=Judgement(verdict=verdict, extracted="7", stage="integer", reason="made up"),
    )


def byte_tokenizer() -> Tokenizer:
    """A small byte-level BPE like that of the embedded task: any text encodes, digits stand alone."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<bos>", "<eos>", "<User>", "<Assistant>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(["Compute 73-9+7.", "73-9=64\n64+7=71\n", "\n\n\\boxed{71}"] * 5, trainer)
    tokenizer.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    return tokenizer


def scored(
    tokenizer: Tokenizer,
    *,
    problem: str = "Compute 73-9+7.",
    response: str,
    gaps: dict[int, float] | None = None,
    stop: StopReason = StopReason.EOS,
) -> ScoredRollout:
    """A rollout of this text: the two nearly agree, but at these places the teacher is that much surer."""
    noise = random.Random(response)
    ids = tokenizer.encode(response, add_special_tokens=False).ids
    student = [-abs(noise.gauss(0, 0.05)) for _ in ids]
    teacher = [-abs(noise.gauss(0, 0.02)) for _ in ids]
    for place, gap in (gaps or {}).items():
        student[place] = -1.3
        teacher[place] = student[place] + gap
    return ScoredRollout(
        rollout=Rollout(
            prompt=Prompt(
                row=41,
                problem=problem,
                answer="71",
                token_ids=tuple(
                    tokenizer.encode(f"<bos><User>{problem}<Assistant><think>\n", add_special_tokens=False).ids
                ),
            ),
            sample=2,
            token_ids=tuple(ids),
            logp=tuple(student),
            stop=stop,
        ),
        teacher_logp=tuple(teacher),
    )


def make_story(folder: Path, *, problem: str = "Compute 73-9+7.", steps: int = 120) -> Story:
    """The whole story of a demo, with its tokenizer in the folder."""
    tokenizer = byte_tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    start, result, teacher = score("start", 0.465), score("result", 0.843), score("teacher", 0.969)
    middle = {steps // 4: 0.71, steps // 2: 0.784, 3 * steps // 4: 0.828}
    curve = [
        CurvePoint(step=0, score=Cited(value=start, file="scores/start/score.json")),
        *(
            CurvePoint(step=step, score=Cited(value=score("mid", mean), file=f"scores/step-{step:06}/score.json"))
            for step, mean in middle.items()
        ),
        CurvePoint(step=steps, score=Cited(value=result, file="scores/result/score.json")),
    ]
    return Story(
        title="arith_tiny: a student taught by its teacher",
        start=Cited(value=start, file="scores/start/score.json"),
        result=Cited(value=result, file="scores/result/score.json"),
        teacher=Cited(value=teacher, file="scores/teacher/score.json"),
        curve=tuple(curve),
        comparison=Cited(value=comparison(start, result), file="comparison.json"),
        metrics=Cited(value=tuple(metrics(step) for step in range(1, steps + 1)), file="run/metrics.jsonl"),
        rollout=Cited(
            value=scored(
                tokenizer,
                problem=problem,
                response="73-9=63\n63+7=70\n</think>\n\n\\boxed{70}<eos>",
                gaps={5: 0.31, 6: -4.62, 13: 0.97, 14: 0.12, 22: -0.4, 23: -0.61, 24: -0.08},
            ),
            file="run/rollouts/step-000001.parquet",
        ),
        rollout_step=1,
        tokenizer=folder / "tokenizer.json",
        recipe=Cited(
            value={
                "model": {"student": "opd:arith_tiny/student", "teacher": "opd:arith_tiny/teacher"},
                "data": {"train": "opd:arith_tiny/train.jsonl", "seed": 42},
                "sampling": {"prompts_per_step": 16, "per_prompt": 4, "temperature": 1.0, "limit_tokens": 64},
                "objective": {"name": "k1_policy_gradient", "clip": 0.2, "largest_k1": 10.0},
                "optimizer": {"lr": 0.0006, "warmup_steps": 5, "betas": [0.9, 0.999], "clip_norm": 1.0},
                "steps": steps,
            },
            file="run/recipe.json",
        ),
        recipe_digest="c0ffee" * 10 + "beef",
        seconds=Cited(
            value={
                "evaluate start": 4.1,
                "evaluate teacher": 4.3,
                "distil": 46.8,
                "evaluate result": 4.2,
                "compare": 0.3,
            },
            file="demo.json",
        ),
        next_commands=(
            NextCommand(
                command="opd train arith_gap --out runs/gap", does="a student that lacks knowledge, not certainty"
            ),
            NextCommand(
                command="opd compare scores/start scores/result", does="the paired comparison again, with its table"
            ),
        ),
        caveats=EMBEDDED_CAVEATS,
    )


def comparison(a: Score, b: Score, **changes: object) -> Comparison:
    """A paired comparison of the two, as 500 questions would give it."""
    difference = b.mean - a.mean
    told_apart = abs(difference) > 1.9647 * 0.0155
    values: dict[str, object] = {
        "a": "scores/start",
        "b": "scores/result",
        "mean_a": a.mean,
        "mean_b": b.mean,
        "difference": difference,
        "stderr": 0.0155,
        "stderr_fixed_questions": 0.0129,
        "ci95": (difference - 1.9647 * 0.0155, difference + 1.9647 * 0.0155),
        "p": 1e-80 if told_apart else 0.41,
        "p_permutation": 0.0001 if told_apart else 0.4,
        "detectable": 0.0435,
        "distinguishable": told_apart,
        "questions": 500,
        "samples_a": 2000,
        "samples_b": 2000,
        "verdict": "B scores higher than A; the two can be told apart."
        if told_apart
        else "They cannot be told apart.",
    }
    return Comparison(**(values | changes))


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return make_story(tmp_path_factory.mktemp("story"))


@pytest.fixture
def score_of() -> MakeScore:
    return score


@pytest.fixture
def comparison_of() -> Callable[..., Comparison]:
    return comparison


@pytest.fixture
def metrics_of() -> MakeMetrics:
    return metrics


@pytest.fixture
def sample_of() -> Callable[..., Sample]:
    return sample


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return byte_tokenizer()


@pytest.fixture
def scored_of(tokenizer: Tokenizer) -> Callable[..., ScoredRollout]:
    return lambda **values: scored(tokenizer, **values)


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Chromium, once a file: while Playwright's loop runs, no other test of the process may start one of its own."""
    with launched() as found:
        yield found
