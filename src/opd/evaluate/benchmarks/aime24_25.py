"""AIME 2024 and 2025, 60 questions, 32 samples each: the final `aime24_25_at32` of the task `opd_math_1p5b`."""

from opd.evaluate.benchmark import Benchmark
from opd.evaluate.benchmarks import aime24, aime25

BENCHMARK = Benchmark(
    name="aime24_25",
    files=aime24.BENCHMARK.files + aime25.BENCHMARK.files,
    questions=60,
    seeds=aime24.BENCHMARK.seeds,
    prompt="{problem} Please reason step by step, and put your final answer within \\boxed{}.",
    temperature=0.7,
    top_p=0.9,
    limit_tokens=31_744,
    context_tokens=32_768,
)
