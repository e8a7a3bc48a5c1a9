"""A benchmark as TOML: what `opd show benchmark` prints, and what a file of anyone's own questions comes to.

    opd show benchmark questions.jsonl > questions.toml
    opd evaluate questions.toml --model …

Counts and digest are taken down once, here; from then on they are declared, and another file is refused.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opd.evaluate.benchmark import Benchmark, QuestionFile
from opd.evaluate.questions import read_questions
from opd.records.errors import AskedWrongly
from opd.records.files import read_lines, sha256

_PROMPT = "{problem} Please reason step by step, and put your final answer within \\boxed{}."
_PROBLEM_FIELDS = ("problem", "question")


def taken_down(path: Path) -> Benchmark:
    """The benchmark that a JSON Lines file of questions comes to, asked the way `math500` is.

    Raises `AskedWrongly` for a file whose rows have no problem or no answer that can be used.
    """
    rows = list(read_lines(path))
    if not rows:
        raise AskedWrongly(f"{path} has no questions")
    problem = next((name for name in _PROBLEM_FIELDS if name in rows[0]), None)
    if problem is None:
        raise AskedWrongly(
            f"{path}: its first row has no {' and no '.join(_PROBLEM_FIELDS)}; it has {sorted(rows[0])}"
        )
    file = QuestionFile(
        data=path.name, sha256=sha256(path), rows=len(rows), id="id" if "id" in rows[0] else "", problem=problem
    )
    found = Benchmark(
        name=path.stem,
        files=(file,),
        questions=len(rows),
        seeds=(42, 43, 44, 45),
        prompt=_PROMPT,
        temperature=0.7,
        top_p=0.9,
        limit_tokens=12_288,
    )
    read_questions(found, path)
    return found


def toml(benchmark: Benchmark) -> str:
    """The benchmark's declaration as a TOML file; what is left to its default is left out."""
    values = benchmark.model_dump(mode="json", exclude_unset=True)
    files = values.pop("files")
    lines = _lines(values)
    for file in files:
        hub = file.pop("hub", None)
        lines += ["", "[[files]]", *_lines(file)]
        if hub is not None:
            lines += ["", "[files.hub]", *_lines(hub)]
    return "\n".join(lines) + "\n"


def _lines(values: Mapping[str, Any]) -> list[str]:
    """`key = value` a line; texts, numbers and lists of numbers are written alike in JSON and in TOML."""
    return [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items() if value is not None]
