"""A score names the code that drew it and the code that counted it."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opd.evaluate import code
from opd.evaluate.code import code_digest, counted_here, shortened
from opd.evaluate.comparison import compare
from opd.evaluate.results import read_results
from opd.records.errors import AnswerIsNo
from opd.records.files import read_json, write_json


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package, which `code_digest` takes for the package itself; nothing is remembered of another."""
    package = Path(code.__file__).parent.parent
    for room in ("evaluate", "models", "view"):
        shutil.copytree(package / room, tmp_path / "opd" / room, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code, "__file__", str(tmp_path / "opd" / "evaluate" / "code.py"))
    return tmp_path / "opd"


def digest_now() -> str:
    return code_digest.__wrapped__()


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("evaluate/statistics/estimates.py", True),
        ("evaluate/benchmarks/aime24.py", True),
        ("models/noise.py", True),
        ("models/engine/kernels/draws.py", True),
        ("view/words.py", False),
    ],
)
def test_the_digest_is_of_all_that_draws_and_counts_and_of_nothing_else(
    copied: Path, file: str, changes: bool
) -> None:
    before = digest_now()
    assert before == code_digest()  # wherever the package lies
    with (copied / file).open("a") as opened:
        opened.write("# one comment more\n")
    assert (digest_now() != before) is changes


def test_samples_that_other_code_drew_name_both(sums: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, answers = tmp_path / "out", iter([False, True])
    with monkeypatch.context() as patched:
        patched.setattr("opd.evaluate.drawing.code_digest", lambda: "e" * 64)
        with pytest.raises(AnswerIsNo, match="4 samples graded"):
            sums.evaluated(sums.half_right(), out, interrupted=lambda: next(answers))
    score = sums.evaluated(sums.half_right(), out)
    assert score.machine["code"] == f"{'e' * 64} + {code_digest()}"
    assert shortened(score.machine["code"]) == f"{'e' * 12} + {code_digest()[:12]}"


def test_a_comparison_of_scores_by_different_code_says_so(sums: Any, tmp_path: Path) -> None:
    sums.evaluated(sums.half_right(), tmp_path / "a")
    here = read_results(tmp_path / "a", name="a")
    assert compare(here, here).notes == ()
    other = replace(here, name="b", machine={**here.machine, "code": "e" * 64})
    (note,) = compare(here, other).notes
    assert note == f"a and b ran with another code ({code_digest()[:12]} v {'e' * 12})."


def test_of_an_older_score_the_code_that_drew_is_not_known(sums: Any, tmp_path: Path) -> None:
    sums.evaluated(sums.half_right(), tmp_path / "a")
    values = read_json(tmp_path / "a" / "score.json")
    del values["machine"]["code"]
    write_json(tmp_path / "a" / "score.json", values)
    older = read_results(tmp_path / "a")
    assert compare(older, older).notes == ()
    assert counted_here(older.machine)["code"] == f"not known + {code_digest()}"
