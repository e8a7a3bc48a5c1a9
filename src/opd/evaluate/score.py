"""Samples → a score. A sample whose grader or judge failed says nothing, so a score waits until it is settled."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from opd.evaluate.finished import SCORE, refuse_changed_samples
from opd.evaluate.statistics.estimates import Estimate, clustered_stderr, pass_at_k_score, summary, tally, tries
from opd.evaluate.statistics.votes import ballots, majority_at_k_score
from opd.records.errors import AnswerIsNo
from opd.records.scores import OverQuestions, Protocol, Sample, Score, Verdict
from opd.records.settings import read


def build_score(
    samples: Sequence[Sample],
    *,
    protocol: Protocol,
    model: str,
    model_digest: str,
    seconds: float,
    machine: dict[str, str],
) -> Score:
    """The score of exactly the samples that the protocol declares.

    Raises `AnswerIsNo` while a sample's grader has failed, `AskedWrongly` when one is missing or there twice.
    """
    failed = [sample for sample in samples if not sample.judgement.verdict.settled]
    if failed:
        first = failed[0]
        limited = any(sample.judgement.verdict is Verdict.GRADER_FAILED for sample in failed)
        more = ", and give a grader that ran into its limits more: --set machine.grader_seconds=60" if limited else ""
        raise AnswerIsNo(
            f"{len(failed)} of {len(samples)} samples could not be graded (first: question {first.question}, sample "
            f"{first.sample}: {first.judgement.reason}); there is no score without them. Run the same command "
            f"again{more}"
        )
    declared = {"questions": protocol.questions, "samples_per_question": protocol.samples_per_question}
    _, counts = tally(((one.question, one.sample, one.correct) for one in samples), **declared)
    _, cut_short = tally(((one.question, one.sample, one.stop.cut_short) for one in samples), **declared)
    votes = ballots(samples)
    ks = tries(protocol.samples_per_question)
    verdicts = Counter(sample.judgement.verdict for sample in samples)
    tokens = sum(sample.tokens for sample in samples)
    return Score(
        benchmark=protocol.benchmark,
        model=model,
        model_digest=model_digest,
        protocol=protocol,
        protocol_digest=protocol.digest,
        pass_at_k={k: _over_questions(pass_at_k_score(counts, k)) for k in ks},
        majority_at_k={k: _over_questions(majority_at_k_score(votes, k)) for k in ks},
        cut_short=cut_short.mean,
        cut_short_stderr=clustered_stderr(cut_short),
        answered=sum(sample.judgement.extracted is not None for sample in samples) / len(samples),
        inside_reasoning=sum(_is_inside(sample) for sample in samples) / len(samples),
        disagreements=_disagreements(samples),
        tokens=tokens,
        mean_tokens=tokens / len(samples),
        verdicts={verdict.value: verdicts[verdict] for verdict in Verdict},
        seconds=seconds,
        machine=machine,
        **asdict(summary(counts)),
    )


def standing_score(out: Path, samples: Sequence[Sample], protocol: Protocol) -> Score | None:
    """The score of a finished folder, as it stands there; None where there is none yet.

    Raises `AnswerIsNo` when the samples beside it are no longer those that it counted.
    """
    if not (out / SCORE).exists():
        return None
    score = read(Score, out / SCORE)
    correct = sum(sample.correct for sample in samples)
    settled = sum(sample.judgement.verdict.settled for sample in samples)
    if (score.protocol_digest, score.correct, score.samples) != (protocol.digest, correct, settled):
        raise AnswerIsNo(
            f"{out} holds a score of {score.correct}/{score.samples}, and its samples come to {correct}/{settled}: "
            "one was changed; take score.json away, and the same command completes the samples"
        )
    refuse_changed_samples(out, score)
    return score


def _is_inside(sample: Sample) -> bool:
    return sample.judgement.extracted is not None and sample.judgement.inside_reasoning


def _over_questions(estimate: Estimate) -> OverQuestions:
    return OverQuestions(mean=estimate.mean, stderr=estimate.stderr)


def _disagreements(samples: Sequence[Sample]) -> dict[str, int]:
    """By whoever gave an opinion, also those who agreed everywhere; a failure to give one is no disagreement."""
    said = [(opinion, sample) for sample in samples for opinion in sample.opinions if opinion.verdict.settled]
    other = Counter(opinion.by for opinion, sample in said if opinion.verdict.correct is not sample.correct)
    return {by: other[by] for by in sorted({opinion.by for opinion, _ in said})}
