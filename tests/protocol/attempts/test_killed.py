"""Killed at every edge of its work: nothing runs that is dead, nothing is lost, and nothing is done again."""

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from opd.protocol.attempts.attempt import Attempt
from opd.protocol.attempts.lease import held
from opd.protocol.attempts.state import status
from opd.records.attempts import Liveness
from opd.records.receipts import faults
from opd.records.trees import entries, tree_digest

_KILLED = """
import importlib.util, os, sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("attempt_lab", {conftest!r})
laboratory = importlib.util.module_from_spec(spec)
sys.modules["attempt_lab"] = laboratory
spec.loader.exec_module(laboratory)
lab = object.__new__(laboratory.Lab)
lab.folder, what, at = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
lab.attempt, lab.holder, calls = laboratory.Attempt(lab.folder), None, 0
def edge():
    global calls
    calls += 1
    if calls == at:
        os.kill(os.getpid(), 9)
def dies(owner, name):
    real = getattr(owner, name)
    def wrapped(*arguments, **named):
        edge()
        return real(*arguments, **named)
    setattr(owner, name, wrapped)
from opd.records import receipts
for owner, name in ((os, "fsync"), (os, "write"), (os, "mkdir"), (os, "replace"), (os, "unlink"), (os, "chmod"),
                    (receipts, "_rename_to_new"), (Path, "write_text"), (Path, "write_bytes")):
    dies(owner, name)
lab.explore() if what == "explore" else lab.formal(steps=(10,))
print(calls)
"""


def _killed_at(folder: Path, what: str, at: int) -> bool:
    program = _KILLED.format(conftest=str(Path(__file__).parents[1] / "conftest.py"))
    pid = os.fork()
    if pid == 0:  # a fork, not a new interpreter: hundreds of them
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.argv = ["", str(folder), what, str(at)]
        code = 1
        try:
            exec(compile(program, "killed", "exec"), {"__name__": "killed"})
            code = 0
        finally:
            os._exit(code)
    _, ended = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(ended) or os.WEXITSTATUS(ended) == 0, "it failed instead of being killed"
    return os.WIFSIGNALED(ended) and os.WTERMSIG(ended) == signal.SIGKILL


@pytest.mark.patient
@pytest.mark.parametrize("what", ["explore", "formal"])
def test_killed_at_any_edge_nothing_is_running_lost_or_repeated(new_lab: Any, what: str) -> None:
    """Acceptance: SIGKILL of the orchestrator at every write, rename, flush and removal; faults H6, H7, H14, H16."""
    from opd.protocol.attempts.resuming import resume

    template = new_lab("template")
    if what == "formal":
        template.explore()
    words, livenesses, at = set(), set(), 0
    while True:
        at += 1
        folder = template.folder.with_name(f"killed-{at}")
        shutil.copytree(template.folder, folder)
        if not _killed_at(folder, what, at):
            break
        found = status(Attempt(folder))
        last = next((one for one in reversed(found.tries) if one.stage == what), None)
        assert found.contradictions == (), at
        assert found.official is None
        words.add(found.state)
        if last:
            livenesses.add(last.liveness)
            assert last.liveness is not Liveness.RUNNING
        if last and last.liveness is Liveness.SEALED:
            assert last.outcome in {"submitted", "completed"}
        elif found.state != {"explore": "new", "formal": "submitted"}[what]:
            assert found.state == "interrupted", at

        had_ended = {event.actor for event in Attempt(folder).events.read() if event.kind == "ended"}
        with held(folder) as holder:
            resume(Attempt(folder), holder, say=lambda _: None)
        found = status(Attempt(folder))
        assert found.contradictions == (), at
        assert not [one for one in found.tries if one.liveness is not Liveness.SEALED], at
        assert sum(one.stage == what for one in found.tries) <= 1
        before = tree_digest(entries(folder))
        with held(folder) as holder:
            resume(Attempt(folder), holder, say=lambda _: None)
        assert tree_digest(entries(folder)) == before, "what is whole is left alone"
        for one in found.tries:
            assert faults(folder / one.name) == (), at
        for one in found.tries:
            if one.name in had_ended:
                assert one.outcome in {"submitted", "sealed", "completed"}, f"{at}: {one.name} was at its end"
        shutil.rmtree(folder)
    assert at > 30, "the edges were passed"
    assert (
        words
        == {"explore": {"new", "interrupted", "submitted"}, "formal": {"submitted", "interrupted", "replayed"}}[what]
    )
    assert livenesses == {Liveness.LEFT, Liveness.UNMARKED, Liveness.SEALED}
