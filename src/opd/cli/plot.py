"""`opd plot`: pictures for papers, each with its data beside it."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opd.cli.paths import UserPath
from opd.cli.printing import examples

if TYPE_CHECKING:
    from opd.view.plots.plot import Plot

_PATHS = click.argument("paths", metavar="PATH…", nargs=-1, required=True, type=UserPath())
_OUT = click.option(
    "--out", required=True, type=UserPath(), help="New file: .svg, .pdf or .png; its data lies beside it as .csv."
)
_WIDTH = click.option(
    "--width", default=6.6, show_default=True, type=float, help="Inches: 6.6 is a page, 3.3 a column of two."
)


@click.group(
    epilog=examples(
        "opd plot curve runs/train runs/scores --out curve.pdf",
        "opd plot curve runs/a runs/b --metric kl --width 3.3 --out kl.svg",
        "opd plot compare runs/scores/start runs/scores/step-120 --out compare.pdf",
    )
)
def plot() -> None:
    """Draw runs and scores for a paper: units, 95 % intervals clustered by question, and the data as CSV."""


def _drawn(out: Path, width: float, draw: Callable[[], "Plot"]) -> None:
    """What is asked wrongly is said before anything is read."""
    from opd.view.plots.plot import check_out, check_width, data_path, write

    check_out(out)
    check_width(width)
    write(draw(), out)
    click.echo(f"→ {out} and {data_path(out)}", err=True)


@plot.command(
    epilog=examples(
        "opd plot curve runs/train runs/scores --out curve.pdf",
        "opd plot curve runs/a runs/b --metric kl --width 3.3 --out kl.svg",
    )
)
@_PATHS
@click.option(
    "--metric", help="A key of metrics.jsonl (kl, gap.mean, seconds.update …), or score.  [default: see above]"
)
@_WIDTH
@_OUT
def curve(paths: tuple[Path, ...], metric: str | None, **given: Any) -> None:
    """Curves over steps, one for each training run at and below PATH.

    Where scores of their checkpoints lie there too, the score with its 95 % band; else KL to the teacher. Runs and
    scores belong together by the digest of the checkpoint. A score of the start is step 0; the teacher's is a line.
    """
    from opd.view.plots.curve import curve as drawn

    _drawn(given["out"], given["width"], lambda: drawn(paths, metric=metric, width=given["width"]))


@plot.command(
    epilog=examples(
        "opd plot score runs/scores --out scores.pdf",
    )
)
@_PATHS
@_WIDTH
@_OUT
def score(paths: tuple[Path, ...], **given: Any) -> None:
    """Scores with their 95 % intervals, clustered by question; of a single one, each of its questions."""
    from opd.view.plots.score import score as drawn

    _drawn(given["out"], given["width"], lambda: drawn(paths, width=given["width"]))


@plot.command(
    epilog=examples(
        "opd plot compare runs/scores/start runs/scores/first --out compare.pdf",
    )
)
@_PATHS
@_WIDTH
@_OUT
def compare(paths: tuple[Path, ...], **given: Any) -> None:
    """The paired difference of two scores, question by question; of more, each from the first.

    PATH is the folder of a score, or else a file that `opd compare --json` printed, which has no questions in it.
    """
    from opd.view.plots.compare import compare as drawn

    _drawn(given["out"], given["width"], lambda: drawn(paths, width=given["width"]))


@plot.command(
    epilog=examples(
        "opd plot lengths runs/scores/start runs/scores/first --out lengths.png",
    )
)
@_PATHS
@_WIDTH
@_OUT
def lengths(paths: tuple[Path, ...], **given: Any) -> None:
    """How long the responses of scores are, right, wrong and cut short; of training runs alone, over steps."""
    from opd.view.plots.lengths import lengths as drawn

    _drawn(given["out"], given["width"], lambda: drawn(paths, width=given["width"]))
