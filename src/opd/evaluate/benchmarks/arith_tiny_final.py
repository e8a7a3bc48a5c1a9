"""The final of the embedded task: 500 other chains of sums, four samples each; what a report rests on."""

from opd.evaluate.benchmark import Benchmark, QuestionFile

BENCHMARK = Benchmark(
    name="arith_tiny_final",
    files=(
        QuestionFile(
            data="opd:arith_tiny/final.jsonl",
            sha256="d5588d0c131c04befde47d063451ada87b137b0286c811172c2e7319ec2a921b",
            rows=500,
        ),
    ),
    questions=500,
    seeds=(42, 43, 44, 45),
    limit_tokens=64,
)
