"""The facts of the document's case: one exploration, two formal tries of one patch, three finals.

`Facts()` are the document's own values. A test changes one, and everything that follows from it is laid out anew:
`Facts(pipeline_seconds=4_000)`. What the document does not say is made up, and marked so here; NOT_REPRESENTED lists
what it says and the files here don't.

Seconds of the exploration are counted from the start of the explorer's program.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

CASE = "claude-code__opd_math_1p5b__claude-sonnet-5__xhigh"
PARAMETERS = 1_777_088_000
TRAINING_ROWS = 15_285

NOT_REPRESENTED = (
    "its digests, of patch, data and models: every digest here is that of the file that stands in",
    "its two names for one thing: it calls formal try 2 `exploration attempt 2`; here there is one exploration",
    "a day: it gives the hours alone, 13:08 to 16:13 UTC; the day here is made up",
    "reading and baseline in about 27 minutes: here 29.5, or they would be the shortest pipeline, for 1,759 s",
    "the two variants of the objective are settings here, where its explorer changed source",
    "clip rates beyond the baseline's, tokens, formal times of day, and seconds of the finals: made up",
)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A short training of the exploration, measured by the proxy: 500 questions × 4."""

    name: str
    """Of its run's folder."""
    steps: int
    correct: int
    stderr: float
    """As printed, clustered by question."""
    cut_short: float
    settings: tuple[str, ...] = ()
    """Beside the recipe's."""
    note: str = ""
    """What the explorer said with it."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A checkpoint of the formal run, by the final: 60 questions × 32."""

    step: int
    correct: int
    stderr: float
    """As printed, clustered by question."""
    cut_short: float  # made up


BASELINE = Measured(
    name="baseline", steps=12, correct=1_629, stderr=0.014452, cut_short=0.1105,
    note="baseline: the shipped update, 12 steps, to see that everything runs",
)  # fmt: skip
REWARD = Measured(
    name="reward", steps=40, correct=1_669, stderr=0.014102, cut_short=0.0860, settings=("reward.weight=1.0",),
    note="answer correctness added to k1, 40 steps",
)  # fmt: skip
TOP16 = Measured(
    name="top16-fkl", steps=40, correct=1_664, stderr=0.014123, cut_short=0.0895,
    settings=('objective.name="topk_forward_kl"', "objective.k=16"),
    note="direct top-16 forward KL instead of the policy gradient, 40 steps",
)  # fmt: skip
SHUFFLE = Measured(
    name="shuffle", steps=40, correct=1_659, stderr=0.014388, cut_short=0.0925,
    note="seed-42 shuffle of the training rows, nothing else, 40 steps",
)  # fmt: skip
CONTROL = Measured(
    name="control", steps=40, correct=1_657, stderr=0.014390, cut_short=0.0930,
    settings=("data.shuffle=false",), note="matched control: the shipped update unshuffled, 40 steps",
)  # fmt: skip
"""What the document's explorer did not train. A score near the shuffle's; a test may give another."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What happened."""

    # who
    model: str = "claude-sonnet-5"
    effort: str = "xhigh"
    harness_version: str = "2.1.220 (Claude Code)"

    # exploration
    began_utc: str = "2026-07-14T13:08:00+00:00"  # the day is made up
    remaining_seconds: float = 3_289.0
    pipeline_seconds: float = 1_759.0
    """A 40-step training with its full measurement."""
    proxy_seconds: float = 672.52
    measured: tuple[Measured, ...] = (BASELINE, REWARD, TOP16, SHUFFLE)
    control: Measured | None = None
    """A matched control after the shuffle: out of the time that is left."""
    idle_at_submission: bool = True
    """Whether the device did nothing in the last minutes."""
    probe_seconds: float = 240.0
    probe_step: int = 6
    long_asked: int = 110
    long_stopped: int = 63
    long_export: int = 55
    leaked: int | None = None
    """Number of a final question whose text stands in a tool's result, 0 to 59; None: none does."""
    note: str = "deterministic seed-42 shuffle of the training rows; objective, optimizer and horizon as shipped"
    """What the explorer said when it submitted."""

    # formal
    first_try_errno: int | None = 70
    """What the first formal try failed of, on the shared file system; None: there was no such try."""
    first_try_step: int = 540
    formal_given_seconds: float = 43_200.0
    formal_seconds: float = 41_701.93
    stop: str = "wall_clock"
    last_step: int = 2_106
    control_file: bool = True
    """The harness's own, left at "running" beside the terminal words."""
    formal_only_manifest: bool = True
    """That says of its own score phase that it was not created."""

    # final
    checkpoints: tuple[Checkpoint, ...] = (
        Checkpoint(step=2_080, correct=806, stderr=0.052541, cut_short=0.1844),
        Checkpoint(step=2_100, correct=809, stderr=0.051593, cut_short=0.1813),
        Checkpoint(step=2_106, correct=793, stderr=0.052286, cut_short=0.1870),
    )
    final_seconds: float = 5_460.0  # of each; made up

    @property
    def began(self) -> float:
        """Seconds since 1970 at the start of the explorer's program."""
        return datetime.fromisoformat(self.began_utc).astimezone(UTC).timestamp()

    @property
    def trained(self) -> tuple[Measured, ...]:
        """Everything that was measured, in order."""
        return (*self.measured, *([self.control] if self.control else []))

    @property
    def left_seconds(self) -> float:
        """Of the budget, at the submission."""
        return self.remaining_seconds - (self.pipeline_seconds if self.control else 0.0)

    @property
    def formal_try(self) -> str:
        """The name of the formal try that counts."""
        return "formal/attempt-002" if self.first_try_errno is not None else "formal/attempt-001"
