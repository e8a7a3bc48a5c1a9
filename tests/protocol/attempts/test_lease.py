"""One writer at a time; who reads can tell whether it lives. What `status` makes of it: test_state."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from opd.protocol.attempts.lease import BEAT_SECONDS, LEASE, Holder, held, is_alive, read_lease
from opd.protocol.clock import now
from opd.records.errors import AskedWrongly


def test_a_second_writer_is_refused_and_told_who_the_first_is(tmp_path: Path) -> None:
    with held(tmp_path), pytest.raises(AskedWrongly, match=f"process {os.getpid()} on .* is at work"), held(tmp_path):
        pytest.fail("two were at work")
    with held(tmp_path):
        pass


def test_another_process_is_refused_too_and_may_when_the_first_has_died(tmp_path: Path) -> None:
    program = "import os, sys; from pathlib import Path; from opd.protocol.attempts.lease import held\n"
    program += (
        "with held(Path(sys.argv[1])) as holder, holder.at('explore/attempt-001'):\n  print(flush=True)\n  input()"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", program, tmp_path], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(AskedWrongly, match=f"process {child.pid} on"), held(tmp_path):
            pytest.fail("two were at work")
        assert is_alive(read_lease(tmp_path), now())
        child.kill()
        child.wait()
    assert (tmp_path / LEASE).exists(), "it had no time to say good-bye"
    assert not is_alive(read_lease(tmp_path), now())
    with held(tmp_path) as holder:
        assert holder.before is not None, "the next one knows at what the dead one was, and until when"
        assert holder.before.at == ("explore/attempt-001",)
        assert holder.before.holder.pid == child.pid


def test_a_holder_that_ends_well_leaves_no_lease(tmp_path: Path) -> None:
    def work() -> None:
        with held(tmp_path):
            assert is_alive(read_lease(tmp_path), now())
            raise RuntimeError

    with pytest.raises(RuntimeError):
        work()
    assert read_lease(tmp_path) is None


def test_it_says_at_which_tries_it_is_one_inside_another(tmp_path: Path) -> None:
    def at() -> tuple[str, ...]:
        lease = read_lease(tmp_path)
        assert lease is not None
        return lease.at

    with held(tmp_path) as holder:
        assert at() == ()
        with holder.at("explore/attempt-001"):
            with holder.at("submission"):
                assert at() == ("explore/attempt-001", "submission")
            assert at() == ("explore/attempt-001",)
        assert at() == ()


def test_beating_often_writes_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    holder = Holder(tmp_path)
    before = (tmp_path / LEASE).stat().st_ino
    for _ in range(100):
        holder.beat()
    assert (tmp_path / LEASE).stat().st_ino == before
    there = now()
    monkeypatch.setattr(
        "opd.protocol.attempts.lease.now",
        lambda: there.model_copy(update={"monotonic": there.monotonic + BEAT_SECONDS}),
    )
    holder.beat()
    assert (tmp_path / LEASE).stat().st_ino != before


def test_threads_that_beat_at_once_leave_a_whole_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    holder = Holder(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        beats = [pool.submit(holder.beat, force=True) for _ in range(120)]
    assert [beat.exception() for beat in beats if beat.exception()] == []
    assert read_lease(tmp_path) is not None


@pytest.mark.parametrize("content", ["", "{}", "[]", "not json", '{"at": 1}'])
def test_a_lease_that_cannot_be_read_is_nobodys(tmp_path: Path, content: str) -> None:
    (tmp_path / LEASE).write_text(content)
    assert read_lease(tmp_path) is None
