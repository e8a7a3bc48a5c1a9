"""`opd runs`: what has been run here, what one came to, how two differ, and the end of one."""

import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opd.cli.paths import UserPath
from opd.cli.printing import JSON, examples

if TYPE_CHECKING:
    from opd.view.runs.folders import Folder

RUNS = Path("runs")  # where the documentation's examples put them, and so where nobody has to name them
_QUIET_SECONDS = 120.0  # a run that never ended and wrote so lately may have its process on another host


@click.group()
def runs() -> None:
    """List, show, compare and remove runs: trainings, scores and attempts are folders that say what they are."""


@runs.command(
    "ls",
    epilog=examples(
        "opd runs ls",
        "opd runs ls runs/sweep --sort score",
        "opd runs ls --json | jq '.[] | select(.state == \"failed\") | .path'",
    ),
)
@click.argument("paths", nargs=-1, type=UserPath())
@click.option(
    "--sort",
    default="name",
    show_default=True,
    type=click.Choice(["name", "changed", "score", "steps"]),
    help="The newest, the best or the furthest first.",
)
@JSON
def list_runs(paths: tuple[Path, ...], sort: str, as_json: bool) -> None:
    """A table of the runs at and below PATHS, or below runs/ here.

    The score of a training run is that of its newest checkpoint among the scores listed with it, ± its standard
    error, clustered by question. The last column says in which keys the recipes differ.
    """
    from opd.records.files import canonical_json
    from opd.view.runs.folders import Closed, find
    from opd.view.runs.runs import HEADER, Order, lines, ordered, rows, values
    from opd.view.runs.summaries import summaries

    closed: list[Closed] = []
    found = ordered(summaries(find(paths or (RUNS,), closed=closed.append)), Order(sort))
    for one in closed:
        click.echo(str(one), err=True)
    if as_json:
        click.echo(canonical_json([values(one) for one in found]))
    elif found:
        click.echo("\n".join(lines(HEADER, rows(found))))
    elif not closed:
        click.echo("no runs here", err=True)


@runs.command(
    epilog=examples(
        "opd runs show runs/first",
        "opd runs show runs/first --json | jq .state",
    )
)
@click.argument("path", metavar="RUN", type=UserPath())
@JSON
def show(path: Path, as_json: bool) -> None:
    """RUN in words: what it is, what has become of it, what it scored, and its recipe.

    The score of a training run is that of its newest checkpoint among the scores below runs/ here, where RUN lies
    there too, and else among those at most three folders below the one that RUN lies in.
    """
    from opd.records.files import canonical_json
    from opd.view.runs.folders import Kind, opened
    from opd.view.runs.runs import in_words, values
    from opd.view.runs.summaries import summary_among

    folder = opened(path)
    found = summary_among(folder, _around(path) if folder.kind is Kind.TRAIN else ())
    click.echo(canonical_json(values(found)) if as_json else in_words(found))


@runs.command(
    epilog=examples(
        "opd runs diff runs/first runs/second",
        "opd runs diff runs/first runs/second --json | jq -r '.[] | [.key, .a, .b] | @tsv'",
    )
)
@click.argument("a", type=UserPath())
@click.argument("b", type=UserPath())
@JSON
def diff(a: Path, b: Path, as_json: bool) -> None:
    """How the runs A and B differ: recipe or protocol, the digests of what went in, versions and devices.

    It compares what went in; `opd compare` says whether two scores can be told apart.
    """
    from opd.records.files import canonical_json
    from opd.view.runs.differences import ABSENT
    from opd.view.runs.folders import opened
    from opd.view.runs.runs import difference_lines, differences

    one, other = opened(a), opened(b)
    found = differences(one, other)
    if as_json:
        sides = [(each, {"a": each.a, "b": each.b}) for each in found]
        click.echo(
            canonical_json(
                [
                    {"part": each.part, "key": each.key}
                    | {name: value for name, value in has.items() if value is not ABSENT}
                    for each, has in sides
                ]
            )
        )
    else:
        click.echo("\n".join(difference_lines(found, one, other)))


@runs.command(
    epilog=examples(
        "opd runs rm runs/first",
        "opd runs rm --yes runs/a runs/b",
    )
)
@click.argument("paths", nargs=-1, required=True, metavar="RUN…", type=UserPath())
@click.option(
    "--attempt", is_flag=True, help="Attempts too: their receipts are evidence, and nothing brings them back."
)
@click.option("--yes", is_flag=True, help="Don't ask.")
def rm(paths: tuple[Path, ...], attempt: bool, yes: bool) -> None:
    """Remove runs for good, after a question.

    A run at which somebody is at work is refused, and so is an attempt without --attempt; then none is removed. A
    link is never followed. A run loses its name first, so that no half of it is ever taken for a run.
    """
    folders = [_removable(path, attempt=attempt) for path in paths]
    for folder in folders:
        click.echo(f"{folder.path}: {_contents(folder)}", err=True)
    if not yes:
        _ask()
    for folder in folders:
        if folder.path.exists():  # one that lay in another went with it
            _remove(folder)


def _around(path: Path) -> "Sequence[Folder]":
    """The runs among which a training run's scores are looked for."""
    from opd.view.runs.folders import find

    place = path.resolve()
    return find([RUNS]) if place.is_relative_to(RUNS.resolve()) else find([place.parent], deepest=3)


def _ask() -> None:
    """Nothing, after a yes; raises `AnswerIsNo` for any other answer, and for the end of the input."""
    from opd.records.errors import AnswerIsNo

    try:
        agreed = click.confirm("Remove for good?", err=True)
    except click.Abort:
        raise AnswerIsNo("nothing was removed: the question has no answer; --yes removes without asking") from None
    if not agreed:
        raise AnswerIsNo("nothing was removed")


def _removable(path: Path, *, attempt: bool) -> "Folder":
    """The run in this folder; raises `AskedWrongly` when it may not be removed."""
    from opd.records.errors import AskedWrongly
    from opd.view.runs.folders import Kind, State, is_at_work, opened, state_of
    from opd.view.runs.summaries import summary

    if path.is_symlink():
        raise AskedWrongly(f"{path} is a link; name the run that it leads to, {path.resolve()}, or unlink it")
    folder = opened(path)
    if folder.kind is Kind.ATTEMPT and not attempt:
        raise AskedWrongly(f"{path} is an attempt, whose receipts are evidence; --attempt removes it all the same")
    if is_at_work(folder):
        raise AskedWrongly(f"{path}: somebody is at work in it; end that first")
    quiet = time.time() - summary(folder).changed
    if state_of(folder) is State.LEFT and 0 <= quiet < _QUIET_SECONDS:
        raise AskedWrongly(
            f"{path} has not ended, and was written to {quiet:.0f} s ago: its process may be on another host; "
            f"ask again when nothing has come for {_QUIET_SECONDS:.0f} s"
        )
    return folder


def _contents(folder: "Folder") -> str:
    """What goes with it."""
    from opd.view.runs.folders import find
    from opd.view.runs.summaries import summary

    inside = [one.path for one in find([folder.path]) if one.path != folder.path]
    also = f", with {len(inside)} more in it: {_some(inside)}" if inside else ""
    return f"{folder.kind.value}, {summary(folder).said}{also}"


def _some(paths: Sequence[Path]) -> str:
    return ", ".join(map(str, paths[:3])) + ", …" * (len(paths) > 3)


def _remove(folder: "Folder") -> None:
    """The run is gone; while it is locked, so that nobody begins in it meanwhile."""
    place = folder.path.resolve()  # no link itself: `runs/t/scores/..` is `runs/t`
    with _locked(folder):
        aside = Path(tempfile.mkdtemp(prefix=f".{place.name}.removed-", dir=place.parent))
        place.rename(aside / place.name)
    shutil.rmtree(aside)


def _locked(folder: "Folder") -> AbstractContextManager[None]:
    from contextlib import nullcontext

    from opd.records.files import alone
    from opd.view.runs.folders import Kind

    if folder.kind is not Kind.ATTEMPT:
        return alone(folder.path)
    lock = folder.path / "lease.lock"
    return alone(lock) if lock.exists() else nullcontext()
