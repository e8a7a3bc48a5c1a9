"""`opd score`: the mean of a file of samples, with the error bar that its questions allow."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from opd.cli.paths import UserPath

if TYPE_CHECKING:
    from opd.evaluate.statistics import Counts, Summary


@click.command()
@click.argument("file", type=UserPath())
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def score(file: Path, as_json: bool) -> None:
    """Mean and question-clustered error of FILE.

    FILE holds {"question": …, "sample": …, "correct": …} a line, or is the folder of an evaluation.
    """
    from opd.evaluate.results import read_results
    from opd.records.files import canonical_json

    results = read_results(file)
    if as_json:
        click.echo(canonical_json(_values(results.counts)))
    else:
        _print(results.name, results.counts)


def _values(counts: "Counts") -> dict[str, object]:
    """The statistics by name; `wilson95_questions` is null unless all samples agree, where the error 0 misleads."""
    from opd.evaluate.intervals import wilson
    from opd.evaluate.statistics import summary

    said = summary(counts)
    unanimous = said.correct in {0, said.samples}
    all_right = said.questions if said.correct else 0
    return {
        "mean": said.mean,
        "stderr": said.stderr,
        "stderr_naive": said.stderr_naive,
        "design_effect": said.design_effect,
        "icc": said.icc,
        "ci95": said.ci95,
        "stderr_seeds": said.stderr_seeds,
        "wilson95_questions": wilson(all_right, said.questions) if unanimous else None,
        "questions": said.questions,
        "samples_per_question": counts.samples_per_question,
        "n": said.samples,
        "correct": said.correct,
    }


def _print(name: str, counts: "Counts") -> None:
    from opd.evaluate.statistics import summary

    said = summary(counts)
    each = counts.samples_per_question or f"{min(counts.samples)} to {max(counts.samples)}"
    rows = [
        ("mean", f"{said.mean:.4f}", f"{said.correct} of {said.samples} samples"),
        ("error", _number(said.stderr, ".4f"), "clustered by question"),
        ("95 % interval", _interval(said.ci95), f"from t with {said.questions - 1} degrees of freedom"),
        ("naive error", _number(said.stderr_naive, ".4f"), "as if the samples were independent"),
        ("design effect", _number(said.design_effect, ".1f"), _worth(said)),
        ("intracluster correlation", _number(said.icc, ".2f"), "what two samples of a question share"),
        ("seed-to-seed error", _number(said.stderr_seeds, ".4f"), "the same model again on these questions"),
        ("questions", str(said.questions), f"{each} samples of each"),
    ]
    click.echo(name)
    for label, value, meaning in rows:
        click.echo(f"  {label:<26}{value:<20}{meaning}".rstrip())
    wilson = _values(counts)["wilson95_questions"]
    if isinstance(wilson, tuple):
        click.echo(f"All samples agree, so the error 0 misleads; by Wilson on questions: {_interval(wilson)}.")
    if counts.samples_per_question is None:
        click.echo("The questions have different numbers of samples; the mean is over samples, not over questions.")


def _worth(said: "Summary") -> str:
    if not said.design_effect:
        return ""
    return f"{said.samples} samples are worth {said.samples / said.design_effect:.0f} independent ones"


def _number(value: float | None, form: str) -> str:
    return "undefined" if value is None else format(value, form)


def _interval(bounds: tuple[float, float] | None) -> str:
    return "undefined" if bounds is None else f"{bounds[0]:.4f} to {bounds[1]:.4f}"
