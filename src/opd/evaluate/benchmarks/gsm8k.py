"""GSM8K, the 1,319 test questions, one sample each.

`data/gsm8k_test.jsonl` is `grade_school_math/data/test.jsonl` of openai/grade-school-math (MIT) at commit 3101c7d;
the answers are worked solutions that end in `#### 18`.
"""

from opd.evaluate.benchmark import Benchmark, QuestionFile

BENCHMARK = Benchmark(
    name="gsm8k",
    files=(
        QuestionFile(
            data="gsm8k_test.jsonl",
            sha256="3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14",
            rows=1_319,
            id="",
            problem="question",
            answer_after="####",
        ),
    ),
    questions=1_319,
    seeds=(42,),
    prompt="{problem} Please reason step by step, and put your final answer within \\boxed{}.",
    temperature=0.7,
    top_p=0.9,
    limit_tokens=4_096,
)
