"""AIME 2024, 30 questions, 32 samples each: one half of `aime24_25`, with its prompt, sampling and seeds."""

from opd.evaluate.benchmark import Benchmark, QuestionFile

# random.Random(42).sample(range(2**31 - 1), 32), written out: what it draws may change with Python
_SEEDS = (
    1373158606, 239081663, 53710184, 1592467581, 590620971, 525901256, 479341423, 299655412,
    1581559892, 220106707, 1453201078, 1590571865, 1915941032, 1171165722, 186699713, 1268073012,
    906070220, 68252793, 63989047, 201209005, 469521477, 499635468, 1085242216, 1292825378,
    56985561, 1205264595, 427000596, 1537640408, 1395616196, 1506083910, 1170252923, 900911954,
)  # fmt: skip

BENCHMARK = Benchmark(
    name="aime24",
    files=(
        QuestionFile(
            data="aime24.jsonl",
            sha256="aa665fe55e80ecc9fba65c7b7c99c0c03f285d2bb64ada16675aecc0eb758009",
            rows=30,
        ),
    ),
    questions=30,
    seeds=_SEEDS,
    prompt="{problem} Please reason step by step, and put your final answer within \\boxed{}.",
    temperature=0.7,
    top_p=0.9,
    limit_tokens=31_744,
    context_tokens=32_768,
)
