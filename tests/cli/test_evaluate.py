"""`opd evaluate` and `opd show benchmark`, as a person calls them."""

import html
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from opd.cli.main import opd

STUDENT = "opd:arith_tiny/student"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(opd, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A score of a part of a benchmark, and what was printed."""
    out = tmp_path_factory.mktemp("small") / "out"
    asked = ("evaluate", "arith_tiny", "--model", STUDENT, "--questions", 6, "--samples", 2, "--quiet")
    done = run(*asked, "--out", out, "--set", "second_grader=reference", "--set", "benchmark.limit_tokens=60")
    assert done.exit_code == 0, done.output
    return out, done.output


def test_a_part_of_a_benchmark_is_never_printed_as_the_whole(small: tuple[Path, str]) -> None:
    """H18: by whichever command the score is shown."""
    out, printed = small
    name = "arith_tiny (6 × 2 of 500 × 4, limit_tokens = 60)"
    page, text = out.parent / "page.html", out.parent / "page.md"
    said = run("score", out, "--out", page, "--out", text)
    assert said.exit_code == 0, said.output
    shown = {
        "evaluate": printed,
        "score.json": (out / "score.json").read_text(),
        "score": said.output,
        "score, as a page": page.read_text(),
        "score, as Markdown": html.unescape(text.read_text()).replace("\\", ""),
        "score, as JSON": run("score", out, "--json").output,
        "compare": run("compare", out, out).output,
    }
    assert [place for place, what in shown.items() if name not in what] == []


def test_who_was_asked_besides_is_said_with_how_often_they_differ(small: tuple[Path, str]) -> None:
    assert "; reference otherwise on 0)" in small[1]


def test_a_declaration_of_any_questions_is_printed_and_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"question": f"Compute {n}+1.", "answer": float(n + 1)} for n in range(3)]
    Path("mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    declaration = run("show", "benchmark", "mine.jsonl")
    assert declaration.exit_code == 0, declaration.output
    Path("mine.toml").write_text(declaration.output)
    done = run(
        *("evaluate", "mine.toml", "--model", STUDENT, "--out", "out", "--quiet"),
        *("--set", "benchmark.limit_tokens=64", "--samples", 2),
    )
    assert done.exit_code == 0, done.output
    assert done.output.startswith("mine (3 × 2 of 3 × 4, limit_tokens = 64): ")
    rows = [json.loads(line) for line in Path("out/samples.jsonl").read_text().splitlines()]
    assert [(row["question"], row["gold"]) for row in rows] == [(str(n), str(n + 1)) for n in range(3) for _ in "ab"]


def test_a_benchmark_is_shown_in_full() -> None:
    shown = run("show", "benchmark", "aime24_25").output
    assert shown.count("[[files]]") == 2
    assert "limit_tokens = 31744" in shown
    assert "aime25.jsonl" in run("show", "benchmarks").output
