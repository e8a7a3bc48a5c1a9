"""Which process this is, by what torchrun says, and what of it is refused."""

import os
import socket
import subprocess
import sys
import threading

import pytest
import torch

from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.train.ranks import joining
from opd.train.ranks.joining import Place, joined, place_in, take_gpu
from opd.train.ranks.ranks import ALONE

TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "node-0", "MASTER_PORT": "29500"}


def test_torchrun_says_who_one_is() -> None:
    assert place_in(TORCHRUN) == Place(rank=5, count=8, local_rank=1)


@pytest.mark.parametrize("environment", [{}, {"RANK": "0", "WORLD_SIZE": "1"}, {"RANK": "3"}])
def test_without_others_a_process_is_alone(environment, monkeypatch: pytest.MonkeyPatch) -> None:
    assert place_in(environment) is None
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with joined(device="cpu") as ranks:
        assert ranks is ALONE
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"MASTER_ADDR": ""}, "WORLD_SIZE = 8, but not MASTER_ADDR: start the ranks by torchrun, or unset"),
        ({"RANK": ""}, "WORLD_SIZE = 8, but not RANK"),
        ({"RANK": "8"}, "RANK = 8 is not below WORLD_SIZE = 8"),
        ({"RANK": "-1"}, "RANK = -1 is not below"),
        ({"LOCAL_RANK": "one"}, "must be numbers"),
        ({"WORLD_SIZE": "0"}, "RANK = 5 is not below WORLD_SIZE = 0"),
    ],
)
def test_half_an_environment_is_refused(changed, said) -> None:
    with pytest.raises(AskedWrongly, match=said):
        place_in(TORCHRUN | changed)


def test_a_rank_that_finds_nobody_says_where_it_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "JOIN_SECONDS", 1.0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    for name, value in (TORCHRUN | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}).items():
        monkeypatch.setenv(name, value)
    with (
        pytest.raises(AnswerIsNo, match=f"rank 5 did not find the other 7 at 127.0.0.1:{port}"),
        joined(device="cpu"),
    ):
        pytest.fail("nobody else is there")


def alone_at(monkeypatch: pytest.MonkeyPatch, rank: int, count: int) -> int:
    """The port at which this process waits as that rank, for three seconds."""
    monkeypatch.setattr(joining, "JOIN_SECONDS", 4.0)
    monkeypatch.setattr(joining, "SAY_SECONDS", 1.5)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    for name, value in place.items():
        monkeypatch.setenv(name, str(value))
    return port


def join_and_wait() -> None:
    with joined(device="cpu"):
        pytest.fail("not all are there")


@pytest.mark.patient
def test_ranks_that_do_not_come_are_named_while_the_others_wait(monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    """Of four, rank 0 is this process and rank 2 comes too."""
    port = alone_at(monkeypatch, 0, 4)
    other = subprocess.Popen(
        [sys.executable, "-c", "from opd.train.ranks.joining import joined\nwith joined(device='cpu'): pass"],
        env=os.environ | {"RANK": "2", "LOCAL_RANK": "2"},
        stderr=subprocess.DEVNULL,
    )
    monkeypatch.setattr(joining, "JOIN_SECONDS", 20.0)
    monkeypatch.setattr(joining, "SAY_SECONDS", 10.0)
    try:
        with pytest.raises(AnswerIsNo, match="rank 0 did not find the other 3"):
            join_and_wait()
    finally:
        other.kill()
        other.wait()
    (said,) = caplog.messages
    assert said.startswith(f"each of ranks 1, 3 has not come to 127.0.0.1:{port} in ")
    assert "is waited for 20 s in all" in said


@pytest.mark.patient
def test_a_first_rank_that_does_not_come_is_named_too(monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    port = alone_at(monkeypatch, 1, 2)
    with pytest.raises(AnswerIsNo, match="rank 1 did not find the other 1"):
        join_and_wait()
    (said,) = caplog.messages
    assert said.startswith(f"rank 0, or torchrun, has not come to 127.0.0.1:{port}")


def test_where_all_come_nothing_is_said(monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    over = threading.Event()
    over.set()
    alone_at(monkeypatch, 1, 2)
    joining._look_for_missing(Place(rank=1, count=2, local_rank=1), over)
    assert caplog.messages == []


def test_a_rank_without_a_gpu_to_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(AskedWrongly, match=r"process 3 of this machine, which has 2; .*--nproc-per-node 2"):
        take_gpu(Place(rank=6, count=8, local_rank=2))
