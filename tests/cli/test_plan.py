"""`opd plan`: what it prints, what it answers, and that it leaves nothing behind."""

import json
from pathlib import Path

import pytest

from opd.cli.main import run


def test_a_plan_that_works_answers_yes_and_makes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "arith_tiny", "--out", str(tmp_path / "run"), "--set", "machine.device=cpu"]) == 0
    printed = capsys.readouterr().out
    for words in ("1,920", "of 2,000", "KV cache", "AdamW", "checkpoints, 5 at once", "--rehearse", "96.0%"):
        assert words in printed
    assert "in the way" not in printed
    assert list(tmp_path.iterdir()) == []


def test_a_rehearsed_plan_prints_times_and_keeps_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sets = ["--set", "budget.steps=3", "--set", "budget.max_wall_seconds=500.0", "--set", "machine.device=cpu"]
    assert run(["plan", "arith_tiny", "--rehearse", "--out", str(tmp_path), *sets]) == 0
    printed = capsys.readouterr().out
    for words in ("a step: sample", "a step: update", "peak memory", "of 500 s given", "reserve_seconds = 0"):
        assert words in printed
    assert list(tmp_path.iterdir()) == []


def test_as_json_a_plan_is_one_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "arith_tiny", "--json", "--out", str(tmp_path)]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["rows"], plan["rows_seen"], plan["steps"]) == (2_000, 1_920, 120)
    assert plan["rollout_tokens"] == 120 * 16 * 4 * 64
    assert plan["rehearsal"] is None
    assert plan["lacks"] == []


def test_a_plan_that_cannot_work_says_all_of_it_and_answers_no(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = run(["plan", "opd_math_1p5b", "--rehearse", "--set", "machine.device=cuda"])
    captured = capsys.readouterr()
    assert code == 1
    for words in ("DeepSeek-R1-Distill-Qwen-1.5B", "JustRL", "dapo_math_unique.jsonl", "clip = 0.2 never acts"):
        assert words in captured.out
    # the trained instruction and the evaluated one, beside each other
    assert "math500 does" in captured.out
    assert "Remember to put your answer" in captured.out
    assert captured.err.startswith("opd: this plan can't work here")
    assert list(tmp_path.iterdir()) == []


def test_a_recipe_that_is_not_there_is_asked_wrongly(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "no-such-recipe"]) == 2
    assert "arith_tiny" in capsys.readouterr().err


def test_the_speed_of_links_is_the_recipes_or_assumed_and_can_not_be_next_to_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["plan", "arith_tiny", "--ranks", "2", "--out", str(tmp_path), "--set", "machine.device=cpu"]
    said = {None: "at 1 GB/s, assumed of processes of one machine by gloo", "2e9": "at 2 GB/s, by the recipe"}
    for speed, words in said.items():
        sets = [] if speed is None else ["--set", f"machine.link_bytes_per_second={speed}"]
        assert run([*asked, *sets]) == 0
        assert words in capsys.readouterr().out
    for speed in ("1e-300", "0", "-1", "inf"):
        assert run([*asked, "--set", f"machine.link_bytes_per_second={speed}"]) == 2
        assert "machine.link_bytes_per_second" in capsys.readouterr().err
