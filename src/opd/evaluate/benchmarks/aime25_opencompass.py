"""AIME 2025 from the hub, in the two files that the final of the task `opd_math_1p5b` reads.

The digests are those that the task's public list of assets states for this commit; the questions are those of
`aime25`, in files of another form, so the scores of the two don't compare.
"""

from opd.evaluate.benchmark import QuestionFile
from opd.evaluate.benchmarks import aime24
from opd.evaluate.hub import HubFile

BENCHMARK = aime24.BENCHMARK.on(
    name="aime25_opencompass",
    files=tuple(
        QuestionFile(
            data=file,
            sha256=sha256,
            rows=15,
            hub=HubFile(
                repository="opencompass/AIME2025",
                revision="a6ad95f611d72cf628a80b58bd0432ef6638f958",
                file=file,
            ),
            id="",
            problem="question",
        )
        for file, sha256 in (
            ("aime2025-I.jsonl", "b91b3c96f05d9635d2a0692b124ebe023c1ff59cb19c074275e6c4b349d0659e"),
            ("aime2025-II.jsonl", "16a2dcfbbf9db1b11f8a69a3ba5e4cac73e3641b19a37e2307e9c12240bbed5e"),
        )
    ),
    questions=30,
)
