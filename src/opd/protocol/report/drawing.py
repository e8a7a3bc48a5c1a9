"""`report.json`: the same story for pictures."""

from collections.abc import Iterator
from typing import Literal

from opd.protocol.clock import now
from opd.protocol.report.exploring import Exploration, Measured
from opd.protocol.report.forms import visible
from opd.protocol.report.marks import unmarked
from opd.protocol.report.pen import Pen, control_of
from opd.protocol.report.sources import Fact
from opd.protocol.report.story import Attempted, FinalRun, Story, label
from opd.protocol.report.trainings import Training
from opd.protocol.report.units import title
from opd.protocol.words import one_line
from opd.records.reports import (
    Activity,
    Compared,
    Coverage,
    Curve,
    Exploring,
    Moment,
    ReferenceLine,
    Report,
    Scored,
    StageSpan,
    Stretch,
    Unit,
)

Claimant = Literal["candidate", "explorer"]
_LABEL = 300  # characters of what somebody else said
_DESK = {"note": "text", "submit": "note", "no-candidate": "because"}  # what is a moment, and where its words are


def drawn(pen: Pen) -> Report:
    """All of it."""
    story = pen.story
    return Report(
        case=story.attempt.identity.case,
        task=str(story.run.value["task"]),
        title=str(story.task.value["task"]["description"]),
        made_utc=now().utc,
        stages=tuple(_stages(pen)),
        exploring=_exploring(story, story.explored) if story.explored else None,
        units=tuple(_units(pen)),
        proxy_metric=str(story.contract.value["proxy"]["metric"]),
        final_metric=str(story.contract.value["final"]["metric"]),
        proxies=tuple(_proxy(pen, one) for one in story.explored.measured) if story.explored else (),
        finals=tuple(_final(pen, one) for one in story.finals),
        comparisons=tuple(_compared(pen)),
        references=tuple(_reference(one) for one in story.contract["references"].each()),
        coverages=tuple(_coverages(pen)),
        curves=tuple(_curves(pen)),
        patch="submission/candidate.patch" if story.submission else None,
        audit=story.audit.file if story.audit else None,
        missing=story.missing,
    )


def _stages(pen: Pen) -> Iterator[StageSpan]:
    story = pen.story
    counted = story.counted.name if story.counted else None
    finals = tuple(one.tried for one in story.finals)
    for tried in (*story.explorations, *story.formals, *story.validations, *finals):
        receipt = tried.receipt.value
        yield StageSpan(
            name=tried.name,
            outcome=str(receipt["outcome"]),
            began_utc=str(receipt["began_utc"]),
            ended_utc=str(receipt["ended_utc"]),
            active_seconds=float(receipt["active_seconds"]),
            because=receipt["because"],
            counts=_counts(tried, counted, pen),
        )


def _counts(tried: Attempted, counted: str | None, pen: Pen) -> bool:
    if tried in pen.story.formals:
        return tried.name == counted
    if tried in pen.story.explorations:
        return pen.story.explored is not None and tried.name == pen.story.explored.name
    return True


def _exploring(story: Story, found: Exploration) -> Exploring:
    facts = found.outcome.value if found.outcome else {}
    used = float(facts.get("seconds", found.receipt.value["active_seconds"]))
    given = float(facts.get("given_seconds", used))
    return Exploring(
        name=found.name,
        began_utc=found.began_utc,
        given_seconds=given,
        used_seconds=used,
        left_seconds=float(story.left.value) if story.left else max(0.0, given - used),
        device=story.device,
        idle_seconds=float(facts.get("idle_seconds", 0.0)),
        stretches=tuple(_stretches(found)),
        moments=tuple(_moments(found)),
    )


def _stretches(found: Exploration) -> Iterator[Stretch]:
    for unit in found.units:
        for command in unit.commands:
            yield Stretch(
                activity=Activity.TRAINING, begin_seconds=max(0.0, command.begin), end_seconds=max(0.0, command.end),
                label=_said(command.words), unit=unit.id,
            )  # fmt: skip
        if unit.measured is not None:
            proxy = unit.measured.proxy
            yield Stretch(
                activity=Activity.EVALUATION, begin_seconds=float(proxy.value["began_at_seconds"]),
                end_seconds=float(proxy.value["ended_at_seconds"]), label=_said(proxy["checkpoint"]), unit=unit.id,
            )  # fmt: skip
    for begin, end in found.idle:
        yield Stretch(
            activity=Activity.IDLE, begin_seconds=max(0.0, begin), end_seconds=max(0.0, end), label="", unit=None
        )


def _moments(found: Exploration) -> Iterator[Moment]:
    for line, at in found.desk:
        command = line.value.get("command")
        if command in _DESK and line.value.get("exit") == 0 and not (line.get("arguments", "check") or _NO).value:
            words = line.get("arguments", _DESK[command])
            yield Moment(kind=command, at_seconds=max(0.0, at), label=_said(words) if words else "")
    if found.receipt.value["outcome"] == "deadline" and found.outcome:
        yield Moment(kind="deadline", at_seconds=float(found.outcome.value["seconds"]), label="")


_NO = Fact(value=False, file="", pointer="", sha256="")


def _said(fact: Fact) -> str:
    return one_line(visible(str(fact.value)), most=_LABEL)


def _units(pen: Pen) -> Iterator[Unit]:
    for unit in pen.story.explored.units if pen.story.explored else ():
        control = control_of(pen, unit.measured) if unit.measured else None
        yield Unit(
            id=unit.id,
            title=unmarked(title(pen, unit)).text,
            begin_seconds=unit.begin,
            end_seconds=unit.end,
            proxy=label(unit.measured) if unit.measured else None,
            control=label(control[1]) if control else None,
            adopted=unit.measured is not None and unit.measured is pen.story.adopted,
        )


def _proxy(pen: Pen, one: Measured) -> Scored:
    step = one.training.step if one.training else None
    return _scored(
        one.proxy, one.score, label=label(one), of="proxy", what=_said(one.proxy["checkpoint"]),
        unit=pen.story.unit_of(one).id, step=step.value if step else None, evaluation=one.evaluation,
    )  # fmt: skip


def _final(pen: Pen, one: FinalRun) -> Scored:
    counted = pen.story.counted
    artifacts = counted.outcome.value["artifacts"] if counted and counted.outcome else ()
    folder = next((artifact["folder"] for artifact in artifacts if artifact["step"] == one.tried.number), "")
    return _scored(
        one.tried.outcome, one.score, label=one.label, of="final", what=folder, unit=None, step=one.tried.number,
        evaluation=one.evaluation if one.score else None, official=one is pen.story.official,
        because=one.tried.receipt.value["because"],
    )  # fmt: skip


def _scored(record: Fact | None, score: Fact | None, *, because: str | None = None, **fields: object) -> Scored:
    """Of what `outcome.json` and `score.json` say; nothing of a score that doesn't count."""
    said, of_score = (record.value if record else {}), (score.value if score else {})
    counts = {key: said.get(key) if score else None for key in ("correct", "samples", "mean", "stderr", "cut_short")}
    keys = ("questions", "stderr_naive", "design_effect", "ci95")
    missing = None if score else said.get("missing") or because or "its artifact was not found valid"
    return Scored.model_validate(
        {**fields, **counts, **{key: of_score.get(key) for key in keys}, "missing": missing}, strict=False
    )


def _compared(pen: Pen) -> Iterator[Compared]:
    for pair in pen.compared.pairs:
        found = pair.found.value
        yield Compared(
            file=pair.found.file,
            pointer=pair.found.pointer,
            of=pair.of,
            a=pair.a,
            b=pair.b,
            differs_in=None if pair.match.unknown else pair.match.names,
            matched=pair.is_controlled,
            difference=pair.difference,
            ci95=tuple(found["ci95"]) if found["ci95"] else None,
            p=float(pair.chance.value) if pair.chance else None,
            distinguishable=found["distinguishable"],
        )


def _reference(fact: Fact) -> ReferenceLine:
    return ReferenceLine.model_validate({key: fact.value[key] for key in ReferenceLine.model_fields})


def _trainings(pen: Pen) -> Iterator[tuple[str, Training]]:
    """Those of the exploration that left a folder, with what they are called."""
    for unit in pen.story.explored.units if pen.story.explored else ():
        if unit.measured and unit.measured.training:
            yield label(unit.measured), unit.measured.training
        for training in unit.trainings:
            yield training.folder, training


def _coverages(pen: Pen) -> Iterator[Coverage]:
    story = pen.story
    if story.counted and story.formal_rows_seen:
        recipe = story.formal_file("recipe.json")
        yield _coverage(pen, story.counted.name, story.formal_rows_seen, recipe, claimed_by="candidate")
    for name, training in _trainings(pen):
        if training.rows_seen:
            yield _coverage(pen, name, training.rows_seen, training.recipe, claimed_by="explorer")


def _coverage(pen: Pen, name: str, seen: Fact, recipe: Fact | None, *, claimed_by: Claimant) -> Coverage:
    shuffled = recipe.get("data", "shuffle") if recipe else None
    return Coverage(
        label=name,
        rows_seen=max(0, seen.value),
        rows=int(pen.story.contract.value["data"]["rows"]),
        shuffled=shuffled.value if shuffled and isinstance(shuffled.value, bool) else None,
        claimed_by=claimed_by,
    )


def _curves(pen: Pen) -> Iterator[Curve]:
    folder = pen.story.formal_folder
    if folder and pen.story.counted and pen.story.sources.has(f"{folder}/metrics.jsonl"):
        yield Curve(label=pen.story.counted.name, file=f"{folder}/metrics.jsonl", claimed_by="candidate")
    for name, training in _trainings(pen):
        if training.metrics:
            yield Curve(label=name, file=training.metrics, claimed_by="explorer")
