"""A benchmark as TOML: what `opd show benchmark` prints, and what a file of anyone's own questions comes to.

    opd show benchmark questions.jsonl > questions.toml
    opd evaluate questions.toml --model …

Counts and digest are taken down once, here; from then on they are declared, and another file is refused. A benchmark
that leaves its digest open, such as `amc23`, is shown as declared where its file is at hand.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opd.evaluate.benchmark import Benchmark, QuestionFile
from opd.evaluate.questions import pinned, read_questions
from opd.records.errors import AskedWrongly
from opd.records.files import read_lines

_PROMPT = "{problem} Please reason step by step, and put your final answer within \\boxed{}."
_OPEN = "# no sha256: it is taken down from the file that is used, and is part of the protocol then"


def taken_down(path: Path) -> Benchmark:
    """The benchmark that a JSON Lines file of questions comes to, asked the way `math500` is.

    Raises `AskedWrongly` for a file whose rows have no problem or no answer that can be used.
    """
    rows = sum(1 for _ in read_lines(path))
    if not rows:
        raise AskedWrongly(f"{path} has no questions")
    file = QuestionFile(data=path.name, rows=rows, id="id|", problem="problem|question", answer="answer")
    asked = Benchmark(
        name=path.stem,
        files=(file,),
        questions=rows,
        seeds=(42, 43, 44, 45),
        prompt=_PROMPT,
        temperature=0.7,
        top_p=0.9,
        limit_tokens=12_288,
    )
    found = pinned(asked, path)
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
        lines += [_OPEN] if file.get("sha256") is None else []
        if hub is not None:
            lines += ["", "[files.hub]", *_lines(hub)]
    return "\n".join(lines) + "\n"


def _lines(values: Mapping[str, Any]) -> list[str]:
    """`key = value` a line; texts, numbers and lists of numbers are written alike in JSON and in TOML."""
    return [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items() if value is not None]
