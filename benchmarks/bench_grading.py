r"""How many answers a second the grader settles, by kind of answer, and how long its first worker takes to start.

    python benchmarks/bench_grading.py [MATH-500 as JSON Lines]

Responses look like real ones: some thousand characters of reasoning, then a box. A quarter of the answers is
wrong, an eighth is written in another form than the gold, and of each question there are four samples, so that
comparisons repeat as they do in an evaluation; "no two alike" shows the cost without that.
"""

import json
import platform
import random
import re
import sys
import time
from importlib.metadata import version
from pathlib import Path

from opd.grading.grader import Case, Grader

ROWS = 2_000
REASONING = "<think>\nLet me see: if $x + 3 = \\frac{5}{2}$ then $x = -\\frac12$, so we go on. </think>\n" * 60
MATH_500 = Path(__file__).parents[2] / "shared" / "data" / "math500.jsonl"


def cases(golds: list[str], *, samples: int, seed: int = 0) -> list[Case]:
    """ROWS cases over these golds, `samples` of each before the next."""
    rng = random.Random(seed)
    made = []
    for number in range(ROWS):
        gold = golds[(number // samples) % len(golds)]
        answer = gold
        if number % 8 == 1:
            answer = re.sub(r"\\frac\{(-?\d+)\}\{(\d+)\}", r"\1/\2", gold).replace(" ", "")
        elif number % 4 == 3:
            answer = rng.choice(golds)
        made.append((rf"{REASONING}So the answer is $\boxed{{{answer}}}$.", gold, False))
    return made


def golds_of(path: Path) -> list[str]:
    """The gold answers of MATH-500."""
    return [json.loads(line)["answer"] for line in path.read_text(encoding="utf-8").splitlines()]


def report(name: str, made: list[Case], grader: Grader) -> None:
    """One line: answers a second, the share that is correct, and how many are left to the workers."""
    start = time.perf_counter()
    judgements = grader.grade(made)
    seconds = time.perf_counter() - start
    correct = sum(one.verdict.correct for one in judgements) / len(judgements)
    by_worker = sum(one.stage in {"value", "symbolic"} for one in judgements)
    print(
        f"{name:32s} {len(made) / seconds:9,.0f} answers/s   {seconds:6.2f} s   "
        f"{correct:4.0%} correct   {by_worker:4d} by value or symbolically"
    )


def main() -> None:
    """Prints the machine, the versions, and a line for each kind."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else MATH_500
    libraries = " ".join(f"{name} {version(name)}" for name in ("math-verify", "sympy", "mpmath"))
    print(f"{platform.machine()} {platform.system()}, Python {platform.python_version()}, {libraries}")
    rng = random.Random(0)
    integers = [str(rng.randint(0, 999)) for _ in range(500)]
    rationals = [rf"\frac{{{rng.randint(1, 99)}}}{{{rng.randint(2, 99)}}}" for _ in range(500)]
    roots = [rf"{rng.randint(2, 99)}\sqrt{{{rng.randint(2, 99)}}}" for _ in range(ROWS)]
    with Grader(grader="reference") as grader:
        grader.grade([(r"\boxed{\sqrt{8}}", r"2\sqrt{2}", False)])  # the worker is there
        if path.is_file():
            report("MATH-500, reference grader", cases(golds_of(path), samples=4), grader)
    with Grader() as grader:
        report("integers", cases(integers, samples=4), grader)
        report("fractions", cases(rationals, samples=4), grader)
        started = time.perf_counter()
        grader.grade([(r"\boxed{\sqrt{8}}", r"2\sqrt2", False)])
        print(f"{'first worker, from nothing':32s} {time.perf_counter() - started:29.2f} s")
        if path.is_file():
            golds = golds_of(path)
            report("MATH-500", cases(golds, samples=4), grader)
            report("MATH-500, seen before", cases(golds, samples=4), grader)
        report("roots, no two alike", cases(roots, samples=1), grader)


if __name__ == "__main__":
    main()
