"""The machine as far as it matters to a result: device, threads, versions, memory."""

import os
import platform
import resource

import torch
import transformers

import opd
from opd.records.errors import AskedWrongly


def choose_device(asked: str) -> str:
    """`cuda` or `cpu`: `auto` takes the GPU when there is one."""
    if asked == "cuda" and not torch.cuda.is_available():
        raise AskedWrongly("device = cuda, and this machine has no CUDA device that torch sees; set it to cpu")
    return device_meant(asked)


def device_meant(asked: str) -> str:
    """The device that is asked for, whether or not this machine has it."""
    if asked != "auto":
        return asked
    return "cuda" if torch.cuda.is_available() else "cpu"


def dtype_meant(asked: str, *, device: str) -> str:
    """The dtype that a model which only runs is loaded in: `auto` is bfloat16 on a GPU and float32 on a CPU."""
    if asked != "auto":
        return asked
    return "bfloat16" if device == "cuda" else "float32"


def describe(device: str) -> dict[str, str]:
    """What a result's record says of the machine that made it."""
    name = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()
    return {
        "opd": opd.__version__,
        "device": device,
        "name": name,
        "threads": str(torch.get_num_threads()),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def memory_bytes(device: str) -> int:
    """All the memory that the device has."""
    if device == "cuda":
        return int(torch.cuda.get_device_properties(0).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def peak_bytes(device: str) -> int:
    """The most that was in use so far: allocated on the GPU, resident on a CPU."""
    if device == "cuda":
        return int(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def synchronise(device: str) -> None:
    """Work that was handed to the device is done; needed before a clock is read."""
    if device == "cuda":
        torch.cuda.synchronize()
