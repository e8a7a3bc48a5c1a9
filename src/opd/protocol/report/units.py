"""Section 4 of the analysis: the exploration, in units, each under the same six headings."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from opd.protocol.report import marks
from opd.protocol.report.assessing import assessment, decision
from opd.protocol.report.comparing import Pair
from opd.protocol.report.exploring import Command, Exploration, Measured, Unit
from opd.protocol.report.layout import listed, spoken, table
from opd.protocol.report.pen import NONE_GIVEN, Pen
from opd.protocol.report.remarks import MOST_QUOTES, remarks
from opd.protocol.report.sources import Fact
from opd.protocol.report.story import label
from opd.protocol.report.trainings import Difference, Training, differences
from opd.records.claims import Form

_MOST_COMMANDS = 3
_MOST_KEYS = 2  # of a table that is shown for another
_MOST_UNMEASURED = 12


def explored(pen: Pen) -> str:
    """Section 4."""
    found = pen.story.explored
    heading = f"## {marks.numbering('4.')} Exploration and decisions"
    if found is None:
        return f"{heading}\n\nNothing was explored in this attempt; its patch came from outside."
    parts = [heading, _course(pen, found)]
    parts += [_unit(pen, unit) for unit in found.units]
    if not found.units:
        parts.append("Nothing was trained on the device through the task's own commands, and nothing was measured.")
    parts.append(remarks(pen, found))
    if pairs := pen.compared.of("proxy"):
        parts.append(_pairs(pen, pairs))
    return "\n\n".join(filter(None, parts))


def _pairs(pen: Pen, pairs: tuple[Pair, ...]) -> str:
    interval, power = marks.convention("95 %"), marks.convention("four times in five")
    head = (
        "Compared",
        "Difference",
        f"{interval} interval",
        "p",
        f"Found {power} from",
        "Told apart",
        "Matched control",
    )
    said = (
        "Every pair that was compared, paired by question; p is the larger of a t test's and of sign flips', "
        "adjusted for all pairs of this table together."
    )
    return "\n\n".join(["### All pairs", said, table(head, [_pair(pen, pair) for pair in pairs])])


def _pair(pen: Pen, pair: Pair) -> tuple[str, ...]:
    found = pair.found
    names = [next(pen.proxy(one) for one in pen.story.measured if label(one) == name) for name in (pair.b, pair.a)]
    low, high = (
        (pen.of(found["ci95"][end], Form.SIGNED_MEAN) for end in (0, 1)) if found.get("ci95") else ("none", "none")
    )
    return (
        f"{names[0]} less {names[1]}",
        str(pen.of(found["difference"], Form.SIGNED_MEAN)),
        f"{low} to {high}",
        pen.chance(pair).removeprefix("adjusted ").removeprefix("p ").removeprefix("= "),
        str(pen.of(found["detectable"], Form.ROUNDED)) if found.get("detectable") else "undefined",
        "yes" if pair.apart else "no",
        "yes" if pair.is_controlled else f"no: {pen.why_no_control(pair)}",
    )


def _course(pen: Pen, found: Exploration) -> str:
    began, ended = pen.of(found.began, Form.MOMENT), pen.of(found.receipt["ended_utc"], Form.MOMENT)
    outcome = pen.of(found.receipt["outcome"], Form.CODE)
    said = [f"The exploration began at {began} and ended at {ended}, as {outcome}."]
    if facts := found.outcome:
        used, given = (pen.of(facts[key], Form.DURATION) for key in ("seconds", "given_seconds"))
        share = pen.book.computed("used / given", Form.PERCENT, used=facts["seconds"], given=facts["given_seconds"])
        said.append(f"It used {used} of {given} ({share}).")
        said.append(_idle(pen, facts))
        slept = facts.get("suspended_seconds")
        if slept and slept.value:
            said.append(f"The machine slept for {pen.of(slept, Form.DURATION)} meanwhile, which is not charged.")
    return " ".join(said)


def _idle(pen: Pen, facts: Fact) -> str:
    """For how long the device did nothing, where that can be told."""
    if pen.story.device == "processor":
        return (
            "The task takes no GPU. Its processor runs the explorer's own program as well as what is trained, so for "
            "how long the device was idle is not told."
        )
    idle = pen.of(facts["idle_seconds"], Form.DURATION)
    part = pen.book.computed("idle / used", Form.PERCENT, idle=facts["idle_seconds"], used=facts["seconds"])
    return f"The device did nothing in {idle} of it ({part})."


def title(pen: Pen, unit: Unit) -> str:
    """What a unit is about, in the words of its facts."""
    if unit.measured is None:
        return "Trained and never measured" if unit.trainings or unit.commands else "What was left of the time"
    training = unit.measured.training
    changes = _against_baseline(pen, training)
    if pen.story.baseline is unit.measured:
        return "The source as it was given, measured"
    if changes is None:
        return "A checkpoint of which nothing says how it was trained"
    keys = [str(marks.name(one.key)) for one in changes]
    source = ["the source"] if training and _changed(pen, training) else []
    if not keys and not source:
        return "The same method, once more"
    return f"Another setting of {listed([*keys, *source])}" if keys else "A change of the source"


def changes_in_words(pen: Pen, measured: Measured) -> str:
    """What a measurement is of, within a sentence."""
    if pen.story.baseline is measured:
        return "the source as it was given"
    training = measured.training
    changes = _against_baseline(pen, training)
    said = [f"{marks.name(one.key)} {_value(pen, one.a)} → {_value(pen, one.b)}" for one in changes or ()]
    if training and _changed(pen, training):
        paths = measured.proxy.get("workspace", "changed_paths")
        of = listed([pen.of(path, Form.CODE) for path in paths.each()]) if paths else "the source"
        said.append(f"a change of {of}")
    if said:
        return "with " + listed(said)
    if note := measured.proxy.get("note"):
        return f"which the explorer calls “{pen.of(note, Form.TEXT)}”"
    return f"{pen.of(measured.proxy['checkpoint'], Form.CODE)}, of which nothing says how it was made"


def _unit(pen: Pen, unit: Unit) -> str:
    found = pen.story.explored
    assert found is not None, "a unit is one of an exploration"
    words = found.words(unit)
    parts = [
        f"### {marks.numbering(unit.id)} — {title(pen, unit)}",
        f"**Motivation and hypothesis.** {_said(pen, words.motivation)}",
        f"**Concrete change and experimental set-up.** {spoken(_setup(pen, unit))}",
        f"**Observed result.** {spoken(_result(pen, unit))}",
        f"**Explorer's interpretation.** {_said(pen, words.interpretation)}",
        f"**Assessment and confounds.** {spoken(assessment(pen, unit))}",
        f"**Decision and consequence.** {spoken(decision(pen, unit))}",
    ]
    return "\n\n".join(parts)


def _said(pen: Pen, words: tuple[Fact, ...]) -> str:
    return f"In the explorer's words:\n\n{pen.quotes(words[:MOST_QUOTES])}" if words else NONE_GIVEN


def _against_baseline(pen: Pen, training: Training | None) -> tuple[Difference, ...] | None:
    """In what its recipe differs from that of the first measurement with one; None where there is no recipe."""
    if training is None or training.recipe is None:
        return None
    trainings = [one.training for one in pen.story.measured if one.training and one.training.recipe]
    first = trainings[0].recipe if trainings else None
    return tuple(differences(first, training.recipe)) if first is not None else ()


def _changed(pen: Pen, training: Training) -> bool:
    tree = training.tree_sha256
    return tree is not None and tree.value != pen.story.run.value["base_sha256"]


def _setup(pen: Pen, unit: Unit) -> Iterator[str]:
    measured = unit.measured
    if measured is None:
        yield from _commands(pen, unit)
        return
    training = measured.training
    checkpoint = pen.of(measured.proxy["checkpoint"], Form.CODE)
    steps = f" after {pen.of(training.step, Form.STEP)} steps" if training and training.step else ""
    yield f"{pen.proxy(measured).capitalize()} is of {checkpoint}{steps}."
    if note := measured.proxy.get("note"):
        yield f"The explorer calls it “{pen.of(note, Form.TEXT)}”."
    yield _source(pen, measured)
    yield _recipe(pen, measured)
    if training and training.seed:
        yield f"By its recipe its seed is {pen.of(training.seed, Form.STEP)}."
    if training and training.rows_seen:
        yield rows_seen(pen, training.rows_seen)
    yield from _commands(pen, unit)


def rows_seen(pen: Pen, seen: Fact) -> str:
    """How many of the training rows a training had seen, by its own count."""
    rows = pen.story.contract["data"]["rows"]
    share = pen.book.computed("seen / rows", Form.PERCENT, seen=seen, rows=rows)
    return f"By its own count it saw {pen.of(seen, Form.INTEGER)} of {pen.of(rows, Form.INTEGER)} rows ({share})."


def _commands(pen: Pen, unit: Unit) -> Iterator[str]:
    if not unit.commands:
        yield "No command that had the device is on record for it."
    for command in unit.commands[:_MOST_COMMANDS]:
        program = _filled_in(unit, command)
        as_seen = f", with its variables filled in {pen.of(program, Form.CODE)}" if program else ""
        yield f"On the device ran {pen.of(command.words, Form.CODE)} ({pen.source(command.words)}){as_seen}."
    if unit.commands[_MOST_COMMANDS:]:
        yield f"Further commands had the device; {marks.path(unit.commands[0].words.file)} holds them all."


def _filled_in(unit: Unit, command: Command) -> Fact | None:
    """Of a command with variables, the program that it started for what was measured here, as the system names it."""
    if "$" not in str(command.words.value) or unit.measured is None:
        return None
    folder = re.escape(str(PurePosixPath(str(unit.measured.proxy.value["checkpoint"])).parent))
    ran = (one for one in command.programs if re.search(rf"(?<![\w./-]){folder}(?![\w.-])", str(one.value)))
    return next(ran, None)


def _source(pen: Pen, measured: Measured) -> str:
    workspace = measured.proxy.get("workspace")
    if workspace is None or workspace.get("tree_sha256") is None:
        return "What the source was at that time is not on record."
    if workspace.value["tree_sha256"] == pen.story.run.value["base_sha256"]:
        return "The source was as it was given."
    changed = listed([pen.of(path, Form.CODE) for path in workspace["changed_paths"].each()])
    size = pen.of(workspace["patch_bytes"], Form.INTEGER)
    return f"The source differed from what was given in {changed}, by a patch of {size} bytes."


def _recipe(pen: Pen, measured: Measured) -> str:
    changes = _against_baseline(pen, measured.training)
    if changes is None:
        return "No recipe lies beside the checkpoint."
    first = next(one for one in pen.story.measured if one.training and one.training.recipe)
    if first is measured:
        return "Its recipe is the one that later ones are held against."
    if not changes:
        return f"Its recipe says the same of the method as that of {pen.unit(first)}."
    said = listed([f"{marks.name(one.key)} ({_value(pen, one.a)} → {_value(pen, one.b)})" for one in changes])
    return f"Against that of {pen.unit(first)}, its recipe differs in {said}."


def _value(pen: Pen, fact: Fact | None) -> str:
    """A value of a recipe; a table by its name, or key by key."""
    if fact is None:
        return "none"
    if not isinstance(fact.value, dict):
        return pen.of(fact, Form.CODE) if fact.word() else "a value that is no word"
    if named := fact.word("name"):
        return pen.of(named, Form.CODE)
    said = [f"{marks.name(key)} {_value(pen, fact.get(key))}" for key in list(fact.value)[:_MOST_KEYS]]
    return ", ".join([*said, *(["…"] if len(fact.value) > _MOST_KEYS else [])])


def _result(pen: Pen, unit: Unit) -> Iterator[str]:
    measured = unit.measured
    if measured is not None and measured.score is None:
        yield f"No score: {pen.of(measured.proxy['missing'], Form.TEXT)}."
    elif measured is not None and measured.score is not None:
        naive, effect = measured.score.get("stderr_naive"), measured.score.get("design_effect")
        independent = ""
        if naive and effect:
            times = pen.of(effect, Form.MULTIPLE)
            independent = f" (were all samples independent, {pen.of(naive, Form.ERROR)}; design effect {times})"
        yield f"{pen.score(measured.proxy)}{independent}."
        yield f"The cap cut {pen.of(measured.proxy['cut_short'], Form.PERCENT)} of the answers short."
    if measured is not None:
        yield f"The measurement took {pen.of(measured.proxy['seconds'], Form.NUMBER)} s."
    yield from _unmeasured(pen, unit)


def _unmeasured(pen: Pen, unit: Unit) -> Iterator[str]:
    if not unit.trainings and unit.measured is None:
        yield "Nothing that it left was measured."
    for one in unit.trainings[:_MOST_UNMEASURED]:
        where = f"{marks.path(one.metrics.rpartition('/')[0])}" if one.metrics else "A run folder"
        reached = f" reached step {pen.of(one.step, Form.STEP)}" if one.step else " left no step"
        asked = one.recipe.whole("budget", "steps") if one.recipe else None
        of_asked = f" of {pen.of(asked, Form.STEP)} that were asked for" if asked else ""
        stop = one.summary.word("stop") if one.summary else None
        ended = f" and ended by {pen.of(stop, Form.CODE)}" if stop else " and has no summary of its end"
        yield f"{where}{reached}{of_asked}{ended}, by its own record; no checkpoint of it was measured."
