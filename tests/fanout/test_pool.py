"""A pool of real workers: one that never begins, one that is long at its work, and files that are seen late."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fanout.clusters import environment, started

from opd.fanout import pool
from opd.fanout.calls import Call
from opd.fanout.cluster import Cluster, joined
from opd.fanout.comparing import shared
from opd.fanout.pool import Pool, Work
from opd.records.errors import AnswerIsNo

pytestmark = [
    pytest.mark.patient,
    pytest.mark.filterwarnings(
        "ignore::FutureWarning:ray.*", "ignore::ResourceWarning", "ignore::DeprecationWarning"
    ),
]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Of two places, whose workers find `tests`."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    with started(PYTHONPATH=path) as joining, environment(joining), joined() as found:
        yield found


def test_a_worker_that_never_begins_is_lost_after_a_time_and_another_goes_on(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose model is on a share that is gone; before that it is said."""
    monkeypatch.setattr(pool, "LONG_SECONDS", 1.0)
    monkeypatch.setattr(pool, "BEGIN_SECONDS", 3.0)
    said: list[str] = []
    with shared(tmp_path) as folder:
        values = {"stuck": str(tmp_path / "stuck.partial")}
        work = Work(target="tests.fanout.work:begun", values=values, needs={"CPU": 1.0}, folder=folder)
        with Pool(cluster, work, say=said.append) as workers:
            workers.start(1)
            (outcome,) = workers.work([Call(name="one", values={"seconds": 0, "name": "one"})])
    assert outcome.answer == "one"
    slow, *_, lost = (one for one in said if one.startswith("worker 0 ("))
    assert "has been loading what it works with for" in slow
    assert "end that process: another goes on in its place" in slow
    assert "was lost (before it had begun): it had not begun after" in lost


def test_a_second_one_that_never_begins_ends_it(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "BEGIN_SECONDS", 1.0)
    with shared(tmp_path) as folder:
        values = {"stuck": str(tmp_path / "gone" / "stuck")}  # can't be made: but an error is no hang
        work = Work(target="tests.fanout.work:begun", values=values, needs={"CPU": 1.0}, folder=folder)
        with Pool(cluster, work) as workers, pytest.raises(AnswerIsNo, match=r"can't begin: .*FileNotFoundError"):
            workers.start(1)
        work = Work(target="time:sleep", values=3_600, needs={"CPU": 1.0}, folder=folder)
        with Pool(cluster, work) as workers, pytest.raises(AnswerIsNo, match="so was the one before it"):
            workers.start(1)


def test_work_that_takes_long_is_said_and_goes_on(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After one second, two and four: not every time that is looked."""
    monkeypatch.setattr(pool, "LONG_SECONDS", 1.0)
    said: list[str] = []
    with shared(tmp_path) as folder:
        work = Work(target="tests.fanout.work:begun", values={}, needs={"CPU": 1.0}, folder=folder)
        with Pool(cluster, work, say=said.append) as workers:
            workers.start(1)
            said.clear()
            (outcome,) = workers.work([Call(name="group 7", values={"seconds": 6, "name": "done"})])
    assert outcome.answer == "done"
    assert 2 <= len(said) <= 3
    assert all("has been at group 7 for" in one for one in said)


def test_an_answer_that_is_seen_late_holds_no_other_up(cluster: Cluster, tmp_path: Path) -> None:
    """The first is seen after two seconds; by then the others are over, by the same worker."""
    began = time.monotonic()
    with shared(tmp_path) as folder:
        work = Work(target="tests.fanout.work:begun", values={}, needs={"CPU": 1.0}, folder=folder)
        with Pool(cluster, work) as workers:
            workers.start(1)
            began = time.monotonic()
            calls = [Call(name=str(number), values={"seconds": 0, "name": str(number)}) for number in range(5)]

            def fault(call: Call, answer: Any) -> str | None:
                return "not yet" if call.name == "0" and time.monotonic() - began < 2 else None

            over = [(one.call.name, time.monotonic() - began) for one in workers.work(calls, fault=fault)]
    assert [name for name, _ in over] == ["1", "2", "3", "4", "0"]
    assert over[3][1] < 2 <= over[4][1]
