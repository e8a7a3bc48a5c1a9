"""AIME 2024 and 2025, 60 questions, 32 samples each: the final `aime24_25_at32` of the task `opd_math_1p5b`."""

from opd.evaluate.benchmarks import aime24, aime25

BENCHMARK = aime24.BENCHMARK.on(
    name="aime24_25",
    files=aime24.BENCHMARK.files + aime25.BENCHMARK.files,
    questions=60,
)
