"""Can two scores be told apart? Paired by question, in numbers and in words.

Two claims are kept apart. "On questions like these" takes the questions for a draw, and is what the interval, p
and `distinguishable` are about; "on exactly these questions" takes them as they are, so that only the sampling
noise counts, and is what `distinguishable_fixed_questions` is about. That two scores cannot be told apart is an
answer, and never means that they are equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from opd.evaluate.code import CODE, shortened
from opd.evaluate.results import Results
from opd.evaluate.statistics.paired import PairedDifference, paired_difference
from opd.evaluate.statistics.power import detectable_difference
from opd.evaluate.statistics.several import holm
from opd.records.errors import AskedWrongly
from opd.records.scores import Comparison, Protocol

ALPHA = 0.05


def compare(a: Results, b: Results) -> Comparison:
    """B against A, paired by question.

    Raises `AskedWrongly` where their protocols or their questions are not the same.
    """
    return compare_each(a, [b])[0]


def compare_each(a: Results, others: Sequence[Results]) -> tuple[Comparison, ...]:
    """Each of the others against A; `p_holm` and the verdicts are adjusted for there being several."""
    return compare_pairs([(a, other) for other in others])


def compare_pairs(pairs: Sequence[tuple[Results, Results]]) -> tuple[Comparison, ...]:
    """B against A of each pair, as one family: `p_holm` and the verdicts are adjusted for all of them.

    Raises `AskedWrongly` where the protocols or the questions of two are not the same.
    """
    for a, b in pairs:
        _refuse_other_protocol(a, b)
        _refuse_other_questions(a, b)
    found = [paired_difference(a.counts, b.counts) for a, b in pairs]
    adjusted = _holm([pair.p_decisive for pair in found])
    adjusted_fixed = _holm([pair.p_fixed_questions for pair in found])
    return tuple(
        _comparison(_Finding(a=a, b=b, pair=pair, p=p, p_fixed=p_fixed, family=len(pairs)))
        for (a, b), pair, p, p_fixed in zip(pairs, found, adjusted, adjusted_fixed, strict=True)
    )


def led_by(results: Sequence[Results], first: int) -> list[tuple[Results, Results]]:
    """The pairs of each of so many first ones with all that come after it, in that order."""
    return [(a, b) for place, a in enumerate(results[:first], start=1) for b in results[place:]]


def protocol_differences(a: Protocol, b: Protocol) -> tuple[str, ...]:
    """What differs, field by field, with both values: "limit_tokens: 96 v 64"."""
    values_a, values_b = a.resolved(), b.resolved()
    return tuple(
        f"{field}: {_shown(values_a[field])} v {_shown(values_b[field])}"
        for field in values_a
        if values_a[field] != values_b[field]
    )


def notes_on(a: Results, b: Results) -> tuple[str, ...]:
    """What the numbers don't say: which samples could not be verified, and how else the two were computed."""
    return (*(note for one in (a, b) for note in _unverified(one)), *_machine_notes(a, b))


def _unverified(one: Results) -> tuple[str, ...]:
    if not one.unverified:
        return ()
    return (f"{one.name} is a score of an earlier version without a digest of its samples: they are unverified.",)


def _machine_notes(a: Results, b: Results) -> tuple[str, ...]:
    """What differs in how two scores were computed, as far as both say: it is part of their difference."""
    notes = []
    kinds = a.machine.get("dtype"), b.machine.get("dtype")
    if None not in kinds and kinds[0] != kinds[1]:
        notes.append(
            f"{a.name} was run in {kinds[0]} and {b.name} in {kinds[1]}: rounding alone draws other samples, so the "
            "difference is not of the models alone. Evaluate both in one dtype (--set machine.dtype=…)."
        )
    others = [
        f"{key} ({_of_machine(a, key)} v {_of_machine(b, key)})"
        for key in _SHOWN_OF_MACHINE
        if key in a.machine and key in b.machine and a.machine[key] != b.machine[key]
    ]
    if others:
        notes.append(f"{a.name} and {b.name} ran with another {', '.join(others)}.")
    return tuple(notes)


def _of_machine(results: Results, key: str) -> str:
    return shortened(results.machine[key]) if key == CODE else results.machine[key]


_SHOWN_OF_MACHINE = ("device", "name", "sampler", "largest_batch", "opd", CODE, "torch", "transformers")


def _refuse_other_protocol(a: Results, b: Results) -> None:
    if a.protocol is None or b.protocol is None or a.protocol == b.protocol:
        return
    raise AskedWrongly(
        f"{a.name} and {b.name} were scored under different protocols, so their scores don't compare: "
        + "; ".join(protocol_differences(a.protocol, b.protocol))
    )


def _refuse_other_questions(a: Results, b: Results) -> None:
    for one, other in ((a, b), (b, a)):
        alone = sorted(set(one.questions) - set(other.questions))
        if alone:
            raise AskedWrongly(
                f"{len(alone)} of the {len(one.questions)} questions of {one.name} are not among the "
                f"{len(other.questions)} of {other.name}, {alone[0]!r} for one; a pairing needs the same questions"
            )


def _holm(ps: Sequence[float | None]) -> tuple[float | None, ...]:
    """Holm over the family; a member whose p is undefined counts as one, and stays undefined."""
    adjusted = holm([1.0 if p is None else p for p in ps])
    return tuple(None if p is None else better for p, better in zip(ps, adjusted, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    """One pair with its p values after Holm; alone in its family they are the plain ones."""

    a: Results
    b: Results
    pair: PairedDifference
    p: float | None
    p_fixed: float | None
    family: int  # pairs that were tested together

    @property
    def distinguishable(self) -> bool | None:
        return None if self.p is None else self.p < ALPHA

    @property
    def distinguishable_fixed(self) -> bool | None:
        return None if self.p_fixed is None else self.p_fixed < ALPHA


def _comparison(finding: _Finding) -> Comparison:
    a, b, pair = finding.a, finding.b, finding.pair
    mean_a, mean_b = (float(sum(one.counts.question_means()) / pair.questions) for one in (a, b))
    return Comparison(
        a=a.name,
        b=b.name,
        mean_a=mean_a,
        mean_b=mean_b,
        difference=pair.difference,
        stderr=pair.stderr,
        stderr_fixed_questions=pair.stderr_fixed_questions,
        ci95=pair.ci95,
        p=pair.p,
        p_permutation=pair.flips.p,
        permutations_drawn=pair.flips.draws,
        p_fixed_questions=pair.p_fixed_questions,
        p_holm=finding.p if finding.family > 1 else None,
        true_spread=pair.true_spread,
        detectable=_detectable(pair),
        distinguishable=finding.distinguishable,
        distinguishable_fixed_questions=finding.distinguishable_fixed,
        questions=pair.questions,
        samples_a=a.counts.total_samples,
        samples_b=b.counts.total_samples,
        verdict=" ".join(filter(None, (_like_these(finding), _caution(finding), _exactly_these(finding)))),
        notes=notes_on(a, b),
    )


def _detectable(pair: PairedDifference) -> float | None:
    return detectable_difference(pair.stderr, alpha=ALPHA) if pair.stderr else None


def _like_these(finding: _Finding) -> str:
    """The answer, its direction and its numbers."""
    a, b = finding.a.name, finding.b.name
    if finding.distinguishable is None:
        return f"One question can't tell {b} from {a}: how much questions differ is unknown."
    if finding.distinguishable:
        word = "better" if finding.pair.difference > 0 else "worse"
        return f"{b} is {word} than {a} on questions like these: {_numbers(finding)}."
    return f"{b} cannot be told apart from {a} on questions like these: {_numbers(finding)}."


def _numbers(finding: _Finding) -> str:
    pair = finding.pair
    drawn = "" if pair.flips.draws is None else f" in {pair.flips.draws:,} draws"
    flips = f"{_p(pair.flips.p)} by sign flips{drawn}"
    holm_note = f", {_p(finding.p)} after Holm over {finding.family}" if finding.family > 1 else ""
    if pair.p is None or pair.ci95 is None:
        every = "no question differs" if not pair.difference else "every question differs by the same"
        return f"{pair.difference:+.4f}, {every}, {flips}{holm_note}"
    low, high = pair.ci95
    return f"{pair.difference:+.4f}, 95 % interval {low:+.4f} to {high:+.4f}, {_p(pair.p)} by t, {flips}{holm_note}"


def _caution(finding: _Finding) -> str:
    """What the answer must not be taken for."""
    pair, detectable = finding.pair, _detectable(finding.pair)
    if finding.distinguishable is None or detectable is None:
        return ""
    if not finding.distinguishable:
        return f"A true difference has to reach {detectable:.4f} to be found here four times in five."
    if abs(pair.difference) < detectable:
        return (
            f"It is smaller than the {detectable:.4f} that is found here four times in five, "
            "so its size is probably overstated."
        )
    return ""


def _exactly_these(finding: _Finding) -> str:
    """The other reading."""
    error, p = finding.pair.stderr_fixed_questions, finding.p_fixed
    these = f"On exactly these {finding.pair.questions} questions"
    if error is None:
        return f"{these} a single sample of a question does not show how much sampling noise there is."
    if p is None:
        return f"{these} there was no sampling noise: every sample of a question came out alike."
    noise = f"{these}, where only the sampling noise (error {error:.4f}) counts,"
    if p < ALPHA:
        word = "better" if finding.pair.difference > 0 else "worse"
        return f"{noise} {finding.b.name} is {word} ({_p(p)})."
    either = "" if finding.distinguishable else " either"
    return f"{noise} they cannot be told apart{either} ({_p(p)})."


def _p(p: float | None) -> str:
    if p is None:
        return "p undefined"
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.2g}"


def _shown(value: Any) -> str:
    """A value on one line, cut in the middle of nothing that matters: its beginning, and how long it is."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:45]}… ({len(text)} characters)"
