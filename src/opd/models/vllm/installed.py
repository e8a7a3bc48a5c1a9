"""vLLM itself: the versions whose behaviour is known, and how it is imported."""

import importlib
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from packaging.specifiers import SpecifierSet

from opd.records.errors import AskedWrongly

VERSIONS = ">=0.25.1,<0.26"  # names of arguments and what they mean change between minor versions

_NEEDED = {  # set whatever the environment says: the backend is wrong without them
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # in this process, so that the trainer's tensors can be handed over
    "VLLM_USE_FLASHINFER_SAMPLER": "0",  # it knows no seed of a request
    "VLLM_ALLREDUCE_USE_SYMM_MEM": "0",  # NVLink's multicast needs rights that containers lack
}
_PREFERRED = {"VLLM_NO_USAGE_STATS": "1", "VLLM_PLUGINS": "", "VLLM_LOGGING_LEVEL": "WARNING"}


def vllm_version() -> str:
    """The version that is installed. Raises `AskedWrongly` when there is none, or it is not one of `VERSIONS`."""
    try:
        found = version("vllm")
    except PackageNotFoundError:
        raise AskedWrongly(
            f"vllm is not installed; pip install 'vllm{VERSIONS}', or leave machine.engine and machine.scorer out"
        ) from None
    if found not in SpecifierSet(VERSIONS, prereleases=True):
        raise AskedWrongly(f"vllm {found} is installed, and opd knows vllm{VERSIONS}; install one of these")
    return found


def find_vllm() -> Any:
    """The module. Raises `AskedWrongly` as `vllm_version` does, and where it can't run or be imported."""
    found = vllm_version()
    if not torch.cuda.is_available():
        raise AskedWrongly(f"vllm {found} needs a CUDA device here, and torch sees none; leave it out of the recipe")
    os.environ.update(_NEEDED)
    for name, value in _PREFERRED.items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module("vllm")
    except (ImportError, OSError) as error:  # a library of another torch or CUDA
        raise AskedWrongly(f"vllm {found} is installed and can't be imported: {error}") from error


def forget_graph_pool() -> None:
    """The next vLLM of this process captures its graphs in new memory: torch refuses a pool whose graphs are gone."""
    if (platforms := sys.modules.get("vllm.platforms")) is not None:
        type(platforms.current_platform)._global_graph_pool = None
