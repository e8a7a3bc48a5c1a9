"""`opd cases`: many attempts side by side, once all of them hold."""

from pathlib import Path

import click

from opd.cli.paths import UserPath
from opd.cli.printing import examples


@click.command(
    epilog=examples(
        "opd cases runs --html cases.html",
        "opd cases runs --json | jq '.tasks[].cases[] | [.case, .tally.best]'",
    )
)
@click.argument("runs", nargs=-1, required=True, type=UserPath())
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--html", type=UserPath(), help="New file: the same as a page that sorts.")
def cases(runs: tuple[Path, ...], as_json: bool, html: Path | None) -> None:
    """A table over case ids, task by task: best, median, references, and what can be told apart.

    RUNS are attempts, or folders in which attempts lie. Each is verified first; exit 1 when one does not hold. What
    has no score is counted by the reason why, and is in no mean.
    """
    from opd.protocol.cases.table import table
    from opd.records.errors import AskedWrongly
    from opd.records.files import canonical_json, check_writable

    if html is not None:
        if html.exists():
            raise AskedWrongly(f"{html} exists already and is never overwritten; name another --html")
        check_writable(html.parent)
    made = table(runs)
    if html is not None:
        from opd.view.cases.page import write_page

        write_page(html, made)
    if as_json:
        click.echo(canonical_json(made.resolved()))
    else:
        from opd.view.cases.text import terminal

        click.echo(terminal(made))
    if html is not None:
        click.echo(f"→ {html}", err=as_json)
