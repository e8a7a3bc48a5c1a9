"""An evaluation, with a sampler that writes what the test decides."""

import dataclasses
import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from opd.evaluate.benchmark import find
from opd.evaluate.code import code_digest
from opd.evaluate.results import read_results
from opd.evaluate.run import evaluate
from opd.evaluate.settings import Evaluation, asked_of
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import PARTIAL, digest
from opd.records.generation_table import read_generations
from opd.records.scores import Sample


def rows(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "samples.jsonl").read_text().splitlines()]


def contents(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_a_score_counts_what_the_sampler_wrote(sums: Any, tmp_path: Path) -> None:
    score = sums.evaluated(sums.half_right(), tmp_path / "out")
    assert (score.correct, score.samples, score.questions, score.mean) == (6, 12, 6, 0.5)
    assert score.stderr == 0.0  # every question 1 of 2: nothing varies between questions
    assert score.stderr_naive is not None
    assert score.stderr_naive > 0.1
    assert score.cut_short == 0
    assert score.answered == 1
    assert score.verdicts["wrong"] == 6


def test_each_row_has_its_question_sample_seed_and_the_words_without_the_end_token(sums: Any, tmp_path: Path) -> None:
    sums.evaluated(sums.half_right(), tmp_path / "out")
    written = rows(tmp_path / "out")
    assert [(row["question"], row["sample"], row["seed"]) for row in written] == [
        (f"q{n}", sample, 7 + sample) for n in range(6) for sample in range(2)
    ]
    assert written[3]["response"] == "1+1\n</think>\n\n\\boxed{3}"


def test_every_token_and_log_probability_that_was_drawn_is_kept(sums: Any, tmp_path: Path) -> None:
    sums.evaluated(sums.half_right(), tmp_path / "out")
    found = [one for path in sorted((tmp_path / "out/generations").iterdir()) for one in read_generations(path)]
    assert [(one.question, one.sample, one.seed) for one in found] == [
        (f"q{n}", sample, 7 + sample) for n in range(6) for sample in range(2)
    ]
    tokenizer = sums.model.tokenizer
    text = tokenizer.decode(found[3].token_ids)
    assert text == "1+1\n</think>\n\n\\boxed{3}" + tokenizer.eos_token
    assert found[3].logp == tuple(-0.25 * place for place in range(len(found[3].token_ids)))


def test_a_cut_short_response_without_a_box_is_named_so_and_one_with_a_box_is_graded(
    sums: Any, tmp_path: Path
) -> None:
    """E74: clipped rows are counted as clipped; the box that was complete counts all the same."""
    cut = sums.writer(lambda row, sample: f"\\boxed{{{row + 1}}}" if sample else "1+", cut=True)
    score = sums.evaluated(cut, tmp_path / "out")
    assert score.cut_short == 1.0
    assert score.verdicts["cut_short"] == 6
    assert score.correct == 6


def test_an_interrupted_evaluation_goes_on_with_the_missing_groups_only(sums: Any, tmp_path: Path) -> None:
    first, answers = sums.half_right(), iter([False, False, True])
    with pytest.raises(AnswerIsNo, match="8 samples graded"):
        sums.evaluated(first, tmp_path / "out", interrupted=lambda: next(answers))
    second = sums.half_right()
    told: list[tuple[int, bool]] = []

    def note(samples: Sequence[Sample], *, found: bool) -> None:
        told.append((len(samples), found))

    sums.evaluated(second, tmp_path / "out", report=note)
    assert first.calls == [[0, 1], [2, 3]]
    assert second.calls == [[4, 5]]
    assert told == [(8, True), (4, False)]
    written = [(row["question"], row["sample"]) for row in rows(tmp_path / "out")]
    assert len(set(written)) == len(written) == 12


def test_after_a_change_of_the_batch_only_what_is_missing_is_kept_and_nothing_is_there_twice(
    sums: Any, tmp_path: Path
) -> None:
    whole, out, answers = tmp_path / "whole", tmp_path / "out", iter([False, True])
    sums.evaluated(sums.half_right(), whole)
    with pytest.raises(AnswerIsNo, match="4 samples graded"):
        sums.evaluated(sums.half_right(), out, interrupted=lambda: next(answers))
    wider = sums.asked().changed(["machine.largest_batch=6"])
    sums.evaluated(sums.half_right(), out, asked=wider)
    assert (out / "samples.jsonl").read_text() == (whole / "samples.jsonl").read_text()
    kept = [(one.question, one.sample) for path in (out / "generations").iterdir() for one in read_generations(path)]
    assert len(set(kept)) == len(kept) == 12


def test_a_finished_evaluation_is_neither_sampled_nor_written_again(sums: Any, tmp_path: Path) -> None:
    score = sums.evaluated(sums.half_right(), tmp_path / "out")
    before = contents(tmp_path / "out")
    again = sums.half_right()
    assert sums.evaluated(again, tmp_path / "out") == score
    assert again.calls == []
    assert contents(tmp_path / "out") == before


def test_the_model_is_not_loaded_where_nothing_is_missing(sums: Any, tmp_path: Path) -> None:
    score = sums.evaluated(sums.half_right(), tmp_path / "out")
    (tmp_path / "out/score.json").unlink()

    def never(_jobs: object) -> None:
        raise AssertionError("nothing is to be drawn")

    assert sums.evaluated(sums.half_right(), tmp_path / "out", opening=never) == score


def test_a_score_beside_samples_that_were_changed_since_is_refused(sums: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sums.evaluated(sums.half_right(), out)
    (out / "samples.jsonl").write_text("".join((out / "samples.jsonl").read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(AnswerIsNo, match=r"6/12, and its samples come to 6/11"):
        sums.evaluated(sums.half_right(), out)


def test_a_score_that_was_drawn_in_two_dtypes_says_both(sums: Any, tmp_path: Path) -> None:
    """The protocol is the same and the rounding is not: whoever compares it has to know."""
    from opd.models.load import load_model

    exact = dataclasses.replace(sums, model=load_model(sums.model.path, dtype="float64", device="cpu"))
    answers = iter([False, True])
    with pytest.raises(AnswerIsNo):
        sums.evaluated(sums.half_right(), tmp_path / "out", interrupted=lambda: next(answers))
    score = exact.evaluated(exact.half_right(), tmp_path / "out")
    assert score.machine == {"device": "cpu", "dtype": "float32 + float64", "code": code_digest()}


def test_the_folder_of_another_model_is_refused_and_left_as_it_is(sums: Any, tmp_path: Path) -> None:
    """H18: a result is reused only for exactly what it was asked of."""
    out = tmp_path / "out"
    sums.evaluated(sums.half_right(), out)
    before = contents(out)
    with pytest.raises(AskedWrongly, match="differs in model"):
        sums.evaluated(sums.half_right(), out, weights_digest="e" * 64)
    assert contents(out) == before


@pytest.mark.parametrize(
    "change",
    [
        {"questions": 5},
        {"seeds": (7,)},
        {"seeds": (7, 9)},
        {"limit_tokens": 63},
        {"temperature": 0.5},
        {"top_p": 0.9},
        {"prompt": "{problem} "},
    ],
)
def test_a_folder_of_another_protocol_is_never_taken_for_this_one(
    sums: Any, tmp_path: Path, change: dict[str, Any]
) -> None:
    """H15, H18, H49: one sample reused for four, one question for all, a lower cap: each is another protocol.

    A final that failed stays failed: what is changed to get through needs a folder of its own.
    """
    out, asked = tmp_path / "out", sums.asked()
    with pytest.raises(AnswerIsNo):
        sums.evaluated(sums.half_right(), out, interrupted=lambda: True)
    before = contents(out)
    changed = asked.benchmark.model_copy(update=change).named_after(asked.benchmark)
    with pytest.raises(AskedWrongly, match=r"holds another evaluation .*" + next(iter(change)).rstrip("s")):
        sums.evaluated(sums.half_right(), out, asked=asked.model_copy(update={"benchmark": changed}))
    assert contents(out) == before


def test_one_byte_of_the_protocol_that_stands_is_enough_to_refuse(sums: Any, tmp_path: Path) -> None:
    """H49: the protocol's digest is in the score, and a folder whose protocol was edited is not gone on with."""
    out = tmp_path / "out"
    score = sums.evaluated(sums.half_right(), out)
    stands = json.loads((out / "protocol.json").read_text())["protocol"]
    assert score.protocol_digest == digest(stands)
    text = (out / "protocol.json").read_text()
    assert text.count('"limit_tokens": 64') == 1
    (out / "protocol.json").write_text(text.replace('"limit_tokens": 64', '"limit_tokens": 65'))
    with pytest.raises(AskedWrongly, match="limit_tokens"):
        sums.evaluated(sums.half_right(), out)


def test_one_byte_of_the_model_makes_it_another(tmp_path: Path) -> None:
    """H19: the place of the model is the same, and so is its name; its score is not taken from the folder."""
    from opd.records.places import locate

    model, out = tmp_path / "model", tmp_path / "out"
    shutil.copytree(locate("opd:arith_tiny/student"), model)
    asked = asked_of(find("arith_tiny"), questions=4, samples=1)
    first = evaluate(asked, str(model), out)
    assert evaluate(asked, str(model), out) == first  # the bad condition: a score stands for this very place
    with (model / "config.json").open("a") as file:
        file.write("\n")
    with pytest.raises(AskedWrongly, match="differs in model"):
        evaluate(asked, str(model), out)


def test_a_harness_that_breaks_leaves_no_score(sums: Any, tmp_path: Path) -> None:
    """H22: an exception of the machinery is never a result."""
    out = tmp_path / "out"

    def breaks(row: int, sample: int) -> str:
        if row == 3:
            raise OSError("the disk is gone")
        return f"\\boxed{{{row + 1}}}"

    with pytest.raises(OSError, match="the disk is gone"):
        sums.evaluated(sums.writer(breaks), out)
    assert len(rows(out)) == 4  # what stood before it stays
    assert not (out / "score.json").exists()
    with pytest.raises(AskedWrongly, match="did not finish"):
        read_results(out)


def test_a_folder_of_something_else_is_refused(sums: Any, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(AskedWrongly, match="not an evaluation"):
        sums.evaluated(sums.half_right(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_where_the_model_can_not_be_used_nothing_is_made(tmp_path: Path) -> None:
    asked = asked_of(find("arith_tiny"), questions=4, sets=["benchmark.limit_tokens=100000"])
    with pytest.raises(AskedWrongly, match="exceed the context"):
        evaluate(asked, "opd:arith_tiny/student", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_prompt_that_leaves_no_room_in_the_declared_context_is_refused(sums: Any, tmp_path: Path) -> None:
    benchmark = sums.asked().benchmark.model_copy(update={"context_tokens": 66})
    with pytest.raises(AskedWrongly, match=r"question q0: .* exceed context_tokens = 66 of sums"):
        sums.evaluated(sums.half_right(), tmp_path / "out", asked=sums.asked(benchmark=benchmark))
    assert not (tmp_path / "out").exists()


def test_a_row_that_stands_twice_is_refused(sums: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sums.evaluated(sums.half_right(), out)
    with (out / "samples.jsonl").open("a") as file:
        file.write((out / "samples.jsonl").read_text().splitlines()[0] + "\n")
    with pytest.raises(AskedWrongly, match="there twice"):
        sums.evaluated(sums.half_right(), out)


def test_a_folder_in_which_another_process_is_at_work_is_refused(sums: Any, tmp_path: Path) -> None:
    """Two at once would each write its rows, and leave every row twice."""
    from opd.records.files import alone

    out = tmp_path / "out"
    out.mkdir()
    with alone(out), pytest.raises(AskedWrongly, match="another process is at work"):
        sums.evaluated(sums.half_right(), out)
    assert list(out.iterdir()) == []
    assert sums.evaluated(sums.half_right(), out).samples == 12


def moved(out: Path, how: str) -> None:
    """The folder is elsewhere; under its name there is nothing, the empty place of a mount, or a new evaluation."""
    out.rename(out.with_name("moved"))
    if how != "nothing":
        out.mkdir()
    if how == "a new one":
        (out / "protocol.json").write_text('{"protocol": {}, "model_digest": "another"}')


@pytest.mark.parametrize("how", ["nothing", "a mount point", "a new one"])
@pytest.mark.parametrize("at", ["drawing", "settling", "the end"])
def test_a_folder_that_vanishes_is_not_made_anew_and_gets_no_score(
    sums: Any, tmp_path: Path, how: str, at: str
) -> None:
    out = tmp_path / "out"
    writer, told = sums.half_right(), []

    def note(samples: Sequence[Sample], *, found: bool) -> None:
        told.append(len(samples))
        if len(told) == (4 if at == "the end" else 2) and at != "drawing":
            moved(out, how)

    if at == "drawing":
        write = writer.text

        def write_and_move(row: int, sample: int) -> str:
            if (row, sample) == (2, 0):
                moved(out, how)
            return write(row, sample)

        writer.text = write_and_move
    with pytest.raises(AnswerIsNo, match=r"out has gone since|no longer what this evaluation wrote"):
        sums.evaluated(writer, out, report=note)
    left = {path.name for path in out.rglob("*") if path.is_file()} if out.exists() else set()
    assert left == ({"protocol.json"} if how == "a new one" else set())
    if out.exists():
        shutil.rmtree(out)
    (tmp_path / "moved").rename(out)
    score = sums.evaluated(sums.half_right(), out)
    assert (score.correct, score.samples) == (6, 12)


def test_a_score_is_not_sealed_over_fewer_samples_than_were_graded(sums: Any, tmp_path: Path) -> None:
    """Lines are taken away while it goes on: those that are left are not what the score counts."""
    out, told = tmp_path / "out", []

    def note(samples: Sequence[Sample], *, found: bool) -> None:
        told.append(len(samples))
        if len(told) == 4:
            lines = (out / "samples.jsonl").read_text().splitlines(keepends=True)
            (out / "samples.jsonl").write_text("".join(lines[3:]))

    with pytest.raises(AnswerIsNo, match="holds 9 of the 12 samples that were graded"):
        sums.evaluated(sums.half_right(), out, report=note)
    assert not (out / "score.json").exists()
    sums.evaluated(sums.half_right(), out)
    assert len(rows(out)) == 12


def test_what_a_crash_left_of_a_first_write_does_not_stand_in_the_way(sums: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / f"protocol.json{PARTIAL}").write_text("{")
    assert sums.evaluated(sums.half_right(), out).samples == 12


def test_what_a_crash_left_half_written_takes_no_room(sums: Any, tmp_path: Path) -> None:
    """Not even where the next call has other groups, and so other files."""
    out, answers = tmp_path / "out", iter([False, True])
    with pytest.raises(AnswerIsNo):
        sums.evaluated(sums.half_right(), out, interrupted=lambda: next(answers))
    (out / f"generations/000005-000.parquet{PARTIAL}").write_bytes(b"PAR1" * 1000)
    sums.evaluated(sums.half_right(), out)
    assert sorted(path.name for path in (out / "generations").iterdir()) == [
        "000000-000.parquet",
        "000002-000.parquet",
        "000004-000.parquet",
    ]


def test_a_generation_of_another_benchmark_is_noticed(sums: Any, tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    sums.evaluated(sums.half_right(), other)
    with pytest.raises(AnswerIsNo):
        sums.evaluated(sums.half_right(), out, interrupted=lambda: True)
    fewer = sums.asked().benchmark.smaller(questions=2, samples=None)
    shutil.copytree(other / "generations", out / "generations", dirs_exist_ok=True)
    text = (out / "protocol.json").read_text().replace('"sums"', f'"{fewer.name}"')
    (out / "protocol.json").write_text(text.replace('"questions": 6', '"questions": 2'))
    with pytest.raises(AskedWrongly, match=r"8 samples that are not of this benchmark \(question q2"):
        sums.evaluated(sums.half_right(), out, asked=sums.asked(benchmark=fewer))


def test_a_failed_grader_means_no_score_until_it_is_settled_from_what_was_drawn(
    sums: Any, tmp_path: Path, failing_at: Callable[[str], AbstractContextManager[None]]
) -> None:
    """E70, H21: not wrong, not right: there is no score, and the same command grades those rows again, only those."""
    out = tmp_path / "out"
    with failing_at("3"), pytest.raises(AnswerIsNo, match="2 of 12 samples could not be graded"):
        sums.evaluated(sums.half_right(), out)
    assert not (out / "score.json").exists()
    again = sums.half_right()
    told: list[tuple[int, bool]] = []
    score = sums.evaluated(again, out, report=lambda samples, found: told.append((len(samples), found)))
    assert score.correct == 6
    assert again.calls == []
    assert told == [(10, True), (2, False)]


def test_the_finished_rows_are_in_the_order_of_the_questions_and_a_failed_try_stays_before_the_next(
    sums: Any, tmp_path: Path, failing_at: Callable[[str], AbstractContextManager[None]]
) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    sums.evaluated(sums.half_right(), whole)
    with failing_at("3"), pytest.raises(AnswerIsNo):
        sums.evaluated(sums.half_right(), out)
    sums.evaluated(sums.half_right(), out)
    written = rows(out)
    verdicts = [row["judgement"]["verdict"] for row in written if row["question"] == "q2"]
    assert verdicts == ["grader_failed", "correct", "grader_failed", "wrong"]
    assert [row for row in written if row["judgement"]["verdict"] != "grader_failed"] == rows(whole)


def test_a_changed_evaluation_says_so_wherever_its_name_is_printed() -> None:
    declared = find("math500")
    names = {
        (): "math500",
        ("machine.largest_batch=8",): "math500",
        ("benchmark.limit_tokens=256",): "math500 (limit_tokens = 256)",
        ("benchmark.questions=50", "benchmark.top_p=1.0"): "math500 (50 × 4 of 500 × 4, top_p = 1.0)",
        ("benchmark.seeds=[7]",): "math500 (500 × 1 of 500 × 4, other seeds)",
    }
    assert {sets: asked_of(declared, sets=sets).benchmark.name for sets in names} == names
    small = asked_of(declared, questions=50, samples=1, sets=["benchmark.limit_tokens=256"]).benchmark
    assert small.name == "math500 (50 × 1 of 500 × 4, limit_tokens = 256)"
    assert small.protocol(grader="g").benchmark == small.name


def test_a_benchmark_can_not_be_given_the_name_of_another() -> None:
    with pytest.raises(AskedWrongly, match="the name is the declaration's, math500"):
        asked_of(find("math500"), sets=["benchmark.name=aime24"])


def test_the_second_grader_is_another_one(sums: Any) -> None:
    with pytest.raises(ValueError, match="is the grader"):
        Evaluation(benchmark=sums.asked().benchmark, second_grader="house")
