"""`opd top`: several runs at once, in the terminal."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opd.cli.paths import UserPath
from opd.cli.printing import examples

if TYPE_CHECKING:
    from opd.view.terminal.top import Watch

_LOOKS_PER_SECOND = 1.0
_SECONDS_BETWEEN_LINES = 10.0  # of one run on a pipe; a change of its state is said at once


@click.command(
    epilog=examples(
        "opd top",
        "opd top runs/sweep",
        "opd top runs/a runs/b | tee -a runs/log",
        "opd top --json | jq -r 'select(.state == \"running\") | .tokens_per_second'",
    )
)
@click.argument("paths", nargs=-1, type=UserPath())
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each run as it is now, and end.")
def top(paths: tuple[Path, ...], as_json: bool) -> None:
    """Follow the runs at and below PATHS, or below runs/ here, until all have ended or Ctrl-C.

    On a terminal a table that is drawn anew each second; on a pipe a line for each change. It reads only.
    """
    from opd.records.files import canonical_json
    from opd.view.terminal.terminal import Display, Unbreakable, display_of
    from opd.view.terminal.top import Watch, values

    watch = Watch(paths or (Path("runs"),))
    watch.look()
    if as_json:
        for one in watch.seen:
            click.echo(canonical_json(values(one)))
        return
    if not watch.seen:
        click.echo("no runs here", err=True)
        return
    try:
        if display_of(Unbreakable(sys.stdout)) is Display.LIVE:
            _live(watch)
        else:
            _lines(watch)
    except KeyboardInterrupt:  # the usual end
        return


def _live(watch: "Watch") -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console()
    ascii_only = not console.encoding.startswith("utf")
    with Live(
        get_renderable=lambda: watch.draw(width=console.width, ascii_only=ascii_only),
        console=console,
        auto_refresh=False,
        vertical_overflow="crop",
    ) as live:
        live.refresh()
        while not watch.over:
            time.sleep(1 / _LOOKS_PER_SECOND)
            watch.look()
            live.refresh()


def _lines(watch: "Watch") -> None:
    """Each run when it is first seen; then when its state changes, and now and then when it has gone on."""
    from opd.view.terminal.top import changes

    said = {one.run.folder.path: (one, time.monotonic()) for one in watch.seen}
    for one in watch.seen:
        click.echo(watch.line(one))
    while not watch.over:
        time.sleep(1 / _LOOKS_PER_SECOND)
        watch.look()
        for one in changes([before for before, _ in said.values()], watch.seen):
            before, when = said.get(one.run.folder.path, (None, 0.0))
            due = time.monotonic() - when >= _SECONDS_BETWEEN_LINES
            if due or before is None or before.run.state is not one.run.state:
                click.echo(watch.line(one))
                said[one.run.folder.path] = (one, time.monotonic())
