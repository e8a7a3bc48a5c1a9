"""`opd compare`, as a person or a program calls it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from opd.cli.compare import compare
from opd.evaluate.benchmark import Benchmark, QuestionFile
from opd.evaluate.finished import finish
from opd.evaluate.score import build_score
from opd.records.errors import AskedWrongly
from opd.records.files import append_lines
from opd.records.rollouts import StopReason
from opd.records.scores import Judgement, Sample, Verdict

# hits of 4 samples a question
STUDENT = [0, 1, 2, 2, 3, 1, 0, 2, 4, 1, 2, 3]
DISTILLED = [2, 3, 4, 3, 4, 3, 1, 4, 4, 2, 4, 4]
OTHER = [0, 2, 2, 2, 3, 1, 1, 2, 4, 1, 2, 2]


def write(path: Path, hits: list[int], *, samples: int = 4) -> Path:
    rows: list[dict[str, Any]] = [
        {"question": f"q{q}", "sample": sample, "correct": sample < c}
        for q, c in enumerate(hits)
        for sample in range(samples)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(compare, [str(argument) for argument in arguments])


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    return (
        write(tmp_path / "student.jsonl", STUDENT),
        write(tmp_path / "distilled.jsonl", DISTILLED),
        write(tmp_path / "other.jsonl", OTHER),
    )


def test_two_files_give_a_table_and_a_sentence(files: tuple[Path, Path, Path]) -> None:
    a, b, _ = files
    result = run(a, b)
    assert result.exit_code == 0, result.output
    assert f"{b} is better than {a} on questions like these: +0.3542" in result.output
    assert "smallest detectable" in result.output
    assert "p, Holm" not in result.output
    assert "On exactly these 12 questions" in result.output


def test_the_table_fits_eighty_columns(files: tuple[Path, Path, Path]) -> None:
    lines = run(*files, files[1]).output.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("mean"))
    table = lines[start - 1 : lines.index("", start)]
    assert len(table) == 14
    assert max(map(len, table)) <= 80


def test_json_has_the_fields_and_nothing_around_them(files: tuple[Path, Path, Path]) -> None:
    values = json.loads(run(files[0], files[1], "--json").output)
    errors, ps = {"stderr", "stderr_fixed_questions", "ci95"}, {"p", "p_permutation"}
    assert {"difference", "detectable", "distinguishable", *errors, *ps} <= set(values)
    assert values["difference"] == pytest.approx((sum(DISTILLED) - sum(STUDENT)) / 48)
    assert values["distinguishable"] is True
    assert len(values["ci95"]) == 2


def test_each_of_several_is_compared_with_the_first(files: tuple[Path, Path, Path]) -> None:
    values = json.loads(run(*files, "--json").output)["comparisons"]
    assert [(Path(one["a"]).stem, Path(one["b"]).stem) for one in values] == [
        ("student", "distilled"),
        ("student", "other"),
    ]
    assert [one["distinguishable"] for one in values] == [True, False]
    text = run(*files).output
    assert "p, Holm" in text
    assert "after Holm over 2" in text
    assert "Of 2 equally good candidates the best is expected to score" in text


def test_what_is_undefined_is_null(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a.jsonl", [1, 2]), write(tmp_path / "b.jsonl", [1, 2])
    values = json.loads(run(a, b, "--json").output)
    assert (values["p"], values["detectable"], values["p_holm"]) == (None,) * 3
    assert "undefined" in run(a, b).output


def test_names_are_shown_as_typed_even_where_they_look_like_markup(tmp_path: Path) -> None:
    a, b = write(tmp_path / "[bold]a[red].jsonl", STUDENT), write(tmp_path / "b.jsonl", OTHER)
    assert "[bold]a[red].jsonl" in run(a, b).output


def test_a_folder_without_a_score_is_a_clear_error(tmp_path: Path, files: tuple[Path, Path, Path]) -> None:
    result = run(files[0], tmp_path)
    assert isinstance(result.exception, AskedWrongly)
    assert "holds no score.json" in str(result.exception)


def test_one_score_alone_is_asked_wrongly(files: tuple[Path, Path, Path]) -> None:
    assert run(files[0]).exit_code == 2


def in_a_new_interpreter(program: str, *arguments: Path) -> list[str]:
    """What the program prints, line by line."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def test_a_comparison_imports_no_torch(files: tuple[Path, Path, Path]) -> None:
    program = (
        "import sys; from opd.cli.compare import compare\n"
        "compare(sys.argv[1:], standalone_mode=False)\n"
        "print(sorted({'torch', 'transformers', 'scipy.stats', 'matplotlib'} & set(sys.modules)))"
    )
    assert in_a_new_interpreter(program, *files)[-1] == "[]"


@pytest.mark.parametrize("verb", ["compare", "score"])
def test_the_verb_itself_costs_only_click(verb: str) -> None:
    """`opd --help` imports every verb, and has 0.3 s for all of them."""
    program = (
        f"import sys, click; before = set(sys.modules); import opd.cli.{verb}\n"
        "heavy = {'numpy', 'scipy', 'pydantic', 'rich', 'torch', 'pyarrow'}\n"
        "print(sorted((set(sys.modules) - before) & heavy))"
    )
    assert in_a_new_interpreter(program) == ["[]"]


def published(correct: int, *, questions: int, samples: int) -> list[int]:
    """So many samples right, over questions of which many are always right and many never."""
    hits = [round(samples * min(1.0, max(0.0, 1.6 * q / questions - 0.3))) for q in range(questions)]
    turn = 0
    while (missing := correct - sum(hits)) != 0:
        place, turn = (turn * 7) % questions, turn + 1
        hits[place] = min(samples, hits[place] + 1) if missing > 0 else max(0, hits[place] - 1)
    return hits


def test_the_published_proxies_cannot_be_told_apart_and_the_finals_can(tmp_path: Path) -> None:
    """0.8345 and 0.8295 of 500 × 4 differ by ten samples, where sampling alone moves one question in three by one."""
    best = published(1669, questions=500, samples=4)
    room = [place for place, hits in enumerate(best) if 0 < hits < 4]
    worse = list(best)
    for turn, place in enumerate(room[: 2 * (len(room) // 2)]):
        worse[place] += 1 if turn % 2 else -1
    for place in [place for place, hits in enumerate(worse) if hits == 4][:10]:
        worse[place] -= 1
    assert (sum(best), sum(worse)) == (1669, 1659)
    proxies = write(tmp_path / "shuffle.jsonl", worse), write(tmp_path / "reward.jsonl", best)
    said = json.loads(run(*proxies, "--json").output)
    assert said["difference"] == pytest.approx(0.8345 - 0.8295)
    assert said["distinguishable"] is False
    assert "cannot be told apart" in run(*proxies).output
    finals = [
        write(tmp_path / f"{correct}.jsonl", published(correct, questions=60, samples=32), samples=32)
        for correct in (484, 809)
    ]
    said = json.loads(run(*finals, "--json").output)
    assert (said["difference"], said["distinguishable"]) == (pytest.approx(325 / 1920), True)


def score_folder(path: Path, hits: list[int], **machine: str) -> Path:
    """The folder of a finished evaluation with these counts, of one benchmark, on this machine."""
    file = QuestionFile(data="sums.jsonl", sha256="d" * 64, rows=len(hits))
    sums = Benchmark(name="sums", files=(file,), questions=len(hits), seeds=(42, 43, 44, 45), limit_tokens=96)
    protocol = sums.protocol(grader="house")
    path.mkdir()
    rows = [
        Sample(
            question=f"q{q}",
            sample=sample,
            seed=42 + sample,
            response="\\boxed{1}",
            tokens=4,
            stop=StopReason.EOS,
            gold="1",
            judgement=Judgement(
                verdict=Verdict.CORRECT if sample < count else Verdict.WRONG,
                extracted="1",
                stage="integer",
                reason="",
            ),
        )
        for q, count in enumerate(hits)
        for sample in range(4)
    ]
    append_lines(path / "samples.jsonl", [row.resolved() for row in rows])
    score = build_score(rows, protocol=protocol, model="runs/x", model_digest="m" * 64, seconds=1.0, machine=machine)
    finish(path, score, questions=[f"q{q}" for q in range(len(hits))])
    return path


def test_a_score_in_bfloat16_and_one_in_float32_are_said_to_be_so(tmp_path: Path) -> None:
    a = score_folder(tmp_path / "a", STUDENT, dtype="bfloat16", device="cuda", torch="2.13.0")
    b = score_folder(tmp_path / "b", DISTILLED, dtype="float32", device="cpu", torch="2.13.0")
    page = " ".join(run(a, b).output.split())
    assert f"{a} was run in bfloat16 and {b} in float32: rounding alone draws other samples" in page
    assert f"{a} and {b} ran with another device (cuda v cpu)." in page
    assert len(json.loads(run(a, b, "--json").output)["notes"]) == 2
    same = score_folder(tmp_path / "c", OTHER, dtype="bfloat16", device="cuda", torch="2.13.0")
    assert json.loads(run(a, same, "--json").output)["notes"] == []
    assert "rounding" not in run(a, same).output


def test_a_folder_and_a_file_of_another_harness_compare_when_their_questions_have_one_name(tmp_path: Path) -> None:
    a = score_folder(tmp_path / "a", STUDENT)
    rows = [
        {"doc_id": 100 + q, "doc": {"name": f"q{q}"}, "target": "1", "resps": [["1", "1", "1", "1"]],
         "filtered_resps": [["1", "1", "1", "1"]], "filter": "none", "metrics": ["math_verify"],
         "math_verify": [float(sample < count) for sample in range(4)]}
        for q, count in enumerate(DISTILLED)
    ]  # fmt: skip
    b = tmp_path / "samples.jsonl"
    b.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert "are not among the" in str(run(a, b).exception)
    said = run(a, b, "--set", "question=doc.name")
    assert f"{b} is better than {a}" in said.output
    assert "taken on trust" in said.output


def test_with_several_that_lead_all_pairs_are_one_family(files: tuple[Path, Path, Path]) -> None:
    """By hand, from the plain p of each pair alone: the least counts three times, the next twice."""
    pairs = [(0, 1), (0, 2), (1, 2)]
    alone = [json.loads(run(files[a], files[b], "--json").output) for a, b in pairs]
    together = json.loads(run(*files, "--lead", "2", "--json").output)["comparisons"]
    assert [(one["a"], one["b"]) for one in together] == [(str(files[a]), str(files[b])) for a, b in pairs]
    plain = [max(one["p"], one["p_permutation"]) for one in alone]
    most = 0.0
    for place, which in enumerate(sorted(range(3), key=plain.__getitem__)):
        most = max(most, min(1.0, (3 - place) * plain[which]))
        assert together[which]["p_holm"] == pytest.approx(most)
    said = run(*files, "--lead", "2").output
    assert said.count("after Holm over 3") == 3


def test_more_can_not_lead_than_have_one_after_them(files: tuple[Path, Path, Path]) -> None:
    refused = run(*files, "--lead", "3")
    assert isinstance(refused.exception, AskedWrongly)
    assert "2 at most" in str(refused.exception)
