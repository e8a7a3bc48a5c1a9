"""What a result's record says of the machine, against what the kernel says."""

import os
import platform
import re
from pathlib import Path

import pytest
import torch

from opd.models.machine import choose_device, describe, dtype_meant, memory_bytes, peak_bytes, synchronise
from opd.records.errors import AskedWrongly


def kernel_bytes(file: str, field: str) -> int:
    return int(re.search(rf"^{field}:\s+(\d+) kB$", Path(file).read_text(), re.MULTILINE)[1]) * 1024


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="memory is compared with Linux's own account")
def test_memory_and_its_peak_are_those_that_the_kernel_knows():
    assert memory_bytes("cpu") == kernel_bytes("/proc/meminfo", "MemTotal")
    before = kernel_bytes("/proc/self/status", "VmRSS")
    assert before // 2 < peak_bytes("cpu") <= memory_bytes("cpu")


def test_the_peak_grows_with_what_was_touched_and_stays():
    before = peak_bytes("cpu")
    size = 50_000_000
    block = bytearray(os.urandom(1) * size)
    after = peak_bytes("cpu")
    assert len(block) == size
    del block
    assert peak_bytes("cpu") >= after >= before


def test_a_device_that_was_asked_for_is_taken_as_it_is_or_refused():
    assert choose_device("cpu") == "cpu"
    if torch.cuda.is_available():
        assert choose_device("cuda") == "cuda"
    else:
        with pytest.raises(AskedWrongly, match="no CUDA device"):
            choose_device("cuda")


def test_without_a_wish_the_gpu_is_taken_where_there_is_one():
    assert choose_device("auto") == ("cuda" if torch.cuda.is_available() else "cpu")


def test_the_description_is_text_and_names_what_a_result_depends_on():
    told = describe("cpu")
    assert told["torch"] == torch.__version__
    assert told["python"] == platform.python_version()
    assert told["threads"] == str(torch.get_num_threads())
    assert told["device"] == "cpu"
    assert told.keys() == {"opd", "device", "name", "threads", "python", "torch", "transformers"}
    assert all(value and isinstance(value, str) for value in told.values())


def test_on_a_cpu_there_is_nothing_to_wait_for():
    assert synchronise("cpu") is None


@pytest.mark.gpu
def test_on_a_gpu_memory_is_the_devices():
    held = torch.ones(2**20, device="cuda")
    synchronise("cuda")
    assert held.numel() * 4 <= peak_bytes("cuda") <= memory_bytes("cuda")
    assert describe("cuda")["name"] == torch.cuda.get_device_name()


def test_the_dtype_of_auto_follows_the_device_and_any_other_is_as_it_was_asked() -> None:
    assert [dtype_meant("auto", device=device) for device in ("cuda", "cpu")] == ["bfloat16", "float32"]
    assert dtype_meant("float64", device="cuda") == "float64"
