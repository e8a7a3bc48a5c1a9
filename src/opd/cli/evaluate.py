"""`opd evaluate`: a benchmark and a model → a score with its error bar."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from opd.cli.names import BENCHMARK
from opd.cli.paths import UserPath
from opd.cli.printing import LOG, examples

if TYPE_CHECKING:
    from opd.records.scores import Score


@click.command(
    epilog=examples(
        "opd evaluate arith_tiny --model runs/first/checkpoint-120 --out runs/scores/first",
        "opd evaluate aime24 --model owner/name@revision --data aime24.jsonl --out runs/scores/aime24",
        "opd evaluate arith_tiny --model opd:arith_tiny/teacher --samples 1 --out runs/look --log json",
        "opd evaluate arith_tiny --model opd:arith_tiny/student --out runs/scores/start --on ray:2",
    )
)
@click.argument("benchmark", type=BENCHMARK)
@click.option(
    "--model", required=True, help="A model directory, opd:<task>/<name>, or owner/name@revision on the hub."
)
@click.option("--out", required=True, type=UserPath(), help="Folder of the score; goes on with its own.")
@click.option("--data", type=UserPath(), help="The benchmark's file, or the folder of its files, when elsewhere.")
@click.option("--questions", type=int, help="Only the first N questions: another protocol.")
@click.option("--samples", type=int, help="Only the first N samples of each: another protocol.")
@click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="second_grader=reference, machine.workers=2, …"
)
@click.option("--on", metavar="ray[:N]", help="Draw on a Ray cluster, by N workers: one a device by default.")
@click.option("--quiet", is_flag=True, help="Show nothing but errors and the result.")
@LOG
def evaluate(
    benchmark: str,
    model: str,
    out: Path,
    data: Path | None,
    questions: int | None,
    samples: int | None,
    sets: tuple[str, ...],
    on: str | None,
    quiet: bool,
    log: str | None,
) -> None:
    """Sample, grade and score MODEL on BENCHMARK: one of `opd show benchmarks`, or a .toml file.

    OUT holds samples.jsonl, score.json and every token afterwards. Interrupted, the same command goes on where it
    stopped.
    """
    from opd.cli.interrupt import Interrupt
    from opd.cli.places import workers_on_ray
    from opd.evaluate.benchmark import find
    from opd.evaluate.fanout import Spread
    from opd.evaluate.run import evaluate as run
    from opd.evaluate.settings import asked_of
    from opd.view.terminal.board import EvaluateBoard
    from opd.view.terminal.log import EvaluateLog

    asked = asked_of(find(benchmark), questions=questions, samples=samples, sets=sets)
    total = asked.benchmark.questions * len(asked.benchmark.seeds)
    board: EvaluateBoard | EvaluateLog = (
        EvaluateBoard(total=total, quiet=quiet) if log is None else EvaluateLog(out=out, asked=total)
    )
    spread = None if on is None else Spread(workers=workers_on_ray(on), count=board.workers)
    with Interrupt(unit="group of questions") as interrupt, board:
        score = run(
            asked,
            model,
            out,
            data=data,
            report=board.add,
            say=board.say,
            interrupted=interrupt.asked,
            spread=spread,
        )
    if isinstance(board, EvaluateLog):
        board.end(score)
    else:
        click.echo(_closing(score, out))


def _closing(score: "Score", out: Path) -> str:
    from opd.evaluate.statistics.intervals import wilson

    error = "" if score.stderr is None else f" ± {score.stderr:.4f}"
    if score.correct in {0, score.samples} and (bounds := wilson(score.correct and score.questions, score.questions)):
        error = f", which leaves room for {bounds[0]:.2f} to {bounds[1]:.2f} (Wilson, on questions)"
    return (
        f"{score.benchmark}: {score.correct}/{score.samples} = {score.mean:.4f}{error} "
        f"({score.questions} questions × {score.protocol.samples_per_question}, error clustered by question; "
        f"cut short {score.cut_short:.1%}{_others(score)}) → {out / 'score.json'}"
    )


def _others(score: "Score") -> str:
    """Of those who were asked besides, how often they saw it otherwise."""
    return "".join(f"; {by} otherwise on {count}" for by, count in score.disagreements.items())
