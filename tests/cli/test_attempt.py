"""`opd attempt`: what is asked wrongly, what the answer is, and what is said. Stages are run in tests/protocol."""

from pathlib import Path

import pytest

from opd.cli.main import run


@pytest.fixture
def attempt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert run(["attempt", "new", "arith_tiny", "--agent", "true", "--runs", str(tmp_path / "runs")]) == 0
    capsys.readouterr()
    return str(tmp_path / "runs" / "command__arith_tiny__none__none")


def test_a_new_attempt_is_new_and_holds(attempt: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["attempt", "status", attempt]) == 0
    said = capsys.readouterr().out
    assert "command__arith_tiny__none__none: new" in said
    assert "due: explore (nothing was explored yet)" in said
    assert "no official score: not explored yet" in said
    assert "their files were not read again" in said
    assert run(["attempt", "verify", attempt]) == 0
    assert "all holds" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["new", "arith_tiny", "--agent", "claude"], 2, "--endpoint SOCKET"),
        (["new", "arith_tiny", "--agent", "true", "--model", "a b"], 2, "'a b' can't be part of a case id"),
        (["new", "arith_tiny", "--agent", "true", "--input", "foo=/x"], 2, "it has student, teacher, data"),
        (["new", "arith_tiny", "--agent", "true", "--input", "student"], 2, "write it as ROLE=PATH"),
        (["new", "nope", "--agent", "true"], 2, "no task 'nope'"),
        (["status", "nowhere"], 2, "is no attempt: it has no run.json"),
        (["timer"], 2, "a command of the explorer, inside its workspace"),
        (["fast-eval", "checkpoint"], 2, "a command of the explorer, inside its workspace"),
    ],
)
def test_what_is_asked_wrongly_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, says: str
) -> None:
    runs = ["--runs", str(tmp_path / "runs")] if words[0] == "new" else []
    assert run(["attempt", *words, *runs]) == code
    assert says in capsys.readouterr().err
    assert not (tmp_path / "runs").exists() or list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["evaluate"], 1, "nothing is due of final: not explored yet"),
        (["replay"], 1, "nothing is due of formal: not explored yet"),
        (["rule", "formal/attempt-001", "candidate", "--because", "x"], 2, "is no formal try that is over"),
        (["submit", "--patch", "none.patch"], 2, "give the file of a patch"),
        (["verify", "--head", "zz"], 2, "give the 64 hexadecimal digits"),
        (["run", "--sandbox", "nope"], 2, "there are auto, bubblewrap"),
    ],
)
def test_what_is_not_due_or_not_there_is_said(
    attempt: str, capsys: pytest.CaptureFixture[str], words: list[str], code: int, says: str
) -> None:
    assert run(["attempt", words[0], attempt, *words[1:]]) == code
    assert says in capsys.readouterr().err


def test_an_attempt_is_never_made_over_another(attempt: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["attempt", "new", "arith_tiny", "--agent", "true", "--runs", str(Path(attempt).parent)]
    assert run(words) == 2
    assert "--again 2" in capsys.readouterr().err
    assert run([*words, "--again", "2"]) == 0
    assert sorted(path.name for path in Path(attempt).parent.iterdir()) == [
        Path(attempt).name,
        f"{Path(attempt).name}__2",
    ]


def test_a_changed_file_is_a_contradiction_and_exit_code_1(attempt: str, capsys: pytest.CaptureFixture[str]) -> None:
    log = Path(attempt) / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b"operator", b"somebody"))
    assert run(["attempt", "status", attempt]) == 1
    assert "contradiction: the log is not whole" in capsys.readouterr().out
    assert run(["attempt", "verify", attempt]) == 1
    assert run(["attempt", "run", attempt]) == 1
    assert "official" not in capsys.readouterr().out
