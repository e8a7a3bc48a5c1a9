"""AIME 2025, 30 questions, 32 samples each: one half of `aime24_25`, with its prompt, sampling and seeds."""

from opd.evaluate.benchmark import QuestionFile
from opd.evaluate.benchmarks import aime24

BENCHMARK = aime24.BENCHMARK.on(
    name="aime25",
    files=(
        QuestionFile(
            data="aime25.jsonl",
            sha256="8f4750170ee94d3e41a563cf12db76a800983a29c6544ec53fa8ba84f1460075",
            rows=30,
        ),
    ),
    questions=30,
)
