"""What an explorer said stands with the training that it was about, and nothing stands there that it did not say."""

import json

import pytest

from opd.protocol.report.saying import DEVICE, SUBMIT, Said, Window, decision, messages, notes, words
from opd.protocol.report.sources import Fact, Sources


def fact(text: str) -> Fact:
    return Fact(value=text, file="explore/attempt-001/desk.jsonl", pointer="line:1", sha256="0" * 64)


def said(text: str, at: float, *, beside: str | None = None, note: bool = False, about: str | None = None) -> Said:
    return Said(words=fact(text), at=at, is_note=note, beside=beside, about=about)


def window(begin: float, trained: float, end: float, *names: str, measured: bool = True) -> Window:
    return Window(
        begin=begin, trained=trained, last_trained=trained, end=end, names=frozenset(names), is_measured=measured
    )


WINDOWS = [window(0, 10, 50, "baseline", "1"), window(50, 60, 100, "shuffle", "2")]


def of(place: int, *heard: Said) -> tuple[list[str], list[str]]:
    found = words(sorted(heard, key=lambda one: one.at), WINDOWS, place)
    return [one.value for one in found.motivation], [one.value for one in found.interpretation]


def test_a_message_with_the_command_that_trains_is_its_motivation():
    assert of(0, said("why I train", 10, beside=DEVICE), said("measuring", 40)) == (["why I train"], [])


def test_the_first_thing_after_a_result_reads_it_and_the_longest_other_moves_the_next():
    heard = [
        said("as I hoped, and more than that, by far", 51),
        said("hm", 53),
        said("the rows are never shuffled", 55),
        said("now", 60, beside=DEVICE),
    ]
    assert of(0, *heard)[1] == ["as I hoped, and more than that, by far"]
    assert of(1, *heard)[0] == ["the rows are never shuffled", "now"]


def test_one_message_between_a_result_and_a_training_stands_with_both():
    heard = [said("it works; shuffle next", 55)]
    assert of(0, *heard)[1] == of(1, *heard)[0] == ["it works; shuffle next"]


def test_notes_stand_in_place_of_messages():
    heard = [said("a long message of the trajectory", 3), said("note", 5, note=True), said("read", 52, note=True)]
    assert of(0, *heard, said("chat", 51)) == (["note"], ["read"])


def test_a_note_about_a_run_goes_to_it_whenever_it_was_made():
    heard = [said("it was luck", 120, note=True, about="baseline"), said("why", 52, note=True, about="2")]
    assert of(0, *heard) == ([], ["it was luck"])
    assert of(1, *heard) == (["why"], [])


def test_nothing_said_is_nothing_quoted():
    assert of(0) == ([], [])


def test_the_reading_of_what_has_no_result_comes_after_its_last_training():
    unmeasured = [window(0, 10, 99, measured=False)]
    found = words([said("why", 10, beside=DEVICE), said("no NaN", 50)], unmeasured, 0)
    assert [one.value for one in found.interpretation] == ["no NaN"]


def test_what_was_said_with_the_submission_is_its_decision():
    assert [one.value for one in decision([said("a", 1), said("done", 2, beside=SUBMIT)])] == ["done"]
    assert decision([said("a", 1)]) == ()


@pytest.mark.parametrize(
    ("command", "beside"),
    [
        ("OUT=$RUNS/a on-device bash run.sh", DEVICE),
        ("submit --note x", SUBMIT),
        ("cat not-on-device.txt", None),
        ("ls submit.py", None),
    ],
)
def test_a_message_belongs_to_the_command_that_it_came_with(tmp_path, command, beside):
    folder = tmp_path / "explore/attempt-001/trajectory"
    folder.mkdir(parents=True)
    calls = [{"tool_call_id": "1", "function_name": "Bash", "arguments": {"command": command}}]
    steps = [
        {"source": "user", "message": "the task", "timestamp": "2026-01-31T12:00:00Z"},
        {"source": "agent", "message": "so", "timestamp": "2026-01-31T12:00:01Z", "tool_calls": calls},
        {"source": "agent", "message": "", "timestamp": "2026-01-31T12:00:02Z"},
    ]
    (folder / "atif.json").write_text(json.dumps({"steps": steps}))
    (found,) = messages(Sources(tmp_path, tmp_path), "explore/attempt-001", lambda _: 1.0)
    assert (found.words.value, found.words.pointer, found.beside) == ("so", "/steps/1/message", beside)


def test_a_note_that_was_refused_is_none(tmp_path):
    lines = [
        {"command": "note", "arguments": {"text": "kept", "about": "/runs/a/"}, "exit": 0},
        {"command": "note", "arguments": {"text": "too long"}, "exit": 2},
        {"command": "timer", "arguments": {}, "exit": 0},
    ]
    (tmp_path / "desk.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = list(notes([(line, 0.0) for line in Sources(tmp_path, tmp_path).lines("desk.jsonl")]))
    assert [(one.words.value, one.about) for one in found] == [("kept", "/runs/a")]
