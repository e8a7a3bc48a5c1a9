"""The command line stays small: settings live in files, and a new one is a field there, not a flag here."""

import subprocess
import sys
from collections.abc import Iterator

import click

from opd.cli.main import opd

MOST_FLAGS = 3  # a verb; --help doesn't count
MORE_FLAGS = {
    "opd score": 4,  # --out, --trained-on and --set each name something else; --json for a program that asks
    "opd compare": 4,  # --lead says which pairs are one family; --trained-on and --set as for a score; --json
    "opd data decontaminate": 4,  # a look without --out, and --json for a program that looks
    "opd train": 6,  # --resume goes on, --no-rehearse begins at once; --log json for a program that follows
    "opd plan": 5,  # --rehearse measures, --ranks says of how many; --json for a program that decides
    "opd demo": 4,  # --no-attempt leaves out what takes five minutes
    "opd judge": 5,  # --judge names a file, --set works without one; --benchmark and --data lead to the questions
    "opd attempt new": 8,  # who attempts, for the record; where attempts and inputs lie; what the explorer may reach
    "opd evaluate": 9,  # --questions and --samples shrink a benchmark for one look; --data and --on say where
}
HEAVY = {
    "huggingface_hub",
    "matplotlib",
    "numpy",
    "pyarrow",
    "scipy",
    "sympy",
    "tokenizers",
    "torch",
    "transformers",
}


def verbs(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, with its full name, however the groups load it."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    context = click.Context(command, info_name=name)
    for part in command.list_commands(context):
        inner = command.get_command(context, part)
        assert inner is not None, f"{name} lists {part} and does not have it"
        yield from verbs(inner, f"{name} {part}")


def flags(command: click.Command) -> list[str]:
    return [parameter.opts[-1] for parameter in command.params if isinstance(parameter, click.Option)]


def test_no_verb_has_more_flags_than_it_is_allowed():
    found = {name: flags(command) for name, command in verbs(opd, "opd")}
    over = [f"{name}: {' '.join(has)}" for name, has in found.items() if len(has) > MORE_FLAGS.get(name, MOST_FLAGS)]
    assert not over, "\n".join(over)


def test_an_allowance_that_is_not_used_up_is_taken_back():
    found = {name: len(flags(command)) for name, command in verbs(opd, "opd")}
    assert {name: found.get(name) for name in MORE_FLAGS} == MORE_FLAGS


def test_every_verb_and_every_flag_has_a_line_of_help():
    silent = [name for name, command in verbs(opd, "opd") if not command.get_short_help_str()]
    for name, command in verbs(opd, "opd"):
        options = [one for one in command.params if isinstance(one, click.Option)]
        silent += [f"{name} {one.opts[-1]}" for one in options if not one.help]
    assert not silent, "\n".join(silent)


def test_help_loads_no_heavy_library():
    program = (
        "import sys; from opd.cli.main import opd; opd.main(['--help'], standalone_mode=False); "
        f"print(*sorted({HEAVY!r} & sys.modules.keys()), file=sys.stderr)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "Usage" in answer.stdout
    assert answer.stderr.split() == []


def test_the_walk_finds_nested_verbs_and_counts_their_flags():
    @click.group()
    def planted(): ...

    @planted.group()
    def task(): ...

    @task.command()
    @click.argument("name")
    @click.option("--out", "-o")
    @click.option("--deep/--shallow")
    def build(name, out, deep): ...

    found = dict(verbs(planted, "opd"))
    assert {name: flags(command) for name, command in found.items()} == {"opd task build": ["-o", "--deep"]}
