"""Does the distilled result depend on who samples: the embedded default on a GPU, by every path of the sampler.

    python benchmarks/bench_paths.py [--steps 120] [--only graphs exact] [--together]    one GPU, some minutes

Each path is a run of recipes/arith_tiny.toml in bfloat16 through `opd`'s own functions, scored on 500 problems × 4
samples. All should have one score, within its error. In exact mode the company of a sequence decides nothing: `exact`
samples 64 at once and `exact, 7 at once` never more than seven, by other tiles and other graphs, and both should end
with the same weights. The same two without exact mode stand beside them. A path that this machine has not is named
and left out. Prints a line a path, then a JSON line.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from opd.evaluate.benchmark import find
from opd.evaluate.run import evaluate
from opd.evaluate.settings import Evaluation
from opd.records.errors import AskedWrongly
from opd.records.files import digest, tree
from opd.records.places import recipe_path
from opd.records.settings import read
from opd.train.recipe import Recipe
from opd.train.run import prepare, run

SMALL = "rollouts.largest_batch=7"
PATHS = {
    "plain": ['machine.engine="plain"'],
    "graphs": ['machine.engine="graphs"'],
    "graphs, 7 at once": ['machine.engine="graphs"', SMALL],
    "exact": ["machine.exact=true"],
    "exact, 7 at once": ["machine.exact=true", SMALL],
    "vllm": ['machine.engine="vllm"'],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a path came to."""

    path: str
    mean: float
    stderr: float
    largest_gap: float  # nats, between sampler and trainer, over all steps
    weights: str  # the digest of the last checkpoint's, without the settings that stand beside them
    seconds: float  # of the training


def main() -> None:
    """Distils by each path, here or each in a process of its own, and compares."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--only", nargs="+", choices=PATHS, default=list(PATHS), help="paths")
    parser.add_argument("--together", action="store_true", help="all paths at once; their seconds mean nothing then")
    asked = parser.parse_args()
    outcomes = []
    if asked.together:
        command = [sys.executable, __file__, "--steps", str(asked.steps), "--only"]
        running = [subprocess.Popen([*command, path], stdout=subprocess.PIPE, text=True) for path in asked.only]
        for path, each in zip(asked.only, running, strict=True):
            said, _ = each.communicate()
            lines = said.splitlines()
            if each.returncode or not lines:
                print(f"{path}: ended with exit code {each.returncode}")
            elif found := json.loads(lines[-1]):
                outcomes += [Outcome(**one) for one in found]
            else:
                print("\n".join(lines[:-1]))  # why it was left out
    else:
        for path in asked.only:
            try:
                outcomes.append(distilled(path, asked.steps))
            except AskedWrongly as reason:
                print(f"{path}: left out, for {reason}")
    for one in outcomes:
        print(
            f"{one.path:18} {one.mean:.4f} ± {one.stderr:.4f}   largest gap {one.largest_gap:.2g}   "
            f"weights {one.weights[:12]}   {one.seconds:.0f} s"
        )
    print(json.dumps([asdict(one) for one in outcomes]))


def distilled(path: str, steps: int) -> Outcome:
    """The run of a path, and its score."""
    sets = [f"budget.steps={steps}", f"save.every={steps}", "save.rollouts=false"]
    narrow = ['machine.device="cuda"', 'student.dtype="bfloat16"', 'teacher.dtype="bfloat16"']
    recipe = read(Recipe, recipe_path("arith_tiny"), sets=[*sets, *narrow, *PATHS[path]])
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "run"
        began = time.perf_counter()
        summary = run(recipe, prepare(recipe, out), out)
        seconds = time.perf_counter() - began
        last = out / summary.checkpoints[-1]
        score = evaluate(Evaluation(benchmark=find("arith_tiny_final")), str(last), Path(scratch) / "score")
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        assert score.stderr is not None, "500 questions have an error"
        return Outcome(
            path=path,
            mean=score.mean,
            stderr=score.stderr,
            largest_gap=max(line["gap"]["largest"] for line in lines),
            weights=digest({name: one for name, one in tree(last).items() if name.endswith(".safetensors")}),
            seconds=seconds,
        )


if __name__ == "__main__":
    main()
