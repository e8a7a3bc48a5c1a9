"""`opd attempt export`: an attempt for readers elsewhere."""

import os
from pathlib import Path

import click

from opd.cli.paths import UserPath
from opd.cli.printing import examples


@click.command(
    epilog=examples(
        "opd attempt export runs/command__arith_tiny__scripted__none --out exported",
    )
)
@click.argument("folder", metavar="ATTEMPT", type=UserPath())
@click.option("--out", required=True, type=UserPath(), help="Where it goes; a new folder.")
def export(folder: Path, out: Path) -> None:
    """Write ATTEMPT as a job that `harbor view` opens, with a statement for each receipt and an RO-Crate.

    Refused, with file and variable, where anything of it holds the value of a variable of this shell that is named
    like a key, a token or a password.
    """
    from opd.protocol.attempts.attempt import Attempt
    from opd.protocol.harbor.job import JOB
    from opd.protocol.harbor.job import export as write
    from opd.protocol.harbor.secrets import secrets_of

    facts = write(Attempt(folder), out, secrets=secrets_of(os.environ))
    official = facts.status.official
    come_to = f"reward {official.mean:.6f}" if official else f"no reward: {facts.status.missing}"
    click.echo(f"{out}: {len(facts.tries)} receipts, {come_to}; `harbor view {out}` opens {JOB}")
