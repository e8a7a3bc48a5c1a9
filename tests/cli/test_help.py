"""The help of every verb: a sentence, its flags, and commands as they can be typed, each of which is a command."""

import shlex

import click
import pytest
from click.testing import CliRunner
from tests.cli.test_json import verbs

from opd.cli.main import opd

VERBS = dict(verbs(opd, "opd"))


def examples_of(name: str) -> list[str]:
    """The commands at the end of what `--help` prints on a terminal of 80 columns."""
    said = CliRunner().invoke(opd, [*name.split()[1:], "--help"], terminal_width=80).stdout
    return [line.strip() for line in said.partition("\n  Examples:\n")[2].splitlines() if line.strip()]


def command_in(line: str) -> list[str]:
    """The words of a line of shell from `opd` on, which another program may start, to a pipe or a file."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|>")
    lexer.whitespace_split = True
    words = list(lexer)
    ends = [at for at, word in enumerate(words) if set(word) <= set("|>")]
    return words[words.index("opd") : min(ends, default=len(words))]


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_examples_that_begin_with_it_and_that_it_takes(name: str) -> None:
    lines = examples_of(name)
    assert lines, "no examples"
    for line in lines:
        words = command_in(line)
        assert words[: len(name.split())] == name.split(), line
        parsed = VERBS[name].make_context(name, words[len(name.split()) :])  # raises what a person would be told
        assert parsed.params.get("as_json") is not False or "--json" not in words


def test_a_verb_that_has_json_shows_what_a_program_does_with_it() -> None:
    shown = {name for name in VERBS if any("--json" in line for line in examples_of(name))}
    has = {name for name, verb in VERBS.items() if any("--json" in one.opts for one in verb.params)}
    assert has - shown == set()


def test_an_example_that_is_no_command_would_be_noticed() -> None:
    with pytest.raises(click.UsageError, match="No such option"):
        VERBS["opd view"].make_context("opd view", command_in("opd view --prot 8000 runs | cat")[2:])


def test_help_fits_a_terminal_of_eighty_columns_but_for_commands() -> None:
    for name in VERBS:
        said = CliRunner().invoke(opd, [*name.split()[1:], "--help"], terminal_width=80).stdout
        prose = said.partition("\n  Examples:\n")[0]
        assert [line for line in prose.splitlines() if len(line) > 80] == [], name


def test_exit_codes_are_said_where_one_looks_for_them() -> None:
    said = CliRunner().invoke(opd, ["--help"]).stdout
    assert "Exit codes: 0" in said
