"""Which process this is, by what torchrun says, and what of it is refused."""

import socket

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


def test_a_rank_without_a_gpu_to_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(AskedWrongly, match=r"process 3 of this machine, which has 2; .*--nproc-per-node 2"):
        take_gpu(Place(rank=6, count=8, local_rank=2))
