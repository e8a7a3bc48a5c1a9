"""AMC 2023, of which no file is declared: the one that is used is taken down, and everything goes by that one."""

import hashlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from opd.cli.main import opd
from opd.evaluate.benchmark import Benchmark, QuestionFile, find
from opd.evaluate.comparison import compare
from opd.evaluate.declaration import taken_down, toml
from opd.evaluate.judges.settings import JudgeSettings, RecordedJudge
from opd.evaluate.questions import pinned, read_questions
from opd.evaluate.results import read_results
from opd.evaluate.run import evaluate
from opd.evaluate.settings import Evaluation, asked_of
from opd.evaluate.settlement import judge_folder
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.scores import Score
from opd.records.settings import read

STUDENT = "opd:arith_tiny/student"


def form_of(number: int, *, named: bool) -> dict[str, object]:
    """A row as the public files have it: with an id and `problem`, or without and with `question`."""
    text = f"Compute {number}+1."
    if named:
        return {"id": f"amc-{number}", "problem": text, "answer": f"{number + 1}"}
    return {"question": text, "answer": float(number + 1)}


def written(path: Path, *, named: bool = False, rows: int = 40) -> Path:
    path.parent.mkdir(exist_ok=True)
    lines = [json.dumps(form_of(number, named=named)) for number in range(rows)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def small() -> Evaluation:
    sets = ["benchmark.limit_tokens=64", "machine.largest_batch=1"]
    return asked_of(find("amc23"), questions=2, samples=1, sets=sets)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(opd, [str(argument) for argument in arguments])


def test_amc_is_asked_as_aime_is_and_declares_forty_questions() -> None:
    said = {"name", "files", "questions"}
    assert find("amc23").model_dump(exclude=said) == find("aime24").model_dump(exclude=said)
    assert (find("amc23").questions, find("amc23").rows) == (40, 40)


@pytest.mark.parametrize(("named", "first"), [(True, "amc-0"), (False, "0")])
def test_both_public_forms_are_read_with_their_golds(tmp_path: Path, named: bool, first: str) -> None:
    questions = read_questions(find("amc23"), written(tmp_path / "amc.jsonl", named=named))
    assert (questions[0].id, questions[0].problem, questions[0].gold) == (first, "Compute 0+1.", "1")
    assert len({question.id for question in questions}) == 40


def test_the_file_that_is_used_is_declared_from_then_on(tmp_path: Path) -> None:
    path = written(tmp_path / "amc.jsonl", named=True)
    found = pinned(find("amc23"), path)
    (file,) = found.files
    assert (file.sha256, file.id, file.problem) == (sha256(path), "id", "problem")
    assert found.protocol(grader="g").data_sha256 == sha256(path)  # the bytes alone, in the usual form
    assert pinned(found) == found  # nothing is looked for again
    before = sha256(path)
    path.write_text(path.read_text().replace("Compute 3+1", "Compute 4+1"))
    with pytest.raises(AskedWrongly, match=f"has SHA-256 {sha256(path)}; amc23 is the file with {before}"):
        read_questions(found, path)


def test_how_a_file_is_read_is_part_of_what_is_taken_down(tmp_path: Path) -> None:
    """Rows that have both fields are read by the first, and a file that has the second alone is other data."""
    rows = [form_of(number, named=False) | {"problem": "Compute 1+1."} for number in range(40)]
    both = tmp_path / "both.jsonl"
    both.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert pinned(find("amc23"), both).files[0].problem == "problem"
    by_question = find("amc23").model_copy(
        update={"files": (find("amc23").files[0].model_copy(update={"problem": "question"}),)}
    )
    assert pinned(by_question, both).data_sha256 != pinned(find("amc23"), both).data_sha256


@pytest.mark.parametrize("rows", [39, 83])
def test_a_file_of_another_number_of_questions_is_refused(tmp_path: Path, rows: int) -> None:
    """E76: the digest is open, the denominator is not; one public file has all 83 problems of two years."""
    path = written(tmp_path / "amc.jsonl", rows=rows)
    for ask in (pinned, read_questions):
        with pytest.raises(AskedWrongly, match=f"has {rows} questions, amc23 has 40 there"):
            ask(find("amc23"), path)


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AskedWrongly, match=r"amc23\.jsonl is not here .*amc23 is a file of 40 questions"):
        pinned(find("amc23"))
    with pytest.raises(AskedWrongly, match=r"gone\.jsonl does not exist; amc23 needs a file of 40 questions"):
        pinned(find("amc23"), tmp_path / "gone.jsonl")
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"text": "Once", "answer": 1}\n' * 40)
    with pytest.raises(AskedWrongly, match="its first row has no problem and no question"):
        pinned(find("amc23"), texts)


def test_a_benchmark_that_is_open_has_no_protocol_yet(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"amc23\.jsonl is open; pin the benchmark"):
        find("amc23").protocol(grader="g")
    half = QuestionFile(data="x.jsonl", sha256="5d" * 32, rows=1, problem="a|b")
    with pytest.raises(ValueError, match="is open"):
        Benchmark(name="x", files=(half,), questions=1, seeds=(1,), limit_tokens=8).protocol(grader="g")


def test_scores_of_two_files_do_not_compare_and_neither_goes_on_with_the_other(tmp_path: Path) -> None:
    one, other = written(tmp_path / "one.jsonl"), written(tmp_path / "other.jsonl", named=True)
    score = evaluate(small(), STUDENT, tmp_path / "a", data=one)
    assert score.protocol.benchmark == "amc23 (2 × 1 of 40 × 32, limit_tokens = 64)"
    assert score.protocol.data_sha256 == pinned(find("amc23"), one).data_sha256
    assert evaluate(small(), STUDENT, tmp_path / "a", data=one) == score
    evaluate(small(), STUDENT, tmp_path / "b", data=other)
    with pytest.raises(AskedWrongly, match=r"different protocols.* data_sha256"):
        compare(read_results(tmp_path / "a"), read_results(tmp_path / "b"))
    with pytest.raises(AskedWrongly, match="differs in data_sha256"):
        evaluate(small(), STUDENT, tmp_path / "a", data=other)


def test_an_unfinished_folder_goes_on_with_its_own_file_only(tmp_path: Path) -> None:
    one, other, out = written(tmp_path / "one.jsonl"), written(tmp_path / "other.jsonl", named=True), tmp_path / "out"
    answers = iter([False, True])
    with pytest.raises(AnswerIsNo, match="1 samples graded"):
        evaluate(small(), STUDENT, out, data=one, interrupted=lambda: next(answers))
    stands = (out / "samples.jsonl").read_bytes()
    with pytest.raises(AskedWrongly, match="differs in data_sha256"):
        evaluate(small(), STUDENT, out, data=other)
    assert (out / "samples.jsonl").read_bytes() == stands
    evaluate(small(), STUDENT, out, data=one)
    assert read(Score, out / "score.json").samples == 2


def test_a_judge_reads_the_problems_of_the_file_that_was_evaluated(tmp_path: Path) -> None:
    one, other = written(tmp_path / "one.jsonl"), written(tmp_path / "other.jsonl", named=True)
    evaluate(small(), STUDENT, tmp_path / "a", data=one)
    (tmp_path / "replies.jsonl").write_text("")
    nobody = JudgeSettings(recorded=RecordedJudge(file=str(tmp_path / "replies.jsonl")))
    with pytest.raises(AskedWrongly, match=r"amc23 has data .*or its file with --data"):
        judge_folder(tmp_path / "a", tmp_path / "b", nobody, data=other)
    assert not (tmp_path / "b").exists()


def test_it_is_shown_open_and_as_declared_where_its_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = run("show", "benchmark", "amc23").output
    assert "sha256 =" not in shown
    assert "# no sha256: it is taken down from the file that is used" in shown
    assert 'problem = "problem|question"' in shown
    given = written(tmp_path / "elsewhere.jsonl")
    declared = run("show", "benchmark", "amc23", "--data", given).output
    assert f'sha256 = "{sha256(given)}"' in declared
    written(tmp_path / "data" / "amc23.jsonl")
    assert run("show", "benchmark", "amc23").output == declared
    (tmp_path / "x.toml").write_text(declared)
    assert find(str(tmp_path / "x.toml")).data_sha256 == pinned(find("amc23")).data_sha256


def test_the_page_shows_a_declaration_as_it_comes_out(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    stands = page.partition("```toml\n")[2].partition("```")[0].splitlines()
    questions = tmp_path / "questions.jsonl"
    rows = [form_of(number, named=True) for number in range(40)]
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    comes_out = toml(taken_down(questions)).splitlines()
    assert [line for line in stands if "sha256" not in line] == [line for line in comes_out if "sha256" not in line]
