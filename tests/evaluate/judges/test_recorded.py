"""Recorded replies: what is written, what a replay makes of it, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opd.evaluate.judge import JudgeCase, open_judge
from opd.evaluate.judges.exchange import Asked, JudgeModel, NoReply, Reply
from opd.evaluate.judges.recorded import RecordedBackend, Recording, read_recording
from opd.evaluate.judges.reply import Reading, read_reply
from opd.evaluate.judges.settings import JudgeSettings, RecordedJudge
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.scores import Verdict

MODEL = JudgeModel(name="Judge-1", model_digest="ab" * 32, dtype="float32", limit_tokens=8)
CASES = [JudgeCase(question=f"q{n}", gold=str(n), response=f"<think>…</think>It is {n}.0.") for n in range(4)]


def reading(text: str) -> Reading:
    found = read_reply(Reply(text=text))
    assert isinstance(found, Reading)
    return found


def line(key: str = "k", reply: str = "A", **changes: Any) -> dict[str, Any]:
    values = {"key": key, "judge": MODEL.resolved(), "reply": reply, "verdict": "correct", "parsed": "strict"}
    return values | changes


def written(path: Path, *lines: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return str(path)


def by_question(turn: str) -> str | NoReply:
    return {"q0": "A", "q1": "**B**", "q2": "no idea"}.get(
        next(name for name in ("q0", "q1", "q2", "q3") if f"\n{name}\n" in turn), ""
    )


def test_what_is_recorded_is_found_again_and_stands_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "replies.jsonl"
    recording = Recording(str(path), judge=MODEL)
    recording.add([("k1", Reply(text="A"), reading("A")), ("k2", Reply(text="B."), reading("B."))])
    recording.add([("k1", Reply(text="A"), reading("A"))])
    assert [json.loads(one) for one in path.read_text().splitlines()] == [
        line("k1"),
        line("k2", "B.", verdict="wrong", parsed="tolerant"),
    ]
    again = Recording(str(path), judge=MODEL)
    assert again.find("k2") == Reply(text="B.")
    assert again.find("k3") is None


def test_a_replay_gives_the_outcomes_and_the_identity_of_the_judge_that_was_recorded(
    judge_of: Callable[..., Any], tmp_path: Path
) -> None:
    """Failures are not recorded: they fail in the replay too, and nothing is ever taken for wrong."""
    path = str(tmp_path / "replies.jsonl")
    judge, _ = judge_of(by_question, record=path)
    outcomes = judge.judged(CASES)
    assert [one.verdict for one in outcomes] == ["correct", "wrong", "judge_failed", "judge_failed"]
    with open_judge(JudgeSettings(recorded=RecordedJudge(file=path))) as replay:
        again = replay.judged(CASES)
        assert again[:2] == outcomes[:2]
        assert [one.verdict for one in again[2:]] == [Verdict.JUDGE_FAILED] * 2
        assert all("holds no reply" in one.reason for one in again[2:])
        assert (replay.by, replay.identity()) == (judge.by, judge.identity())


def test_a_replay_under_another_template_finds_nothing(judge_of: Callable[..., Any], tmp_path: Path) -> None:
    path, other = str(tmp_path / "replies.jsonl"), tmp_path / "other.txt"
    other.write_text("{question} {gold} {answer}")
    judge, _ = judge_of("A", record=path)
    judge.judged(CASES)
    with open_judge(JudgeSettings(recorded=RecordedJudge(file=path), template=str(other))) as replay:
        assert {one.verdict for one in replay.judged(CASES)} == {Verdict.JUDGE_FAILED}
        assert replay.identity() != judge.identity()


def test_a_recording_that_stands_is_gone_on_with_and_only_the_rest_is_asked(
    judge_of: Callable[..., Any], tmp_path: Path
) -> None:
    path = str(tmp_path / "replies.jsonl")
    first, _ = judge_of(by_question, record=path)
    first.judged(CASES[:3])
    second, double = judge_of("C", record=path)
    assert [one.reply for one in second.judged(CASES)] == ["A", "**B**", "C", "C"]
    assert len(double.asked) == 2
    assert len(read_recording(Path(path))) == 4


def test_a_line_that_a_crash_tore_is_dropped_and_asked_again(judge_of: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    first, _ = judge_of("A", record=str(path))
    first.judged(CASES)
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    second, double = judge_of("A", record=str(path))
    second.judged(CASES)
    assert len(double.asked) == 1
    assert path.read_bytes() == whole


def test_a_file_that_is_no_recording_is_refused_and_not_touched(judge_of: Callable[..., Any], tmp_path: Path) -> None:
    thesis = tmp_path / "thesis.tex"
    for text in ("precious", "precious\nwithout an end", "precious\n"):
        thesis.write_text(text)
        with pytest.raises(AskedWrongly, match=r"thesis\.tex"):
            judge_of("A", record=str(thesis))
        assert thesis.read_text() == text
    with pytest.raises(AskedWrongly, match="not a file"):
        judge_of("A", record=str(tmp_path))


def test_each_group_is_on_the_disk_before_the_next_is_asked(tmp_path: Path, judge_of: Callable[..., Any]) -> None:
    """What a judge said costs money or hours: a crash loses one group at most."""
    path = tmp_path / "replies.jsonl"
    lines: list[int] = []

    def looking(turn: str) -> str:
        lines.append(len(path.read_text().splitlines()) if path.exists() else 0)
        return "A"

    judge, _ = judge_of(looking, record=str(path))
    judge.judged([JudgeCase(question="q", gold="1", response=str(n)) for n in range(600)])
    assert sorted(set(lines)) == [0, 256, 512]


def test_a_verdict_that_was_turned_around_in_the_file_is_refused(tmp_path: Path) -> None:
    """H40: a verdict is not what someone wrote into a text file; the reply has to say it."""
    path = written(tmp_path / "replies.jsonl", line(reply="B", verdict="correct"))
    with pytest.raises(AnswerIsNo, match=r"line 1: the reply reads as wrong .*, the line says correct"):
        RecordedBackend(path)


@pytest.mark.parametrize("reply", ["", "no A", "A\nB"])
def test_a_recorded_reply_that_says_nothing_is_refused(tmp_path: Path, reply: str) -> None:
    with pytest.raises(AnswerIsNo, match="line 2: the reply"):
        RecordedBackend(written(tmp_path / "replies.jsonl", line("k1"), line("k2", reply)))


def test_two_replies_under_one_key_are_refused_and_one_that_stands_twice_is_not(tmp_path: Path) -> None:
    twice = written(tmp_path / "twice.jsonl", line(), line())
    assert RecordedBackend(twice).replies([Asked(key="k", turn="")]) == [Reply(text="A")]
    both = written(tmp_path / "both.jsonl", line(), line(reply="B", verdict="wrong"))
    with pytest.raises(AskedWrongly, match="line 2: another reply to the same question"):
        RecordedBackend(both)


def test_replies_of_two_judges_are_no_replay(tmp_path: Path) -> None:
    other = MODEL.model_copy(update={"name": "Judge-2"})
    path = written(tmp_path / "replies.jsonl", line("k1"), line("k2", judge=other.resolved()))
    with pytest.raises(AskedWrongly, match="replies of 2 judges"):
        RecordedBackend(path)


def test_a_judge_does_not_go_on_with_the_file_of_another(tmp_path: Path) -> None:
    """H18: a reply is reused only for exactly what was asked, of whom it was asked."""
    path = written(tmp_path / "replies.jsonl", line())
    before = Path(path).read_bytes()
    other = MODEL.model_copy(update={"limit_tokens": 9})
    with pytest.raises(AskedWrongly, match="name a new file"):
        Recording(path, judge=other)
    assert Path(path).read_bytes() == before


@pytest.mark.parametrize("text", ["", "\n"])
def test_an_empty_recording_is_no_judge(tmp_path: Path, text: str) -> None:
    (tmp_path / "replies.jsonl").write_text(text)
    with pytest.raises(AskedWrongly, match="replies of 0 judges"):
        RecordedBackend(str(tmp_path / "replies.jsonl"))


@pytest.mark.parametrize("text", ["nonsense", "[]", '{"key": "k"}', json.dumps(line(verdict="right"))])
def test_a_file_of_something_else_is_asked_wrongly(tmp_path: Path, text: str) -> None:
    (tmp_path / "replies.jsonl").write_text(text + "\n")
    with pytest.raises(AskedWrongly, match="line 1"):
        RecordedBackend(str(tmp_path / "replies.jsonl"))
    with pytest.raises(AskedWrongly, match="does not exist"):
        RecordedBackend(str(tmp_path / "none.jsonl"))


def test_a_verdict_written_down_by_a_person_can_be_replayed(tmp_path: Path) -> None:
    """Who it was stands in the identity and in every row."""
    judge = {"name": "Ann"}
    key = open_template_key("q", "1", "one")
    path = written(tmp_path / "ann.jsonl", line(key, "A", judge=judge))
    with open_judge(JudgeSettings(recorded=RecordedJudge(file=path))) as ann:
        (outcome,) = ann.judged([JudgeCase(question="q", gold="1", response="one")])
        assert outcome.verdict is Verdict.CORRECT
        assert ann.by == "judge:Ann"
        assert ann.identity().startswith("Ann:")


def open_template_key(question: str, gold: str, answer: str) -> str:
    from opd.evaluate.judges.prompt import read_template

    return read_template(None).key(question=question, gold=gold, answer=answer)
