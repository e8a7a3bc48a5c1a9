"""The record of each second, with a driver's program that a test writes."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opd.protocol.supervision.device import Gpus, Recorder
from opd.protocol.supervision.processes import life_of
from opd.protocol.supervision.usage import Sample

Driver = Callable[[str, str], None]
THREE = "0, GPU-a, 90, 1024, 300.5\\n1, GPU-b, 50, 512, [N/A]\\n2, GPU-c, [N/A], 0, 40\\n"


def looks(*cpu_seconds: float) -> list[Sample]:
    """A look a second, with the processor time used until then."""
    return [
        Sample(
            active_seconds=float(at),
            left_seconds=None,
            processes=1,
            memory_bytes=0,
            cpu_seconds=used,
            printed_bytes=0,
        )
        for at, used in enumerate(cpu_seconds)
    ]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_attempts_own_gpu_is_told_of_and_others_are_counted(driver: Driver) -> None:
    driver(THREE, "GPU-a, 10\\nGPU-b, 77\\n")
    looked = Gpus({"GPU-a"}, own=lambda: {10}).look()
    assert [(gpu.uuid, gpu.busy, gpu.memory_bytes, gpu.watts, gpu.pids) for gpu in looked.gpus] == [
        ("GPU-a", 0.9, 1 << 30, 300.5, (10,))
    ]
    assert looked.others == 2


def test_another_gpu_is_told_of_when_the_programs_own_process_computes_there(driver: Driver) -> None:
    """It can: a program finds every GPU of the machine that it looks for."""
    driver(THREE, "GPU-a, 10\\nGPU-b, 77\\nGPU-b, 11\\n")
    looked = Gpus({"GPU-a"}, own=lambda: {10, 11}).look()
    assert [(gpu.uuid, gpu.pids) for gpu in looked.gpus] == [("GPU-a", (10,)), ("GPU-b", (77, 11))]
    assert looked.others == 1


def test_a_driver_that_is_not_there_or_fails_says_nothing(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver("", "")
    assert Gpus({"GPU-a"}, own=set).look().others == 0, "it said that there is none"
    monkeypatch.setenv("PATH", "/nowhere")
    assert (Gpus({"GPU-a"}, own=set).look().gpus, Gpus({"GPU-a"}, own=set).look().others) == ((), None)


def test_each_second_is_a_line_and_each_process_is_noted_once(tmp_path: Path, driver: Driver) -> None:
    driver(THREE, f"GPU-c, {os.getpid()}\\n")
    here = life_of(os.getpid())
    recorder = Recorder(tmp_path, gpus=("GPU-a",), living=lambda: (here,))
    first, *others = looks(0.0, 0.5, 2.0)
    recorder.add(first)
    with recorder.open():
        _until(lambda: len(recorder._gpus.now.gpus) == 2)
    written = [recorder.add(look) for look in others]
    assert [(second.cpu_share, seconds) for second, seconds in written] == [(0.5, 1.0), (1.5, 1.0)]
    seconds = lines(tmp_path / "device.jsonl")
    assert [line["cpu_share"] for line in seconds] == [0.0, 0.5, 1.5]
    assert [([gpu["uuid"] for gpu in line["gpus"]], line["other_gpus"]) for line in seconds] == [
        ([], None), (["GPU-a", "GPU-c"], 1), (["GPU-a", "GPU-c"], 1),
    ]  # fmt: skip
    assert {line["evaluating"] for line in seconds} == {False}
    assert [line["pid"] for line in lines(tmp_path / "processes.jsonl")] == [os.getpid()]


def _until(true: Callable[[], bool]) -> None:
    ending = time.monotonic() + 30
    while not true():
        assert time.monotonic() < ending, "it did not come about within 30 s"
        time.sleep(0.02)
