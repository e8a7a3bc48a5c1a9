"""What the verbs share in how they speak: examples below their help, JSON instead of words, or nothing."""

import click

LOG = click.option(
    "--log",
    type=click.Choice(["json"]),
    help="One JSON object a line on standard output instead of a board, for a program that follows.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
QUIET = click.option("--quiet", is_flag=True, help="Say nothing but how it ended.")


def examples(*lines: str) -> str:
    """The end of a verb's help: commands as they can be typed, each on its own line however wide the terminal is."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])
