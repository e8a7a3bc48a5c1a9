"""`opd train`: a recipe and a folder → a run."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from opd.cli.paths import UserPath

if TYPE_CHECKING:
    from opd.records.metrics import RunSummary


@click.command()
@click.argument("recipe")
@click.option("--out", required=True, type=UserPath(), help="Folder of the run; a new one.")
@click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="Put a value into the recipe: optimizer.lr=2e-6."
)
@click.option("--quiet", is_flag=True, help="Show nothing but errors.")
def train(recipe: str, out: Path, sets: tuple[str, ...], quiet: bool) -> None:
    """Distil the student of RECIPE, a .toml or .json file or the name of one that ships.

    Afterwards OUT holds recipe.json, metrics.jsonl, rollouts/, checkpoint-*/ (complete model directories) and
    run.json. Ctrl-C ends the run after the step at hand, with a checkpoint.
    """
    from opd.cli.interrupt import Interrupt
    from opd.records.errors import AnswerIsNo
    from opd.records.metrics import StopCause
    from opd.records.places import recipe_path
    from opd.records.settings import read
    from opd.train.plan import notes
    from opd.train.recipe import Recipe
    from opd.train.run import prepare, run
    from opd.view.board import TrainBoard

    settings = read(Recipe, recipe_path(recipe), sets=sets)
    parts = prepare(settings, out)
    if not quiet:
        for note in notes(settings, rows=len(parts.prompts)):
            click.echo(note, err=True)
    board = TrainBoard(total_steps=settings.budget.steps, quiet=quiet)
    with Interrupt(unit="step") as interrupt, board:
        summary = run(settings, parts, out, report=board.step, interrupted=interrupt.asked)
    if not quiet:
        click.echo(_closing(summary, out))
    if summary.stop is StopCause.INTERRUPTED:
        raise AnswerIsNo(f"interrupted after step {summary.steps} of {summary.asked_steps}")


def _closing(summary: "RunSummary", out: Path) -> str:
    last = out / summary.checkpoints[-1]
    return (
        f"{summary.steps:,} steps in {summary.seconds:,.0f} s ({summary.stop.value.replace('_', ' ')}); "
        f"the newest checkpoint is {last}"
    )
