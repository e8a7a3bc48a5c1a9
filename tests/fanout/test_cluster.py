"""How many workers a cluster has places for."""

import pytest

from opd.fanout.cluster import Cluster
from opd.records.errors import AskedWrongly


def cluster(*, gpus: float, unused: float, cpus: float = 64) -> Cluster:
    return Cluster(machines=2, in_all={"CPU": cpus, "GPU": gpus}, unused={"CPU": cpus, "GPU": unused}, is_local=False)


NEEDS = {"CPU": 1.0, "GPU": 1.0}


@pytest.mark.parametrize(
    ("unused", "asked", "at_most", "workers"),
    [(8, None, 100, 8), (8, None, 3, 3), (8, 2, 100, 2), (3, None, 100, 3), (0, None, 100, 1), (3, 5, 100, 5)],
)
def test_there_is_a_worker_for_each_free_device_unless_it_is_asked_otherwise(
    unused: float, asked: int | None, at_most: int, workers: int
) -> None:
    """With none free one is asked for, and waited for."""
    assert cluster(gpus=8, unused=unused).workers(NEEDS, asked=asked, at_most=at_most) == workers


def test_the_scarcest_resource_decides() -> None:
    assert cluster(gpus=8, unused=8, cpus=20).workers({"CPU": 4.0, "GPU": 1.0}, asked=None, at_most=100) == 5
    assert cluster(gpus=0, unused=0).workers({"CPU": 16.0}, asked=None, at_most=100) == 4
    assert not cluster(gpus=0, unused=0).has_gpus


def test_more_than_the_cluster_has_is_asked_wrongly() -> None:
    with pytest.raises(AskedWrongly, match=r"9 workers of 1 CPU and 1 GPU each.* places for 8 on its 2 machines"):
        cluster(gpus=8, unused=8).workers(NEEDS, asked=9, at_most=100)
    with pytest.raises(AskedWrongly, match="places for 0"):
        cluster(gpus=0, unused=0).workers(NEEDS, asked=None, at_most=100)
