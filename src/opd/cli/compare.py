"""`opd compare`: can two scores be told apart, paired by question?"""

from collections.abc import Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING

import click

from opd.cli.paths import UserPath

if TYPE_CHECKING:
    from opd.evaluate.results import Results
    from opd.records.scores import Comparison


@click.command()
@click.argument("a", type=UserPath())
@click.argument("b", type=UserPath())
@click.argument("more", nargs=-1, type=UserPath())
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def compare(a: Path, b: Path, more: tuple[Path, ...], as_json: bool) -> None:
    """The difference B - A, paired by question, and whether the two can be told apart.

    Each is the folder of an evaluation, or a file with {"question": …, "sample": …, "correct": …} a line. With
    MORE, each is compared with A, and the p values are adjusted for their number.
    """
    from opd.evaluate.comparison import compare_each
    from opd.evaluate.results import read_results
    from opd.records.errors import AskedWrongly
    from opd.records.files import canonical_json

    if len(more) > len(ascii_uppercase) - 2:
        raise AskedWrongly(f"{len(more) + 2} scores; {len(ascii_uppercase)} at most, a letter each")
    first, *others = (read_results(path) for path in (a, b, *more))
    comparisons = compare_each(first, others)
    if as_json:
        values = [comparison.resolved() for comparison in comparisons]
        click.echo(canonical_json(values[0] if len(values) == 1 else {"comparisons": values}))
    else:
        _print(first, others, comparisons)


def _print(first: "Results", others: Sequence["Results"], comparisons: Sequence["Comparison"]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for letter, name in zip(ascii_uppercase, (first.name, *(other.name for other in others)), strict=False):
        click.echo(f"{letter}  {name}")
        table.add_column(letter, justify="right")
    for label, of_first, values in _rows(comparisons):
        table.add_row(label, of_first, *values)
    Console().print(table)
    for comparison in comparisons:
        click.echo(f"\n{comparison.verdict}")
    for note in _notes(first, others):
        click.echo(f"\n{note}")


def _rows(comparisons: Sequence["Comparison"]) -> list[tuple[str, str, list[str]]]:
    """(label, the cell of A, the cell of each other)."""
    one = comparisons[0]
    rows = [
        ("mean", f"{one.mean_a:.4f}", [f"{c.mean_b:.4f}" for c in comparisons]),
        ("difference", "", [f"{c.difference:+.4f}" for c in comparisons]),
        ("error, questions like these", "", [_number(c.stderr, ".4f") for c in comparisons]),
        ("error, exactly these", "", [_number(c.stderr_fixed_questions, ".4f") for c in comparisons]),
        ("95 % interval, from", "", [_number(c.ci95 and c.ci95[0], "+.4f") for c in comparisons]),
        ("95 % interval, to", "", [_number(c.ci95 and c.ci95[1], "+.4f") for c in comparisons]),
        ("p, t", "", [_number(c.p, ".2g") for c in comparisons]),
        ("p, sign flips", "", [_number(c.p_permutation, ".2g") for c in comparisons]),
        ("p, Holm", "", [_number(c.p_holm, ".2g") for c in comparisons]),
        ("smallest detectable", "", [_number(c.detectable, ".4f") for c in comparisons]),
        ("questions", str(one.questions), [str(c.questions) for c in comparisons]),
        ("samples", str(one.samples_a), [str(c.samples_b) for c in comparisons]),
    ]
    return [row for row in rows if row[0] != "p, Holm" or len(comparisons) > 1]


def _notes(first: "Results", others: Sequence["Results"]) -> list[str]:
    """What the numbers can't know."""
    from opd.evaluate.several import best_of_k_bias
    from opd.evaluate.statistics import seeds_stderr

    notes = []
    unknown = [results.name for results in (first, *others) if results.protocol is None]
    if 0 < len(unknown) <= len(others):
        notes.append(f"No protocol is known for {', '.join(unknown)}: that the scores compare is taken on trust.")
    errors = [seeds_stderr(results.counts) for results in others]
    if len(others) > 1 and all(error is not None for error in errors):
        error = max(error for error in errors if error is not None)
        bias = best_of_k_bias(len(others), error)
        notes.append(
            f"Of {len(others)} equally good candidates the best is expected to score {bias:.4f} too high, "
            "by selection alone."
        )
    return notes


def _number(value: float | None, form: str) -> str:
    return "undefined" if value is None else format(value, form)
