"""Samples → a score. A sample whose grader failed says nothing, so a score waits until it has been settled."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from opd.evaluate.statistics import summarise
from opd.records.errors import AnswerIsNo
from opd.records.scores import Protocol, Sample, Score, Verdict


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
        raise AnswerIsNo(
            f"{len(failed)} of {len(samples)} samples could not be graded (first: question {first.question}, sample "
            f"{first.sample}: {first.judgement.reason}); there is no score without them. Run the same command again"
        )
    summary = summarise(
        ((sample.question, sample.sample, sample.correct) for sample in samples),
        questions=protocol.questions,
        samples_per_question=protocol.samples_per_question,
    )
    verdicts = Counter(sample.judgement.verdict for sample in samples)
    tokens = sum(sample.tokens for sample in samples)
    return Score(
        benchmark=protocol.benchmark,
        model=model,
        model_digest=model_digest,
        protocol=protocol,
        protocol_digest=protocol.digest,
        cut_short=sum(sample.stop.cut_short for sample in samples) / len(samples),
        answered=sum(sample.judgement.extracted is not None for sample in samples) / len(samples),
        tokens=tokens,
        mean_tokens=tokens / len(samples),
        verdicts={verdict.value: verdicts[verdict] for verdict in Verdict},
        seconds=seconds,
        machine=machine,
        **asdict(summary),
    )
