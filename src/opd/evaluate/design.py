"""From what is known of the models to what a paired comparison of them can find.

opd power A                        variances from a score: two models that are about as noisy
opd power A B                      from a pilot: the spread of the true differences as well
opd power --set questions=60 …     from given numbers, or from a printed score (correct and stderr)

A setting that is given wins over what was found. Where the spread ω² of the true differences is not known, there is a
row for each of several.
"""

import math
from dataclasses import dataclass
from typing import Annotated, TypeVar

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from opd.evaluate.results import Results
from opd.evaluate.statistics.estimates import VarianceParts, sampling_variances, variance_parts
from opd.evaluate.statistics.paired import paired_difference
from opd.evaluate.statistics.power import (
    PairedDesign,
    detectable_difference,
    power_at,
    questions_needed,
    samples_needed,
)
from opd.evaluate.statistics.printed import Printed
from opd.evaluate.statistics.sequential import Boundary, boundaries
from opd.records.errors import AskedWrongly
from opd.records.power_report import PowerReport, PowerRow
from opd.records.settings import Settings

SPREADS = (0.0, 0.005, 0.01, 0.02)  # of the true differences, where nothing is known: from none to much

Share = Annotated[float, Field(gt=0, lt=1)]
Number = TypeVar("Number", int, float)


class Design(Settings):
    """What `opd power` is asked."""

    questions: PositiveInt | None = None
    """How many there will be; else as many as the score has."""
    samples: PositiveInt | None = None
    """Of each question, for A, and for B as well unless `samples_b` says otherwise."""
    samples_b: PositiveInt | None = None
    """Of each question, for B."""
    within: Annotated[float, Field(ge=0, le=0.25)] | None = None
    """Variance of one sample around its question's mean, averaged over questions: W; for B as well unless
    `within_b` says otherwise."""
    within_b: Annotated[float, Field(ge=0, le=0.25)] | None = None
    """The same of B."""
    true_spread: NonNegativeFloat | None = None
    """Variance of the true per-question differences: ω²."""
    difference: PositiveFloat | None = None
    """A true difference that should be found."""
    alpha: Share = 0.05
    """Of a two-sided test."""
    power: Share = 0.8
    """Chance to find the difference."""
    candidates: PositiveInt = 1
    """Models that are compared with A; each may spend an equal part of alpha."""
    looks: Annotated[int, Field(ge=1, le=20)] = 1
    """Times that one looks while the results come in, equally spaced."""
    correct: NonNegativeInt | None = None
    """Of a printed score with `questions`, `samples` and `stderr`: how many samples are right."""
    stderr: PositiveFloat | None = None
    """Of a printed score: its clustered error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What is known before anything is asked; None where it is not."""

    source: str
    questions: int | None = None
    samples: tuple[int | None, int | None] = (None, None)
    within: tuple[float | None, float | None] = (None, None)
    between: float | None = None
    true_spread: float | None = None
    notes: tuple[str, ...] = ()


def plan_power(asked: Design, a: Results | None = None, b: Results | None = None) -> PowerReport:
    """The answer; `AskedWrongly` names the number that is missing."""
    known = _known(asked, a, b)
    questions = _given(asked.questions, known.questions, name="questions")
    samples_a = _given(asked.samples, known.samples[0], name="samples")
    samples_b = asked.samples_b or asked.samples or known.samples[1] or samples_a
    within_a = _given(asked.within, known.within[0], name="within")
    within_b = _first(asked.within_b, asked.within, known.within[1], within_a)
    spread = asked.true_spread if asked.true_spread is not None else known.true_spread
    alpha = asked.alpha / asked.candidates
    rows = []
    for one in SPREADS if spread is None else (spread,):
        design = PairedDesign(
            true_spread=one, within_a=within_a, within_b=within_b, samples_a=samples_a, samples_b=samples_b
        )
        rows.append(_row(design, asked, questions=questions, alpha=alpha))
    return PowerReport(
        source=known.source,
        questions=questions,
        samples_a=samples_a,
        samples_b=samples_b,
        within_a=within_a,
        within_b=within_b,
        alpha=asked.alpha,
        alpha_each=alpha,
        power=asked.power,
        candidates=asked.candidates,
        difference=asked.difference,
        rows=tuple(rows),
        unpaired_detectable=_unpaired(
            known.between,
            within_a / samples_a + within_b / samples_b,
            questions=questions,
            alpha=alpha,
            power=asked.power,
        ),
        pocock=_boundaries(asked.looks, alpha, Boundary.POCOCK),
        obrien_fleming=_boundaries(asked.looks, alpha, Boundary.OBRIEN_FLEMING),
        notes=known.notes,
    )


def _known(asked: Design, a: Results | None, b: Results | None) -> _Known:
    is_printed = asked.correct is not None or asked.stderr is not None
    if a is None:
        return _of_printed(asked) if is_printed else _Known(source="given numbers")
    if is_printed:
        raise AskedWrongly(f"correct and stderr describe a printed score, and {a.name} is one; give one of the two")
    return _of_score(a) if b is None else _of_pilot(a, b)


def _of_score(a: Results) -> _Known:
    """Two models as noisy as this one; a single sample of a question does not show how noisy that is."""
    samples = _samples(a)
    parts = variance_parts(a.counts)
    if parts is None:
        return _Known(source=a.name, questions=a.counts.questions, samples=(samples, samples))
    return _Known(
        source=a.name,
        questions=a.counts.questions,
        samples=(samples, samples),
        within=(parts.within, parts.within),
        between=max(0.0, parts.between),
    )


def _of_pilot(a: Results, b: Results) -> _Known:
    if a.questions != b.questions:
        raise AskedWrongly(f"{a.name} and {b.name} have different questions; a pilot is of the same ones")
    pair = paired_difference(a.counts, b.counts)
    source, samples = f"{a.name}, {b.name}", (_samples(a), _samples(b))
    if pair.stderr is None:
        raise AskedWrongly(f"{source}: one question does not show how much questions differ; a pilot needs two")
    within = _within(a), _within(b)
    parts = [part.between for part in (variance_parts(a.counts), variance_parts(b.counts)) if part]
    if pair.true_spread is None or None in within:
        return _Known(
            source=source,
            questions=pair.questions,
            samples=samples,
            within=(0.0, 0.0),
            true_spread=pair.stderr**2 * pair.questions,
            notes=(_UNSPLIT,),
        )
    negative = (_NEGATIVE.format(pair.true_spread),) if pair.true_spread < 0 else ()
    return _Known(
        source=source,
        questions=pair.questions,
        samples=samples,
        within=within,
        between=max(0.0, sum(parts) / len(parts)),
        true_spread=max(0.0, pair.true_spread),
        notes=negative,
    )


_UNSPLIT = (
    "With a single sample of a question, sampling noise can't be told from the spread of the true differences: all "
    "of it counts as spread, and what more samples would buy is not known."
)
_NEGATIVE = "The pilot's estimate of ω² is {:.4f}, below zero by chance, and 0 is taken: the most favourable case."


def _of_printed(asked: Design) -> _Known:
    if asked.questions is None or asked.samples is None or asked.correct is None or asked.stderr is None:
        raise AskedWrongly("a printed score has correct and stderr; give both, with questions and samples")
    digits = max(4, len(str(asked.stderr).partition(".")[2]))
    printed = Printed(
        questions=asked.questions,
        samples_per_question=asked.samples,
        correct=asked.correct,
        stderr=asked.stderr,
        digits=digits,
    )
    squares = printed.sums_of_squares() if asked.samples > 1 and asked.questions > 1 else ()
    if not squares:
        raise AskedWrongly(
            f"correct = {asked.correct}, stderr = {asked.stderr}: no counts of {asked.questions} questions with "
            f"{asked.samples} samples each have this mean and this error; one was printed wrongly"
        )
    parts: VarianceParts = printed.variance_parts(squares[len(squares) // 2])
    return _Known(
        source=f"a printed score, {asked.correct} of {asked.questions * asked.samples} ± {asked.stderr}",
        questions=asked.questions,
        samples=(asked.samples, asked.samples),
        within=(parts.within, parts.within),
        between=max(0.0, parts.between),
    )


def _samples(of: Results) -> int:
    samples = of.counts.samples_per_question
    if samples is None:
        raise AskedWrongly(f"{of.name} has different numbers of samples for its questions; give the numbers by --set")
    return samples


def _within(of: Results) -> float | None:
    """W: K times the mean variance of a question's mean over other seeds; None for single samples."""
    variances = sampling_variances(of.counts)
    return None if variances is None else float(sum(variances) * _samples(of) / of.counts.questions)


def _row(design: PairedDesign, asked: Design, *, questions: int, alpha: float) -> PowerRow:
    stderr = design.stderr(questions)
    detectable = detectable_difference(stderr, alpha=alpha, power=asked.power)
    row = PowerRow(
        true_spread=design.true_spread,
        stderr=stderr,
        detectable=detectable,
        detectable_samples=detectable * questions * design.samples_a,
        power_at_difference=None,
        questions_needed=None,
        samples_needed=None,
    )
    if asked.difference is None or not stderr:  # where nothing varies there is nothing to plan
        return row
    aim = {"alpha": alpha, "power": asked.power}
    splits = bool(design.within_a + design.within_b)
    found = {
        "power_at_difference": power_at(asked.difference, stderr=stderr, alpha=alpha),
        "questions_needed": questions_needed(asked.difference, design=design, **aim),
        "samples_needed": samples_needed(asked.difference, questions=questions, design=design, **aim)
        if splits
        else None,
    }
    return row.model_copy(update=found)


def _unpaired(between: float | None, noise: float, *, questions: int, alpha: float, power: float) -> float | None:
    """As if the two were scored on different questions: the spread between questions counts twice."""
    if between is None:
        return None
    return detectable_difference(math.sqrt((2 * between + noise) / questions), alpha=alpha, power=power)


def _boundaries(looks: int, alpha: float, shape: Boundary) -> tuple[float, ...]:
    return boundaries(looks, alpha=alpha, shape=shape) if looks > 1 else ()


def _given(asked: Number | None, found: Number | None, *, name: str) -> Number:
    value = asked if asked is not None else found
    if value is None:
        raise AskedWrongly(f"{name} is not known; give it by --set {name}=…, or a score to read it from")
    return value


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)
