"""What a run records of the servers that its teacher stood behind: no address with a secret in it, and no key."""

from collections.abc import Iterable

from pydantic import NonNegativeInt, PositiveInt

from opd.records.settings import Settings


class Agreement(Settings):
    """How far a server's log-probabilities of known tokens lie from the reference's, in nats."""

    tokens: PositiveInt
    mean: float
    """Mean of |server - reference|, the reference in float32 or wider."""
    largest: float
    mean_rounding: float
    """The same between the reference and the same weights in the teacher's dtype: what rounding alone does."""
    largest_rounding: float
    other_text: NonNegativeInt
    """Tokens that the server shows as another text than the tokenizer here."""


class TeacherServer(Settings):
    """One server: what it said of itself, how it was proven, and how it did."""

    url: str
    model: str
    """The name by which it serves the model."""
    version: str | None
    """Of its program, where it says so."""
    limit_tokens: PositiveInt | None
    """Longest sequence that it takes; null where it does not say."""
    agreement: Agreement
    scored: NonNegativeInt = 0
    """Rollouts that were learned from; in a run's record by all ranks and tries."""
    failures: NonNegativeInt = 0
    """Requests that had to be asked again, here or elsewhere."""
    last_failure: str | None = None
    teacher: str | None = None
    """Which of several teachers it serves."""


def put_together(records: Iterable[TeacherServer]) -> tuple[TeacherServer, ...]:
    """One record for each server of a teacher, of several that ranks or tries have of it; the later ones speak."""
    found: dict[tuple[str | None, str], TeacherServer] = {}
    for one in records:
        key = one.teacher, one.url
        if (before := found.get(key)) is not None:
            sums = {"scored": before.scored + one.scored, "failures": before.failures + one.failures}
            one = one.model_copy(update={**sums, "last_failure": one.last_failure or before.last_failure})  # noqa: PLW2901
        found[key] = one
    return tuple(found.values())
