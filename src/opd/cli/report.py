"""`opd attempt report`: what an attempt came to, in words and pictures, every number from a receipt."""

from pathlib import Path

import click

from opd.cli.at_work import at_work, saying
from opd.cli.paths import UserPath
from opd.cli.printing import QUIET, examples


@click.command(
    epilog=examples(
        "opd attempt report runs/command__arith_tiny__scripted__none",
        "opd attempt report runs/command__arith_tiny__scripted__none --verify",
    )
)
@click.argument("folder", metavar="ATTEMPT", type=UserPath())
@click.option(
    "--verify",
    "again",
    is_flag=True,
    help="Read the whole attempt and its newest report again instead, and hold each claim against its source.",
)
@click.option("--pdf", is_flag=True, help="As a PDF too, where a browser is installed.")
@QUIET
def report(folder: Path, again: bool, pdf: bool, quiet: bool) -> None:
    """Write what the attempt came to, every number from a receipt; audits first where no audit has seen all."""
    from opd.cli.interrupt import Interrupt
    from opd.protocol.attempts.attempt import Attempt
    from opd.protocol.attempts.running import report_anew
    from opd.protocol.report.checking import verify_report
    from opd.records.attempts import Stage
    from opd.records.errors import AnswerIsNo, AskedWrongly

    if again and pdf:
        raise AskedWrongly("--verify writes nothing, and so no PDF: give --pdf without it for a new report")
    if again:
        found = verify_report(Attempt(folder))
        click.echo(found.text())
        if not found.holds:
            raise AnswerIsNo(f"{folder}: the report does not hold")
        return
    with at_work(folder) as (attempt, holder), Interrupt(unit="check") as interrupt:
        say = saying(quiet)
        report_anew(attempt, holder, pdf=pdf, say=say, cancelled=interrupt.asked)
        click.echo(f"{attempt.places(Stage.REPORT)[-1].folder}: sealed")
