"""`opd grade`: a file of responses with their golds → a verdict for each."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opd.cli.paths import UserPath
from opd.cli.printing import examples

if TYPE_CHECKING:
    from opd.grading.grader import Grader
    from opd.grading.rows import Tally

_GRADER = "house, reference, or module:function"


@click.command(
    epilog=examples(
        "opd grade answers.jsonl",
        "opd grade answers.jsonl | jq -r 'select(.correct == false) | .reason'",
    )
)
@click.argument("file", type=UserPath())
@click.option("--out", type=UserPath(), help="File of the verdicts, written whole or not at all.")
@click.option("--grader", default="house", show_default=True, metavar="NAME", help=f"Who decides: {_GRADER}.")
@click.option(
    "--second", metavar="NAME", help="Another one, whose verdict stands beside the first and decides nothing."
)
def grade(file: Path, out: Path | None, grader: str, second: str | None) -> None:
    """Grade the responses of FILE.

    FILE holds {"id": …, "response": …, "gold": …} a line. A line with id, verdict, correct, extracted, stage,
    reason and seconds comes out for each, in the same order; the counts go to standard error.
    """
    from opd.grading.grader import Grader
    from opd.grading.rows import Tally, opened

    tally = Tally()
    with Grader(grader=grader) as first, _other(second) as other:
        names = [one.identity() for one in (first, other) if one is not None]
        with opened(file) as sheet, _written(out, file) as write:
            for values in sheet.graded(first, other, tally):
                write(_line(values))
        retries = sum(one.retries for one in (first, other) if one is not None)
    click.echo(_summary(tally, names, retries), err=True)


def _other(name: str | None) -> "Grader | nullcontext[None]":
    from opd.grading.grader import Grader

    return nullcontext() if name is None else Grader(grader=name)


@contextmanager
def _written(out: Path | None, file: Path) -> Iterator[Callable[[bytes], object]]:
    """Where the lines go: standard output, or a file that appears when all of them are in it."""
    from opd.records.errors import AskedWrongly
    from opd.records.files import whole

    if out is None:
        yield partial(click.echo, nl=False)
        return
    if out.is_dir() or (out.exists() and out.samefile(file)):
        raise AskedWrongly(f"--out {out} is {'a folder' if out.is_dir() else 'the file itself'}; name another file")
    with whole(out) as temporary, temporary.open("wb") as stream:
        yield stream.write


def _line(values: dict[str, Any]) -> bytes:
    """One line of JSON in UTF-8; half characters, which have no UTF-8, are escaped."""
    try:
        return (json.dumps(values, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:
        return (json.dumps(values) + "\n").encode()


def _summary(tally: "Tally", names: list[str], retries: int) -> str:
    counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in tally.verdicts.most_common())
    lines = [f"{tally.rows:,} responses by {_short(names[0])}: {counts or 'nothing to grade'}"]
    if tally.inside_reasoning:
        lines.append(f"{tally.inside_reasoning:,} of the boxes stood inside the reasoning")
    if len(names) > 1:
        same = tally.agreements[True, True] + tally.agreements[False, False]
        lines.append(
            f"{_short(names[1])} agrees on {same:,}; correct by the first alone {tally.agreements[True, False]:,}, "
            f"by the second alone {tally.agreements[False, True]:,}"
        )
    if retries:
        lines.append(f"{retries:,} comparisons failed or were killed, and were tried once more")
    return "\n".join(lines)


def _short(identity: str) -> str:
    """The name with the first letters of its digest, to tell versions apart."""
    name, _, digest = identity.rpartition(":")
    return f"{name} {digest[:12]}"
