"""The proxy of the embedded task: 500 chains of sums, four samples each; what a person decides by."""

from opd.evaluate.benchmark import Benchmark, QuestionFile

BENCHMARK = Benchmark(
    name="arith_tiny",
    files=(
        QuestionFile(
            data="opd:arith_tiny/proxy.jsonl",
            sha256="442fc030bc214a1628e4f3b87eed03ac502f724c378bc6e662977c0a052ec150",
            rows=500,
        ),
    ),
    questions=500,
    seeds=(42, 43, 44, 45),
    limit_tokens=64,
)
