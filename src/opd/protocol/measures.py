"""How a task's measure becomes a run of `opd evaluate`, and whether a score was taken as the measure says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from opd.protocol.at_hand import question_file
from opd.protocol.phases import ARTIFACT, QUESTIONS, VERIFIER
from opd.protocol.sandbox.view import Word
from opd.protocol.views import RESULT
from opd.records.errors import AnswerIsNo
from opd.records.places import SHIPPED
from opd.records.scores import Score
from opd.records.settings import read
from opd.records.tasks import Measure

SCORE = "score.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A run of `opd evaluate`, of an artifact into a result."""

    arguments: tuple[Word, ...]
    shown: Mapping[PurePosixPath, Path]  # what the program sees beside the artifact and the install


def evaluation(
    measure: Measure, *, verifier: Path | None = None, workers: int = 1, beside: Sequence[Path] = ()
) -> Evaluation:
    """The run that takes this measure; `verifier` is the model that settles what the rules reject, and `beside` are
    further folders that the questions may lie in.

    Raises `AskedWrongly` for a file of questions that isn't at hand, and `AnswerIsNo` for one that isn't as pinned.
    """
    arguments: list[Word] = ["evaluate", measure.benchmark, "--model", ARTIFACT, "--out", RESULT, "--quiet"]
    shown = _question_files(measure, beside)
    if shown:
        arguments += ["--data", QUESTIONS]
    if workers > 1:
        arguments += ["--set", f"machine.workers={workers}"]
    if measure.judged:
        assert verifier is not None, "a task whose measure is judged names a verifier"
        shown[VERIFIER] = verifier
        arguments += ["--set", f"judge.local.model={VERIFIER}"]
    return Evaluation(arguments=tuple(arguments), shown=shown)


def read_score(folder: Path, measure: Measure) -> Score:
    """The score that an evaluation left; raises `AnswerIsNo` when it is of another protocol than the task's."""
    score = read(Score, folder / SCORE)
    said, wanted = _of_score(score), _of_measure(measure)
    other = [
        f"{key} is {said[key]!r}, and the task says {wanted[key]!r}" for key in wanted if said[key] != wanted[key]
    ]
    if other:
        raise AnswerIsNo(f"{folder} holds a score of another protocol: {'; '.join(other)}")
    return score


def _question_files(measure: Measure, beside: Sequence[Path]) -> dict[PurePosixPath, Path]:
    """The files of questions that the install doesn't bring, by where the program sees them."""
    return {
        QUESTIONS / Path(file.source).name: question_file(file, measure, beside=beside).resolve()
        for file in measure.files
        if not file.source.startswith(SHIPPED)
    }


def _of_score(score: Score) -> dict[str, object]:
    protocol = score.protocol
    return {
        "benchmark": protocol.benchmark,
        "prompt": protocol.prompt,
        "questions": score.questions,
        "samples": score.samples,
        "seeds": tuple(protocol.seeds),
        "temperature": protocol.temperature,
        "top_p": protocol.top_p,
        "top_k": protocol.top_k,
        "limit_tokens": protocol.limit_tokens,
        "judged": protocol.judge is not None,
    }


def _of_measure(measure: Measure) -> dict[str, object]:
    return {
        "benchmark": measure.benchmark,
        "prompt": measure.prompt,
        "questions": measure.questions,
        "samples": measure.samples,
        "seeds": measure.seeds,
        "temperature": measure.temperature,
        "top_p": measure.top_p,
        "top_k": measure.top_k,
        "limit_tokens": measure.limit_tokens,
        "judged": measure.judged,
    }
