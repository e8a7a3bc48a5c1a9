"""What a training run says about itself: a line for each step, and a summary at its end."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, NonNegativeInt

from opd.records.served import TeacherServer
from opd.records.settings import Settings

Share = Annotated[float, Field(ge=0, le=1)]


class Gap(Settings):
    """How far the trainer's log-probabilities lie from the sampler's, for the same weights and tokens."""

    mean: float
    """Mean of |trainer - sampler|, nats a token."""
    largest: float
    """Largest |trainer - sampler|, nats."""
    k3: float
    """Mean of exp(d) - 1 - d with d = trainer - sampler: estimates KL(sampler || trainer), nats a token."""


class Spread(Settings):
    """Seconds over the ranks of a run."""

    least: float
    mean: float
    most: float
    slowest: NonNegativeInt
    """The rank of `most`."""


class Drafted(Settings):
    """What guessing ahead came to while few sequences ran."""

    steps: NonNegativeInt
    """Decode steps, counted once for each sequence that they were of."""
    guesses: NonNegativeInt
    """That were checked."""
    kept: NonNegativeInt
    """Of them, since they were drawn."""

    @property
    def tokens_a_step(self) -> float:
        """Of a sequence; 1 is what a step without guesses has."""
        return 1 + self.kept / self.steps if self.steps else 1.0


class TeacherMetrics(Settings):
    """What one of several teachers had of a step."""

    rollouts: int
    tokens: int
    """Sampled tokens that it scored."""
    kl: float
    """Mean of log student - log teacher over them, nats."""
    clamped: Share
    """Share of them whose k1 was beyond the clamp; 0 for an objective without one."""
    cut_short: Share
    """Share of its rollouts that the length limit ended."""
    first_token_kl: float
    """Mean of log student - log teacher (the sampler's and the scorer's) at the first token of each rollout, nats."""
    first_token_distance: float
    """Median of |log student - log teacher| at the first token, nats."""
    eos_teacher_logp: float | None
    """Mean log-probability (nats) that it gives the student's end of sequence; null where none ended."""


class StepMetrics(Settings):
    """One line of `metrics.jsonl`. All but seconds and `peak_bytes` repeat bit for bit on one machine."""

    step: int
    """1 for the first update."""
    loss: float
    """The objective's mean over the trained tokens of the step."""
    kl: float
    """Mean of log student - log teacher over all sampled tokens, nats: estimates KL(student || teacher) a token,
    where nothing was cut from what they were drawn from."""
    clamped: Share
    """Share of all sampled tokens whose k1 was beyond the clamp; 0 for an objective without one."""
    gradient_norm: float
    """L2 norm before clipping."""
    learning_rate: float
    rollouts: int
    trained_tokens: int
    """Tokens that were learned from; what divides the loss."""
    mean_tokens: float
    """Mean length of a rollout, tokens."""
    surprise: float
    """Mean of -log student over the sampled tokens: estimates the student's entropy, nats a token."""
    cut_short: Share
    """Share of rollouts that the length limit ended."""
    repeated: Share
    """Share of rollouts whose end is a loop."""
    rows_seen: int
    """Distinct rows that the run has trained on so far."""
    gap: Gap
    objective: dict[str, float]
    """What the objective reports, as means over all sampled tokens, and the gradient norm of each of its terms."""
    peak_bytes: int
    """Peak device memory (GPU) or resident set (CPU) so far."""
    seconds: dict[str, float]
    """By phase: sample, score, grade (with a task reward), update, save, total."""
    reward: float | None = None
    """Mean task reward of the rollouts that have one; null where none has."""
    ungraded: int | None = None
    """Rollouts whose grader failed: they have no reward, and an advantage of 0. Null without a task reward."""
    first_token_kl: float | None = None
    """Mean of log student - log teacher (the sampler's and the scorer's) at the first token of each rollout, nats."""
    first_token_distance: float | None = None
    """Median of |log student - log teacher| at the first token, nats: large where the two begin differently."""
    eos_teacher_logp: float | None = None
    """Mean log-probability (nats) that the teacher gives the student's end of sequence; null where none ended."""
    warnings: tuple[str, ...] = ()
    """What looks wrong in this step, worked out from this line and those before it."""
    seconds_by_rank: dict[str, Spread] | None = None
    """By phase, of each rank's own work, and `wait`: for the others. Null where one process makes the run."""
    drafted: Drafted | None = Field(default=None, exclude_if=lambda one: one is None)
    """With `machine.drafts`: what guesses came to in the step's rollouts; left out without."""
    teachers: dict[str, TeacherMetrics] | None = Field(default=None, exclude_if=lambda some: some is None)
    """Of each of several teachers that had rows in the step; left out where there is one."""


class StopCause(StrEnum):
    """Why a run ended."""

    STEPS = "steps"
    EPOCHS = "epochs"
    WALL_CLOCK = "wall_clock"
    INTERRUPTED = "interrupted"


class LeftOut(Settings):
    """How many of the rows that the filter leaves are not trained on."""

    blank: NonNegativeInt = 0
    """Nothing is asked."""
    too_long: NonNegativeInt = 0
    """Longer than `data.limit_prompt_tokens`, with `data.too_long = "drop"`."""
    unanswered: NonNegativeInt = 0
    """With a task reward: nothing could equal their answer (faults E73)."""

    def __str__(self) -> str:
        """In words; empty when nothing was left out."""
        reasons = {
            "with a blank problem": self.blank,
            "longer than data.limit_prompt_tokens": self.too_long,
            "without an answer that a response could equal": self.unanswered,
        }
        return ", ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count)


class RunSummary(Settings):
    """`run.json`, written once, last: what the run came to."""

    recipe: str
    """Digest of the resolved recipe."""
    data: str
    """SHA-256 of the training file."""
    stop: StopCause
    steps: int
    asked_steps: int
    seconds: float
    """Used, of `max_wall_seconds`; what a killed try used after its last trainer state is not known."""
    max_wall_seconds: float | None
    rows_seen: int
    rows: int
    checkpoints: tuple[str, ...]
    """Names of the folders that were kept, oldest first."""
    machine: dict[str, str]
    """Device, versions and threads."""
    resumed_from: tuple[int, ...] = ()
    """Steps at which the run was taken up again; empty for one that ran in one go."""
    best: tuple[str, ...] = ()
    """Those of `checkpoints` that `save.keep_best` keeps, best first; the opd.json of each has the means."""
    student: str | None = None
    """Digest of the directory that the student began from, as a score of it names it; null in older runs."""
    teacher: str | None = None
    """Digest of the teacher's directory; null where there are several."""
    teachers: dict[str, str] = Field(default={}, exclude_if=lambda some: not some)
    """Of each of several teachers' directories, by its name; left out where there is one."""
    left_out: LeftOut = LeftOut()
    """Rows that were not trained on, by the reason."""
    ungraded: int | None = None
    """Rollouts whose grader failed, over all steps; null without a task reward."""
    notes: tuple[str, ...] = ()
    """What was said before step one."""
    teacher_servers: tuple[TeacherServer, ...] = ()
    """Those that scored, with how each was proven to be the teacher; empty where it was loaded here."""
