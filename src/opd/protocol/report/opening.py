"""Sections 1 to 3 of the analysis: which attempt this is and what counts of it; an overview; the task."""

from collections.abc import Iterator

from opd.protocol.report import marks
from opd.protocol.report.audited import told, verdict
from opd.protocol.report.layout import listed, table
from opd.protocol.report.pen import Pen
from opd.protocol.report.sources import Fact
from opd.protocol.report.story import Attempted, is_history
from opd.records.audits import Axis
from opd.records.claims import Form

Row = tuple[str, str, str]  # field, value, evidence


def identity(pen: Pen) -> str:
    """Section 1."""
    rows = [*_who(pen), *_explored(pen), *_submitted(pen), *_replayed(pen), *_judged(pen)]
    return "\n\n".join(
        [
            f"## {marks.numbering('1.')} Identity, selection and lineage",
            table(("Field", "Value", "Evidence"), [(field, value, evidence) for field, value, evidence in rows]),
            *_contradictions(pen),
        ]
    )


def _at(fact: Fact) -> str:
    return str(marks.path(fact.file))


def _who(pen: Pen) -> Iterator[Row]:
    run, task, of = pen.story.run, pen.story.task, pen.of
    what = of(task["task"]["description"], Form.TEXT)
    yield "Task", f"{of(run['task'], Form.CODE)}: {what}", _at(task)
    model = of(run["model"], Form.CODE) if run.get("model") else "not recorded"
    yield "Model that explores", f"{model}; it is neither the student nor the teacher", _at(run)
    version = ""
    explored = pen.story.explored
    trajectory = pen.story.sources.json(f"{explored.name}/trajectory/atif.json") if explored else None
    if trajectory and trajectory.get("agent", "version"):
        version = f" {of(trajectory['agent']['version'], Form.CODE)}"
    effort = of(run["effort"], Form.CODE) if run.get("effort") else "none recorded"
    yield "Harness, reasoning effort", f"{of(run['harness'], Form.CODE)}{version}; effort {effort}", _at(run)
    yield "Seeds", _seeds(pen), f"{_at(task)}, recipes"
    budgets = pen.story.contract["budgets"]
    explore, formal = (of(budgets[f"{phase}_seconds"], Form.NUMBER) for phase in ("explore", "formal"))
    yield "Budgets", f"{explore} s to explore, {formal} s to train formally", _at(task)


def _seeds(pen: Pen) -> str:
    contract = pen.story.contract
    proxy, final = (contract[measure]["seeds"][0] for measure in ("proxy", "final"))
    said = [
        "the explorer's model: not recorded",
        f"proxy samples: from {pen.of(proxy, Form.STEP)}",
        f"final samples: from {pen.of(final, Form.STEP)}",
    ]
    recipe = pen.story.formal_file("recipe.json")
    if recipe and recipe.whole("seed"):
        said.append(f"formal training, by its own recipe: {pen.of(recipe['seed'], Form.STEP)}")
    return "; ".join(said)


def _explored(pen: Pen) -> Iterator[Row]:
    story = pen.story
    chosen = story.explored
    if chosen is None:
        why = "a patch from outside was handed in" if story.submission else "nothing was explored"
        yield "Exploration", f"none: {why}", _at(story.run)
        return
    receipt = chosen.receipt
    why = "the patch was handed in from it" if story.submission else "it is the last, and nothing was handed in"
    if len(story.explorations) == 1:
        why = f"it is the only one, and {why}" if story.submission else "it is the only one"
    ended = f"ended as {pen.of(receipt['outcome'], Form.CODE)} at {pen.of(receipt['ended_utc'], Form.MOMENT)}"
    yield "Exploration reported on", f"{marks.path(chosen.name)}, {ended}; {why}", _at(receipt)
    for other in story.explorations:
        if other.name != chosen.name:
            yield "Other exploration", f"{marks.path(other.name)}: {_how(pen, other)}; history", _at(other.receipt)


def _how(pen: Pen, tried: Attempted) -> str:
    because = f": {pen.of(tried.receipt['because'], Form.TEXT)}" if tried.receipt.get("because") else ""
    return f"{pen.of(tried.receipt['outcome'], Form.CODE)}{because}"


def _submitted(pen: Pen) -> Iterator[Row]:
    submission = pen.story.submission
    if submission is None:
        yield "Submission", "none", ""
        return
    size, digest = pen.of(submission["patch_bytes"], Form.INTEGER), pen.of(submission["patch_sha256"], Form.DIGEST)
    changed = listed([pen.of(path, Form.CODE) for path in submission["changed_paths"].each()])
    what = f"{size} bytes, {marks.convention('SHA-256')} {digest}, changes {changed or 'nothing'}"
    yield "Candidate patch", what, f"{marks.path('submission/candidate.patch')}, {_at(submission)}"


def _replayed(pen: Pen) -> Iterator[Row]:
    story = pen.story
    for tried in story.formals:
        if is_history(tried, story.counted):
            yield "Earlier formal try", _history(pen, tried), _at(tried.receipt)
    if story.counted is None:
        if story.submission:
            yield "Formal run that counts", "none", ""
        return
    why = "the first that the machine did not spoil" if len(story.formals) > 1 else "the first and only one"
    same = "its patch is the one that was handed in" if story.counted.outcome else "it left no record of its own"
    how = f"{marks.path(story.counted.name)}, {_how(pen, story.counted)}; {why}; {same}"
    yield "Formal run that counts", how, _at(story.counted.receipt)


def _history(pen: Pen, tried: Attempted) -> str:
    said = [f"{marks.path(tried.name)}, {_how(pen, tried)}"]
    if tried.outcome and tried.outcome.get("last_step"):
        said.append(f"its own record ends at step {pen.of(tried.outcome['last_step'], Form.STEP)}")
    for ruling in pen.story.rulings:
        if ruling.value["about"] == tried.name:
            verdict, because = pen.of(ruling["verdict"], Form.CODE), pen.of(ruling["because"], Form.TEXT)
            said.append(f"ruled as {verdict} ({because}, {marks.path(ruling.file)})")
    later = next((one for one in pen.story.formals if one.number == tried.number + 1), None)
    if later and pen.story.sources.has(f"{later.name}/retry-order.json"):
        said.append(f"a further try of the same patch was ordered ({marks.path(f'{later.name}/retry-order.json')})")
    said.append("execution history, and no result to pool")
    return "; ".join(said)


def _judged(pen: Pen) -> Iterator[Row]:
    story = pen.story
    for one in story.validations:
        assert one.step is not None, "a validation is about a step"
        said = f"step {pen.of(one.step, Form.STEP)}: {_how(pen, one)}"
        loaded = one.outcome.get("loaded", "parameters") if one.outcome else None
        if loaded:
            said += f", loaded as {pen.of(loaded, Form.INTEGER)} parameters"
        yield "Validation", said, _at(one.receipt)
    for final in story.finals:
        record = final.tried.outcome
        scored = pen.score(record) if record and final.score else _how(pen, final.tried)
        yield "Final evaluation", f"{pen.step(final)}: {scored}", _at(final.tried.receipt)
    digest = pen.of(story.run["install_sha256"], Form.DIGEST)
    yield "Judged by", f"opd {pen.of(story.run['opd_version'], Form.TEXT)}, install {digest}", _at(story.run)


def _contradictions(pen: Pen) -> Iterator[str]:
    audit = pen.story.audit
    yield (
        "Every sealed file was read again before this was written, and is what its receipt says; the chain from task "
        "to score holds."
    )
    found = [one for one in audit["findings"].each() if one.value["axis"] == Axis.CONTRADICTIONS] if audit else []
    for finding in found:
        yield f"Statuses that contradict each other on their face: {verdict(finding)} — {told(pen, finding)}"
        details = [one for one in finding["details"].each() if one.value != finding.value["sentence"]]
        if details:
            yield "\n".join(f"- {pen.sentence(detail)}" for detail in details)
