"""What an evaluation writes down: a verdict, a sample, a score, and a comparison of two scores."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from opd.records.rollouts import StopReason
from opd.records.settings import Settings

Share = Annotated[float, Field(ge=0, le=1)]
Parsed = Literal["strict", "tolerant"]  # a judge's reply was a label and nothing else, or a label was found in it


class Verdict(StrEnum):
    """What grading came to. Only CORRECT counts as correct; the two failures say nothing about the answer."""

    CORRECT = "correct"
    WRONG = "wrong"
    NO_ANSWER = "no_answer"  # no box, or the last one is empty or never closed
    UNREADABLE = "unreadable"  # there is an answer, and no rule can read it
    CUT_SHORT = "cut_short"  # no answer, and the length limit ended the response
    GRADER_FAILED = "grader_failed"  # the grader crashed or ran into its limits: not the candidate's fault
    JUDGE_FAILED = "judge_failed"  # a judge was asked and gave no verdict that can be read

    @property
    def correct(self) -> bool:
        """Whether the sample counts as correct."""
        return self is Verdict.CORRECT

    @property
    def settled(self) -> bool:
        """Whether this says something about the answer; a score needs all of its samples settled."""
        return self not in {Verdict.GRADER_FAILED, Verdict.JUDGE_FAILED}


class Judgement(Settings):
    """A verdict and how it was reached."""

    verdict: Verdict
    extracted: str | None
    """The answer as it stood in the response, or null where there was none."""
    stage: str
    """Which stage decided: extract, string, integer, value, …"""
    reason: str
    inside_reasoning: bool = False
    """The box stood inside the reasoning, before `</think>`; it counts, and it is reported."""
    by: str = "house"
    """Who decided: `house`, `reference`, `module:function`, or `judge:` and the judge's name."""
    reply: str | None = None
    """The deciding judge's reply, as it came."""
    parsed: Parsed | None = None
    """How that reply was read."""


class Opinion(Settings):
    """What someone else said of a sample: the rules where a judge decided, an earlier judge where another did, or
    a second grader, which never decides.
    """

    by: str
    """Who, as in `Judgement.by`."""
    verdict: Verdict
    reason: str
    reply: str | None = None
    """A judge's reply, as it came."""
    parsed: Parsed | None = None
    """How that reply was read."""


class Sample(Settings):
    """One line of `samples.jsonl`, keyed by (question, sample), never by position."""

    question: str
    sample: int
    seed: int
    response: str
    tokens: int
    stop: StopReason
    gold: str
    judgement: Judgement
    opinions: tuple[Opinion, ...] = ()
    """Of those who did not decide."""

    @property
    def correct(self) -> bool:
        """Whether the sample counts as correct."""
        return self.judgement.verdict.correct


class Protocol(Settings):
    """Everything that a score depends on beside the model. Scores of different protocols don't compare."""

    benchmark: str
    questions: int
    samples_per_question: int
    data_sha256: str
    prompt: str
    """The template of the user's turn, with {problem} where the problem stands."""
    temperature: float
    top_p: float
    top_k: int
    """0: no limit."""
    limit_tokens: int
    """Cap on new tokens."""
    seeds: tuple[int, ...]
    """One for each sample of a question."""
    grader: str
    """Name and digest of the grader's code."""
    second_grader: str | None = None
    """The same of a second grader, whose opinion is kept and decides nothing."""
    judge: str | None = None
    """Name and digest of the judge that settles what the grader rejects: its model, prompt and settings."""


class OverQuestions(Settings):
    """A mean over questions and its standard error over questions; null for fewer than two."""

    mean: float
    stderr: float | None


class Score(Settings):
    """`score.json`: a mean with its error bar, and what they rest on. Undefined values are null, never zero."""

    benchmark: str
    model: str
    """Where the model was found."""
    model_digest: str
    """SHA-256 over the digests of the model's files."""
    protocol: Protocol
    protocol_digest: str
    mean: float
    stderr: float | None
    """Clustered by question (CR1); null for fewer than two questions."""
    stderr_naive: float | None
    """As if all samples were independent; printed beside the clustered one to show what that would hide."""
    ci95: tuple[float, float] | None
    """mean ± t(questions - 1) × stderr, not cut to [0, 1]."""
    design_effect: float | None
    """(stderr / naive)²."""
    icc: float | None
    """Intracluster correlation, B / (B + W)."""
    stderr_seeds: float | None
    """Spread expected between two runs of one model on these questions with other seeds; null for one sample."""
    questions: int
    samples: int
    correct: int
    pass_at_k: dict[int, OverQuestions] = {}
    """By k = 1, 2, 4, … and all samples of a question: at least one of k is right. The mean over samples is avg@K."""
    majority_at_k: dict[int, OverQuestions] = {}
    """The same: the most frequent answer of k is right."""
    cut_short: Share
    """Share of samples that the length limit ended."""
    cut_short_stderr: float | None = None
    """Of that share, clustered by question."""
    answered: Share
    """Share of samples with a complete last box."""
    inside_reasoning: Share | None = None
    """Share of samples whose box stood inside the reasoning."""
    disagreements: dict[str, int] = {}
    """By whoever gave an opinion: on how many samples they would have counted otherwise than who decided."""
    tokens: int
    mean_tokens: float
    verdicts: dict[str, int]
    seconds: float
    """Sampling, over all calls that took part and all workers: two that take a minute each side by side make 120."""
    machine: dict[str, str]
    """That drew the samples; where several did and differ, what each says: `float32 + bfloat16`."""
    samples_sha256: str | None = None
    """Of the `samples.jsonl` beside it, which is checked whenever the folder is read; null in an older score."""


class Comparison(Settings):
    """Two scores of one protocol, paired by question. Undefined values are null."""

    a: str
    b: str
    mean_a: float
    mean_b: float
    difference: float
    """mean_b - mean_a."""
    stderr: float | None
    """Of the difference, for questions like these: sd of the per-question differences / sqrt(questions)."""
    stderr_fixed_questions: float | None
    """Of the difference, on exactly these questions: only the sampling noise."""
    ci95: tuple[float, float] | None
    """difference ± t(questions - 1) × stderr."""
    p: float | None
    """Two-sided, from the t statistic."""
    p_permutation: float | None
    """Two-sided, by flipping the signs of the per-question differences."""
    permutations_drawn: int | None = None
    """So many random sign patterns gave p_permutation; null where it is exact, over all of them."""
    p_fixed_questions: float | None = None
    """Two-sided, from the normal, with stderr_fixed_questions; not adjusted for several pairs."""
    p_holm: float | None = None
    """The larger of p and p_permutation, adjusted for all pairs that were compared together; null for one."""
    true_spread: float | None = None
    """Variance of the true per-question differences (ω²), unbiased: can be negative by chance."""
    detectable: float | None
    """Smallest true difference that this design finds with 80 % power at 5 %, two-sided."""
    distinguishable: bool | None
    """On questions like these: whether both p and p_permutation (or p_holm, if there is one) are below 0.05; null
    for one question.
    """
    distinguishable_fixed_questions: bool | None = None
    """On exactly these questions: whether p_fixed_questions, after Holm for several pairs, is below 0.05; null
    where it is undefined.
    """
    questions: int
    samples_a: int
    samples_b: int
    verdict: str
    """The same in words."""
    notes: tuple[str, ...] = ()
    """What else differs between the two beside the models: the arithmetic, the machine."""
