"""The shell completes `opd`, as docs/python.md says: its verbs, their parts and their flags."""

import json
import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from opd.cli.main import opd
from opd.cli.names import BENCHMARK, RECIPE, TASK

KINDS = ("recipes", "benchmarks", "tasks")


def asked(instruction: str, words: str = "", at: int = 1) -> str:
    """What `opd` answers to a shell."""
    environment = {**os.environ, "_OPD_COMPLETE": instruction, "COMP_WORDS": words, "COMP_CWORD": str(at)}
    command = [sys.executable, "-c", "import sys; from opd.cli.main import main; main()"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    ("words", "at", "found", "not_found"),
    [
        ("opd tr", 1, {"train"}, {"evaluate"}),
        ("opd runs ", 2, {"ls", "show", "diff", "rm"}, {"train"}),
        ("opd plot c", 2, {"curve", "compare"}, {"score"}),
        ("opd runs ls --s", 3, {"--sort"}, {"--json"}),
        ("opd runs ls --sort ", 4, {"name", "changed", "score", "steps"}, set()),
        ("opd train --log ", 3, {"json"}, set()),
        ("opd train arith", 2, {"arith_tiny", "arith_gap"}, {"opd_math_1p5b"}),
        ("opd show recipe ", 3, {"arith_tiny", "opd_math_1p5b"}, set()),
        ("opd evaluate a", 2, {"arith_tiny", "aime24"}, {"math500"}),
        ("opd task show ", 3, {"arith_tiny", "opd_math_1p5b"}, set()),
    ],
)
def test_words_are_completed(words: str, at: int, found: set[str], not_found: set[str]) -> None:
    answers = {line.partition(",")[2] for line in asked("bash_complete", words, at).splitlines()}
    assert found <= answers
    assert not not_found & answers


@pytest.mark.parametrize(
    ("words", "at"),
    [
        ("opd runs show ru", 3),
        ("opd view ", 2),
        ("opd plot curve a b", 4),
        ("opd train mine/re", 2),
        ("opd compare a ", 3),
        ("opd evaluate arith_tiny --out ru", 4),
        ("opd attempt status ru", 3),
    ],
)
def test_where_a_file_may_stand_the_shell_offers_files(words: str, at: int) -> None:
    typed = words.split(" ")[at]
    assert asked("bash_complete", words, at) == f"file,{typed}\n"


def test_names_are_offered_that_the_verbs_take() -> None:
    known = {name: set(json.loads(CliRunner().invoke(opd, ["show", name, "--json"]).stdout)) for name in KINDS[:2]}
    known["tasks"] = set(json.loads(CliRunner().invoke(opd, ["task", "list", "--json"]).stdout))
    for name, kind in zip(KINDS, (RECIPE, BENCHMARK, TASK), strict=True):
        context = click.Context(opd)
        assert {one.value for one in kind.shell_complete(context, opd.params[0], "")} == known[name]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_script(shell: str) -> None:
    """The text that is evaluated names the variable by which the shell asks again."""
    if shell == "bash" and not os.path.exists("/bin/bash"):  # noqa: PTH110
        pytest.skip("click asks bash for its version, and there is none here")
    script = asked(f"{shell}_source")
    assert f"_OPD_COMPLETE={shell}_complete" in script


def test_bash_takes_the_script_and_asks_opd() -> None:
    script = asked("bash_source")
    program = f"{script}\ncomplete -p opd\n"
    done = subprocess.run(["bash", "--norc", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "complete -o nosort -F _opd_completion opd"
