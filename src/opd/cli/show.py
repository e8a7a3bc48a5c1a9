"""`opd show`: what there is, and what a recipe comes to."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, get_origin

import click

from opd.cli.names import BENCHMARK, RECIPE
from opd.cli.paths import UserPath
from opd.cli.printing import JSON, examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opd.records.settings import Settings


@click.group()
def show() -> None:
    """List objectives, benchmarks and recipes, or print one of them in full."""


@show.command(
    epilog=examples(
        "opd show objectives",
        "opd show objectives --json | jq -r 'keys[]'",
    )
)
@JSON
def objectives(as_json: bool) -> None:
    """The objectives, with the first line of what each says of itself."""
    from opd.train import objective

    found = {name: _first_line(objective.find(name).__doc__) for name in objective.names()}
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    for name, said in found.items():
        click.echo(f"{name:24}{said}")


@show.command(
    epilog=examples(
        "opd show benchmarks",
        "opd show benchmarks --json | jq .math500.seeds",
    )
)
@JSON
def benchmarks(as_json: bool) -> None:
    """The benchmarks, with their counts and how they are sampled."""
    from opd.evaluate import benchmark

    found = {name: benchmark.find(name) for name in benchmark.names()}
    if as_json:
        click.echo(json.dumps({name: one.resolved() for name, one in found.items()}, indent=2))
        return
    for name, one in found.items():
        click.echo(
            f"{name:24}{one.questions} questions × {len(one.seeds)}, temperature {one.temperature}, "
            f"top_p {one.top_p}, at most {one.limit_tokens:,} new tokens, "
            f"data {' and '.join(file.data for file in one.files)}"
        )


@show.command(
    "benchmark",
    epilog=examples(
        "opd show benchmark arith_tiny",
        "opd show benchmark questions.jsonl > questions.toml",
        "opd show benchmark arith_tiny --json | jq .limit_tokens",
    ),
)
@click.argument("name", metavar="BENCHMARK", type=BENCHMARK)
@click.option("--data", type=UserPath(), help="The benchmark's file, where it leaves the digest open.")
@JSON
def one_benchmark(name: str, data: Path | None, as_json: bool) -> None:
    """BENCHMARK as a TOML file; of a .jsonl file of questions, the declaration that it comes to."""
    from opd.evaluate import benchmark
    from opd.evaluate.declaration import taken_down, toml
    from opd.evaluate.questions import is_at_hand, pinned

    path = Path(name).expanduser()
    found = taken_down(path) if path.suffix == ".jsonl" else benchmark.find(name)
    if data is not None or is_at_hand(found):
        found = pinned(found, data)
    if as_json:
        click.echo(json.dumps(found.resolved(), indent=2))
    else:
        click.echo(toml(found), nl=False)


@show.command(
    epilog=examples(
        "opd show recipes",
        "opd show recipes --json",
    )
)
@JSON
def recipes(as_json: bool) -> None:
    """The recipes that ship with the package."""
    from opd.records.places import shipped_recipes

    if as_json:
        click.echo(json.dumps({name: str(path) for name, path in shipped_recipes().items()}, indent=2))
        return
    for name, path in shipped_recipes().items():
        click.echo(f"{name:24}{path}")


@show.command(
    epilog=examples(
        "opd show recipe arith_tiny",
        "opd show recipe arith_tiny --set optimizer.lr=3e-4 --json | jq .optimizer",
    )
)
@click.argument("recipe_name", metavar="RECIPE", type=RECIPE)
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Put a value into the recipe.")
@click.option("--json", "as_json", is_flag=True, help="Print nothing but the JSON, which is printed in any case.")
def recipe(recipe_name: str, sets: tuple[str, ...], as_json: bool) -> None:
    """Every key of RECIPE with its value, as JSON, and its digest on standard error."""
    from opd.records.places import recipe_path
    from opd.records.settings import read
    from opd.train.recipe import Recipe

    resolved = read(Recipe, recipe_path(recipe_name), sets=sets)
    click.echo(json.dumps(resolved.resolved(), indent=2))
    if not as_json:
        click.echo(f"digest {resolved.digest}", err=True)


@show.command(
    epilog=examples(
        "opd show keys",
        "opd show keys --json | jq '.recipe[\"optimizer.lr\"]'",
    )
)
@JSON
def keys(as_json: bool) -> None:
    """Every key that a recipe can have, with its default and what it means."""
    from opd.train import objective
    from opd.train.recipe import Recipe

    if as_json:
        objectives = {name: dict(_keys(objective.find(name), prefix="")) for name in objective.names()}
        click.echo(json.dumps({"recipe": dict(_keys(Recipe, prefix="")), "objectives": objectives}, indent=2))
        return
    _print_keys(Recipe, prefix="")
    for name in objective.names():
        click.echo(f'\nwith objective.name = "{name}"')
        _print_keys(objective.find(name), prefix="objective.")


def _print_keys(kind: "type[Settings]", *, prefix: str) -> None:
    from opd.records.settings import settings_in

    for name, field in kind.model_fields.items():
        if (inner := settings_in(field.annotation)) is not None:
            section = f"{prefix}{name}{_named(field.annotation)}"
            click.echo(f"\n[{section}]  {_first_line(inner.__doc__)}")
            _print_keys(inner, prefix=f"{section}.")
        else:
            default = "required" if field.is_required() else f"= {json.dumps(field.default)}"
            click.echo(f"  {prefix}{name} {default}\n      {' '.join((field.description or '').split())}")


def _keys(kind: "type[Settings]", *, prefix: str) -> "Iterator[tuple[str, dict[str, object]]]":
    """Each key with its default (null where it has to be given), whether it has to be, and what it means."""
    from opd.records.settings import settings_in

    for name, field in kind.model_fields.items():
        if (inner := settings_in(field.annotation)) is not None:
            yield from _keys(inner, prefix=f"{prefix}{name}{_named(field.annotation)}.")
        else:
            required = field.is_required()
            said = " ".join((field.description or "").split())
            yield (
                f"{prefix}{name}",
                {"default": None if required else field.default, "required": required, "doc": said},
            )


def _named(annotation: object) -> str:
    """What follows the key of a table of sections, each of which has a name of one's own."""
    return ".NAME" if get_origin(annotation) is dict else ""


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]
