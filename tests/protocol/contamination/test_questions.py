"""Where a final's questions come from."""

import json
from pathlib import Path

import pytest

from opd.protocol.contamination.needles import Question
from opd.protocol.contamination.questions import final_questions
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import sha256
from opd.records.tasks import Measure, QuestionSource


def measure(path: Path, **changes: str) -> Measure:
    source = QuestionSource(source=str(path), sha256=changes.get("sha256", sha256(path)), rows=1)
    return Measure(
        metric="m", benchmark="b", questions=1, seeds=(1,), prompt="{problem}", temperature=1.0, top_p=1.0,
        limit_tokens=8, files=(source,),
    )  # fmt: skip


def test_a_finals_questions_are_read_in_every_wording_and_only_where_they_are_as_pinned(tmp_path: Path) -> None:
    path = tmp_path / "final.jsonl"
    path.write_text(json.dumps({"problem": "One?", "problem_alt": "1?", "answer": 7}) + "\n", encoding="utf-8")
    assert final_questions(measure(path)) == (Question(wordings=("One?", "1?"), answer="7"),)
    with pytest.raises(AnswerIsNo, match="pins"):
        final_questions(measure(path, sha256="0" * 64))
    path.write_text(json.dumps({"question": "Two?", "answer": "2 eggs\n#### 18"}) + "\n", encoding="utf-8")
    assert final_questions(measure(path)) == (Question(wordings=("Two?",), answer="18"),)
    path.write_text(json.dumps({"riddle": "Three?"}) + "\n", encoding="utf-8")
    with pytest.raises(AskedWrongly, match="no text in any of"):
        final_questions(measure(path))
    known = measure(path)
    path.unlink()
    with pytest.raises(AskedWrongly, match="not at hand"):
        final_questions(known)
