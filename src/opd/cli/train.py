"""`opd train`: a recipe and a folder → a run."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opd.cli.names import RECIPE
from opd.cli.paths import UserPath
from opd.cli.printing import LOG, examples

if TYPE_CHECKING:
    from opd.records.metrics import RunSummary
    from opd.train.ahead.rehearsal import Rehearsal
    from opd.train.parts import Parts
    from opd.train.ranks.ranks import Ranks
    from opd.train.recipe import Recipe
    from opd.train.saved.resume import Start
    from opd.view.terminal.board import TrainBoard
    from opd.view.terminal.log import TrainLog


SETTLE_SECONDS = 5.0  # Ctrl-C under torchrun comes twice: from the terminal, and from torchrun


@click.command(
    epilog=examples(
        "opd train arith_tiny --out runs/first",
        "opd train arith_tiny --set optimizer.lr=3e-4 --out runs/lower",
        "opd train --resume --out runs/first --log json | jq 'select(.event == \"step\") | .kl'",
    )
)
@click.argument("recipe", required=False, type=RECIPE)
@click.option("--out", required=True, type=UserPath(), help="Folder of the run; a new one.")
@click.option("--resume", is_flag=True, help="Go on with the run that OUT holds; without RECIPE by its own.")
@click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="Put a value into the recipe: optimizer.lr=2e-6."
)
@click.option(
    "--rehearse/--no-rehearse",
    default=None,
    help="Make two steps at the greatest length before step one, of which nothing stays. By default on a GPU.",
)
@click.option("--quiet", is_flag=True, help="Show nothing but errors.")
@LOG
@click.pass_obj
def train(
    began: float,
    *,
    recipe: str | None,
    out: Path,
    resume: bool,
    sets: tuple[str, ...],
    rehearse: bool | None,
    quiet: bool,
    log: str | None,
) -> None:
    """Distil the student of RECIPE, a .toml or .json file or the name of one that ships.

    Afterwards OUT holds recipe.json, metrics.jsonl, rollouts/, checkpoint-*/ (complete model directories) and
    run.json. Ctrl-C ends the run after the step at hand, with a checkpoint; --resume goes on from there, or from
    the last state before a crash, to the result that the uninterrupted run would have had.

    As torchrun --nproc-per-node 4 -m opd train RECIPE --out OUT its processes make one run together, a GPU each,
    with the result that one process has.
    """
    file = _recipe_file(recipe, out, resume=resume)  # before the imports that take seconds

    from opd.records.settings import read
    from opd.train.ahead.rehearsal import Rehearsal, is_due
    from opd.train.ranks.joining import joined
    from opd.train.ranks.sameness import check_same_call
    from opd.train.recipe import Recipe
    from opd.train.run import prepare
    from opd.train.saved.resume import find_start, finished

    settings = read(Recipe, file, sets=sets)
    with joined(device=settings.machine.device) as ranks:
        check_same_call(settings, device=settings.machine.device, resumes=resume, rehearses=rehearse, ranks=ranks)
        if resume and (done := ranks.first(lambda: finished(settings, out))):
            if ranks.writes:
                _say_finished(done, out, log=log)
            return
        start = ranks.first(lambda: find_start(settings, out)) if resume else None
        measured: list[Rehearsal] = []
        due = is_due(settings, asked=rehearse, resumes=start is not None)
        rehearsed = measured.append if due else None
        parts = prepare(settings, out, start=start, began=began, ranks=ranks, rehearsed=rehearsed)
        board = _board(settings, parts, out, quiet=quiet, log=log)
        summary = _run(settings, parts, out, start=start, board=board, measured=measured)
    _end(summary, out, board=board, quiet=quiet, ranks=ranks)


def _run(
    settings: "Recipe",
    parts: "Parts",
    out: Path,
    *,
    start: "Start | None",
    board: "TrainBoard | TrainLog",
    measured: "Sequence[Rehearsal]",
) -> "RunSummary":
    """What the run came to, shown on the board from what is worth knowing to its end."""
    from opd.cli.evaluations import instructions
    from opd.cli.interrupt import Interrupt
    from opd.train.ahead.notes import notes_of
    from opd.train.run import run

    ranks = parts.ranks
    said = notes_of(settings, parts, evaluations=instructions())
    going_on = [f"going on after step {start.step}"] if start else []
    together = [f"{ranks.count} ranks make this run together"] if ranks.count > 1 else []
    for line in (*said, *map(str, measured), f"sampler: {parts.sampled_by}", *together, *going_on):
        board.tell(line)
    settle_seconds = SETTLE_SECONDS if ranks.count > 1 else 0.0
    with Interrupt(unit="step", settle_seconds=settle_seconds, quiet=not ranks.writes) as interrupt, board:
        return run(
            settings,
            parts,
            out,
            start=start,
            notes=said,
            report=board.step,
            interrupted=interrupt.asked,
            warn=board.say,
        )


def _recipe_file(recipe: str | None, out: Path, *, resume: bool) -> Path:
    """The file that was named, or else that of the run to go on with."""
    from opd.records.errors import AskedWrongly
    from opd.records.places import recipe_path

    if recipe is not None:
        return recipe_path(recipe)
    if not resume:
        raise AskedWrongly("name a RECIPE, or --resume to go on with the run that OUT holds")
    if not (out / "recipe.json").is_file():
        raise AskedWrongly(f"{out} holds no run (no recipe.json): there is nothing to resume; name a RECIPE to begin")
    return out / "recipe.json"


def _board(settings: "Recipe", parts: "Parts", out: Path, *, quiet: bool, log: str | None) -> "TrainBoard | TrainLog":
    """What shows the run: a board for people, or lines for a program."""
    from opd.view.terminal.board import TrainBoard
    from opd.view.terminal.log import TrainLog

    last_step = settings.budget.last_step(rows=parts.order.rows, prompts_per_step=settings.rollouts.prompts_per_step)
    writes = parts.ranks.writes
    if log is not None and writes:
        return TrainLog(out=out, asked=last_step)
    return TrainBoard(
        total_steps=last_step, quiet=quiet or not writes, seconds_left=lambda: parts.budget.left_seconds
    )


def _say_finished(done: "RunSummary", out: Path, *, log: str | None) -> None:
    """Of a run that was finished before; a program gets the same last line again."""
    from opd.view.terminal.log import Log

    if log is None:
        click.echo(f"{out} is finished, and was left as it is: {closing(done, out)}")
    else:
        Log().write("end", {"out": str(out), **done.resolved()})


def _end(summary: "RunSummary", out: Path, *, board: "TrainBoard | TrainLog", quiet: bool, ranks: "Ranks") -> None:
    """What the run came to is said; raises `AnswerIsNo` where that is not what was asked for."""
    from opd.records.errors import AnswerIsNo
    from opd.records.metrics import StopCause
    from opd.view.terminal.log import TrainLog

    if isinstance(board, TrainLog):
        board.end(summary)
    elif ranks.writes and not quiet:
        click.echo(closing(summary, out))
    if summary.stop is StopCause.INTERRUPTED:
        stopped = AnswerIsNo(
            f"interrupted after step {summary.steps} of {summary.asked_steps}; opd train --resume --out {out} goes on"
        )
        stopped.said_elsewhere = not ranks.writes
        raise stopped


def closing(summary: "RunSummary", out: Path) -> str:
    """What is said at the end: how far it came, where the newest checkpoint is, what was not trained on or graded."""
    last = out / summary.checkpoints[-1]
    done = f"{summary.steps:,} steps in {summary.seconds:,.0f} s ({summary.stop.value.replace('_', ' ')})"
    lines = [f"{done}; the newest checkpoint is {last}"]
    if str(summary.left_out):
        lines.append(f"rows that were left out: {summary.left_out}")
    if summary.ungraded:
        lines.append(f"grading failed for {summary.ungraded:,} rollouts, which had no reward")
    return "\n".join(lines)
