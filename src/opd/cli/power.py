"""`opd power`: what a comparison can find before it is run, and what more questions or samples would buy."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from opd.cli.paths import UserPath
from opd.cli.printing import JSON, examples

if TYPE_CHECKING:
    from opd.records.power_report import PowerReport


@click.command(
    epilog=examples(
        "opd power runs/scores/first",
        "opd power runs/scores/start runs/scores/first --set difference=0.02 --json | jq '.rows[0].detectable'",
    )
)
@click.argument("a", type=UserPath(), required=False)
@click.argument("b", type=UserPath(), required=False)
@JSON
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="questions=60, samples=32, difference=0.02, true_spread=0.01, within=0.08, candidates=3, looks=4, …",
)
def power(a: Path | None, b: Path | None, as_json: bool, sets: tuple[str, ...]) -> None:
    """Smallest difference that a paired comparison finds four times in five.

    Variances are those of the score A, those of the pilot A and B, or given by --set: within (W), true_spread (ω²),
    or correct and stderr of a printed score. With difference=… also the chance to find it, and the questions or
    samples that it takes.
    """
    from opd.evaluate.design import Design, plan_power
    from opd.evaluate.results import read_results
    from opd.records.files import canonical_json

    asked = Design().changed(sets)
    report = plan_power(asked, *(read_results(path) for path in (a, b) if path is not None))
    click.echo(canonical_json(report.resolved()) if as_json else _in_words(report))


def _in_words(report: "PowerReport") -> str:
    pair = report.samples_a, report.samples_b
    samples = f"{pair[0]} samples" if pair[0] == pair[1] else f"{pair[0]} and {pair[1]} samples"
    noise = f"W {report.within_a:.4f} and {report.within_b:.4f} ({report.source})"
    lines = [
        f"{report.questions:,} questions × {samples}, {noise}",
        f"found with power {report.power:g} at alpha {report.alpha_each:.3g}, two-sided" + _candidates(report),
        "",
        *(f"  {line}" for line in _table(report)),
    ]
    if report.unpaired_detectable is not None:
        lines += ["", f"Without pairing by question it would be {report.unpaired_detectable:.3f}."]
    if len(report.rows) > 1:
        lines += ["", "ω² is the variance of the true per-question differences; a pilot of A and B shows it."]
    if report.pocock:
        lines += ["", f"|z| to pass at {len(report.pocock)} looks: Pocock {_each(report.pocock)};"]
        lines += [f"O'Brien-Fleming {_each(report.obrien_fleming)}"]
    return "\n".join([*lines, *(line for note in report.notes for line in ("", note))])


def _candidates(report: "PowerReport") -> str:
    return "" if report.candidates == 1 else f", {report.candidates} candidates sharing {report.alpha:g}"


def _table(report: "PowerReport") -> list[str]:
    header = ["ω²", "error", "smallest detectable", "in samples"]
    asked = report.difference is not None
    header += [f"chance to find {report.difference:g}", "questions for it", "samples for it"] if asked else []
    total = report.questions * report.samples_a
    rows = [header]
    for row in report.rows:
        cells = [f"{row.true_spread:g}", f"{row.stderr:.4f}", f"{row.detectable:.4f}"]
        cells += [f"{row.detectable_samples:.0f} of {total:,}"]
        if asked:
            chance, needed = row.power_at_difference, (row.questions_needed, row.samples_needed)
            cells += ["undefined" if chance is None else f"{chance:.2f}"]
            cells += ["no number" if number is None else f"{number:,}" for number in needed]
        rows.append(cells)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]


def _each(limits: tuple[float, ...]) -> str:
    return ", ".join(f"{limit:.3f}" for limit in limits)
