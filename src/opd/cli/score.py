"""`opd score`: the mean of a file of samples, with the error bar that its questions allow, and all that is in it."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from opd.cli.paths import UserPath
from opd.cli.printing import JSON, examples

if TYPE_CHECKING:
    from opd.evaluate.results import Source
    from opd.records.score_report import ScoreReport

PAGES = (".html", ".md")

TRAINED_ON = click.option(
    "--trained-on",
    multiple=True,
    type=UserPath(),
    metavar="REPORT",
    help="What `opd data decontaminate --json` said of the training rows; may be given again.",
)
CHOICE = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="Of another harness' log: metric=exact_match, filter=strict-match, question=doc.id.",
)


@click.command(
    epilog=examples(
        "opd score runs/scores/first",
        "opd score runs/scores/first --out first.html --out first.csv",
        "opd score runs/scores/first --json | jq .mean",
    )
)
@click.argument("file", type=UserPath())
@JSON
@click.option(
    "--out",
    multiple=True,
    type=UserPath(),
    help="New file: a report (.html, .md) or a table of the samples (.csv, .parquet, .jsonl); may be given again.",
)
@TRAINED_ON
@CHOICE
def score(
    file: Path, as_json: bool, out: tuple[Path, ...], trained_on: tuple[Path, ...], sets: tuple[str, ...]
) -> None:
    """Mean and question-clustered error of FILE, and what is behind them.

    FILE is the folder of an evaluation, holds {"question": …, "sample": …, "correct": …} a line, or is a log of
    lm-evaluation-harness (samples_….jsonl) or inspect_ai (.json, .eval).
    """
    from opd.evaluate.foreign.choice import Choice
    from opd.evaluate.report import score_report
    from opd.evaluate.results import read_source
    from opd.evaluate.trained import read_trained
    from opd.records.files import canonical_json

    choice = Choice().changed(sets)
    _check(out)
    source = read_source(file, choice=choice)
    report = score_report(source, read_trained(trained_on))
    for path in out:
        _write(path, source, report)
    if as_json:
        click.echo(canonical_json(report.resolved()))
    else:
        from opd.view.scores.text import terminal

        click.echo(terminal(report))
    for path in out:
        click.echo(f"→ {path}", err=as_json)


def _check(out: tuple[Path, ...]) -> None:
    """Nothing, when each is a new file of a form that there is; else `AskedWrongly`, before anything is read."""
    from opd.evaluate.table import ENDINGS
    from opd.records.errors import AskedWrongly
    from opd.records.files import check_writable

    for path in out:
        if path.suffix not in (*PAGES, *ENDINGS):
            raise AskedWrongly(f"--out {path}: its ending says what to write, one of {' '.join((*PAGES, *ENDINGS))}")
        if path.exists():
            raise AskedWrongly(f"{path} exists already and is never overwritten; name another --out")
        check_writable(path.parent)


def _write(path: Path, source: "Source", report: "ScoreReport") -> None:
    if path.suffix == ".html":
        from opd.view.scores.page import write_page

        write_page(path, report)
    elif path.suffix == ".md":
        from opd.view.scores.text import write_markdown

        write_markdown(path, report)
    else:
        from opd.evaluate.table import write_table

        write_table(path, source.rows)
