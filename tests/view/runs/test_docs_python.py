"""The Python of docs/python.md runs, on runs that lie where it says."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

Make = Callable[..., Path]
PAGE = Path(__file__).parents[3] / "docs" / "python.md"


def snippets() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def there(
    make_run: Make, make_score: Make, make_attempt: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "runs" / "first")
    make_score(tmp_path / "runs" / "scores" / "start", [[1, 0], [0, 0], [0, 1]])
    make_score(tmp_path / "runs" / "scores" / "first", [[1, 1], [0, 1], [0, 1]], model=run / "checkpoint-12")
    make_attempt(tmp_path / "runs" / "attempts" / "command__arith_tiny__scripted__none", finals={60: 0.5})
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (0, ["Run runs/first", "12 0.1", "finished 0.0006"]),
        (1, ["4 right of 6", "+0.333", "cannot be told apart"]),
        (2, ["AttemptFolder", "formal/attempt-001 completed 60.0"]),
        pytest.param(3, ["step 1/4", "step 4/4  ", "done in"], marks=pytest.mark.patient),
    ],
)
def test_a_snippet_runs_and_says_what_the_page_is_about(
    there: None, capsys: pytest.CaptureFixture[str], at: int, said: list[str]
) -> None:
    exec(compile(snippets()[at], f"{PAGE.name}, snippet {at}", "exec"), {})
    printed = "\n".join(capsys.readouterr())
    assert [words for words in said if words not in printed] == [], printed


def test_every_snippet_is_run() -> None:
    assert len(snippets()) == 4
