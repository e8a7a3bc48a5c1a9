"""Section 5 of the analysis: what was handed in, and how it was trained formally."""

from collections.abc import Iterator

from opd.protocol.report import marks
from opd.protocol.report.audited import axis, finding_of, verdict
from opd.protocol.report.finals import finals, missing
from opd.protocol.report.layout import listed, table
from opd.protocol.report.pen import Pen
from opd.protocol.report.sources import Fact
from opd.protocol.report.story import Attempted
from opd.protocol.report.units import rows_seen
from opd.records.audits import Axis, Verdict
from opd.records.claims import Form

_WALL_CLOCK, _BY_ITSELF = "wall_clock", "by_itself"
_STOPS = {_BY_ITSELF: "ended by itself", "error": "ended by an error of its own program"}
_LEFT = "what was left of the time was left by the source that was handed in"
_LONGEST_PATCH_LINES = 60


def evidence(pen: Pen) -> str:
    """Section 5."""
    story = pen.story
    parts = [f"## {marks.numbering('5.')} Formal evidence"]
    if story.submission is None:
        return "\n\n".join([*parts, "Nothing was handed in, so nothing was trained formally, and there is no score."])
    parts += [f"### {marks.numbering('5.1')} What was trained", *_method(pen)]
    if story.formals:
        parts += [f"### {marks.numbering('5.2')} Formal training", _tries(pen), *_course(pen)]
    if story.validations or story.finals:
        parts += [f"### {marks.numbering('5.3')} Validation and final evaluation", *finals(pen)]
    if story.official is None:
        parts.append(missing(pen))
    return "\n\n".join(parts)


def _method(pen: Pen) -> Iterator[str]:
    story = pen.story
    submission = story.submission
    assert submission is not None, "there is a patch"
    changed = submission["changed_paths"]
    if not changed.value:
        yield "The patch is empty: the source as it was given was trained."
        return
    size = pen.of(submission["patch_bytes"], Form.INTEGER)
    files = pen.of(changed.count, Form.WORD)
    plural = "file" if len(changed.value) == 1 else "files"
    yield f"The patch has {size} bytes and touches {files} {plural}:"
    patch = story.sources.fact("submission/candidate.patch")
    lines = str(patch.value).rstrip("\n").count("\n") + 1
    shown = story.sources.fact(patch.file, f"lines:1-{min(lines, _LONGEST_PATCH_LINES)}")
    yield str(pen.of(shown, Form.LISTING))
    if lines > _LONGEST_PATCH_LINES:
        yield f"It goes on; {marks.path(patch.file)} holds all of it."
    yield in_the_recipe(pen)


def in_the_recipe(pen: Pen) -> str:
    """What of the method the formal run had otherwise than what was given, as the two recipes say."""
    change = pen.story.change
    base = pen.story.baseline
    if change is None or base is None:
        return (
            "What of the recipe it changes can't be said: a measurement of the source as it was given, or the formal "
            "run, left no recipe."
        )
    if not change:
        return f"The recipe of the formal run says the same of the method as that of {pen.unit(base)}."
    keys = listed([str(marks.name(one.key)) for one in change])
    tables = sorted({one.key.partition(".")[0] for one in change})
    solely = (
        f": a change of {marks.name(tables[0])} and of nothing else that a recipe says" if len(tables) == 1 else ""
    )
    return f"By its own recipe the formal run differs from {pen.unit(base)} in {keys}{solely}."


def _tries(pen: Pen) -> str:
    rows = []
    for one in pen.story.formals:
        facts = one.outcome
        seconds = pen.of(one.receipt["active_seconds"], Form.NUMBER)
        stop = pen.of(facts["stop"], Form.CODE) if facts else "not recorded"
        rule = pen.of(facts["cause"]["rule"], Form.CODE) if facts else "none"
        outcome = pen.of(one.receipt["outcome"], Form.CODE)
        counts = "yes" if pen.story.counted and one.name == pen.story.counted.name else "no: history"
        rows.append((str(marks.path(one.name)), outcome, stop, f"{seconds} s", rule, counts))
    return table(
        ("Try", "Ended as", "Seen to end", "Took, with looking before and after", "Rule that decided", "Counts"), rows
    )


def _course(pen: Pen) -> Iterator[str]:
    story = pen.story
    for one in story.formals:
        if one is not story.counted and one.outcome:
            yield f"{marks.path(one.name)} is history, by what was seen and what its own program said:"
            yield "\n".join(f"- {pen.of(each, Form.TEXT)}" for each in one.outcome["cause"]["because"].each())
            yield from ruled(pen, one)
    if story.counted is None or story.counted.outcome is None:
        return
    facts = story.counted.outcome
    yield f"{used(pen, facts)} {_steps(pen)}".strip()
    if facts.value["inputs_sha256"]:
        yield "Its fixed inputs had the same digests before and after."
    if facts.value["unexpected_files"]:
        count = pen.of(facts["unexpected_files"].count, Form.INTEGER)
        yield f"It opened {count} files beside its inputs, its checkout and the system; the audit says which."


def ruled(pen: Pen, tried: Attempted) -> Iterator[str]:
    """What a person decided about a try."""
    for ruling in pen.story.rulings:
        if ruling.value["about"] == tried.name:
            verdict, by = pen.of(ruling["verdict"], Form.CODE), pen.of(ruling["by"], Form.TEXT)
            because = pen.of(ruling["because"], Form.TEXT)
            yield f"Ruled as {verdict} by {by}: {because} ({marks.path(ruling.file)})."


def used(pen: Pen, facts: Fact) -> str:
    """How much of its time a formal try took, how it was seen to end, and what its own record says of that."""
    seconds, given = (pen.of(facts[key], Form.NUMBER) for key in ("seconds", "given_seconds"))
    share = pen.book.computed("used / given", Form.PERCENT, used=facts["seconds"], given=facts["given_seconds"])
    name = marks.path(facts.file.rpartition("/")[0])
    return f"{name} took {seconds} of {given} s ({share}) and {_ended(pen, facts)}."


def _ended(pen: Pen, facts: Fact) -> str:
    seen = facts.value["stop"]
    if seen == _WALL_CLOCK:
        return "was stopped by the wall clock: no time was left unused by choice"
    how = _STOPS.get(seen) or f"ended as {pen.of(facts['stop'], Form.CODE)}"
    summary = pen.story.formal_file("run.json")
    own = summary.word("stop") if summary else None
    says = f"; its own record says {pen.of(own, Form.CODE)}" if own else ""
    if own is not None and own.value == _WALL_CLOCK:
        return f"{how}{says}, {_of_the_clock(pen)}"
    return f"{how}{says}: {_LEFT}" if seen == _BY_ITSELF else f"{how}{says}"


def _of_the_clock(pen: Pen) -> str:
    """Whether the time that was used bears out a candidate's word that the clock stopped it, by the audit."""
    finding = finding_of(pen, Axis.BUDGET_USE)
    found = finding.value["verdict"] if finding else Verdict.NOT_ASSESSED
    if found == Verdict.NONE_FOUND:
        return "which the time that it used bears out: no time was left unused by choice"
    if found == Verdict.NOT_ASSESSED:
        return "which was held against nothing"
    return f"which the time that it used does not bear out: {_LEFT}"


def separated(pen: Pen) -> str:
    """What formal training is given, and what the audit says of anything that may have come with it."""
    if not pen.story.formals:
        return ""
    given = (
        "Formal training is given the patch and the fixed inputs. Whether anything else of the exploration reached "
        "it, by a file that it opened or within the patch's own text, is the audit's to say"
    )
    finding = finding_of(pen, Axis.SEPARATION)
    said = f"{axis(finding)}: **{verdict(finding)}**" if finding else "it says nothing of that"
    return f"{given}; {said}."


def _steps(pen: Pen) -> str:
    story = pen.story
    summary = story.formal_file("run.json")
    if summary is None or summary.whole("steps") is None:
        last = story.counted.outcome.get("last_step") if story.counted and story.counted.outcome else None
        said = f"Its own record ends at step {pen.of(last, Form.STEP)}." if last else ""
    else:
        said = f"By its own summary it came to step {pen.of(summary['steps'], Form.STEP)}."
    return f"{said} {coverage(pen)}".strip()


def coverage(pen: Pen) -> str:
    """How many of the rows formal training saw, and in which order."""
    seen, recipe = pen.story.formal_rows_seen, pen.story.formal_file("recipe.json")
    if seen is None:
        return ""
    shuffled = recipe.get("data", "shuffle") if recipe else None
    order = ""
    if shuffled is not None and shuffled.value is True:
        order = " Its recipe draws them in an order that its seed fixes, and not from the top of the file."
    elif shuffled is not None and shuffled.value is False:
        order = " Its recipe takes them from the top of the file: every replay sees the same ones."
    return f"{rows_seen(pen, seen)}{order}"
