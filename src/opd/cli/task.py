"""`opd task`: the embedded tasks."""

from pathlib import Path

import click

from opd.cli.paths import UserPath


@click.group()
def task() -> None:
    """Make the parts of an embedded task anew."""


@task.command()
@click.argument("name", type=click.Choice(["arith_tiny"]))
@click.option("--out", required=True, type=UserPath(), help="Folder of the models; a new one.")
@click.option("--seed", type=int, help="Another seed makes other models; the shipped ones have the default.")
def make_models(name: str, out: Path, seed: int | None) -> None:
    """Train the models of NAME as the shipped ones were trained; about two minutes on one CPU thread.

    OUT then holds arith_tiny/student, arith_tiny/teacher, arith_gap/student and provenance.json with their scores.
    """
    from opd.tasks.arith_tiny.models import SEED
    from opd.tasks.arith_tiny.models import make_models as make

    make(out, seed=SEED if seed is None else seed, report=lambda line: click.echo(line, err=True))
    click.echo(f"the models of {name} are in {out}")
