"""Claims of GPUs, with a driver's program that a test writes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from opd.protocol.gpus import VISIBLE, DeviceTaken, claimed

Driver = Callable[[str, str], None]


def test_two_attempts_get_two_gpus_and_a_third_is_told_who_has_them(driver: Driver, tmp_path: Path) -> None:
    driver("GPU-a\\nGPU-b\\n", "")
    folder = tmp_path / "claims"
    with claimed(1, who="case one", folder=folder) as first, claimed(1, who="case two", folder=folder) as second:
        assert (first, second) == ({VISIBLE: "GPU-a"}, {VISIBLE: "GPU-b"})
        third = claimed(1, who="case three", folder=folder)
        with pytest.raises(DeviceTaken, match=r"GPU-a: case one, process \d+; GPU-b: case two") as refused, third:
            pass
        assert refused.value.exit_code == 75
    with claimed(2, who="case three", folder=folder) as both:
        assert both == {VISIBLE: "GPU-a,GPU-b"}


def test_a_gpu_on_which_a_stranger_computes_is_left_to_it(driver: Driver, tmp_path: Path) -> None:
    """faults H12: what is left of another run is neither shared nor killed."""
    driver("GPU-a\\nGPU-b\\n", "GPU-a, 1\\n")
    with claimed(1, who="case", folder=tmp_path / "claims") as here:
        assert here == {VISIBLE: "GPU-b"}
    driver("GPU-a\\n", "GPU-a, 1\\n")
    with pytest.raises(DeviceTaken, match=r"GPU-a: process 1 \("), claimed(1, who="case", folder=tmp_path / "claims"):
        pass


def test_a_task_without_gpus_asks_no_driver_and_sees_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with claimed(0, who="case") as here:
        assert here == {VISIBLE: ""}
    with pytest.raises(DeviceTaken, match="no NVIDIA driver"), claimed(1, who="case"):
        pass
