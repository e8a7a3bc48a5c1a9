"""The examples below a verb's help can be typed as they stand."""

import re
import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from opd.cli.main import opd

MAIN_VERBS = {"train", "evaluate", "plan", "compare", "score", "plot", "top", "runs ls"}


def helps(command: click.Command, name: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """The help of each verb and group, on a narrow terminal."""
    shown = CliRunner().invoke(opd, [*name, "--help"], terminal_width=50)
    assert shown.exit_code == 0
    yield " ".join(name), shown.stdout
    if isinstance(command, click.Group):
        for part, inner in command.commands.items():
            yield from helps(inner, (*name, part))


def examples() -> list[tuple[str, str]]:
    found = []
    for name, text in helps(opd):
        _, heading, rest = text.partition("\n  Examples:\n")
        found += [(name, line.strip()) for line in rest.splitlines() if heading and line.strip()]
    return found


def test_the_main_verbs_have_examples_of_themselves() -> None:
    having = {name for name, line in examples() if line.startswith(f"opd {name}")}
    assert MAIN_VERBS - having == set()


@pytest.mark.parametrize(("name", "line"), examples())
def test_an_example_stands_on_one_line_and_is_understood(name: str, line: str) -> None:
    """Its verb, flags and values; not whether the paths in it exist."""
    program, *words = shlex.split(re.split(r" [|>] ", line)[0])  # what the shell does with it is the shell's
    assert program == "opd"
    command: click.Command = opd
    while isinstance(command, click.Group):
        command = command.commands[words.pop(0)]
    command.make_context(command.name, words)
