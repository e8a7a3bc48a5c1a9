"""What the verbs share in how they speak: examples below their help, and lines of JSON instead of a board."""

import click

LOG = click.option(
    "--log",
    type=click.Choice(["json"]),
    help="One JSON object a line on standard output instead of a board, for a program that follows.",
)


def examples(*lines: str) -> str:
    """The end of a verb's help: commands as they can be typed, each on its own line however wide the terminal is."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])
