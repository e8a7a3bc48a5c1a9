"""A disk that fails when it is told to: a library between a program and the system, for programs that tests start."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Faults = Callable[..., dict[str, str]]


@pytest.fixture(scope="session")
def fault_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled `disk.c`; a skip where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("injecting faults needs a C compiler, and there is no `cc`")
    library = tmp_path_factory.mktemp("faults") / "disk.so"
    source = Path(__file__).with_name("disk.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


@pytest.fixture
def faults(fault_library: Path) -> Faults:
    """`faults("checkpoint-2", call="write", errno=70)`: the environment of a program whose disk fails so."""

    def environment(path: str, *, call: str, errno: int, first: int = 1, last: int | None = None) -> dict[str, str]:
        return os.environ | {
            "LD_PRELOAD": str(fault_library),
            "OPD_FAULT_PATH": path,
            "OPD_FAULT_CALL": call,
            "OPD_FAULT_ERRNO": str(errno),
            "OPD_FAULT_FROM": str(first),
            "OPD_FAULT_LAST": "" if last is None else str(last),
        }

    return environment
