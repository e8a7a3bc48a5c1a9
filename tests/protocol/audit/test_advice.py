"""A model is asked, and whatever does not answer is recorded as no answer (faults H48)."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from opd.protocol.audit import advice
from opd.protocol.audit.advice import ask
from opd.protocol.audit.evidence import Evidence
from opd.records.audits import Advice, Axis, Coverage, Finding, Verdict

WORD = "import sys, re; t = sys.stdin.read(); w = re.search('this word alone: (.*)', t)[1]; "
FINDING = Finding(
    check="lineage", axis=Axis.LINEAGE, verdict=Verdict.NONE_FOUND, sentence="all of it holds",
    coverage=Coverage(files=1, bytes=1), controls=(),
)  # fmt: skip


def asked(evidence: Evidence, program: str) -> Advice:
    (evidence.folder / "submission").mkdir(exist_ok=True)
    for name in (
        "submission/candidate.patch",
        "explore/attempt-001/desk.jsonl",
        "explore/attempt-001/commands.jsonl",
    ):
        path = evidence.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text of {name}\n")
    return ask((sys.executable, "-c", program), evidence, [FINDING])


def test_an_answer_is_kept_as_it_came(evidence: Evidence) -> None:
    said = asked(evidence, WORD + "print(w); print('I would doubt nothing.')")
    assert said.because is None
    assert said.reply is not None
    assert said.reply.endswith("\nI would doubt nothing.\n")


def test_it_is_given_the_findings_and_what_they_rest_on(evidence: Evidence) -> None:
    said = asked(evidence, WORD + "print(w); print(t)")
    assert said.reply is not None
    for part in ("all of it holds", "shuffle the rows", "text of submission/candidate.patch", "commands.jsonl"):
        assert part in said.reply


NO_ANSWERS = {
    "killed": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "it ended by signal 9"),
    "no key": ("raise SystemExit('no API key is set')", "it ended by exit code 1: no API key is set"),
    "no key, said as if all were well": ("print('no API key is set')", "does not give: 'no API key is set'"),
    "another word for nothing": ("print('no contamination detected')", "did not answer the question"),
    "its own question back": ("import sys; print(sys.stdin.read())", "did not answer the question"),
    "silence": ("", "did not answer the question"),
    "the word and nothing else": (WORD + "print(w)", "it gave the word and said nothing"),
    "no text": ("import sys; sys.stdout.buffer.write(bytes(range(256)))", "what it printed is no text"),
    "without end": (WORD + "print(w); print('x' * 300_000)", "more than 200,000"),
}


@pytest.mark.parametrize("how", NO_ANSWERS)
def test_what_is_no_answer_is_recorded_as_none_with_the_reason(how: str, evidence: Evidence) -> None:
    program, because = NO_ANSWERS[how]
    said = asked(evidence, program)
    assert said.reply is None
    assert said.because is not None
    assert because in said.because


def test_a_program_that_is_not_there_or_never_ends_has_not_answered(
    evidence: Evidence, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    missing = ask((str(tmp_path / "nothing"),), replace(evidence, explorations=(), submission=None), [])
    assert (missing.reply, missing.because is not None) == (None, True)
    monkeypatch.setattr(advice, "LIMIT_SECONDS", 0.2)
    endless = asked(evidence, "import time; time.sleep(60)")
    assert (endless.reply, endless.because) == (None, "it gave no answer in 0 s, and was ended")
