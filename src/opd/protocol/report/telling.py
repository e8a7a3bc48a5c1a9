"""What the attempt comes to: section 2, the overview; section 7, the takeaway; and the brief of one page."""

from collections.abc import Iterator

from opd.protocol.report import finals, formal, marks
from opd.protocol.report.audited import axis, of_the_note, told, verdict
from opd.protocol.report.comparing import Pair
from opd.protocol.report.exploring import Measured
from opd.protocol.report.layout import listed, points, spoken
from opd.protocol.report.measurements import course, exploration, measurements, sides, together
from opd.protocol.report.pen import Pen, control_of
from opd.protocol.report.sources import Fact
from opd.protocol.report.story import label
from opd.records.audits import Axis, Verdict
from opd.records.claims import Form


def overview(pen: Pen) -> str:
    """Section 2."""
    return "\n\n".join(
        [
            f"## {marks.numbering('2.')} Overview",
            task(pen),
            exploration(pen),
            spoken([*result(pen), *finals.references(pen)]),
            *conduct(pen),
        ]
    )


def takeaway(pen: Pen) -> str:
    """Section 7."""
    parts = [
        f"## {marks.numbering('7.')} Takeaway",
        points("What this attempt shows:", shows(pen)),
        points("What it does not show:", not_shown(pen)),
    ]
    return "\n\n".join(filter(None, parts))


def brief(pen: Pen) -> str:
    """One page."""
    run = pen.story.run
    who = [pen.of(run[key], Form.CODE) for key in ("model", "harness", "effort") if run.get(key)]
    parts = [
        f"# {pen.of(pen.story.task['task']['description'], Form.TEXT)}",
        f"{pen.of(run['task'], Form.CODE)} — {' / '.join(who)}",
        f"**Status.** {_status(pen)}",
        f"**What happened.** {spoken([task(pen), _submitted(pen)])}",
        f"**Exploration.** {course(pen)}",
        "\n".join(f"- {one}" for one in measurements(pen)),
        spoken(together(pen)),
        f"**How the submitted method works.** {_works(pen)}",
        f"**Formal evidence.** {spoken([*result(pen), *finals.references(pen)])}",
        f"**Audit and takeaway.** {spoken([verdicts(pen), *_untold(pen), *comes_to(pen)])}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def task(pen: Pen) -> str:
    """What is asked."""
    contract = pen.story.contract
    student, teacher = (pen.of(contract[role]["source"], Form.CODE) for role in ("student", "teacher"))
    rows = pen.of(contract["data"]["rows"], Form.INTEGER)
    return (
        f"The task starts from a fixed student ({student}) and permits one fixed teacher ({teacher}) and {rows} "
        "fixed training problems. What is handed in is a change of source code, which is trained from the fixed "
        "student, out of the explorer's reach."
    )


def _status(pen: Pen) -> str:
    story = pen.story
    done = ["the exploration"] if story.explored else []
    done += ["the submission"] if story.submission else []
    done += ["formal training"] if story.counted and story.official else []
    done += ["validation", "final evaluation"] if story.official else []
    done += ["the audit"] if story.audit else []
    said = f"{listed(done).capitalize()} {'are' if len(done) > 1 else 'is'} complete."
    history = [one for one in story.formals if not story.counted or one.name != story.counted.name]
    for one in history:
        because = f" ({pen.of(one.receipt['because'], Form.TEXT)})" if one.receipt.get("because") else ""
        said += f" {marks.path(one.name)} ended as {pen.of(one.receipt['outcome'], Form.CODE)}{because}."
        said = " ".join([said, *formal.ruled(pen, one)])
        said += " It stays as history, and is no result."
    if history and story.counted:
        said += f" The identical patch was tried again, as {marks.path(story.counted.name)}, and that is what counts."
    return said if story.official else f"{said} {finals.missing(pen)}"


def _submitted(pen: Pen) -> str:
    submission = pen.story.submission
    if submission is None:
        return "The explorer handed in nothing."
    if not submission.value["changed_paths"]:
        return "What was handed in is the source as it was given."
    size = pen.of(submission["patch_bytes"], Form.INTEGER)
    paths = listed([pen.of(path, Form.CODE) for path in submission["changed_paths"].each()][:5])
    note = f" The explorer's note on it: “{pen.of(submission['note'], Form.TEXT)}”." if submission.get("note") else ""
    return spoken([f"The explorer handed in a patch of {size} bytes to {paths}.{note}", of_the_note(pen)])


def _works(pen: Pen) -> str:
    submission = pen.story.submission
    if submission is None:
        return "Nothing was submitted."
    return spoken([formal.in_the_recipe(pen), formal.coverage(pen), formal.separated(pen)])


def result(pen: Pen) -> Iterator[str]:
    """What the formal run and its finals came to."""
    story = pen.story
    if story.counted is None or story.counted.outcome is None:
        yield finals.missing(pen)
        return
    yield formal.used(pen, story.counted.outcome)
    valid = [one for one in story.validations if one.receipt.value["outcome"] == "valid"]
    if valid:
        steps = listed([f"{pen.of(one.step, Form.STEP)}" for one in valid if one.step])
        yield f"Checkpoints {steps} loaded and are valid." if len(valid) > 1 else f"Checkpoint {steps} is valid."
    if len(story.scored) > 1:
        scores = [f"{pen.step(one)}: {pen.score(one.tried.outcome)}" for one in story.scored if one.tried.outcome]
        yield f"The finals are {'; '.join(scores)}."
    yield finals.official(pen)


def verdicts(pen: Pen) -> str:
    """The audit in a sentence."""
    audit = pen.story.audit
    if audit is None:
        return "No audit was made."
    findings = list(audit["findings"].each())
    clear = [axis(one) for one in findings if one.value["verdict"] == Verdict.NONE_FOUND]
    said = f"The audit looked at {listed(clear)}, and found nothing." if clear else "The audit cleared nothing."
    others = [one for one in findings if one.value["verdict"] != Verdict.NONE_FOUND]
    return " ".join([said, *(_of_finding(pen, one) for one in others)])


def _of_finding(pen: Pen, finding: Fact) -> str:
    if finding.value["axis"] == Axis.CONTRADICTIONS and finding.get("protected"):
        return "Statuses that contradict each other on their face were found and resolved; the analysis names them."
    return f"{axis(finding).capitalize()}: **{verdict(finding)}** — {told(pen, finding)}"


def _untold(pen: Pen) -> Iterator[str]:
    """How much time was left, and what would have fitted, where the audit does not say so already."""
    audit = pen.story.audit
    findings = audit.value["findings"] if audit else ()
    if not any(one["axis"] == Axis.BEHAVIOUR and one["verdict"] == Verdict.CONFIRMED for one in findings):
        yield from conduct(pen)


def comes_to(pen: Pen) -> Iterator[str]:
    """In the end: what is there, and what it is no evidence of."""
    if pen.story.official is None:
        return
    yield "What is there is a patch that anybody can replay from the fixed start, and its score."
    if all(reference.is_start for reference in pen.story.references("final")):
        yield pen.book.not_established("superiority over the shipped method", "nothing here was tested against it")


def conduct(pen: Pen) -> Iterator[str]:
    """What was left undone, and what would have fitted."""
    story = pen.story
    if story.submission is None or story.explored is None or story.explored.outcome is None:
        return
    left, pipeline = story.left, story.explored.outcome.get("shortest_pipeline_seconds")
    if left is None or pipeline is None:
        return
    said = f"It was submitted with {pen.of(left, Form.WHOLE)} s left"
    if left.value >= pipeline.value:
        times = pen.book.computed("left / pipeline", Form.INTEGER, left=left, pipeline=pipeline)  # whole ones
        yield (
            f"{said}, while the shortest training with its measurement had taken {pen.of(pipeline, Form.WHOLE)} s: "
            f"{times} more in full would have fitted, for a matched control or a second seed."
        )
    else:
        yield f"{said}, and the shortest training with its measurement had taken {pen.of(pipeline, Form.WHOLE)} s."


def shows(pen: Pen) -> Iterator[str]:
    """What is established."""
    story = pen.story
    if story.official is None:
        yield finals.missing(pen)
    else:
        yield finals.official(pen)
        yield "The chain from task to score was read again, byte for byte, and holds."
    best = _beside_the_greatest(pen)
    for pair in pen.compared.of("proxy"):
        if pair.apart and (pair.is_controlled or pair is best):
            yield pen.tested(pair, *sides(pen, pair))
    for finding in story.audit["findings"].each() if story.audit else ():
        if finding.value["verdict"] == Verdict.CONFIRMED:
            yield f"{axis(finding).capitalize()}, {verdict(finding)}: {told(pen, finding)}"


def not_shown(pen: Pen) -> Iterator[str]:
    """What is not, each with the reason."""
    story = pen.story
    if story.official is not None:
        yield pen.book.not_established(
            "that the submitted change is what caused the result, or that it is of benefit",
            "no formal run of the source as it was given belongs to this attempt",
        )
        for reference in story.references("final"):
            if not reference.is_start:
                yield pen.book.not_established(
                    f"superiority over “{pen.of(reference.fact['name'], Form.TEXT)}”, or that it lost nothing",
                    "no paired test against it can be made",
                )
    elif story.submission is not None:
        yield pen.book.not_established("what the submitted change is worth", "there is no official score")
    if story.adopted is not None:
        yield from _of_adopted(pen, story.adopted)
    if story.measured and not any(pair.match.is_repetition for pair in pen.compared.of("proxy")):
        yield pen.book.not_established(
            "how much one training of a method differs from the next",
            "no measurement was repeated with a second seed",
        )


def _of_adopted(pen: Pen, adopted: Measured) -> Iterator[str]:
    control = control_of(pen, adopted)
    if adopted is not pen.story.baseline and control is None:
        yield pen.book.not_established(
            f"that what was handed in ({pen.unit(adopted)}) improved the proxy, or kept it without regression",
            "it has no matched control",
        )
    mine, beside = control[0] if control else None, _beside_the_greatest(pen)
    for pair in (mine, beside if beside is not mine else None):
        if pair is not None and not pair.apart:
            yield pen.tested(pair, *sides(pen, pair))


def _beside_the_greatest(pen: Pen) -> Pair | None:
    """What was handed in and the greatest of the measurements, where these are two and were compared."""
    adopted, greatest = pen.story.adopted, pen.story.greatest
    if adopted is None or greatest is None or greatest is adopted:
        return None
    return pen.compared.between(label(adopted), label(greatest))
