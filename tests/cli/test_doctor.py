"""`opd doctor`: a machine on which everything holds, and one on which something does not."""

import json

import pytest

from opd.cli.main import run
from opd.train.identities import Check


def test_a_healthy_machine_is_described_and_every_check_is_ok(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert {"opd", "torch", "threads", "memory"} <= said["machine"]["cpu"].keys()
    checks = {check["name"]: check for check in said["checks"]["cpu"]}
    assert all(check["ok"] for check in checks.values())
    assert "SHA-256 of 5 files" in checks["shipped files"]["looked_at"]
    assert {"canary", "micro-batches", "identity teacher", "end of sequence", "sampler and scorer"} <= checks.keys()


def test_it_says_which_sandbox_a_program_would_get_and_why_no_better_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opd.train.selfcheck.self_check", lambda device, *, expected_digests: [])
    assert run(["doctor", "--json"]) == 0
    sandbox = json.loads(capsys.readouterr().out)["sandbox"]
    assert sandbox["rung"] in {"bubblewrap", "unshare", "landlock", "group"}

    monkeypatch.setenv("PATH", "")  # as on a machine without bubblewrap
    assert run(["doctor"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("sandbox "))
    assert not line.startswith("sandbox bubblewrap")
    assert "not bubblewrap: bwrap is not installed (package bubblewrap)" in line


def test_a_check_that_fails_is_marked_and_the_answer_is_no(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = Check(name="good", looked_at="nothing", number=0.0, at_most=1.0)
    bad = Check(name="bad", looked_at="everything", number=float("nan"), at_least=1.0)
    monkeypatch.setattr("opd.train.selfcheck.self_check", lambda device, *, expected_digests: [good, bad])
    assert run(["doctor"]) == 1
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert any(line.startswith("NOT OK") and "bad" in line for line in lines)
    assert any(line.startswith("ok") and "good" in line for line in lines)
    assert "1 checks failed: bad (cpu)" in captured.err or "2 checks failed" in captured.err
    assert run(["doctor", "--json"]) == 1
    values = json.loads(capsys.readouterr().out)["checks"]["cpu"]
    assert [value["ok"] for value in values] == [True, False]
    assert values[1]["number"] is None
