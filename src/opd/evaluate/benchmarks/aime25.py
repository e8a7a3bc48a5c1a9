"""AIME 2025, 30 questions, 32 samples each: one half of `aime24_25`, with its prompt, sampling and seeds."""

from opd.evaluate.benchmark import Benchmark, QuestionFile
from opd.evaluate.benchmarks import aime24

BENCHMARK = Benchmark(
    name="aime25",
    files=(
        QuestionFile(
            data="aime25.jsonl",
            sha256="8f4750170ee94d3e41a563cf12db76a800983a29c6544ec53fa8ba84f1460075",
            rows=30,
        ),
    ),
    questions=30,
    seeds=aime24.BENCHMARK.seeds,
    prompt="{problem} Please reason step by step, and put your final answer within \\boxed{}.",
    temperature=0.7,
    top_p=0.9,
    limit_tokens=31_744,
    context_tokens=32_768,
)
