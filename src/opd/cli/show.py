"""`opd show`: what there is, and what a recipe comes to."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opd.cli.paths import UserPath

if TYPE_CHECKING:
    from opd.records.settings import Settings


@click.group()
def show() -> None:
    """List objectives, benchmarks and recipes, or print one of them in full."""


@show.command()
def objectives() -> None:
    """The objectives, with the first line of what each says of itself."""
    from opd.train import objective

    for name in objective.names():
        click.echo(f"{name:24}{_first_line(objective.find(name).__doc__)}")


@show.command()
def benchmarks() -> None:
    """The benchmarks, with their counts and how they are sampled."""
    from opd.evaluate import benchmark

    for name in benchmark.names():
        one = benchmark.find(name)
        click.echo(
            f"{name:24}{one.questions} questions × {len(one.seeds)}, temperature {one.temperature}, "
            f"top_p {one.top_p}, at most {one.limit_tokens:,} new tokens, "
            f"data {' and '.join(file.data for file in one.files)}"
        )


@show.command("benchmark")
@click.argument("name", metavar="BENCHMARK")
@click.option("--data", type=UserPath(), help="The benchmark's file, where it leaves the digest open.")
def one_benchmark(name: str, data: Path | None) -> None:
    """BENCHMARK as a TOML file; of a .jsonl file of questions, the declaration that it comes to."""
    from opd.evaluate import benchmark
    from opd.evaluate.declaration import taken_down, toml
    from opd.evaluate.questions import is_at_hand, pinned

    path = Path(name).expanduser()
    found = taken_down(path) if path.suffix == ".jsonl" else benchmark.find(name)
    if data is not None or is_at_hand(found):
        found = pinned(found, data)
    click.echo(toml(found), nl=False)


@show.command()
def recipes() -> None:
    """The recipes that ship with the package."""
    from opd.records.places import shipped_recipes

    for name, path in shipped_recipes().items():
        click.echo(f"{name:24}{path}")


@show.command()
@click.argument("recipe_name", metavar="RECIPE")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Put a value into the recipe.")
def recipe(recipe_name: str, sets: tuple[str, ...]) -> None:
    """Every key of RECIPE with its value, and its digest."""
    from opd.records.places import recipe_path
    from opd.records.settings import read
    from opd.train.recipe import Recipe

    resolved = read(Recipe, recipe_path(recipe_name), sets=sets)
    click.echo(json.dumps(resolved.resolved(), indent=2))
    click.echo(f"digest {resolved.digest}", err=True)


@show.command()
def keys() -> None:
    """Every key that a recipe can have, with its default and what it means."""
    from opd.train import objective
    from opd.train.recipe import Recipe

    _print_keys(Recipe, prefix="")
    for name in objective.names():
        click.echo(f'\nwith objective.name = "{name}"')
        _print_keys(objective.find(name), prefix="objective.")


def _print_keys(kind: "type[Settings]", *, prefix: str) -> None:
    from opd.records.settings import settings_in

    for name, field in kind.model_fields.items():
        if (inner := settings_in(field.annotation)) is not None:
            click.echo(f"\n[{prefix}{name}]  {_first_line(inner.__doc__)}")
            _print_keys(inner, prefix=f"{prefix}{name}.")
        else:
            default = "required" if field.is_required() else f"= {json.dumps(field.default)}"
            click.echo(f"  {prefix}{name} {default}\n      {' '.join((field.description or '').split())}")


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]
