"""The kernel's libraries: compiled with nvcc at first use, and kept under the digest of what went into them."""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from opd.models.engine.persistent.cut import EXACT, Cut

SOURCES = Path(__file__).parent / "cuda"
UNITS = ("decode.cu", "pages.cu")
FORWARD = "forward.cu"  # of the exact mode
FLAGS = (
    *("-O3", "-std=c++17", "-gencode=arch=compute_90a,code=sm_90a"),
    *("-Xcompiler", "-fPIC", "-shared", "--threads=0"),  # units beside each other
)


class NotBuilt(Exception):
    """There is no library; the message says why, for whoever asked for it by name."""


@cache
def library(cut: Cut = EXACT) -> ctypes.CDLL:
    """The library of a cut, compiled if it is not there yet; about ten seconds. Raises `NotBuilt`."""
    compiler = find_compiler()
    if compiler is None:
        raise NotBuilt("nvcc is not to be found; install the CUDA toolkit, or set CUDA_HOME to where it is")
    made = _library_or_reason(folder() / digest(cut, compiler) / "decode.so", cut, compiler)
    if isinstance(made, str):
        raise NotBuilt(made)
    return made


@cache
def _library_or_reason(path: Path, cut: Cut, compiler: Path) -> ctypes.CDLL | str:
    """The library at this path, or why there is none: a compiler that has failed is not run again in this process."""
    try:
        if not path.exists():
            compile_to(path, cut, compiler)
        return ctypes.CDLL(str(path))
    except NotBuilt as error:
        return str(error)
    except OSError as error:
        return f"{path} does not load: {error}"


def find_compiler() -> Path | None:
    """nvcc: of CUDA_HOME, of the path, or where toolkits are usually put."""
    places = [Path(home) / "bin" / "nvcc" for home in (os.environ.get("CUDA_HOME"),) if home]
    places += [Path(found) for found in (shutil.which("nvcc"),) if found]
    places.append(Path("/usr/local/cuda/bin/nvcc"))
    return next((place for place in places if place.is_file()), None)


def folder() -> Path:
    """Where libraries are kept: the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opd" / "kernels"


def digest(cut: Cut, compiler: Path) -> str:
    """Of the sources, the flags, the cut and the compiler's version."""
    said = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    whole = hashlib.sha256("\n".join((said, *FLAGS, *cut.flags)).encode())
    for source in sorted(SOURCES.iterdir()):
        whole.update(source.name.encode() + b"\0" + source.read_bytes())
    return whole.hexdigest()[:16]


def compile_to(path: Path, cut: Cut, compiler: Path) -> None:
    """The library is at this path, whole; two processes that compile at once both end well. Raises `NotBuilt`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as beside:
            made = Path(beside) / path.name
            units = (*UNITS, FORWARD) if cut == EXACT else UNITS
            command = [str(compiler), *FLAGS, *cut.flags, "-o", str(made), *(str(SOURCES / unit) for unit in units)]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            if run.returncode:
                raise NotBuilt(f"nvcc ended with {run.returncode}: {run.stderr.strip()[-500:]}")
            made.replace(path)
    except OSError as error:
        raise NotBuilt(f"{path.parent} can't be written: {error}") from error
