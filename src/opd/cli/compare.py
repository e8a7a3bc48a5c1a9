"""`opd compare`: can two scores be told apart, paired by question?"""

from collections.abc import Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

import click

from opd.cli.paths import UserPath
from opd.cli.printing import JSON, examples
from opd.cli.score import CHOICE, TRAINED_ON

if TYPE_CHECKING:
    from opd.evaluate.results import Results, Source
    from opd.evaluate.trained import Trained
    from opd.records.scores import Comparison


@click.command(
    epilog=examples(
        "opd compare runs/scores/start runs/scores/first",
        "opd compare runs/scores/start runs/scores/first --json | jq .ci95",
        "opd compare runs/scores/start runs/scores/first runs/scores/second --lead 2",
    )
)
@click.argument("a", type=UserPath())
@click.argument("b", type=UserPath())
@click.argument("more", nargs=-1, type=UserPath())
@JSON
@click.option(
    "--lead",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    help="Compare each of the first so many with all after it; one fewer than there are: all pairs.",
)
@TRAINED_ON
@CHOICE
def compare(
    a: Path,
    b: Path,
    more: tuple[Path, ...],
    as_json: bool,
    lead: int,
    trained_on: tuple[Path, ...],
    sets: tuple[str, ...],
) -> None:
    """The difference B - A, paired by question, and whether the two can be told apart.

    Each is the folder of an evaluation, a file with {"question": …, "sample": …, "correct": …} a line, or another
    harness' log, as for `opd score`. With MORE, each is compared with A, and the p values are adjusted for the number
    of pairs, all of them together. With --trained-on, it is also compared without the questions that stand in the
    training rows.
    """
    from opd.evaluate.comparison import compare_pairs, led_by
    from opd.evaluate.foreign.choice import Choice
    from opd.evaluate.results import read_source, results_of
    from opd.evaluate.trained import read_trained
    from opd.records.errors import AskedWrongly
    from opd.records.files import canonical_json

    if len(more) > len(ascii_uppercase) - 2 and not as_json:
        raise AskedWrongly(f"{len(more) + 2} scores; {len(ascii_uppercase)} at most, a letter each, without --json")
    if lead > len(more) + 1:
        raise AskedWrongly(
            f"--lead {lead} of {len(more) + 2} scores; the last has none after it: {len(more) + 1} at most"
        )
    choice = Choice().changed(sets)
    sources = [read_source(path, choice=choice) for path in (a, b, *more)]
    results = [results_of(source) for source in sources]
    comparisons = compare_pairs(led_by(results, lead))
    trained = read_trained(trained_on)
    clean = None if trained is None else _without_overlap(trained, sources, results, lead)
    candidates = results[1:] if lead == 1 else results  # with several that lead, the first is no baseline
    if as_json:
        click.echo(canonical_json(_values(comparisons, candidates, clean)))
    else:
        _print(results, candidates, comparisons)
        if clean is not None:
            _print_clean(*clean)


Clean = tuple[tuple[str, ...], "tuple[Comparison, ...] | None"]  # the questions that went, and what is left


def _without_overlap(
    trained: "Trained", sources: Sequence["Source"], results: Sequence["Results"], lead: int
) -> Clean:
    """The comparisons without the questions that any of the models may have been trained on."""
    from opd.evaluate.comparison import compare_pairs, led_by
    from opd.evaluate.trained import overlapping

    questions = results[0].questions
    found = overlapping(trained, questions, models=[source.model for source in sources])
    if found >= set(questions):
        return tuple(sorted(found)), None
    return tuple(sorted(found)), compare_pairs(led_by([one.without(found) for one in results], lead))


def _values(
    comparisons: Sequence["Comparison"], candidates: Sequence["Results"], clean: Clean | None
) -> dict[str, Any]:
    """One comparison as it is; several in a list, with what being the best of them is worth."""
    values = [comparison.resolved() for comparison in comparisons]
    whole: dict[str, Any] = (
        values[0] if len(values) == 1 else {"comparisons": values, "selection": _selection(candidates)}
    )
    if clean is None:
        return whole
    gone, left = clean
    kept = None if left is None else [comparison.resolved() for comparison in left]
    return whole | {"without_overlap": {"questions": list(gone), "comparisons": kept}}


def _selection(candidates: Sequence["Results"]) -> dict[str, Any] | None:
    """How much too high the best of equally good candidates is expected to be; None where seeds show no noise."""
    from opd.evaluate.statistics.estimates import seeds_stderr
    from opd.evaluate.statistics.several import best_of_k_bias

    errors = [error for error in map(seeds_stderr, (results.counts for results in candidates)) if error is not None]
    if len(candidates) < 2 or len(errors) < len(candidates):
        return None
    largest = max(errors)
    return {
        "candidates": len(candidates),
        "stderr_seeds": largest,
        "expected_bonus": best_of_k_bias(len(candidates), largest),
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


def _print(
    results: Sequence["Results"], candidates: Sequence["Results"], comparisons: Sequence["Comparison"]
) -> None:
    for letter, one in zip(ascii_uppercase, results, strict=False):
        click.echo(f"{letter}  {one.name}" + (f"  {one.protocol.benchmark}" if one.protocol else ""))
    if len(comparisons) == len(results) - 1:
        _print_table(comparisons)
    for comparison in comparisons:
        click.echo(f"\n{comparison.verdict}")
    for note in _notes(results, candidates, comparisons):
        click.echo(f"\n{note}")


def _print_table(comparisons: Sequence["Comparison"]) -> None:
    """A column for each score; only where each is compared with the first alone."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for letter in ascii_uppercase[: len(comparisons) + 1]:
        table.add_column(letter, justify="right")
    for label, of_first, values in _rows(comparisons):
        table.add_row(label, of_first, *values)
    Console().print(table)


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


def _notes(
    results: Sequence["Results"], candidates: Sequence["Results"], comparisons: Sequence["Comparison"]
) -> list[str]:
    """What the numbers can't know."""
    notes = list(dict.fromkeys(note for one in comparisons for note in one.notes))
    unknown = [one.name for one in results if one.protocol is None]
    if 0 < len(unknown) < len(results):
        notes.append(f"No protocol is known for {', '.join(unknown)}: that the scores compare is taken on trust.")
    if (selection := _selection(candidates)) is not None:
        notes.append(
            f"Of {len(candidates)} equally good candidates the best is expected to score "
            f"{selection['expected_bonus']:.4f} too high, by selection alone."
        )
    return notes


def _number(value: float | None, form: str) -> str:
    return "undefined" if value is None else format(value, form)
