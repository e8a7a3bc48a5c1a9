"""Does the embedded default hold what the documentation says: start, teacher, and the result for several seeds.

    python benchmarks/bench_arith_tiny.py [--recipe arith_tiny] [--seeds 0 1 2] [--steps 120] [--objective NAME]

Each seed is a run of the recipe through `opd`'s own functions, scored on the 500 final problems × 4 samples and
compared with the start, paired by question. About a minute a seed on one CPU thread. Prints a table and a JSON
line.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from opd.evaluate.benchmark import find
from opd.evaluate.comparison import compare
from opd.evaluate.results import read_results
from opd.evaluate.run import evaluate
from opd.evaluate.settings import Evaluation
from opd.records.places import recipe_path
from opd.records.scores import Score
from opd.records.settings import read
from opd.train.recipe import Recipe
from opd.train.run import prepare, run


def main() -> None:
    """Scores start and teacher, then distils and scores each seed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--recipe", default="arith_tiny")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--objective")
    parser.add_argument("--set", dest="sets", action="append", default=[])
    asked = parser.parse_args()
    sets = [*asked.sets, f"budget.steps={asked.steps}", f"save.every={asked.steps}", "save.rollouts=false"]
    if asked.objective:
        sets.append(f"objective.name={asked.objective}")
    recipe = read(Recipe, recipe_path(asked.recipe), sets=sets)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        start = scored(recipe.student.model, folder / "start")
        teacher = scored(recipe.teacher.model, folder / "teacher")
        print(f"{start.machine['name']}, torch {start.machine['torch']}, {start.machine['threads']} thread")
        print(f"start    {start.mean:.4f} ± {start.stderr:.4f}\nteacher  {teacher.mean:.4f} ± {teacher.stderr:.4f}")
        rows = [distilled(recipe.changed([f"seed={seed}"]), folder) for seed in asked.seeds]
    machine = start.machine | {"recipe": asked.recipe, "steps": str(asked.steps)}
    print(json.dumps({"machine": machine, "start": start.mean, "teacher": teacher.mean, "seeds": rows}))


def scored(model: str, out: Path) -> Score:
    """The score of a model on the final problems."""
    asked = Evaluation(benchmark=find("arith_tiny_final"))
    return evaluate(asked, model, out)


def distilled(recipe: Recipe, folder: Path) -> dict[str, float]:
    """One seed: the run, its score, and the paired difference from the start."""
    out = folder / f"seed-{recipe.seed}"
    began = time.perf_counter()
    summary = run(recipe, prepare(recipe, out), out)
    seconds = time.perf_counter() - began
    score = scored(str(out / summary.checkpoints[-1]), folder / f"score-{recipe.seed}")
    gain = compare(read_results(folder / "start"), read_results(folder / f"score-{recipe.seed}"))
    assert score.stderr is not None, "500 questions have an error"
    assert gain.stderr is not None, "500 questions have an error"
    print(
        f"seed {recipe.seed}   {score.mean:.4f} ± {score.stderr:.4f}   gain {gain.difference:+.4f} "
        f"± {gain.stderr:.4f}   {summary.steps} steps in {seconds:.0f} s"
    )
    return {
        "seed": recipe.seed,
        "mean": score.mean,
        "stderr": score.stderr,
        "gain": gain.difference,
        "seconds": seconds,
    }


if __name__ == "__main__":
    main()
