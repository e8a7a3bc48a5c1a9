"""What a unit's result can and can't say, and what became of it."""

from collections.abc import Iterator

from opd.protocol.report.audited import of_the_note
from opd.protocol.report.exploring import Measured, Unit
from opd.protocol.report.layout import listed
from opd.protocol.report.pen import Pen, control_of
from opd.protocol.report.saying import decision as decided
from opd.protocol.report.story import label
from opd.records.claims import Form


def assessment(pen: Pen, unit: Unit) -> Iterator[str]:
    """What the result can say, and what it can't."""
    measured = unit.measured
    if measured is None:
        yield "That it ran is evidence that it can run. Without a measurement it says nothing of the score."
        return
    if measured.score is None:
        yield "Without a score there is nothing to compare."
        return
    control = control_of(pen, measured)
    yield from _of_control(pen, measured, control[1] if control else None)
    yield from _of_seeds(pen, measured)
    yield from _of_references(pen, measured)


def _of_control(pen: Pen, measured: Measured, control: Measured | None) -> Iterator[str]:
    story = pen.story
    if story.baseline is measured:
        yield "It is what the others are held against, each as far as its steps allow."
        return
    if control is not None:
        pair = pen.compared.between(label(measured), label(control))
        assert pair is not None, "a control comes with its pair"
        yield f"{pen.unit(control)} is its matched control: they differ in {pen.differing(pair.match)} alone."
        yield _between(pen, measured, control)
        yield "A single training stands behind each, so the difference is one between a pair of trainings."
        return
    base = story.baseline or next(iter(story.measured))
    pair = pen.compared.between(label(measured), label(base)) if base is not measured else None
    if pair is None:
        yield pen.book.not_established("that anything came of the change", "there is nothing to hold it against")
        return
    yield f"No measurement is a matched control of it; {pen.unit(base)} is none, since {pen.why_no_control(pair)}."
    yield _between(pen, measured, base)
    yield pen.book.not_established("that the change caused a difference", "there is no matched control")


def _between(pen: Pen, one: Measured, other: Measured) -> str:
    pair = pen.compared.between(label(one), label(other))
    if pair is None:
        return pen.book.not_established("how the two compare", "no test was made of them")
    a, b = (next(each for each in pen.story.measured if label(each) == name) for name in (pair.a, pair.b))
    return pen.tested(pair, pen.proxy(a), pen.proxy(b))


def _of_seeds(pen: Pen, measured: Measured) -> Iterator[str]:
    same = [
        other
        for other in pen.story.measured
        if other is not measured and pen.story.match(label(measured), label(other)).is_repetition
    ]
    if same:
        yield f"With another seed the same was measured as {listed([pen.unit(one) for one in same])}."
    else:
        yield "No second seed of it was measured."


def _of_references(pen: Pen, measured: Measured) -> Iterator[str]:
    for reference in pen.story.references("proxy"):
        name = pen.of(reference.fact["name"], Form.TEXT)
        yield (
            f"Against the declared reference “{name}”, {pen.reference(reference)}: "
            f"{pen.against(measured.proxy, reference)}; its questions' records are not here, so no test is made."
        )


def decision(pen: Pen, unit: Unit) -> Iterator[str]:
    """What became of it."""
    story = pen.story
    if unit.measured is None:
        yield _ending(pen)
        return
    if story.submission is None:
        yield "Nothing was handed in."
    elif story.adopted is unit.measured:
        yield "Handed in: the source that was measured here is, digest for digest, the one that was submitted."
        yield from _in_its_words(pen)
    elif story.adopted is not None or unit.measured.proxy.get("workspace"):
        yield "Not handed in as it was measured here."
    else:
        yield "Whether this is what was handed in can't be told: the source at that time is not on record."
    if story.explored and unit is story.explored.units[-1]:
        yield _ending(pen)


def _in_its_words(pen: Pen) -> Iterator[str]:
    story = pen.story
    if story.submission and (note := story.submission.get("note")):
        yield f"The explorer submitted it as “{pen.of(note, Form.TEXT)}”."
        yield of_the_note(pen)
    said = decided(story.explored.said) if story.explored else ()
    if said:
        yield f"With the submission it said:\n\n{pen.quotes(said)}\n\n"


def _ending(pen: Pen) -> str:
    story = pen.story
    assert story.explored is not None, "a unit is one of an exploration"
    if story.submission is None:
        receipt = story.explored.receipt
        because = f" ({pen.of(receipt['because'], Form.TEXT)})" if receipt.get("because") else ""
        return f"The exploration ended as {pen.of(receipt['outcome'], Form.CODE)}{because}, without a submission."
    left = story.left
    return f"The exploration ended by a submission, with {pen.of(left, Form.WHOLE)} s left." if left else ""
