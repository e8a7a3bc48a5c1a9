"""AMC 2023, 40 questions, 32 samples each, asked as `aime24` is.

It goes around in several files that differ in their bytes: the problem is `problem` or `question`, the answer a
number such as 27.0, and some have no ids. No digest is declared; that of the file that is used becomes part of the
protocol, so that scores of two files don't compare.
"""

from opd.evaluate.benchmark import QuestionFile
from opd.evaluate.benchmarks import aime24

BENCHMARK = aime24.BENCHMARK.on(
    name="amc23",
    files=(QuestionFile(data="amc23.jsonl", rows=40, id="id|", problem="problem|question"),),
    questions=40,
)
