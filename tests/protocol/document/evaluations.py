"""The folder of an evaluation as `opd evaluate` leaves it, without the generations: protocol, samples, score."""

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.protocol.document.questions import answer, question_id

from opd.evaluate.finished import SAMPLES, finish
from opd.evaluate.folder import Claim, claim
from opd.evaluate.score import build_score
from opd.records.files import append_lines, digest
from opd.records.rollouts import StopReason
from opd.records.scores import Judgement, Opinion, Protocol, Sample, Score, Verdict
from opd.records.tasks import Measure

MACHINE = {"opd": "0.1.0", "device": "cuda", "name": "NVIDIA B300", "dtype": "bfloat16", "sampler": "engine"}
_JUDGE = "judge:CompassVerifier-3B"
_LIMIT_STAGE, _STAGE = "extract", "integer"


def protocol_of(measure: Measure) -> Protocol:
    """What a score by this measure of the task is bound to."""
    digests = [file.sha256 for file in measure.files]
    fields = {"id": "id", "problem": "problem", "answer": "answer", "answer_after": ""}
    data = digests[0] if len(digests) == 1 else digest([{"sha256": one, **fields} for one in digests])
    return Protocol(
        benchmark=measure.benchmark,
        questions=measure.questions,
        samples_per_question=len(measure.seeds),
        data_sha256=data,
        prompt=measure.prompt,
        temperature=measure.temperature,
        top_p=measure.top_p,
        top_k=measure.top_k,
        limit_tokens=measure.limit_tokens,
        seeds=measure.seeds,
        grader=f"house:{digest('the rules')}",
        judge=f"CompassVerifier-3B:{digest('its weights, prompt and settings')}" if measure.judged else None,
    )


def proxy_questions() -> tuple[tuple[str, str], ...]:
    """Name and gold of each; the golds are made up."""
    return tuple((f"math500-{number:03d}", str(7 + 3 * number)) for number in range(500))


def final_questions() -> tuple[tuple[str, str], ...]:
    """Name and gold of each."""
    return tuple((question_id(number), answer(number)) for number in range(60))


def write_evaluation(
    out: Path,
    protocol: Protocol,
    questions: tuple[tuple[str, str], ...],
    counts: tuple[int, ...],
    *,
    cut_short: float,
    model_digest: str,
    seconds: float,
) -> Score:
    """The score of these counts; the first wrong answers of each question are those that the limit cut short."""
    score, files = _evaluated(protocol, questions, counts, cut_short, model_digest, seconds)
    out.mkdir(parents=True)
    for name, content in files.items():
        (out / name).write_bytes(content)
    return score


@cache
def _evaluated(
    protocol: Protocol,
    questions: tuple[tuple[str, str], ...],
    counts: tuple[int, ...],
    cut_short: float,
    model_digest: str,
    seconds: float,
) -> tuple[Score, dict[str, bytes]]:
    """The score and the files by name; worked out once, however many attempts have this evaluation."""
    samples = _samples(protocol, questions, counts, cut=round(cut_short * len(questions) * len(protocol.seeds)))
    score = build_score(
        samples, protocol=protocol, model="/artifact", model_digest=model_digest, seconds=seconds, machine=MACHINE
    )
    with tempfile.TemporaryDirectory(prefix="opd-evaluation-") as away:
        out = Path(away)
        claim(out, Claim(protocol=protocol, model_digest=model_digest))
        append_lines(out / SAMPLES, (sample.resolved() for sample in samples))
        sealed = finish(out, score, questions=[question for question, _ in questions])
        return sealed, {path.name: path.read_bytes() for path in sorted(out.iterdir())}


def _samples(
    protocol: Protocol, questions: Sequence[tuple[str, str]], counts: Sequence[int], *, cut: int
) -> list[Sample]:
    """Each (question, sample) once; which of a question's samples are right goes round with its place."""
    made = []
    wrong = sum(len(protocol.seeds) - count for count in counts)
    if cut > wrong:
        raise ValueError(f"{cut} samples can't be cut short where {wrong} are wrong")
    for place, ((question, gold), count) in enumerate(zip(questions, counts, strict=True)):
        for sample, seed in enumerate(protocol.seeds):
            is_right = (sample + place) % len(protocol.seeds) < count
            is_cut = not is_right and cut > 0
            cut -= is_cut
            response, judgement, opinions = _graded(gold, sample, is_right, is_cut, judged=protocol.judge is not None)
            made.append(
                Sample(
                    question=question,
                    sample=sample,
                    seed=seed,
                    response=response,
                    tokens=protocol.limit_tokens if is_cut else 1_800 + 37 * ((place * 31 + sample * 17) % 97),
                    stop=StopReason.LENGTH if is_cut else StopReason.EOS,
                    gold=gold,
                    judgement=judgement,
                    opinions=opinions,
                )
            )
    return made


def _graded(
    gold: str, sample: int, is_right: bool, is_cut: bool, *, judged: bool
) -> tuple[str, Judgement, tuple[Opinion, ...]]:
    """Text, verdict, and where a verifier was asked what the rules had said."""
    if is_cut:
        verdict, extracted, stage, reason = Verdict.CUT_SHORT, None, _LIMIT_STAGE, "the limit came before an answer"
        response = "… so that the remaining cases are"
    elif is_right:
        verdict, extracted, stage, reason = Verdict.CORRECT, gold, _STAGE, "the same integer"
        response = f"… which is what was asked.\n</think>\n\n\\boxed{{{gold}}}"
    else:
        extracted = str(int(gold) + 1 + sample % 3)
        verdict, stage, reason = Verdict.WRONG, _STAGE, "another integer"
        response = f"… so that is the total.\n</think>\n\n\\boxed{{{extracted}}}"
    if judged and not is_right and not is_cut:
        said = Opinion(by="house", verdict=verdict, reason=reason)
        by_judge = Judgement(
            verdict=verdict,
            extracted=extracted,
            stage="judge",
            reason="it says B",
            by=_JUDGE,
            reply="B",
            parsed="strict",
        )
        return response, by_judge, (said,)
    return response, Judgement(verdict=verdict, extracted=extracted, stage=stage, reason=reason), ()
