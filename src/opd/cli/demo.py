"""`opd demo`: the whole story on the embedded models, through the code of the verbs.

First a distillation with its scores before and after; then an attempt, in which an explorer has seven minutes to
better the recipe, and what it hands in is trained and scored out of its reach.

runs/demo/
    scores/start  scores/teacher  scores/step-30 …    evaluations
    train/                                            the run
    comparison.json                                   result against start, paired by question
    seconds.json                                      how long each part took
    report.html                                       all of it on one page
    explorer.sh                                       who attempts
    attempts/command__arith_tiny__scripted__none/     the attempt, stage by stage, each with its receipt; its report
"""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opd.cli.paths import UserPath
from opd.cli.printing import examples

if TYPE_CHECKING:
    from opd.records.attempts import Status
    from opd.records.scores import Comparison, Score
    from opd.train.recipe import Recipe
    from opd.view.story.story import Cited

BENCHMARK = "arith_tiny_final"
_EXPLORER = "opd:arith_tiny/explorer.sh"
_NEXT = (
    ("opd train arith_gap --out runs/gap", "the harder pair: this student lacks knowledge, not certainty"),
    ("opd train arith_tiny --out runs/k2 --set objective.name=k2", "the same signal as a squared log-ratio"),
    ("opd evaluate arith_tiny --model runs/k2/checkpoint-120 --out runs/k2-score", "a score with its error bar"),
    ("opd show recipe opd_math_1p5b", "the same code at 1.5 billion parameters"),
)


@click.command(
    epilog=examples(
        "opd demo",
        "opd demo --no-attempt --steps 30 --out runs/look",
    )
)
@click.option("--out", type=UserPath(), help="Folder of the demo; a new one under runs/ by default.")
@click.option(
    "--steps", default=120, show_default=True, type=click.IntRange(min=4), help="Updates; 30 for a quick look."
)
@click.option("--attempt/--no-attempt", default=True, show_default=True, help="A whole attempt afterwards.")
@click.option("--quiet", is_flag=True, help="Show only the outcome.")
def demo(out: Path | None, steps: int, attempt: bool, quiet: bool) -> None:
    """The whole story on a CPU: score, distil, score again, compare, report; then an attempt on the embedded task.

    A minute or two, and six more for the attempt, in which a scripted explorer has to better the recipe: it
    explores, hands in a patch, and that is trained and scored anew. Nothing is fetched; the models ship with the
    package.
    """
    from opd.cli.interrupt import Interrupt
    from opd.records.errors import AnswerIsNo, AskedWrongly
    from opd.records.files import check_writable

    folder = out or _free_folder(Path("runs/demo"))
    check_writable(folder)
    if folder.is_dir() and any(folder.iterdir()):
        raise AskedWrongly(f"{folder} exists and is not empty; name a new folder")
    with Interrupt(unit="step") as interrupt:
        try:
            shown = _Demo(folder, steps=steps, quiet=quiet, interrupted=interrupt.asked)
            shown.run()
            if attempt:
                shown.attempt()
        except AnswerIsNo as error:
            if not interrupt.asked():
                raise
            raise AnswerIsNo(f"interrupted; {folder} holds what was made, and a new demo starts anew") from error


class _Demo:
    """One demo, in its folder."""

    def __init__(self, folder: Path, *, steps: int, quiet: bool, interrupted: Callable[[], bool]) -> None:
        self._folder = folder
        self._steps = steps
        self._quiet = quiet
        self._interrupted = interrupted
        self._seconds: dict[str, float] = {}

    def run(self) -> None:
        from opd.records.files import write_json

        recipe = self._recipe()
        start = self._score("start", recipe.student.model, "Score the student before distillation")
        assert recipe.teacher is not None, "the task's recipe has one"
        teacher = self._score("teacher", recipe.teacher.model, "Score the teacher")
        with self._part("distil", f"Distil: {self._steps} updates of the student toward the teacher"):
            self._train(recipe)
        steps = [step for step in range(1, self._steps + 1) if step % recipe.save.every == 0 or step == self._steps]
        scores = {
            step: self._score(f"step-{step}", str(self._folder / f"train/checkpoint-{step}"), f"Score step {step}")
            for step in steps
        }
        comparison = self._compare(steps[-1])
        write_json(self._folder / "seconds.json", self._seconds)
        self._report(recipe, steps)
        click.echo(_outcome(start, teacher, scores[steps[-1]], comparison, self._folder))

    def attempt(self) -> None:
        """The whole protocol, with an explorer that is a script."""
        from opd.protocol.attempts.creating import Explorer, create
        from opd.protocol.attempts.lease import held
        from opd.protocol.attempts.running import run
        from opd.protocol.sandbox.ladder import climb
        from opd.records.errors import AnswerIsNo
        from opd.records.places import locate

        script = self._folder / "explorer.sh"  # of the package itself an explorer sees nothing
        shutil.copyfile(locate(_EXPLORER), script)
        explorer = Explorer(harness="command", command=("bash", str(script)), model="scripted")
        with self._part("attempt", "An attempt: explore, submit, retrain, validate, evaluate, audit, report"):
            made = create("arith_tiny", self._folder / "attempts", explorer, given={})
            with held(made.folder) as holder:
                here = run(made, holder, climb(), say=self._say, cancelled=self._interrupted)
        if here.official is None:
            raise AnswerIsNo(here.missing or "the attempt was interrupted")
        click.echo(_attempted(here, made.folder))

    def _say(self, text: str) -> None:
        if not self._quiet:
            click.echo(text, err=True)

    def _recipe(self) -> "Recipe":
        from opd.records.places import recipe_path
        from opd.records.settings import read
        from opd.train.recipe import Recipe

        every = -(-self._steps // 4)  # four points on the curve, the last of them the result
        sets = [f"budget.steps={self._steps}", f"save.every={every}", "save.keep=5"]
        return read(Recipe, recipe_path("arith_tiny"), sets=sets)

    def _score(self, name: str, model: str, title: str) -> "Score":
        from opd.evaluate.benchmark import find
        from opd.evaluate.run import evaluate
        from opd.evaluate.settings import Evaluation
        from opd.view.terminal.board import EvaluateBoard

        asked = Evaluation(benchmark=find(BENCHMARK))
        total = asked.benchmark.questions * len(asked.benchmark.seeds)
        with self._part(f"score {name}", title), EvaluateBoard(total=total, quiet=self._quiet) as board:
            out = self._folder / "scores" / name
            return evaluate(asked, model, out, report=board.add, interrupted=self._interrupted)

    def _train(self, recipe: "Recipe") -> None:
        from opd.records.errors import AnswerIsNo
        from opd.records.metrics import StopCause
        from opd.train.run import prepare, run
        from opd.view.terminal.board import TrainBoard

        out = self._folder / "train"
        parts = prepare(recipe, out)
        with TrainBoard(total_steps=self._steps, quiet=self._quiet) as board:
            summary = run(recipe, parts, out, report=board.step, interrupted=self._interrupted)
        if summary.stop is StopCause.INTERRUPTED:
            raise AnswerIsNo(f"interrupted after step {summary.steps} of {self._steps}; {out} holds what was made")

    def _compare(self, last_step: int) -> "Comparison":
        from opd.evaluate.comparison import compare
        from opd.evaluate.results import read_results
        from opd.records.files import write_json

        scores = self._folder / "scores"
        start = read_results(scores / "start", name="start")
        comparison = compare(start, read_results(scores / f"step-{last_step}", name=f"step {last_step}"))
        write_json(self._folder / "comparison.json", comparison.resolved())
        return comparison

    def _report(self, recipe: "Recipe", steps: list[int]) -> None:
        from opd.records.rollout_table import table_path
        from opd.records.scores import Comparison, Score
        from opd.view.story.pictures import write_summary_picture
        from opd.view.story.report import write_report
        from opd.view.story.story import (
            EMBEDDED_CAVEATS,
            CurvePoint,
            NextCommand,
            Story,
            cite,
            cite_json,
            cite_metrics,
            cite_telling_rollout,
        )

        root, run = self._folder, self._folder / "train"

        def score(name: str) -> "Cited[Score]":
            return cite(Score, root / "scores" / name / "score.json", root=root)

        start = score("start")
        later = tuple(CurvePoint(step=step, score=score(f"step-{step}")) for step in steps)
        story = Story(
            title="On-policy distillation of the embedded student",
            start=start,
            teacher=score("teacher"),
            result=later[-1].score,
            curve=(CurvePoint(step=0, score=start), *later),
            comparison=cite(Comparison, root / "comparison.json", root=root),
            metrics=cite_metrics(run / "metrics.jsonl", root=root),
            rollout=cite_telling_rollout(table_path(run, 1), root=root),
            rollout_step=1,
            tokenizer=run / "rollouts" / "tokenizer.json",
            recipe=cite_json(run / "recipe.json", root=root),
            recipe_digest=recipe.digest,
            seconds=cite_json(root / "seconds.json", root=root),
            next_commands=tuple(NextCommand(command=command, does=does) for command, does in _NEXT),
            caveats=EMBEDDED_CAVEATS,
        )
        write_report(root / "report.html", story)
        write_summary_picture(root / "summary.svg", story)

    @contextmanager
    def _part(self, name: str, title: str) -> Iterator[None]:
        if not self._quiet:
            click.echo(f"\n{title}", err=True)
        start = time.perf_counter()
        yield
        self._seconds[name] = time.perf_counter() - start


def _free_folder(wanted: Path) -> Path:
    """The folder, or the first of wanted-2, wanted-3, … that does not exist."""
    number, folder = 1, wanted
    while folder.exists():
        number += 1
        folder = wanted.with_name(f"{wanted.name}-{number}")
    return folder


def _outcome(start: "Score", teacher: "Score", result: "Score", comparison: "Comparison", folder: Path) -> str:
    from opd.view.story.story import EMBEDDED_CAVEATS

    lines = [
        "",
        *(
            f"{name:9} {score.mean:.3f} ± {score.stderr or 0:.3f}   {score.correct}/{score.samples}"
            for name, score in (("start", start), ("distilled", result), ("teacher", teacher))
        ),
        "",
        comparison.verdict,
        "",
        "What this is not: " + EMBEDDED_CAVEATS[0],
        "",
        f"The whole story: open {folder / 'report.html'}",
        "Next:",
        *(f"  {command}\n      {does}" for command, does in _NEXT),
    ]
    return "\n".join(lines)


def _attempted(here: "Status", folder: Path) -> str:
    """What came of the attempt, and how to look into it."""
    best = here.official
    assert best is not None, "an attempt without a result was an error before"
    score = f"{best.correct}/{best.samples} = {best.mean:.3f} ± {best.stderr or 0:.3f}"
    lines = [
        "",
        *(f"{one.name:24} {one.outcome}" for one in here.tries),
        "",
        f"official: step {best.step}, {score}, the best of {best.of}",
        "",
        *_audited(here),
        f"report: {_report(here, folder)}",
        f"Every file of it has a receipt: opd attempt verify {folder}",
    ]
    return "\n".join(lines)


def _audited(here: "Status") -> list[str]:
    """What the audit found, where it found something."""
    found = {axis: verdict for axis, verdict in (here.verdicts or {}).items() if verdict != "none_found"}
    return [f"audit: {axis.replace('_', ' ')} {verdict.replace('_', ' ')}" for axis, verdict in found.items()]


def _report(here: "Status", folder: Path) -> Path:
    """The page to open: of the newest report that was rendered."""
    rendered = [one.name for one in here.tries if one.stage == "report" and one.outcome == "rendered"]
    assert rendered, "a whole attempt ends with its report"
    return folder / rendered[-1] / "index.html"
