"""`opd view`: runs, scores and attempts as pages, on this machine."""

from contextlib import suppress
from pathlib import Path

import click

from opd.cli.paths import UserPath
from opd.cli.printing import examples

USUAL = Path("runs")


@click.command(
    epilog=examples(
        "opd view",
        "opd view runs/demo ~/scores --port 8000 --no-open",
    )
)
@click.argument("paths", metavar="[PATH]…", nargs=-1, type=UserPath())
@click.option("--port", default=0, show_default="a free one", type=click.IntRange(0, 65535), help="Where to listen.")
@click.option("--no-open", is_flag=True, help="Print the address and open no browser.")
def view(paths: tuple[Path, ...], port: int, no_open: bool) -> None:
    """Show what lies below each PATH (runs/ by default) in a browser, live while it grows; Ctrl-C ends it.

    Training runs, scores and attempts are found; a PATH may also be one of them. The server listens on this machine
    alone, asks nothing of the network and writes nothing. The address holds a key, so that nobody else who works on
    this machine can read along; from another machine, forward the port: ssh -L 8000:127.0.0.1:8000 HOST.
    """
    from opd.view.server.serving import serve

    with suppress(KeyboardInterrupt):  # is how it ends
        serve(paths or (USUAL,), port=port, open_browser=not no_open, said=click.echo)
