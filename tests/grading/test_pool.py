"""Processes that can be killed. The graders that misbehave are small real modules, written to a folder."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import forkserver

import pytest

from opd.grading.pool import Failed, Limits, Pool
from opd.records.errors import AskedWrongly

MODULE = """
import os, signal, sys, time
from pathlib import Path

SEEN = Path(__file__).with_name("seen.txt")

def grade(response, gold):
    with SEEN.open("a") as file:
        file.write(f"{os.getpid()} {response}\\n")
    if response == "hang":
        while True:
            pass
    if response == "sleep without the lock":
        time.sleep(3600)
    if response == "ignore signals":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(3600)
    if response == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    if response == "leave":
        sys.exit(0)
    if response == "raise":
        raise RuntimeError("no such number")
    if response == "memory":
        return len(bytearray(256 << 20)) > 0
    if response == "once" and SEEN.read_text().count(" once") == 1:
        os._exit(3)
    if response == "maybe":
        return "yes"
    print("graders may print")
    return response == gold
"""


@pytest.fixture
def misbehaving(tmp_path, monkeypatch):
    (tmp_path / "misbehaving.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "seen.txt"


def pool(**limits):
    return Pool(grader="misbehaving:grade", limits=Limits(**({"seconds": 1.0, "workers": 1} | limits)))


def cases(*responses):
    return [{"response": response, "gold": "right"} for response in responses]


def is_running(process_id):
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


def test_replies_come_in_the_order_of_the_cases(misbehaving):
    with pool(workers=2) as workers:
        replies = workers.run(cases(*["right", "other"] * 20))
    assert replies == [{"correct": True}, {"correct": False}] * 20


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        ("hang", "killed: it took longer than 1 s"),
        ("sleep without the lock", "killed: it took longer than 1 s"),
        ("ignore signals", "killed: it took longer than 1 s"),
        ("die", f"the process died with status {-signal.SIGSEGV}"),
        ("leave", "SystemExit: 0"),
        ("raise", "RuntimeError: no such number"),
        ("memory", "MemoryError: "),
        ("maybe", "TypeError: misbehaving:grade returned 'yes', which is no bool"),
    ],
)
@pytest.mark.patient
def test_a_case_that_fails_is_tried_twice_reported_and_harms_no_other(misbehaving, response, reason):
    with pool(memory_bytes=64 << 20) as workers:
        before, failed, after = workers.run(cases("right", response, "right"))
        assert workers.retries == 1
    assert (before, failed, after) == ({"correct": True}, Failed(reason=reason), {"correct": True})
    tries = [line for line in misbehaving.read_text().splitlines() if line.endswith(f" {response}")]
    assert len(tries) == 2
    assert len({line.split()[0] for line in tries}) == 2, "the second try is in a fresh process"


def test_a_case_that_fails_once_by_bad_luck_succeeds_the_second_time(misbehaving):
    with pool() as workers:
        assert workers.run(cases("right", "once")) == [{"correct": True}, {"correct": False}]
        assert workers.retries == 1


def test_workers_are_kept_from_one_call_to_the_next(misbehaving):
    with pool() as workers:
        workers.run(cases("right"))
        first = workers.process_ids
        workers.run(cases("right"))
        assert workers.process_ids == first
        assert len(first) == 1


def test_no_worker_starts_before_the_first_case(misbehaving):
    with pool() as workers:
        assert workers.run([]) == []
        assert workers.process_ids == ()
    assert not misbehaving.exists()


@pytest.mark.patient
def test_a_closed_pool_leaves_no_process_and_no_zombie_behind(misbehaving):
    with pool(workers=2) as workers:
        workers.run(cases("right", "right", "hang"))
        workers.run(cases("right", "right"))
        started = workers.process_ids
    assert started
    assert workers.process_ids == ()
    assert not any(is_running(process_id) for process_id in started)


def test_a_forgotten_pool_ends_its_workers_when_it_is_collected(misbehaving):
    workers = pool()
    workers.run(cases("right"))
    (started,) = workers.process_ids
    del workers
    assert not is_running(started)


def test_a_worker_that_died_while_it_was_idle_is_replaced_without_costing_a_try(misbehaving):
    with pool() as workers:
        workers.run(cases("right"))
        (idle,) = workers.process_ids
        os.kill(idle, signal.SIGKILL)
        time.sleep(0.2)
        assert workers.run(cases("once")) == [{"correct": False}]


@pytest.fixture
def interruptible():
    """Also where a shell has started this in the background, which ignores what a Ctrl-C sends."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_call_leaves_no_stale_reply_for_the_next(misbehaving):
    with pool(seconds=60.0) as workers:
        workers.run(cases("right"))
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            workers.run(cases("right", "sleep without the lock"))
        timer.join()
        assert workers.process_ids == ()
        assert workers.run(cases("other", "right")) == [{"correct": False}, {"correct": True}]


def test_threads_can_share_a_pool_E70(misbehaving):
    replies = {}

    def work(name):
        replies[name] = workers.run(cases("right", name))

    with pool(workers=2) as workers:
        threads = [threading.Thread(target=work, args=(f"thread {number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert list(replies.values()) == [[{"correct": True}, {"correct": False}]] * 4


@pytest.mark.patient
def test_the_seconds_of_a_case_are_those_of_all_its_tries(misbehaving):
    with pool(seconds=0.5) as workers:
        (_, quick), (_, endless) = workers.timed(cases("right", "hang"))
    assert quick < 0.5
    assert 1.0 <= endless < 5.0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of newer Pythons, where other tests left threads
def test_a_forked_copy_of_the_process_has_workers_of_its_own_E70(misbehaving):
    """The copy inherits the pool with its connections; two processes that talk into one would mix their replies."""
    with pool() as workers:
        workers.run(cases("right"))
        inherited = workers.process_ids
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            replies = workers.run(cases("right", "other", "right"))
            own = workers.process_ids
            workers.close()
            gone = not any(is_running(process_id) for process_id in own)
            os.write(writer, json.dumps([replies, list(own), gone]).encode())
            os._exit(0)
        ours = workers.run(cases("other", "right", "other"))
        os.waitpid(child, 0)
        theirs, own, gone = json.loads(os.read(reader, 10_000))
        os.close(reader)
        os.close(writer)
        assert [reply["correct"] for reply in theirs] == [True, False, True]
        assert [reply["correct"] for reply in ours] == [False, True, False]
        assert set(own).isdisjoint(inherited)
        assert gone
        assert workers.process_ids == inherited
        assert all(is_running(process_id) for process_id in inherited)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_started_process_grades_with_a_pool_of_its_own_E70(misbehaving, method):
    context = multiprocessing.get_context(method)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_grade_elsewhere, args=(str(misbehaving.parent), sender))
    process.start()
    replies, left = receiver.recv()
    process.join()
    assert replies == [{"correct": True}, {"correct": False}]
    assert left == ()
    assert process.exitcode == 0
    forkserver._forkserver._stop()  # tests after this one start their own


def _grade_elsewhere(folder, sender):
    sys.path.insert(0, folder)
    with pool() as workers:
        replies = workers.run(cases("right", "other"))
    sender.send((replies, workers.process_ids))


@pytest.mark.parametrize(
    ("grader", "reason"),
    [
        ("misbehaving:nothing", "AttributeError"),
        ("nowhere_at_all:grade", "ModuleNotFoundError"),
        ("broken:grade", "SyntaxError"),
    ],
)
def test_a_grader_that_cannot_be_imported_is_asked_wrongly(misbehaving, grader, reason):
    misbehaving.with_name("broken.py").write_text("def grade(")
    with Pool(grader=grader) as workers, pytest.raises(AskedWrongly, match=f"{grader}.*{reason}"):
        workers.run(cases("right"))
    assert workers.process_ids == ()


@pytest.mark.patient
def test_an_orphan_ends_itself_even_in_the_middle_of_a_case(misbehaving, tmp_path):
    """The parent is killed outright and can't tidy up; its worker is then alone with an endless case."""
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from opd.grading.pool import Limits, Pool\n"
        "limits = Limits(seconds=2, workers=1)\n"
        "Pool(grader='misbehaving:grade', limits=limits).run([{'response': 'hang', 'gold': ''}])"
    )
    parent = subprocess.Popen([sys.executable, "-c", program])
    try:
        deadline = time.monotonic() + 60
        while not misbehaving.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        worker = int(misbehaving.read_text().split()[0])
    finally:
        parent.kill()
        parent.wait()
    deadline = time.monotonic() + 30
    while is_running(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(worker)
