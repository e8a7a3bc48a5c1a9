"""`opd compare`: can two scores be told apart, paired by question?"""

from collections.abc import Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

import click

from opd.cli.paths import UserPath
from opd.cli.printing import examples
from opd.cli.score import CHOICE, TRAINED_ON

if TYPE_CHECKING:
    from opd.evaluate.results import Results, Source
    from opd.evaluate.trained import Trained
    from opd.records.scores import Comparison


@click.command(
    epilog=examples(
        "opd compare runs/scores/start runs/scores/first",
        "opd compare runs/scores/start runs/scores/first --json | jq .ci95",
    )
)
@click.argument("a", type=UserPath())
@click.argument("b", type=UserPath())
@click.argument("more", nargs=-1, type=UserPath())
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@TRAINED_ON
@CHOICE
def compare(
    a: Path, b: Path, more: tuple[Path, ...], as_json: bool, trained_on: tuple[Path, ...], sets: tuple[str, ...]
) -> None:
    """The difference B - A, paired by question, and whether the two can be told apart.

    Each is the folder of an evaluation, a file with {"question": …, "sample": …, "correct": …} a line, or another
    harness' log, as for `opd score`. With MORE, each is compared with A, and the p values are adjusted for their
    number. With --trained-on, it is also compared without the questions that stand in the training rows.
    """
    from opd.evaluate.comparison import compare_each
    from opd.evaluate.foreign.choice import Choice
    from opd.evaluate.results import read_source, results_of
    from opd.evaluate.trained import read_trained
    from opd.records.errors import AskedWrongly
    from opd.records.files import canonical_json

    if len(more) > len(ascii_uppercase) - 2:
        raise AskedWrongly(f"{len(more) + 2} scores; {len(ascii_uppercase)} at most, a letter each")
    choice = Choice().changed(sets)
    sources = [read_source(path, choice=choice) for path in (a, b, *more)]
    first, *others = map(results_of, sources)
    comparisons = compare_each(first, others)
    trained = read_trained(trained_on)
    clean = None if trained is None else _without_overlap(trained, sources, first, others)
    if as_json:
        click.echo(canonical_json(_values(comparisons, others, clean)))
    else:
        _print(first, others, comparisons)
        if clean is not None:
            _print_clean(*clean)


Clean = tuple[tuple[str, ...], "tuple[Comparison, ...] | None"]  # the questions that went, and what is left


def _without_overlap(
    trained: "Trained", sources: Sequence["Source"], first: "Results", others: Sequence["Results"]
) -> Clean:
    """The comparisons without the questions that any of the models may have been trained on."""
    from opd.evaluate.comparison import compare_each
    from opd.evaluate.trained import overlapping

    found = overlapping(trained, first.questions, models=[source.model for source in sources])
    if found >= set(first.questions):
        return tuple(sorted(found)), None
    return tuple(sorted(found)), compare_each(first.without(found), [other.without(found) for other in others])


def _values(comparisons: Sequence["Comparison"], others: Sequence["Results"], clean: Clean | None) -> dict[str, Any]:
    """One comparison as it is; several in a list, with what being the best of them is worth."""
    values = [comparison.resolved() for comparison in comparisons]
    whole: dict[str, Any] = (
        values[0] if len(values) == 1 else {"comparisons": values, "selection": _selection(others)}
    )
    if clean is None:
        return whole
    gone, left = clean
    kept = None if left is None else [comparison.resolved() for comparison in left]
    return whole | {"without_overlap": {"questions": list(gone), "comparisons": kept}}


def _selection(others: Sequence["Results"]) -> dict[str, Any] | None:
    """How much too high the best of equally good candidates is expected to be; None where seeds show no noise."""
    from opd.evaluate.several import best_of_k_bias
    from opd.evaluate.statistics import seeds_stderr

    errors = [error for error in map(seeds_stderr, (results.counts for results in others)) if error is not None]
    if len(others) < 2 or len(errors) < len(others):
        return None
    largest = max(errors)
    return {
        "candidates": len(others),
        "stderr_seeds": largest,
        "expected_bonus": best_of_k_bias(len(others), largest),
    }


def _print_clean(gone: Sequence[str], left: "Sequence[Comparison] | None") -> None:
    if not gone:
        click.echo("\nNo question that was compared with the training rows stands in them.")
        return
    names = ", ".join(gone[:5]) + ", …" * (len(gone) > 5)
    click.echo(f"\nWithout the {len(gone)} questions that stand in the training rows ({names}):")
    for comparison in left or ():
        click.echo(f"\n{comparison.verdict}")
    if left is None:
        click.echo("\nno question is left.")


def _print(first: "Results", others: Sequence["Results"], comparisons: Sequence["Comparison"]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for letter, results in zip(ascii_uppercase, (first, *others), strict=False):
        click.echo(f"{letter}  {results.name}" + (f"  {results.protocol.benchmark}" if results.protocol else ""))
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
        ("p, exactly these", "", [_number(c.p_fixed_questions, ".2g") for c in comparisons]),
        ("smallest detectable", "", [_number(c.detectable, ".4f") for c in comparisons]),
        ("questions", str(one.questions), [str(c.questions) for c in comparisons]),
        ("samples", str(one.samples_a), [str(c.samples_b) for c in comparisons]),
    ]
    return [row for row in rows if row[0] != "p, Holm" or len(comparisons) > 1]


def _notes(first: "Results", others: Sequence["Results"]) -> list[str]:
    """What the numbers can't know."""
    from opd.evaluate.comparison import notes_on

    notes = list(dict.fromkeys(note for other in others for note in notes_on(first, other)))
    unknown = [results.name for results in (first, *others) if results.protocol is None]
    if 0 < len(unknown) <= len(others):
        notes.append(f"No protocol is known for {', '.join(unknown)}: that the scores compare is taken on trust.")
    if (selection := _selection(others)) is not None:
        notes.append(
            f"Of {len(others)} equally good candidates the best is expected to score "
            f"{selection['expected_bonus']:.4f} too high, by selection alone."
        )
    return notes


def _number(value: float | None, form: str) -> str:
    return "undefined" if value is None else format(value, form)
