"""MATH-500, four samples a question: the proxy `math500_pass_at_1` of the task `opd_math_1p5b`."""

from opd.evaluate.benchmark import Benchmark, QuestionFile

BENCHMARK = Benchmark(
    name="math500",
    files=(
        QuestionFile(
            data="math500.jsonl",
            sha256="40a4d694b53893c8106bf4f44b95478c82614bf0e2ea0bd96329e8efe9f1337e",
            rows=500,
        ),
    ),
    questions=500,
    seeds=(42, 43, 44, 45),
    prompt="{problem} Please reason step by step, and put your final answer within \\boxed{}.",
    temperature=0.7,
    top_p=0.9,
    limit_tokens=12_288,
    context_tokens=13_312,
)
