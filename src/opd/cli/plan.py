"""`opd plan`: what a recipe needs and what it will see, before step one."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from opd.cli.names import RECIPE
from opd.cli.paths import UserPath
from opd.cli.printing import JSON, examples

if TYPE_CHECKING:
    from rich.table import Table

    from opd.train.ahead.plan import Plan, Space
    from opd.train.ranks.cost import Reduction

WIDTH = 140  # a narrower terminal wraps by itself; a pipe gets whole lines
_MIB, _GIB = 1 << 20, 1 << 30


@click.command(
    epilog=examples(
        "opd plan arith_tiny",
        "opd plan arith_tiny --rehearse --set rollouts.per_prompt=8",
        "opd plan opd_math_1p5b_x4 --ranks 4",
        "opd plan arith_tiny --json | jq .memory.needed_bytes",
    )
)
@click.argument("recipe", type=RECIPE)
@click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="Put a value into the recipe: optimizer.lr=2e-6."
)
@click.option("--out", default=".", type=UserPath(), help="Where the run will be: whose disk counts.")
@click.option("--rehearse", is_flag=True, help="Measure two real steps at the greatest length; nothing is kept.")
@click.option(
    "--ranks",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="Of a run that torchrun starts so many processes of: what each of them needs.",
)
@JSON
def plan(recipe: str, sets: tuple[str, ...], out: Path, rehearse: bool, ranks: int, as_json: bool) -> None:
    """Rows, tokens, memory, disk and time of RECIPE, and what looks wrong.

    Nothing is created. Exit code 1: the run can't work here, and the plan says why.
    """
    from opd.cli.evaluations import instructions
    from opd.records.errors import AnswerIsNo
    from opd.records.files import canonical_json
    from opd.records.places import recipe_path
    from opd.records.settings import read
    from opd.train.ahead.plan import make_plan
    from opd.train.recipe import Recipe

    settings = read(Recipe, recipe_path(recipe), sets=sets)
    made = make_plan(settings, out=out, evaluations=instructions(), rehearsed=rehearse, ranks=ranks)
    if as_json:
        click.echo(canonical_json(made.resolved()))
    else:
        _print(made, name=recipe, rehearse=rehearse)
    if made.lacks:
        count = len(made.lacks)
        raise AnswerIsNo(f"this plan can't work here: {count} thing{'s' if count > 1 else ''} in the way, see above")


def _print(made: "Plan", *, name: str, rehearse: bool) -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True, width=WIDTH)
    console.print(_amounts(made, name))
    each = f" of each of {made.ranks} ranks" if made.ranks > 1 else ""
    console.print(_space(f"memory, {made.device}{each}", made.memory))
    console.print(_space("disk", made.disk))
    if made.reduction is not None:
        console.print(_reduced(made.reduction))
    if made.rehearsal is not None:
        console.print(_times(made))
    elif not made.lacks and not rehearse:
        console.print("time: not measured; --rehearse makes two steps at the greatest length", markup=False)
    for title, lines in (("worth knowing", made.notes), ("in the way", made.lacks)):
        if lines:
            console.print(f"\n{title}", style="bold")
        for line in lines:
            console.print(f"  - {line}", markup=False)


def _amounts(made: "Plan", name: str) -> "Table":
    table = _table(name)
    if made.rows is not None and made.rows_seen is not None:
        repeated = "" if made.different == made.rows else f", {made.different:,} of them different problems"
        table.add_row("rows seen, at most", f"{made.rows_seen:,}", f"of {made.rows:,}{repeated}")
        table.add_row("steps, at most", f"{made.steps:,}", "")
        table.add_row("tokens sampled, at most", f"{made.rollout_tokens:,}", "if every rollout reaches the limit")
    if made.sampler is not None:
        table.add_row("sampler", made.sampler.partition(":")[0], made.sampler.partition(": ")[2])
    table.add_row("longest prompt", f"{made.prompt_tokens:,}", "tokens")
    return table


def _space(title: str, space: "Space") -> "Table":
    table = _table(title)
    for part in space.parts:
        always = getattr(part, "phase", "always") == "always"
        table.add_row(part.name, _size(part.bytes), "" if always else f"while it {_DOES[part.phase]}")
    there = "not here" if space.has_bytes is None else f"of {_size(space.has_bytes)}"
    unknown = "" if space.complete else "; without what depends on models that are not here"
    table.add_row("needed", _size(space.needed_bytes), f"{there}{unknown}", style="bold")
    return table


def _times(made: "Plan") -> "Table":
    measured, forecast = made.rehearsal, made.forecast
    assert measured is not None, "asked before"
    assert forecast is not None, "made with the rehearsal"
    table = _table(f"time, {measured.steps} steps of {measured.rollout_tokens:,} tokens a rollout")
    for phase, seconds in measured.step_seconds.items():
        table.add_row(f"a step: {phase}", f"{seconds:,.2f} s", "")
    table.add_row("a step", f"{measured.seconds:,.2f} s", "at most")
    table.add_row("a save", f"{measured.save_seconds:,.2f} s", "")
    table.add_row("start", f"{measured.start_seconds:,.2f} s", "")
    table.add_row("peak memory", _size(measured.peak_bytes), "measured")
    wall = forecast.max_wall_seconds
    given = "no wall clock" if wall is None else f"of {wall:,.0f} s given"
    table.add_row("end", f"{forecast.seconds:,.0f} s", f"{forecast.steps:,} steps, at most; {given}", style="bold")
    return table


def _reduced(reduction: "Reduction") -> "Table":
    travels = "gradients" if reduction.shard == "none" else "gradients and weights"
    table = _table(f"{travels} between {reduction.ranks} ranks, a step")
    table.add_row("gradients of each", _size(reduction.gradient_bytes), "")
    table.add_row("sent by each", _size(reduction.sent_bytes), "and received")
    known = "by the recipe" if reduction.measured else f"assumed of {reduction.link}"
    speed = f"at {reduction.bytes_per_second / 1e9:g} GB/s, {known}"
    table.add_row("time", f"{reduction.seconds:,.3f} s", speed, style="bold")
    return table


_DOES = {"sample": "samples", "score": "scores", "update": "updates", "save": "saves"}


def _table(title: str) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, title=Text(title, style="bold"), title_justify="left", pad_edge=False)
    table.add_column(min_width=32, no_wrap=True)
    table.add_column(justify="right", min_width=12)
    table.add_column(no_wrap=True)
    return table


def _size(size: int) -> str:
    return f"{size / _GIB:,.2f} GiB" if size >= _GIB / 10 else f"{size / _MIB:,.2f} MiB"
