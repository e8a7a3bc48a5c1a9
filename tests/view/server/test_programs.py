"""A program is asked once at a time, is ended when it takes too long, and its no is heard."""

import os
import sys
import time
from threading import Thread

import pytest

from opd.view.server import programs
from opd.view.server.answers import Busy
from opd.view.server.programs import Programs


def python(code):
    return Programs([sys.executable, "-c", f"import json, os, sys, time\n{code}"])


def test_what_it_prints_is_its_answer_even_where_its_exit_code_says_no():
    said = python("print(json.dumps(sys.argv[1:])); sys.exit(1)").ask("attempt", "status")
    assert (said.value, said.missing) == (["attempt", "status"], None)


@pytest.mark.parametrize(
    ("code", "missing"),
    [
        ("sys.exit('warning: x\\nopd: the value, the rule, what to do')", "the value, the rule, what to do"),
        ("print('no json'); print('opd: é', file=sys.stderr)", "é"),
        ("os.kill(os.getpid(), 9)", "`opd compare` ended with -9, silently"),
        ("print('[' * 100_000)", "`opd compare` ended with 0, silently"),
    ],
)
def test_where_there_is_no_answer_there_is_a_sentence(code, missing):
    said = python(code).ask("compare")
    assert (said.value, said.missing) == (None, missing)


def test_lines_that_a_failed_program_printed_are_not_all_of_them():
    assert python("print('{}'); sys.exit(1)").ask("grade", lines=True).value is None
    assert python("print('{}\\n[1]')").ask("grade", lines=True).value == [{}, [1]]


def test_one_that_takes_too_long_is_ended(tmp_path):
    pid = tmp_path / "pid"
    said = python(f"open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)").ask("plan", limit_seconds=1.5)
    assert said.missing == "`opd plan` took more than 2 s and was ended"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_two_never_run_at_the_same_time(tmp_path):
    code = f"""
place = {str(tmp_path / "running")!r}
alone = not os.path.exists(place)
open(place, "w").close()
time.sleep(0.05)
os.remove(place)
print(json.dumps(alone))"""
    asked, found = python(code), []
    threads = [Thread(target=lambda: found.append(asked.ask("x").value)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4


def test_so_many_may_wait_and_no_more(monkeypatch, tmp_path):
    monkeypatch.setattr(programs, "MOST_WAITING", 1)
    asked = python("time.sleep(600)")
    thread = Thread(target=asked.ask, args=("x",))
    thread.start()
    while asked._running is None:  # until it is at work
        time.sleep(0.005)
    with pytest.raises(Busy, match="waited for already"):
        asked.ask("y")
    asked.close()  # ends the one at work, and lets nobody in any more
    thread.join()
    assert asked.ask("z").missing == "the server ends"
