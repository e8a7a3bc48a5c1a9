"""The formal run's checkpoints: whether they are valid, what they scored, and what that is set beside."""

from collections.abc import Iterator

from opd.protocol.report import marks
from opd.protocol.report.layout import table
from opd.protocol.report.pen import Pen
from opd.protocol.report.sources import Fact
from opd.protocol.report.story import Attempted, FinalRun
from opd.records.claims import Form, Ground

_SEVERAL = 3  # finals, from which on `opd compare` says what a choice is worth


def finals(pen: Pen) -> Iterator[str]:
    """Tables of both, and what follows from them."""
    story = pen.story
    if story.validations:
        rows = [_validated(pen, one) for one in story.validations]
        yield table(("Checkpoint", "Validation", "Parameters", "Logits"), rows)
    if not story.scored:
        return
    yield table(
        ("Checkpoint", "Correct", "Score ± clustered error", "Error if independent", "Design effect", "Cut short"),
        [_scored(pen, one) for one in story.scored],
    )
    yield official(pen)
    yield from references(pen)
    yield from _endpoint(pen)
    yield from _selection(pen)


def _validated(pen: Pen, one: Attempted) -> tuple[str, ...]:
    assert one.step is not None, "a validation is about a step"
    loaded = one.outcome.get("loaded") if one.outcome else None
    parameters = pen.of(loaded["parameters"], Form.INTEGER) if loaded and loaded.get("parameters") else "not loaded"
    finite = "finite" if loaded and loaded.value["finite_logits"] else "not known to be finite"
    return f"step {pen.of(one.step, Form.STEP)}", pen.of(one.receipt["outcome"], Form.CODE), parameters, finite


def _scored(pen: Pen, one: FinalRun) -> tuple[str, ...]:
    record, score = one.tried.outcome, one.score
    assert record is not None, "what has a score has a record"
    assert score is not None, "and the score itself"
    error = f" ± {pen.of(record['stderr'], Form.ERROR)}" if record.get("stderr") else ""
    naive = pen.of(score["stderr_naive"], Form.ERROR) if score.get("stderr_naive") else "undefined"
    design = pen.of(score["design_effect"], Form.MULTIPLE) if score.get("design_effect") else "undefined"
    mark = " (official)" if one is pen.story.official else ""
    return (
        f"{pen.step(one)}{mark}",
        f"{pen.of(record['correct'], Form.INTEGER)}/{pen.of(record['samples'], Form.INTEGER)}",
        f"{pen.of(record['mean'], Form.MEAN)}{error}",
        naive,
        design,
        pen.of(record["cut_short"], Form.PERCENT) if record.get("cut_short") is not None else "undefined",
    )


def official(pen: Pen) -> str:
    """The official result in a sentence."""
    story = pen.story
    if story.official is None or story.official.tried.outcome is None:
        return missing(pen)
    record = story.official.tried.outcome
    metric = pen.of(story.contract["final"]["metric"], Form.CODE)
    rule = story.contract["artifacts"]["official"]
    chosen = ""
    if len(story.scored) > 1:
        means = [one.tried.outcome["mean"] for one in story.scored if one.tried.outcome and one is not story.official]
        best = pen.book.judged("best", Ground.RULE, rests_on=[rule])
        greatest = pen.book.judged("greatest", Ground.ORDER, rests_on=[record["mean"], *means])
        chosen = f", the {best} of the valid checkpoints by the task's rule: the {greatest} of their scores"
    return f"The official result is {metric} {pen.score(record)} at {pen.step(story.official)}{chosen}."


def references(pen: Pen) -> Iterator[str]:
    """The official result beside each published number of the same measure: arithmetic, and what it can't say."""
    story = pen.story
    if story.official is None or story.official.tried.outcome is None:
        return
    record = story.official.tried.outcome
    for reference in story.references("final"):
        name = pen.of(reference.fact["name"], Form.TEXT)
        yield (
            f"Against “{name}”, declared as {pen.reference(reference)}: {pen.against(record, reference)}"
            f"{_in_errors(pen, record, reference.fact)}."
        )
        if not reference.is_start:
            yield pen.book.not_established(
                f"that the result is better or worse than “{name}”, or that there is no regression against it",
                "the task declares a number for it and no records of its questions, so no paired test can be made",
            )


def _in_errors(pen: Pen, record: Fact, reference: Fact) -> str:
    """How large the difference is beside the errors, of both where both have one: for the reader, and no test."""
    error, other = record.get("stderr"), reference.get("stderr")
    if not error or not error.value:
        return ""
    mine, published = record["mean"], reference["score"]
    if mine.value == published.value:
        return ""
    if other and other.value:
        over = {"mine": mine, "published": published, "error": error, "other": other}
        z = pen.book.computed("(mine - published) / sqrt(error * error + other * other)", Form.NUMBER, **over)
        return f" (unpaired z {z}, of both clustered errors)"
    larger, smaller = (mine, published) if mine.value >= published.value else (published, mine)
    times = pen.book.computed("(a - b) / error", Form.NUMBER, a=larger, b=smaller, error=error)
    return f" by {times} of the result's own clustered errors (the reference has none of its own)"


def _endpoint(pen: Pen) -> Iterator[str]:
    """Whether the last checkpoint is the one that counts, and what follows where it isn't."""
    story = pen.story
    official, last = story.official, max(story.scored, key=lambda one: one.tried.number, default=None)
    if official is None or last is None or last is official:
        return
    assert official.tried.outcome is not None, "it has a score"
    assert last.tried.outcome is not None, "and so has the last"
    difference = pen.book.computed(
        "b - a", Form.SIGNED_INTEGER, a=official.tried.outcome["correct"], b=last.tried.outcome["correct"]
    )
    if pen.book.value(difference) < 0:
        below = pen.book.judged("below", Ground.ORDER, rests_on=[difference])
        steps = pen.step(last), pen.step(official)
        yield f"The last checkpoint, {steps[0]}, lies {below} {steps[1]}: {difference} correct answers."
    pair = pen.compared.between(official.label, last.label)
    if pair is not None:
        first, second = sorted((official, last), key=lambda one: one.label != pair.a)
        yield pen.tested(pair, pen.step(first), pen.step(second))
        if not pair.apart:
            because = "a nonmonotonic end within the noise is no collapse, and shows none"
            yield pen.book.not_established("that the training collapsed or got worse at its end", because)


def _selection(pen: Pen) -> Iterator[str]:
    """What being the greatest of several correlated scores is worth."""
    selection = pen.compared.selection
    if selection is None or len(pen.story.scored) < _SEVERAL:
        return
    candidates, bonus = pen.of(selection["candidates"], Form.WORD), pen.of(selection["expected_bonus"], Form.ROUNDED)
    most = pen.of(pen.story.contract["artifacts"]["most"], Form.WORD)
    yield (
        f"The official score is the one that was chosen of at most {most}, and so is a little too high: of "
        f"{candidates} equally good checkpoints the chosen one is expected to score {bonus} too much by the choice."
    )


def missing(pen: Pen) -> str:
    """Why there is no official score, by the furthest that the attempt has come."""
    return f"There is no official score: {_why_missing(pen)}."


def _why_missing(pen: Pen) -> str:
    story = pen.story
    if story.submission is None:
        return "nothing was handed in"
    if not story.formals:
        return "what was handed in was not trained"
    if story.counted is None:
        return "no formal try counts, as each ended for the machine's sake"
    if story.counted.outcome is None or not story.counted.outcome.value["artifacts"]:
        because = story.counted.receipt.get("because")
        why = f": {pen.of(because, Form.TEXT)}" if because else ""
        outcome = pen.of(story.counted.receipt["outcome"], Form.CODE)
        return f"{marks.path(story.counted.name)} ended as {outcome} without a checkpoint{why}"
    return _why_none_scored(pen)


def _why_none_scored(pen: Pen) -> str:
    story = pen.story
    reasons = [one.tried.receipt["because"] for one in story.finals if one.tried.receipt.get("because")]
    if reasons:
        return str(pen.of(reasons[0], Form.TEXT))
    faults = [one.receipt["because"] for one in story.validations if one.receipt.get("because")]
    if story.validations and len(faults) == len(story.validations):
        return f"no checkpoint was found valid (the first: {pen.of(faults[0], Form.TEXT)})"
    return "no checkpoint was evaluated"
