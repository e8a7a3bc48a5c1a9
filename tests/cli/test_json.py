"""What every verb that only reads promises: `--json`, on standard output, one value and nothing else."""

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from opd.cli.main import opd

DOES = {  # what these make, change or keep doing; what they come to stands in files, and other verbs read it
    "opd attempt evaluate",
    "opd attempt explore",
    "opd attempt export",
    "opd attempt new",
    "opd attempt replay",
    "opd attempt report",
    "opd attempt resume",
    "opd attempt rule",
    "opd attempt run",
    "opd cases run",
    "opd attempt submit",
    "opd attempt validate",
    "opd data dedupe",
    "opd data project",
    "opd demo",
    "opd evaluate",  # --log json
    "opd grade",
    "opd judge",
    "opd plot compare",
    "opd plot curve",
    "opd plot lengths",
    "opd plot score",
    "opd runs rm",
    "opd task build",
    "opd task make-models",
    "opd task new",
    "opd top",
    "opd train",  # --log json
    "opd view",
}


def verbs(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield name, command
        return
    context = click.Context(command, info_name=name)
    for part in command.list_commands(context):
        inner = command.get_command(context, part)
        assert inner is not None
        yield from verbs(inner, f"{name} {part}")


def test_every_verb_either_does_something_or_reads_and_has_json() -> None:
    found = {name: any("--json" in one.opts for one in verb.params) for name, verb in verbs(opd, "opd")}
    assert found.keys() >= DOES, "a verb that is gone"
    assert {name for name, has in found.items() if not has} - DOES == set(), "reads, and has no --json"


@pytest.mark.parametrize(
    "arguments",
    [
        "show objectives",
        "show benchmarks",
        "show benchmark arith_tiny",
        "show recipes",
        "show recipe arith_tiny",
        "show keys",
        "task list",
        "task show arith_tiny",
        "runs ls",
    ],
)
def test_standard_output_is_one_value(arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    done = CliRunner().invoke(opd, [*arguments.split(), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) is not None
    assert done.stderr == ""


def test_keys_say_what_a_recipe_may_hold() -> None:
    said = json.loads(CliRunner().invoke(opd, ["show", "keys", "--json"]).stdout)
    assert said["recipe"]["student.model"]["required"]
    assert said["recipe"]["seed"]["default"] is not None
    assert said["recipe"]["optimizer.betas"] == {
        "default": [0.9, 0.999],
        "required": False,
        "doc": said["recipe"]["optimizer.betas"]["doc"],
    }
    listed = CliRunner().invoke(opd, ["show", "keys"]).stdout
    for name, key in (*said["recipe"].items(), *said["objectives"]["k1_policy_gradient"].items()):
        assert f"{name} " in listed
        assert key["doc"] in listed
