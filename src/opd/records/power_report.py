"""What `opd power` answers: what a paired comparison can find, and what more questions or samples would buy."""

from opd.records.settings import Settings


class PowerRow(Settings):
    """The answer for one true spread of the per-question differences."""

    true_spread: float
    """ω²; 0 is the most favourable case: every question gains alike."""
    stderr: float
    """Of the difference, for questions like these."""
    detectable: float
    """Smallest true difference that is found with the power asked for."""
    detectable_samples: float
    """The same in correct samples: detectable × questions × samples of A."""
    power_at_difference: float | None
    """Chance to find the difference asked for; null where none was, and where nothing varies."""
    questions_needed: int | None
    """So many questions of the same numbers of samples find it; null as above."""
    samples_needed: int | None
    """So many samples of each question and model find it; null also where no number does."""


class PowerReport(Settings):
    """The design, and a row for each spread."""

    source: str
    """Where the variances are from."""
    questions: int
    samples_a: int
    samples_b: int
    within_a: float
    """W: variance of one sample around its question's mean, averaged over questions; 0 where it is in the spread."""
    within_b: float
    alpha: float
    alpha_each: float
    """What a single comparison may spend of it, with so many candidates."""
    power: float
    candidates: int
    difference: float | None
    rows: tuple[PowerRow, ...]
    """One for a known spread; else for several, the most favourable first."""
    unpaired_detectable: float | None
    """Smallest true difference without pairing; null where the spread between questions is not known."""
    pocock: tuple[float, ...]
    """|z| to pass at each of so many looks; empty for one."""
    obrien_fleming: tuple[float, ...]
    notes: tuple[str, ...]
