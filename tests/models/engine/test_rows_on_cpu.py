"""The persistent kernel's own source with guesses in its rows, on a CPU: its threads are fibers of one thread.

What the instructions of words.cuh mean is said in C++ (`on_cpu/`). In which order a GPU's CTAs see each other's words
is another thing, of which this says nothing.
"""

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.models.engine.small import SMALL

from opd.models.engine.persistent import build
from opd.models.engine.persistent.cut import Cut

HERE = Path(__file__).parent / "on_cpu"
CUTS = {
    "heads of 64 with norms": SMALL,
    "heads of 128": Cut(hidden=512, inner=1_536, heads=4, key_heads=2, head=128),
}
FOUR = ", ".join([r'"r"\((.*?)\)'] * 4)
STORES = (
    (
        rf'asm volatile\("st\.shared\.v4\.u32.*?::"r"\(to\), {FOUR} : "memory"\);',
        r"store_shared(to, uint4{\1, \2, \3, \4});",
    ),
    (
        r'asm volatile\("st\.shared\.u16.*?::"r"\(to\), "h"\((.*)\) : "memory"\);',
        r"store_shared(to, (uint16_t)(\1));",
    ),
)
NEITHER = r'asm volatile\("(?:fence|createpolicy|setmaxnreg)[^;]*;".*?\);'  # of caches, and of registers


def as_cpp(source: str) -> str:
    """The source without the instructions of a GPU; `AssertionError` where one is left."""
    for pattern, meaning in STORES:
        source = re.sub(pattern, meaning, source)
    source = re.sub(NEITHER, "", source)
    source = source.replace("extern __shared__ __align__(128) uint8_t raw[];", "uint8_t *raw = shared_memory();")
    assert "asm" not in source
    return source


def compiled(folder: Path, cut: Cut, *, broken: tuple[str, str] | None = None) -> Path:
    """The program of rows.cpp for these sizes; `broken`: what stands in attention.cuh, and what shall instead."""
    if platform.machine() != "x86_64" or shutil.which("g++") is None:
        pytest.skip("needs g++ on x86-64")
    for name in (
        "shape.cuh",
        "exchange.cuh",
        "arithmetic.cuh",
        "products.cuh",
        "stream.cuh",
        "attention.cuh",
        "draw.cuh",
    ):
        source = (build.SOURCES / name).read_text()
        if broken is not None and name == "attention.cuh":
            assert source.count(broken[0]) == 1
            source = source.replace(*broken)
        (folder / name).write_text(as_cpp(source))
    kernel = (build.SOURCES / "decode.cu").read_text().partition("inline const void *decode_of")[0]
    (folder / "decode.cuh").write_text(as_cpp(kernel))
    for name in ("cuda_bf16.h", "cuda_runtime.h"):
        (folder / name).write_text("")
    for name in ("cuda.h", "words.cuh", "rows.cpp"):
        shutil.copy(HERE / name, folder)
    flags = ("-O2", "-std=c++17", "-w", "-ffp-contract=off", "-fno-strict-aliasing", "-fno-stack-protector")
    made = folder / "rows"
    subprocess.run(["g++", *flags, *cut.flags, "-I", folder, "-o", made, folder / "rows.cpp"], check=True)
    return made


@pytest.mark.patient
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_each_row_has_the_bits_of_a_step_of_its_own(cut, tmp_path):
    """Token, log-probability, and the keys and values that are left in the pages."""
    run = subprocess.run([compiled(tmp_path, cut)], capture_output=True, text=True, check=False)
    assert run.stdout.splitlines() == [f"case {number}: the same" for number in range(5)]
    assert run.returncode == 0


@pytest.mark.patient
def test_a_row_that_misses_a_key_of_the_row_before_is_noticed(tmp_path):
    """The kernel, were each row to put its own new key alone into what it attends to."""
    broken = ("lowest = max(own - ahead, 0);", "lowest = max(own, 0);")
    run = subprocess.run(
        [compiled(tmp_path, CUTS["heads of 128"], broken=broken)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert "case 0: different" in run.stdout
