"""`opd cases`: many attempts side by side, once all of them hold; and `opd cases run`, which runs many cases."""

from pathlib import Path

import click

from opd.cli.paths import UserPath
from opd.cli.printing import JSON, QUIET, examples


class _Cases(click.Group):
    """A group that takes what is no verb of it as the RUNS of `table`: `opd cases runs`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """An option that is not the group's own is that of `table`."""
        if args and args[0].startswith("-") and args[0] not in {"-h", "--help"}:
            args = ["table", *args]
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb of this name, and `table` for any other."""
        return super().get_command(ctx, cmd_name) or self.commands["table"]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb, and its words."""
        return super().resolve_command(ctx, args if args[0] in self.commands else ["table", *args])


@click.group(
    cls=_Cases,
    epilog=examples(
        "opd cases table runs --html cases.html",
        "opd cases run sweep.toml --out runs/sweep",
    ),
)
def cases() -> None:
    """Attempts side by side, and many cases run from one file.

    `opd cases RUNS` is short for `opd cases table RUNS`; a folder that is called like a verb is given as ./run.
    """


@cases.command(
    epilog=examples(
        "opd cases table runs --html cases.html",
        "opd cases table runs --json | jq '.tasks[].cases[] | [.case, .tally.best]'",
    )
)
@click.argument("runs", nargs=-1, required=True, type=UserPath())
@JSON
@click.option(
    "--html", type=UserPath(), help="New file, its folder too where there is none: the same as a page that sorts."
)
def table(runs: tuple[Path, ...], as_json: bool, html: Path | None) -> None:
    """A table over case ids, task by task: best, median, references, and what can be told apart.

    RUNS are attempts, or folders in or below which attempts lie. Each is verified first; exit 1 when one does not
    hold. What has no score is counted by the reason why, and is in no mean.
    """
    from opd.protocol.cases.table import table as of_attempts
    from opd.records.errors import AskedWrongly
    from opd.records.files import canonical_json, check_writable

    if html is not None:
        if html.exists():
            raise AskedWrongly(f"{html} exists already and is never overwritten; name another --html")
        check_writable(html.parent)
    made = of_attempts(runs)
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


@cases.command(
    epilog=examples(
        "opd cases run sweep.toml --out runs/sweep",
        "opd cases run sweep.toml --out runs/sweep --on ray:8",
    )
)
@click.argument("matrix", type=UserPath())
@click.option("--out", required=True, type=UserPath(), help="Folder of the cases; goes on with its own.")
@click.option("--on", metavar="ray[:N]", help="Run on a Ray cluster, N cases at once: one a device by default.")
@QUIET
def run(matrix: Path, out: Path, on: str | None, quiet: bool) -> None:
    """Run the trainings and attempts of MATRIX, a .toml file, one after another or on a Ray cluster.

    Each has a folder in OUT, with its log and, last, its receipt. What has a receipt is not run again; what was
    interrupted goes on where it stopped.
    """
    from opd.cli.at_work import saying
    from opd.cli.interrupt import Interrupt
    from opd.cli.places import workers_on_ray
    from opd.protocol.cases.matrix import read_matrix
    from opd.protocol.cases.running import Place, run_units

    units = read_matrix(matrix).units()
    place = Place() if on is None else Place(on_ray=True, workers=workers_on_ray(on))
    with Interrupt(unit="case") as interrupt:
        made = run_units(units, out, place, say=saying(quiet), interrupted=interrupt.asked)
    click.echo("\n".join(f"{name}: {receipt.said}" for name, receipt in made.items()))
