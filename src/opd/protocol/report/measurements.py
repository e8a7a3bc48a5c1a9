"""What the exploration measured, in a line each, and what the measurements say of each other."""

from collections.abc import Iterator

from opd.protocol.report.comparing import Pair
from opd.protocol.report.exploring import Measured
from opd.protocol.report.layout import listed
from opd.protocol.report.marks import numbering, unmarked
from opd.protocol.report.pen import Pen, control_of
from opd.protocol.report.story import label
from opd.protocol.report.units import changes_in_words
from opd.records.claims import Form, Ground


def exploration(pen: Pen) -> str:
    """What was explored, and what of it was taken."""
    lines = "\n".join(f"- {one}" for one in measurements(pen))
    return "\n\n".join(filter(None, [course(pen), lines, " ".join(together(pen))]))


def course(pen: Pen) -> str:
    """How long it took, and how much was measured."""
    found = pen.story.explored
    if found is None:
        return "Nothing was explored here."
    metric, count = pen.of(pen.story.contract["proxy"]["metric"], Form.CODE), len(pen.story.measured)
    facts = found.outcome
    if facts is None:
        return "The exploration ended before it had a record of its own."
    used, given = (pen.of(facts[key], Form.DURATION) for key in ("seconds", "given_seconds"))
    said = f"The exploration used {used} of {given}."
    if not count:
        return f"{said} Nothing was measured in it."
    proxies = pen.of(facts["proxies"], Form.WORD)
    checkpoints = "checkpoint" if facts.value["proxies"] == 1 else "checkpoints"
    return (
        f"{said} It measured {proxies} {checkpoints} by {metric}, with errors clustered by question; that number "
        "does not compare with the final's."
    )


def measurements(pen: Pen) -> Iterator[str]:
    """A line for each measurement: what it was, what it scored, what follows."""
    story = pen.story
    for measured in story.explored.measured if story.explored else ():
        yield " ".join(_line(pen, measured))


def _line(pen: Pen, measured: Measured) -> Iterator[str]:
    story = pen.story
    training = measured.training
    steps = f" at step {pen.of(training.step, Form.STEP)}" if training and training.step else ""
    what = changes_in_words(pen, measured)
    if measured.score is None:
        yield f"{pen.unit(measured)}, {what}, has no score: {pen.of(measured.proxy['missing'], Form.TEXT)}."
        return
    cut = pen.of(measured.proxy["cut_short"], Form.PERCENT)
    first = ""
    if measured is story.greatest and len(story.measured) > 1:
        means = [one.proxy["mean"] for one in story.measured if one is not measured]
        word = pen.book.judged("highest", Ground.ORDER, rests_on=[measured.proxy["mean"], *means])
        first = f", the {word} point estimate of the exploration"
    yield f"{pen.unit(measured)}, {what}, scored {pen.score(measured.proxy)}{steps}{first}; {cut} were cut short."
    if measured is story.adopted:
        yield "This is what was handed in."
    control = control_of(pen, measured)
    if control is not None:
        yield pen.tested(control[0], *sides(pen, control[0]))


def sides(pen: Pen, pair: Pair) -> tuple[str, str]:
    """What the measurements of a pair are called, in its order."""
    a, b = (next(one for one in pen.story.measured if label(one) == name) for name in (pair.a, pair.b))
    return pen.unit(a), pen.unit(b)


def together(pen: Pen) -> Iterator[str]:
    """What the measurements say of each other: which can be told apart, and which have no control."""
    yield from _among(pen)
    yield from _uncontrolled(pen)


def _among(pen: Pen) -> Iterator[str]:
    """The measurements of equal steps, in pairs, but for those of a control, which are told elsewhere."""
    story = pen.story
    by_step: dict[object, list[Measured]] = {}
    for one in story.measured:
        if one.training and one.training.step:
            by_step.setdefault(one.training.step.value, []).append(one)
    for group in by_step.values():
        names = {label(one) for one in group}
        pairs = [one for one in pen.compared.of("proxy") if {one.a, one.b} <= names and not one.is_controlled]
        for pair in pairs:
            if pair.apart:
                yield pen.tested(pair, *sides(pen, pair))
        alike = [pair for pair in pairs if not pair.apart]
        if alike:
            yield _alike(pen, group, alike, whole=len(alike) == len(pairs))


def _unit(pen: Pen, name: str) -> str:
    """`U-04`, of the label of a measurement."""
    return numbering(pen.story.unit_of(next(one for one in pen.story.measured if label(one) == name)).id)


def _alike(pen: Pen, group: list[Measured], pairs: list[Pair], *, whole: bool) -> str:
    """That none of these pairs can be told apart, each with its numbers."""
    training = group[0].training
    assert training is not None, "they have steps"
    assert training.step is not None, "and as many"
    involved = [one for one in group if any(label(one) in {pair.a, pair.b} for pair in pairs)]
    who = listed([pen.unit(one) for one in involved])
    said = "; ".join(f"{_unit(pen, pair.b)} less {_unit(pen, pair.a)} {pen.shortly(pair)}" for pair in pairs)
    which = "no pair of them" if whole else "these pairs"
    because = f"{which} {'can' if whole else 'cannot'} be told apart ({said})"
    steps = pen.of(training.step, Form.STEP)
    return pen.book.not_established(f"any difference among {who}, all at step {steps}", because)


def _uncontrolled(pen: Pen) -> Iterator[str]:
    story = pen.story
    base = story.baseline or next(iter(story.measured), None)
    without = [one for one in story.measured if one is not base and not control_of(pen, one)]
    without = [one for one in without if not story.is_given(one)]
    if not without or base is None:
        return
    pairs = [pen.compared.between(label(one), label(base)) for one in without if one is not base]
    found = [pen.why_no_control(pair) for pair in pairs if pair is not None]
    reasons = {unmarked(reason).text: reason for reason in found}  # several may have one
    why = f"; against {pen.unit(base)}, {'; '.join(reasons.values())}" if reasons else ""
    who = listed([pen.unit(one) for one in without])
    none = "has no matched control" if len(without) == 1 else "none of them has a matched control"
    none = f"it {none}" if len(without) == 1 else none
    yield pen.book.not_established(f"that what {who} changed caused any difference", f"{none}{why}")
