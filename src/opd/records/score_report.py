"""Everything that a report of a score shows, computed once: the pages and the terminal only lay it out.

Undefined values are null, never zero; what the samples don't tell (an importer knows less than a score folder) is
null or empty. Shares and their errors are clustered by question, as the score is.
"""

from typing import Literal

from opd.records.scores import Share
from opd.records.settings import Settings

Interval = tuple[float, float]


class Mean(Settings):
    """A mean over the samples with its error; `ci95` is from t with questions - 1 degrees of freedom."""

    mean: float
    stderr: float | None
    ci95: Interval | None
    questions: int
    samples: int
    correct: int


class Part(Settings):
    """Some of the samples, by one property: how many, what share of all, and how many of them are right."""

    name: str
    samples: int
    share: Share
    stderr: float | None
    """Of the share, clustered by question."""
    ci95: Interval | None
    """From t with questions - 1 degrees of freedom; Wilson's on questions where the share is 0 or 1."""
    correct: int


class AtK(Settings):
    """What k samples of a question come to, over all draws of k of its samples, with errors over questions."""

    k: int
    pass_at_k: float
    """At least one is right."""
    pass_stderr: float | None
    pass_ci95: Interval | None
    majority_at_k: float | None
    """The most frequent answer is right; null where the answers are not known."""
    majority_stderr: float | None
    majority_ci95: Interval | None


class QuestionResult(Settings):
    """One question's samples."""

    question: str
    correct: int
    samples: int
    interval: Interval
    """Wilson's 95 % interval of its own share: how far other seeds may lead."""
    cut_short: int | None
    mean_tokens: float | None
    gold: str | None
    wrong_answer: str | None
    """The most frequent wrong answer, as it first stood."""
    wrong_answers: int
    """So many samples gave it."""


class LengthBin(Settings):
    """Samples of a length from `least` to below `below`."""

    least: int
    below: int
    correct: int
    wrong: int
    """Not correct, and not cut short."""
    cut_short: int
    """Not correct, and cut short; those that are correct are counted as correct."""
    share: Share
    stderr: float | None
    ci95: Interval | None


class Lengths(Settings):
    """How long the responses are."""

    unit: Literal["tokens", "characters"]
    mean: float
    """Over questions, of the mean of each."""
    stderr: float | None
    median: int
    longest: int
    mean_correct: float | None
    mean_wrong: float | None
    bins: tuple[LengthBin, ...]


class CutShort(Settings):
    """The samples that the length limit ended, and what the score would be without taking their grades."""

    part: Part
    all_wrong: Mean
    """Every sample that was cut short counted as wrong: the lower bound."""
    all_right: Mean
    """Every one counted as right: what a higher limit could give at most."""


class Disagreement(Settings):
    """A sample on which someone who did not decide saw it otherwise."""

    question: str
    sample: int
    by: str
    verdict: str
    other: str
    other_verdict: str
    extracted: str | None
    gold: str | None
    reason: str


class Opinions(Settings):
    """What someone who did not decide said, against those who did."""

    other: str
    by: str
    asked: int
    """Samples on which the other gave a verdict."""
    failed: int
    """Samples on which the other failed to give one."""
    other_says_right: int
    """Counted as wrong; the other says right."""
    other_says_wrong: int
    """Counted as right; the other says wrong."""
    mean_by_other: Mean | None
    """The score if the other decided, where it gave a verdict on every sample."""


class Overlap(Settings):
    """A question that stands in the training rows."""

    question: str
    training_row: str
    found: str
    verdict: str
    jaccard: float
    longest_run: str
    """The longest run of words that both hold."""
    correct: int
    samples: int


class Contamination(Settings):
    """The score with and without the questions that a report of `opd data decontaminate` found in training rows."""

    reports: tuple[str, ...]
    """The files, each with the SHA-256 of its bytes behind a blank."""
    training: tuple[str, ...]
    """The training files that were searched, each with its SHA-256."""
    trained_on: Literal["confirmed", "taken on trust"]
    """Whether the run that made the model names these training files, or nothing here says so."""
    compared: int
    """So many of the score's questions were looked for in the training rows."""
    overlaps: tuple[Overlap, ...]
    near: int
    """Pairs that were found to be alike, and to be other questions."""
    without: Mean | None
    """The score on the questions that were not found; null when none is left."""
    only: Mean | None
    """On those that were found; null when there are none."""
    shift: float | None
    """The score less the score without them."""
    shift_stderr: float | None
    """f × √(error of `only`² + error of `without`²), f the share of samples that were found; null where undefined."""
    note: str


class ScoreReport(Settings):
    """A score, taken apart."""

    name: str
    form: str
    """What was read: a score folder, a file of samples, or another harness' log."""
    benchmark: str | None
    model: str | None
    protocol_digest: str | None
    samples_sha256: str | None = None
    """Of the samples that the score counted; those that were read are the same bytes."""
    unverified: bool = False
    """The score is of an earlier version, which took down no digest of its samples: only their sum was checked."""
    mean: float
    stderr: float | None
    """Clustered by question (CR1); null for fewer than two questions."""
    stderr_naive: float | None
    ci95: Interval | None
    design_effect: float | None
    icc: float | None
    stderr_seeds: float | None
    """Spread between two runs of the model on these questions with other seeds; null for single samples."""
    wilson95_questions: Interval | None
    """Wilson's interval on questions where all samples agree, and the error 0 misleads; else null."""
    questions: int
    samples_per_question: int | None
    """Null where the questions have different numbers."""
    n: int
    correct: int
    at_k: tuple[AtK, ...]
    """Empty where the questions have different numbers of samples."""
    verdicts: tuple[Part, ...]
    decided_by: tuple[Part, ...]
    box: tuple[Part, ...]
    """Where the answer stood: after the reasoning, inside it alone, or nowhere."""
    cut_short: CutShort | None
    lengths: Lengths | None
    opinions: tuple[Opinions, ...]
    disagreements: tuple[Disagreement, ...]
    contamination: Contamination | None
    by_question: tuple[QuestionResult, ...]
    """Lowest share first; of equals the one with the earlier name."""
    most_split: tuple[str, ...]
    """The questions whose samples are nearest to half right, half wrong; those that agree are not among them."""
    machine: dict[str, str]
    protocol: dict[str, str]
    """The protocol's settings in words."""
