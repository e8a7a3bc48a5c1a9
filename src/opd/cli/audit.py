"""`opd attempt audit`: what the evidence of an attempt holds, axis by axis."""

import json
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opd.cli.at_work import at_work
from opd.cli.paths import UserPath
from opd.cli.printing import JSON, examples

if TYPE_CHECKING:
    from opd.records.audits import Audit


@click.command(
    epilog=examples(
        "opd attempt audit runs/command__arith_tiny__scripted__none --strict",
        "opd attempt audit runs/command__arith_tiny__scripted__none --json | jq '.findings[] | [.axis, .verdict]'",
    )
)
@click.argument("folder", metavar="ATTEMPT", type=UserPath())
@click.option(
    "--judge", metavar="CMD", help="A model's program that is asked for a second opinion; see docs/audit.md."
)
@click.option("--strict", is_flag=True, help="Exit 1 unless every axis says none_found.")
@JSON
def audit(folder: Path, judge: str | None, strict: bool, as_json: bool) -> None:
    """Say what the evidence holds, by checks that prove each time that they would find it. Seals another audit."""
    from opd.cli.interrupt import Interrupt
    from opd.protocol.attempts.attempt import OUTCOME
    from opd.protocol.attempts.running import audit_anew
    from opd.records.attempts import Stage
    from opd.records.audits import Audit, Axis, Verdict
    from opd.records.errors import AnswerIsNo
    from opd.records.settings import read

    asked = _program(judge) if judge is not None else None
    with at_work(folder) as (attempt, holder), Interrupt(unit="check") as interrupt:
        audit_anew(attempt, holder, judge=asked, say=lambda _: None, cancelled=interrupt.asked)
    place = attempt.places(Stage.AUDIT)[-1]
    made = read(Audit, place.folder / OUTCOME)
    click.echo(json.dumps(made.resolved(), indent=2) if as_json else f"{_audited(made)}\n{place.folder}: sealed")
    alarms = [axis for axis in Axis if made.of(axis) is not Verdict.NONE_FOUND]
    if strict and alarms:
        raise AnswerIsNo(f"{', '.join(alarms)}: not none_found")


def _program(judge: str) -> tuple[str, ...]:
    """A judge's command; raises `AskedWrongly` for one that could not be started, before anything is sealed."""
    from opd.records.errors import AskedWrongly

    try:
        words = tuple(shlex.split(judge))
    except ValueError as error:
        raise AskedWrongly(f"--judge {judge!r}: {error}; write it as a shell would read it") from error
    if not words or shutil.which(words[0]) is None:
        raise AskedWrongly(f"--judge {judge!r}: there is no such program; give its path, or a name on PATH")
    return words


def _audited(made: "Audit") -> str:
    """A table: verdict, axis, how much was looked at, controls found; below each what the check says."""
    lines = []
    for one in made.findings:
        found = sum(control.found for control in one.controls)
        looked = f"{one.coverage.files:,} files, {one.coverage.bytes:,} bytes"
        lines.append(f"{one.verdict:<12} {one.axis:<26} {looked:<32} controls {found}/{len(one.controls)}")
        lines.append(f"             {one.sentence}")
        lines += [f"             holds all the same: {one.protected}"] if one.protected else []
        lines += [f"             not read: {path}" for path in one.coverage.unread[:5]]
    for advice in made.advice:
        lines.append(
            f"advice of {advice.by}: {advice.reply if advice.reply is not None else f'none, {advice.because}'}"
        )
    return "\n".join(lines)
