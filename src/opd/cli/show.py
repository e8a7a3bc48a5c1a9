"""`opd show`: what there is, and what a recipe comes to."""

import click


@click.group()
def show() -> None:
    """List objectives, benchmarks and recipes, or print a resolved recipe."""


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
            f"top_p {one.top_p}, at most {one.limit_tokens:,} new tokens, data {one.data}"
        )


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
    import json

    from opd.records.places import recipe_path
    from opd.records.settings import read
    from opd.train.recipe import Recipe

    resolved = read(Recipe, recipe_path(recipe_name), sets=sets)
    click.echo(json.dumps(resolved.resolved(), indent=2))
    click.echo(f"digest {resolved.digest}", err=True)


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]
