"""Is training faster or slower than at another revision? Two source trees take turns; the answer is a ratio.

    git worktree add ../before REVISION
    python benchmarks/bench_revision.py ../before [--recipe arith_tiny] [--steps 15] [--rounds 4] [--set …]

Each turn is a short run of the recipe in a process of its own, on one CPU thread unless the recipe says otherwise,
with the same environment and the other tree's `src` first on the path. The first two steps of a run are left out.
Prints, for each phase, the median seconds a step of both trees and the ratio of the medians, and a JSON line.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

from opd.records.files import read_lines

HERE = Path(__file__).parents[1]
WARM_STEPS = 2
PHASES = ("sample", "score", "update", "total")


def main() -> None:
    """Lets the two trees take turns and prints what came out."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before", type=Path, help="the other tree")
    parser.add_argument("--recipe", default="arith_tiny")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--set", dest="sets", action="append", default=[])
    asked = parser.parse_args()
    seconds: dict[str, dict[str, list[float]]] = {"before": defaultdict(list), "now": defaultdict(list)}
    for number in range(asked.rounds):
        turns = [("before", asked.before), ("now", HERE)]
        for name, tree in turns if number % 2 else reversed(turns):
            for line in steps(tree, asked):
                for phase in PHASES:
                    seconds[name][phase].append(line["seconds"][phase])
    print(f"{asked.recipe}, {asked.rounds} × {asked.steps - WARM_STEPS} steps each; seconds a step, median")
    result = {}
    for phase in PHASES:
        was, now = (median(seconds[name][phase]) for name in ("before", "now"))
        result[phase] = {"before": was, "now": now, "ratio": now / was}
        print(f"{phase:8} {was:8.4f} → {now:8.4f}   × {now / was:.3f}")
    print(json.dumps({"recipe": asked.recipe, "sets": asked.sets, "seconds": result}))


def steps(tree: Path, asked: argparse.Namespace) -> list[dict]:
    """The metrics of one run of a tree, without the first steps."""
    sets = [f"budget.steps={asked.steps}", f"save.every={asked.steps}", "save.rollouts=false", *asked.sets]
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "run"
        command = [
            sys.executable,
            "-c",
            "from opd.cli.main import main; raise SystemExit(main())",
            "train",
            asked.recipe,
            "--out",
            str(out),
        ]
        command += [word for one in sets for word in ("--set", one)]
        environment = os.environ | {"PYTHONPATH": str(tree.resolve() / "src"), "OMP_NUM_THREADS": "1"}
        subprocess.run(command, check=True, env=environment, cwd=scratch, stdout=subprocess.DEVNULL)
        return list(read_lines(out / "metrics.jsonl"))[WARM_STEPS:]


if __name__ == "__main__":
    main()
