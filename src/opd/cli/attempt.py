"""`opd attempt`: from a task to three evaluated checkpoints, an audit and a report, each stage with its receipt."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opd.cli.at_work import at_work, saying
from opd.cli.audit import audit
from opd.cli.export import export
from opd.cli.names import TASK
from opd.cli.paths import UserPath
from opd.cli.printing import JSON, QUIET, examples
from opd.cli.report import report

if TYPE_CHECKING:
    from opd.cli.interrupt import Interrupt
    from opd.protocol.attempts.attempt import Attempt
    from opd.records.attempts import Stage, Status

_ATTEMPT = click.argument("folder", metavar="ATTEMPT", type=UserPath())
_SANDBOX = click.option(
    "--sandbox", default="auto", show_default=True, help="A rung of the ladder, or the highest that works here."
)


_INSIDE = ("fast-eval", "timer", "note", "no-candidate", "on-device")  # and submit, which is a verb here, too


class _Attempt(click.Group):
    """A group that says of an explorer's commands where they are."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb, and its words."""
        if args[0] in _INSIDE:
            ctx.fail(
                f"{args[0]!r} is a command of the explorer, inside its workspace and while it explores; from outside "
                "`opd attempt status ATTEMPT` says what is left and what still fits."
            )
        return super().resolve_command(ctx, args)


@click.group(cls=_Attempt)
def attempt() -> None:
    """Explore, submit, replay, validate, evaluate, audit, report: an attempt is a folder of sealed receipts."""


@attempt.command(
    epilog=examples(
        'opd attempt new arith_tiny --agent "bash explorer.sh"',
        "opd attempt new opd_math_1p5b --agent CMD --input student=models/student --input teacher=models/teacher",
    )
)
@click.argument("task", type=TASK)
@click.option("--agent", required=True, metavar="CMD", help="The explorer's program with its arguments.")
@click.option("--model", help="The model behind it, for the record.")
@click.option("--effort", help="Its reasoning effort, for the record.")
@click.option("--runs", default="runs", show_default=True, type=UserPath(), help="Where attempts lie.")
@click.option("--again", default=1, type=click.IntRange(min=1), help="A further attempt of the same case: 2, 3 …")
@click.option("--show", multiple=True, type=UserPath(), help="What the explorer sees besides, read-only, as it is.")
@click.option("--endpoint", type=UserPath(), help="A Unix socket at which the explorer's model answers.")
@click.option("--input", "inputs", multiple=True, metavar="ROLE=PATH", help="Where a fixed input lies.")
def new(
    task: str,
    agent: str,
    model: str | None,
    effort: str | None,
    runs: Path,
    again: int,
    show: tuple[Path, ...],
    endpoint: Path | None,
    inputs: tuple[str, ...],
) -> None:
    """Write down who attempts TASK, by which install it is judged, and every fixed input with its digest."""
    from opd.protocol.attempts.creating import Explorer, create
    from opd.protocol.explorer.adapters import recognised

    harness, command = recognised(agent)
    explorer = Explorer(harness=harness, command=command, model=model, effort=effort, endpoint=endpoint, shown=show)
    made = create(task, runs, explorer, given=_given(inputs), again=again)
    click.echo(f"{made.folder}: `opd attempt run {made.folder}` does whatever is due")


@attempt.command(
    epilog=examples(
        "opd attempt run runs/command__arith_tiny__scripted__none",
    )
)
@_ATTEMPT
@_SANDBOX
@QUIET
def run(folder: Path, sandbox: str, quiet: bool) -> None:
    """Do whatever is due, stage after stage."""
    _run(folder, sandbox, stages=None, quiet=quiet)


@attempt.command(
    epilog=examples(
        "opd attempt explore runs/command__arith_tiny__scripted__none --sandbox bubblewrap",
    )
)
@_ATTEMPT
@_SANDBOX
@QUIET
def explore(folder: Path, sandbox: str, quiet: bool) -> None:
    """Let the explorer work, within its budget and its sandbox."""
    _run(folder, sandbox, stages=("explore",), quiet=quiet)


@attempt.command(
    epilog=examples(
        'opd attempt submit runs/command__arith_tiny__scripted__none --patch change.patch --note "made by hand"',
    )
)
@_ATTEMPT
@click.option("--patch", type=UserPath(), required=True, help="A patch that was made elsewhere.")
@click.option("--note", help="Where it comes from.")
def submit(folder: Path, patch: Path, note: str | None) -> None:
    """Take a patch from outside as the submission, marked as such; an explorer submits from inside."""
    with at_work(folder) as (attempt, holder):
        from opd.protocol.stages.submission import submit_outside

        submit_outside(attempt, holder, patch, note=note)
        click.echo(f"{attempt.folder / 'submission'}: sealed, from outside")


@attempt.command(
    epilog=examples(
        "opd attempt replay runs/command__arith_tiny__scripted__none",
    )
)
@_ATTEMPT
@_SANDBOX
@click.option("--patch", type=UserPath(), help="First take this patch from outside as the submission.")
@QUIET
def replay(folder: Path, sandbox: str, patch: Path | None, quiet: bool) -> None:
    """Train formally: base and patch, the fixed inputs, `bash run.sh`; again only for the machine's sake."""
    if patch is not None:
        with at_work(folder) as (attempt, holder):
            from opd.protocol.stages.submission import submit_outside

            submit_outside(attempt, holder, patch, note=None)
    _run(folder, sandbox, stages=("formal",), quiet=quiet)


@attempt.command(
    epilog=examples(
        "opd attempt validate runs/command__arith_tiny__scripted__none",
    )
)
@_ATTEMPT
@_SANDBOX
@QUIET
def validate(folder: Path, sandbox: str, quiet: bool) -> None:
    """Check each checkpoint that counts, by its files and by loading it."""
    _run(folder, sandbox, stages=("validation",), quiet=quiet)


@attempt.command(
    epilog=examples(
        "opd attempt evaluate runs/command__arith_tiny__scripted__none",
    )
)
@_ATTEMPT
@_SANDBOX
@QUIET
def evaluate(folder: Path, sandbox: str, quiet: bool) -> None:
    """Evaluate each valid checkpoint by the final protocol, once."""
    _run(folder, sandbox, stages=("final",), quiet=quiet)


@attempt.command(
    epilog=examples(
        'opd attempt rule runs/command__arith_tiny formal/attempt-001 infrastructure --because "the disk was full"',
    )
)
@_ATTEMPT
@click.argument("about", metavar="TRY")
@click.argument("verdict", type=click.Choice(["infrastructure", "candidate"]))
@click.option("--because", required=True, help="What the decision rests on.")
@click.option("--by", help="Who decides; the user of this machine by default.")
def rule(folder: Path, about: str, verdict: str, because: str, by: str | None) -> None:
    """Decide whose failure TRY was, where the evidence leaves it open: formal/attempt-001."""
    from opd.protocol.attempts.ruling import rule as decide

    with at_work(folder) as (attempt, _):
        decide(attempt, about=about, verdict=verdict, because=because, by=by)
        click.echo(f"{about}: {verdict}, because {because}")


@attempt.command(
    epilog=examples(
        "opd attempt resume runs/command__arith_tiny__scripted__none",
    )
)
@_ATTEMPT
def resume(folder: Path) -> None:
    """After a crash: seal what was begun as what it is; `run` goes on from there."""
    from opd.protocol.attempts.resuming import resume as seal

    with at_work(folder) as (attempt, holder):
        seal(attempt, holder, say=click.echo)
    _show(folder)


@attempt.command(
    epilog=examples(
        "opd attempt status runs/command__arith_tiny__scripted__none",
        "opd attempt status runs/command__arith_tiny__scripted__none --json | jq '.due[].stage'",
    )
)
@_ATTEMPT
@JSON
def status(folder: Path, as_json: bool) -> None:
    """What the attempt has come to, as its receipts and its log say. Exit 1 when they contradict each other.

    The files that the receipts are of are not read again: that is `opd attempt verify`.
    """
    from opd.records.errors import AnswerIsNo

    here = _show(folder, as_json=as_json)
    if here.contradictions:
        raise AnswerIsNo(f"{folder} contradicts itself in {len(here.contradictions)} places; `verify` says more")


@attempt.command(
    epilog=examples(
        "opd attempt verify runs/command__arith_tiny__scripted__none",
        "opd attempt verify runs/command__arith_tiny__scripted__none --json | jq .holds",
    )
)
@_ATTEMPT
@JSON
@click.option("--head", help="Digest of the log's last line, as somebody else wrote it down.")
def verify(folder: Path, as_json: bool, head: str | None) -> None:
    """Read every file again and hold it against its receipt, offline. Exit 1 when anything differs."""
    from opd.protocol.attempts.attempt import Attempt
    from opd.protocol.attempts.verify import verify as check
    from opd.records.errors import AnswerIsNo

    found = check(Attempt(folder), head=head)
    click.echo(json.dumps(found.resolved(), indent=2) if as_json else found.text())
    if not found.holds:
        raise AnswerIsNo(f"{folder} does not hold")


for command in (audit, report, export):
    attempt.add_command(command)


def _run(folder: Path, sandbox: str, *, stages: tuple[str, ...] | None, quiet: bool) -> None:
    from opd.protocol.attempts.running import run as run_due
    from opd.protocol.sandbox.ladder import climb
    from opd.records.attempts import CLOSING, Stage
    from opd.records.errors import AnswerIsNo

    say = saying(quiet)
    wanted = tuple(Stage) if stages is None else tuple(Stage(stage) for stage in stages)
    with at_work(folder) as (attempt, holder), _interrupt() as interrupt:
        _refuse_not_due(attempt, wanted)
        chosen = climb(sandbox)
        say(f"sandbox: {chosen.rung.name}")
        here = run_due(
            attempt, holder, chosen, stages=wanted, say=say, cancelled=interrupt.insisted, leaving=interrupt.asked
        )
    click.echo(_closing(here))
    if interrupt.asked() and here.due:
        raise AnswerIsNo(f"stopped; `opd attempt run {folder}` goes on, with {here.due[0].stage}")
    if here.official is None and not any(due.stage not in CLOSING for due in here.due):
        raise AnswerIsNo(here.missing or here.waits_for or "there is no result")


def _interrupt() -> "Interrupt":
    """A stage takes hours: the first Ctrl-C lets it end, and what the second costs is said before."""
    from opd.cli.interrupt import Interrupt

    ended = "an exploration as cancelled, for good; a formal try as interrupted, which uses up one of its tries"
    return Interrupt(unit="stage", second=f"end it, too ({ended})")


def _refuse_not_due(attempt: "Attempt", wanted: "tuple[Stage, ...]") -> None:
    """Nothing, where something of these stages is due, or was done; else why not, as `AnswerIsNo`."""
    from opd.protocol.attempts.state import status as work_out
    from opd.records.errors import AnswerIsNo

    here = work_out(attempt)
    if not any(due.stage in wanted for due in here.due) and not any(one.stage in wanted for one in here.tries):
        raise AnswerIsNo(f"nothing is due of {', '.join(wanted)}: {here.waits_for or here.missing}")


def _show(folder: Path, *, as_json: bool = False) -> "Status":
    from opd.protocol.attempts.attempt import Attempt
    from opd.protocol.attempts.state import status as work_out
    from opd.protocol.clock import now
    from opd.protocol.explorer.outlook import running_outlook

    attempt = Attempt(folder)
    here, outlook = work_out(attempt), running_outlook(attempt, now())
    if as_json:
        click.echo(json.dumps({**here.resolved(), "outlook": outlook.resolved() if outlook else None}, indent=2))
    else:
        click.echo("\n".join([_table(here), *(f"  {line}" for line in (outlook.sentences() if outlook else ()))]))
    return here


_UNREAD = "as the receipts say: their files were not read again; `opd attempt verify` reads every byte"


def _table(here: "Status") -> str:
    lines = [f"{here.case}: {here.state}"]
    for one in here.tries:
        took = "" if one.active_seconds is None else f"  {one.active_seconds:.1f} s"
        why = f"  {one.because}" if one.because else ""
        lines.append(f"  {one.name:<24} {one.outcome or one.liveness}{took}{why}")
    lines += [f"  due: {one.stage}{f' {one.name}' if one.name else ''} ({one.because})" for one in here.due]
    if here.waits_for:
        lines.append(f"  waits for {here.waits_for}")
    if here.verdicts is not None:
        lines.append(f"  audit: {', '.join(f'{axis} {verdict}' for axis, verdict in here.verdicts.items())}")
    lines += [f"  contradiction: {sentence}" for sentence in here.contradictions]
    return "\n".join([*lines, f"  {_closing(here)}", f"  {_UNREAD}"])


def _closing(here: "Status") -> str:
    if here.official is None:
        return f"no official score: {here.missing}"
    best = here.official
    error = "" if best.stderr is None else f" ± {best.stderr:.6f}"
    return (
        f"official: step {best.step}, {best.correct}/{best.samples} = {best.mean:.6f}{error}, the best of {best.of}"
    )


def _given(inputs: tuple[str, ...]) -> dict[str, Path]:
    from opd.records.errors import AskedWrongly

    given = {}
    for one in inputs:
        role, equals, path = one.partition("=")
        if not equals or not path:
            raise AskedWrongly(f"--input {one!r}: write it as ROLE=PATH, such as student=models/student")
        given[role] = Path(path).expanduser()
    return given
