"""`opd judge`: a judge settles what the rules rejected in a finished score folder; nothing is sampled anew."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from opd.cli.paths import UserPath
from opd.cli.printing import examples

if TYPE_CHECKING:
    from opd.evaluate.settlement import Settled


@click.command(
    epilog=examples(
        "opd judge runs/scores/first --out runs/scores/judged --set local.model=models/judge",
    )
)
@click.argument("folder", type=UserPath())
@click.option("--out", required=True, type=UserPath(), help="Folder of the new score; goes on with its own.")
@click.option("--judge", "file", type=UserPath(), help="A .toml file with the judge's settings.")
@click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="local.model=DIR, server.url=…, recorded.file=…, …"
)
@click.option("--benchmark", help="The benchmark's .toml file, where the score's name for it leads nowhere.")
@click.option("--data", type=UserPath(), help="The benchmark's file, or the folder of its files, when elsewhere.")
def judge(
    folder: Path, out: Path, file: Path | None, sets: tuple[str, ...], benchmark: str | None, data: Path | None
) -> None:
    """Ask a judge about the answers that the rules rejected in FOLDER.

    FOLDER stays as it is; OUT holds its samples with the verdicts now, and their score. Interrupted, the same
    command goes on where it stopped.
    """
    from rich.console import Console
    from rich.progress import Progress

    from opd.cli.interrupt import Interrupt
    from opd.evaluate.judges.settings import JudgeSettings
    from opd.evaluate.settlement import judge_folder
    from opd.records.settings import read, read_sets

    settings = read_sets(JudgeSettings, sets) if file is None else read(JudgeSettings, file, sets=sets)
    with (
        Interrupt(unit="group of samples") as interrupt,
        Progress(console=Console(stderr=True), transient=True) as bar,
    ):
        task = bar.add_task("samples", total=None)
        settled = judge_folder(
            folder,
            out,
            settings,
            benchmark=benchmark,
            data=data,
            report=lambda done, total: bar.update(task, completed=done, total=total),
            interrupted=interrupt.asked,
        )
    click.echo(_closing(settled, out))


def _closing(settled: "Settled", out: Path) -> str:
    before, after = settled.before, settled.after
    error = "" if after.stderr is None else f" ± {after.stderr:.4f}"
    return (
        f"{settled.by} was asked about {settled.asked:,} of {after.samples:,} samples and finds {settled.right:,} of "
        f"them right\n{after.benchmark}: {before.mean:.4f} before, {after.correct}/{after.samples} = "
        f"{after.mean:.4f}{error} → {out / 'score.json'}"
    )
