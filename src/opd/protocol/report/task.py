"""Section 3 of the analysis: the task, how it is measured, and how what is to be improved works."""

from collections.abc import Iterator

from opd.protocol.report import marks
from opd.protocol.report.layout import listed, table
from opd.protocol.report.pen import Pen
from opd.protocol.report.sources import Fact
from opd.records.claims import Form, Ground


def contract(pen: Pen) -> str:
    """Section 3."""
    return "\n\n".join(
        [
            f"## {marks.numbering('3.')} Task, baseline and evaluation contract",
            f"### {marks.numbering('3.1')} The contract",
            table(("Item", "Value"), list(_items(pen))),
            _scales(pen),
            f"### {marks.numbering('3.2')} How the baseline works",
            *_baseline(pen),
        ]
    )


def _items(pen: Pen) -> Iterator[tuple[str, str]]:
    contract, of = pen.story.contract, pen.of
    for role in ("student", "teacher", "verifier"):
        if model := contract.get(role):
            parameters = model.get("parameters")
            size = f", {of(parameters, Form.INTEGER)} parameters" if parameters else ""
            revision = f" at {of(model['revision'], Form.DIGEST)}" if model.get("revision") else ""
            yield role.capitalize(), f"{of(model['source'], Form.CODE)}{revision}{size}; read-only"
    data = contract["data"]
    where = f"{of(data['source'], Form.CODE)}, {of(data['rows'], Form.INTEGER)} rows"
    digest = of(data["chosen_sha256"] if data.get("chosen_sha256") else data["sha256"], Form.DIGEST)
    yield "Training data", f"{where}, {marks.convention('SHA-256')} {digest}; read-only"
    yield "What may be changed", listed([of(one, Form.CODE) for one in contract["surface"]["editable"].each()])
    yield "Forbidden", " ".join(of(one, Form.TEXT) for one in contract["forbidden"].each())
    for name in ("proxy", "final"):
        yield name.capitalize(), _measure(pen, contract[name])
    yield "What counts", _rule(pen, contract["artifacts"])
    for reference in (*pen.story.references("final"), *pen.story.references("proxy")):
        metric = of(contract[str(reference.fact.value["of"])]["metric"], Form.CODE)
        name = of(reference.fact["name"], Form.TEXT)
        yield "Declared reference", f"{name}: {pen.reference(reference)}, by {metric}"


def _measure(pen: Pen, measure: Fact) -> str:
    of = pen.of
    questions, per_question = of(measure["questions"], Form.INTEGER), of(measure["seeds"].count, Form.INTEGER)
    samples = pen.book.computed("a * b", Form.INTEGER, a=measure["questions"], b=measure["seeds"].count)
    judged = "by rules, and by a model where they reject" if measure.value["judged"] else "by rules"
    return (
        f"{of(measure['metric'], Form.CODE)}, {of(measure['direction'], Form.TEXT)}: {questions} questions × "
        f"{per_question} samples, n = {samples}; at most {of(measure['limit_tokens'], Form.INTEGER)} new tokens; "
        f"temperature {of(measure['temperature'], Form.NUMBER)}, top-p {of(measure['top_p'], Form.NUMBER)}; graded "
        f"{judged}; standard error clustered by question"
    )


def _rule(pen: Pen, artifacts: Fact) -> str:
    best = pen.book.judged("best", Ground.RULE, rests_on=[artifacts["official"]])
    return (
        f"checkpoints {pen.of(artifacts['pattern'], Form.CODE)}; at most {pen.of(artifacts['most'], Form.WORD)}, "
        f"those of the last steps, each validated and evaluated on its own; the {best} final of a valid one counts"
    )


def _scales(pen: Pen) -> str:
    proxy, final = (pen.of(pen.story.contract[name]["metric"], Form.CODE) for name in ("proxy", "final"))
    return (
        f"{proxy} and {final} share the grader and the form of the answer. Their questions, and how they are "
        "sampled, differ, so a number of the one is never set against a number of the other here."
    )


def _baseline(pen: Pen) -> Iterator[str]:
    contract = pen.story.contract
    yield "The task says it so:"
    yield pen.quotes([contract["brief"]])
    base = pen.story.baseline
    recipe = base.training.recipe if base and base.training else None
    if recipe is None:
        yield "No measurement of the source as it was given left its recipe, so nothing more is said of it here."
        return
    yield f"The recipe of the source as it was given, as {pen.unit(base) if base else ''} ran it, says:"
    rows = list(_recipe_rows(pen, recipe))
    yield table(("Setting", "Value"), rows)


def _recipe_rows(pen: Pen, recipe: Fact) -> Iterator[tuple[str, str]]:
    """What a reader asks first; a recipe of another trainer may lack any of it."""
    asked: tuple[tuple[str, Form], ...] = (
        ("objective.name", Form.CODE),
        ("rollouts.prompts_per_step", Form.INTEGER),
        ("rollouts.per_prompt", Form.INTEGER),
        ("rollouts.temperature", Form.NUMBER),
        ("rollouts.limit_tokens", Form.INTEGER),
        ("optimizer.lr", Form.CODE),
        ("data.shuffle", Form.CODE),
        ("reward", Form.CODE),
        ("seed", Form.STEP),
    )
    for key, form in asked:
        fact = recipe.word(*key.split("."))
        if fact is None:
            yield str(marks.name(key)), "none"
        elif not isinstance(fact.value, dict):
            yield str(marks.name(key)), str(pen.of(fact, form))
