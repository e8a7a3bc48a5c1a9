"""A finished score folder, judged: a new folder with a new score, and the old one as it was."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opd.evaluate.benchmark import find
from opd.evaluate.comparison import compare
from opd.evaluate.folder import Claim, claim
from opd.evaluate.judges.exchange import NoReply, Reply
from opd.evaluate.judges.settings import JudgeSettings, LocalJudge, RecordedJudge
from opd.evaluate.questions import read_questions
from opd.evaluate.results import read_results
from opd.evaluate.score import build_score
from opd.evaluate.settlement import Settled, judge_folder
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import append_lines, write_json
from opd.records.rollouts import StopReason
from opd.records.scores import Judgement, Sample, Verdict

BENCHMARK = find("arith_tiny").smaller(questions=60, samples=2)
QUESTIONS = read_questions(BENCHMARK)


def kind(number: int) -> Verdict:
    """Each question's first sample is right; the second is right in words, wrong, or silent, in turn."""
    if number % 2 == 0:
        return Verdict.CORRECT
    return (Verdict.NO_ANSWER, Verdict.WRONG, Verdict.CUT_SHORT)[number // 2 % 3]


def rows() -> list[Sample]:
    samples = []
    for number in range(120):
        question, verdict = QUESTIONS[number // 2], kind(number)
        says = {
            Verdict.CORRECT: f"\\boxed{{{question.gold}}}",
            Verdict.NO_ANSWER: f"It is {question.gold}, in words.",
            Verdict.WRONG: "\\boxed{oops#}",
            Verdict.CUT_SHORT: "Let me see",
        }[verdict]
        samples.append(
            Sample(
                question=question.id,
                sample=number % 2,
                seed=42 + number % 2,
                response=f"1+1\n</think>\n\n{says}",
                tokens=12,
                stop=StopReason.LENGTH if verdict is Verdict.CUT_SHORT else StopReason.EOS,
                gold=question.gold,
                judgement=Judgement(verdict=verdict, extracted=None, stage="extract", reason="there is no box"),
            )
        )
    return samples


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A score of 120 samples: 60 right, 20 right in words, 20 wrong, 20 cut short."""
    folder = tmp_path / "score"
    folder.mkdir()
    protocol = BENCHMARK.protocol(grader="house:" + "1" * 64)
    claim(folder, Claim(protocol=protocol, model_digest="m" * 64))
    append_lines(folder / "samples.jsonl", [row.resolved() for row in rows()])
    score = build_score(
        rows(), protocol=protocol, model="student", model_digest="m" * 64, seconds=3.5, machine={"device": "cpu"}
    )
    write_json(folder / "score.json", score.resolved())
    return folder


def in_words(turn: str) -> str:
    return "A" if "in words" in turn else "B"


@pytest.fixture
def judged(judge_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Settled]:
    """`judged(folder, out, in_words)`: `judge_folder` with a judge that replies by a function."""

    def run(
        folder: Path, out: Path, write: Callable[[str], str | Reply | NoReply], *, record: str = "", **more: Any
    ) -> Settled:
        from opd.evaluate import settlement

        values = {"record": record} if record else {}
        judge, double = judge_of(write, **values)
        run.asked = double.asked  # type: ignore[attr-defined]
        with monkeypatch.context() as patched:
            patched.setattr(settlement, "open_judge", lambda _: judge)
            return judge_folder(folder, out, JudgeSettings(local=LocalJudge(model="scripted"), **values), **more)

    return run


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


def written(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "samples.jsonl").read_text().splitlines()]


def test_the_new_score_counts_what_the_judge_found_right(
    judged: Callable[..., Settled], folder: Path, tmp_path: Path
) -> None:
    settled = judged(folder, tmp_path / "out", in_words)
    assert (settled.before.correct, settled.after.correct, settled.asked, settled.right) == (60, 80, 40, 20)
    assert settled.after.mean == 80 / 120
    assert settled.after.verdicts == {
        **dict.fromkeys(settled.after.verdicts, 0),
        "correct": 80,
        "wrong": 20,
        "cut_short": 20,
    }
    assert json.loads((tmp_path / "out/score.json").read_text()) == settled.after.resolved()


def test_every_row_says_who_decided_and_what_the_rules_said(
    judged: Callable[..., Settled], folder: Path, tmp_path: Path
) -> None:
    judged(folder, tmp_path / "out", in_words)
    for number, row in enumerate(written(tmp_path / "out")):
        verdict = kind(number)
        asked = verdict in {Verdict.NO_ANSWER, Verdict.WRONG}
        assert row["judgement"]["by"] == ("judge:scripted" if asked else "house")
        assert [one["verdict"] for one in row["opinions"]] == ([verdict.value] if asked else [])
        assert row["judgement"]["reply"] == ({"no_answer": "A", "wrong": "B"}[verdict] if asked else None)


def test_the_old_folder_is_only_read(judged: Callable[..., Settled], folder: Path, tmp_path: Path) -> None:
    before = contents(folder)
    judged(folder, tmp_path / "out", in_words)
    assert contents(folder) == before


def test_the_new_score_is_of_another_protocol_and_refuses_to_compare_with_the_old(
    judged: Callable[..., Settled], folder: Path, tmp_path: Path
) -> None:
    """H49: a score says which rung made it."""
    settled = judged(folder, tmp_path / "out", in_words)
    assert settled.before.protocol.judge is None
    assert str(settled.after.protocol.judge).startswith("scripted:")
    old, new = read_results(folder), read_results(tmp_path / "out")
    with pytest.raises(AskedWrongly, match="judge"):
        compare(old, new)


def test_a_replay_of_the_recorded_replies_gives_the_identical_score(
    judged: Callable[..., Settled], folder: Path, tmp_path: Path
) -> None:
    record = str(tmp_path / "replies.jsonl")
    judged(folder, tmp_path / "out", in_words, record=record)
    replay = JudgeSettings(recorded=RecordedJudge(file=record))
    judge_folder(folder, tmp_path / "again", replay)
    for name in ("score.json", "samples.jsonl", "protocol.json"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()
    assert json.loads((tmp_path / "again/judge.json").read_text())["settings"]["recorded"] == {"file": record}


def test_a_failed_judge_means_no_score_until_it_was_asked_again(
    judged: Callable[..., Settled], folder: Path, tmp_path: Path
) -> None:
    """H48, H22: neither wrong nor a score of fewer samples; the same command asks about those rows alone."""
    out = tmp_path / "out"

    def broken(turn: str) -> str | NoReply:
        return NoReply(reason="nobody answered") if "oops" in turn else in_words(turn)

    with pytest.raises(AnswerIsNo, match=r"20 of 120 samples could not be graded .*nobody answered"):
        judged(folder, out, broken)
    assert not (out / "score.json").exists()
    settled = judged(folder, out, in_words)
    assert settled.after.correct == 80
    assert all("oops" in asked.turn for asked in judged.asked)  # type: ignore[attr-defined]
    assert read_results(out).counts.total_hits == 80
    questions = [row["question"] for row in written(out)]
    assert list(dict.fromkeys(questions)) == [question.id for question in QUESTIONS]
    assert [row["question"] for row in written(out)] == sorted(questions, key=[one.id for one in QUESTIONS].index)


def test_an_interrupted_judging_goes_on_and_ends_as_if_it_never_was(
    judged: Callable[..., Settled], folder: Path, tmp_path: Path
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    judged(folder, whole, in_words)
    stops = iter([False, True])
    with pytest.raises(AnswerIsNo, match="interrupted with 64 samples judged"):
        judged(folder, out, in_words, interrupted=lambda: next(stops))
    assert not (out / "score.json").exists()
    lines = (out / "samples.jsonl").read_text().splitlines(keepends=True)
    (out / "samples.jsonl").write_text("".join(lines[:50]) + lines[50][:30])  # and a crash tore the last write
    told: list[tuple[int, int]] = []
    judged(folder, out, in_words, report=lambda done, total: told.append((done, total)))
    assert (out / "samples.jsonl").read_bytes() == (whole / "samples.jsonl").read_bytes()
    assert (out / "score.json").read_bytes() == (whole / "score.json").read_bytes()
    assert told == [(64, 120), (120, 120)]


def test_a_finished_judging_asks_nobody(judged: Callable[..., Settled], folder: Path, tmp_path: Path) -> None:
    first = judged(folder, tmp_path / "out", in_words)
    again = judged(folder, tmp_path / "out", lambda _: pytest.fail("was asked"))
    assert again == first


def test_a_folder_that_was_judged_can_be_judged_by_another(
    judged: Callable[..., Settled], folder: Path, tmp_path: Path
) -> None:
    """The second judge decides about all that the rules rejected, the first one's verdicts stay as opinions."""
    judged(folder, tmp_path / "first", in_words)
    settled = judged(tmp_path / "first", tmp_path / "second", lambda turn: "A" if "oops" in turn else "C")
    assert settled.after.correct == 80
    assert settled.asked == 40
    row = written(tmp_path / "second")[1]
    assert [(one["by"], one["verdict"]) for one in row["opinions"]] == [
        ("house", "no_answer"),
        ("judge:scripted", "correct"),
    ]
    assert row["judgement"]["verdict"] == "wrong"


def test_samples_of_another_folder_are_not_mixed_in(
    judged: Callable[..., Settled], folder: Path, tmp_path: Path
) -> None:
    judged(folder, tmp_path / "out", in_words)
    (tmp_path / "out/score.json").unlink()
    other = tmp_path / "other"
    other.mkdir()
    for path in folder.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    (other / "samples.jsonl").write_text((folder / "samples.jsonl").read_text().replace("in words", "by words"))
    with pytest.raises(AskedWrongly, match="name a new folder"):
        judged(other, tmp_path / "out", in_words)


def test_an_out_folder_of_something_else_is_refused_and_left_alone(
    judged: Callable[..., Settled], folder: Path, tmp_path: Path
) -> None:
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    (thesis / "thesis.tex").write_text("precious")
    before = contents(folder)
    for out in (thesis, folder):
        with pytest.raises(AskedWrongly, match="name a new folder"):
            judged(folder, out, in_words)
    assert [path.name for path in thesis.iterdir()] == ["thesis.tex"]
    assert contents(folder) == before


def test_a_folder_without_a_score_is_asked_wrongly(
    judged: Callable[..., Settled], folder: Path, tmp_path: Path
) -> None:
    (folder / "score.json").unlink()
    with pytest.raises(AskedWrongly, match="did not finish"):
        judged(folder, tmp_path / "out", in_words)
    assert not (tmp_path / "out").exists()


def test_the_questions_are_those_of_the_score(judged: Callable[..., Settled], folder: Path, tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match="name the benchmark that was evaluated"):
        judged(folder, tmp_path / "out", in_words, benchmark="arith_tiny_final")
    judged(folder, tmp_path / "out", in_words)
    problem = QUESTIONS[0].problem
    assert f"<question>\n{problem}\n</question>" in judged.asked[0].turn  # type: ignore[attr-defined]
    score = json.loads((folder / "score.json").read_text())
    score["protocol"]["benchmark"] = "homemade"
    from opd.records.files import digest

    score["protocol_digest"] = digest(score["protocol"])
    write_json(folder / "score.json", score)
    with pytest.raises(AskedWrongly, match="no benchmark here; name its file with --benchmark"):
        judged(folder, tmp_path / "other", in_words)
    assert judged(folder, tmp_path / "other", in_words, benchmark="arith_tiny").right == 20


@pytest.mark.patient
def test_a_model_directory_judges_a_folder(folder: Path, tmp_path: Path, cue_model: Path) -> None:
    """All the way: 20 answers in words, and 20 that hold the model's cue for B."""
    settings = JudgeSettings(local=LocalJudge(device="cpu", model=str(cue_model), limit_tokens=4))
    settled = judge_folder(folder, tmp_path / "out", settings)
    assert (settled.by, settled.asked, settled.right) == ("judge:CueJudge-1", 40, 20)
    assert {row["judgement"]["parsed"] for row in written(tmp_path / "out")} == {None, "strict"}
