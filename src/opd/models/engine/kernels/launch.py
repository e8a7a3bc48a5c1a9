"""How a kernel starts before the one ahead of it has ended, and asks the L2 for what it will need.

A decode step is a chain of 200 dependent kernels, most of them so short that the memory idles while one ends and the
next begins. Two habits of Hopper fill the gap, and change no result:

    kernel i        ──── works ─────────────┐
    kernel i + 1         placed, asks the L2 ┴ after_last ──── works ────────┐
    kernel i + 2                                  placed, asks the L2 ───────┴ after_last ──── works

A kernel is placed once all programs of the one ahead have passed their `after_last`. So everything that kernels
before that one wrote, and every weight, may be read ahead of `after_last`; what the last one wrote only behind it,
and nothing is written before. Both habits are off in Triton's interpreter and before compute capability 9.0.
"""

import os
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@triton.jit
def after_last(EARLY: tl.constexpr):
    """From here on, all that the kernel ahead of this one wrote is visible; the next one may be placed."""
    if EARLY:
        gdc_wait()
        gdc_launch_dependents()


@triton.jit
def fetch(address, count):
    """The L2 is asked for `count` bytes (a multiple of 16, or nothing) from each address; nobody waits for them."""
    tl.inline_asm_elementwise(
        "{.reg .pred some; setp.gt.s32 some, $2, 0;@some cp.async.bulk.prefetch.L2.global [$1], $2; mov.u32 $0, 0;}",
        "=r,l,r",
        [address.to(tl.int64), count],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def fetch_share(start, count, LANES: tl.constexpr):
    """The L2 is asked for this program's share of `count` bytes from `start`; LANES: the program's threads, or 0."""
    if LANES > 0:
        piece = tl.cdiv(count, tl.num_programs(0) * LANES * 16) * 16
        offset = (tl.program_id(0) * LANES + tl.arange(0, LANES)) * piece
        fetch(start.to(tl.int64) + offset, tl.maximum(tl.minimum(count - offset, piece), 0))


@triton.jit
def fetch_rows(start, stride, count, ROWS: tl.constexpr, LANES: tl.constexpr):
    """The L2 is asked for `count` bytes of each of so many rows, the first at `start`, `stride` bytes apart."""
    if LANES > 0:
        EACH: tl.constexpr = LANES // ROWS if LANES > ROWS else 1  # threads a row
        piece = tl.cdiv(count, EACH * 16) * 16
        offset = tl.arange(0, EACH)[None, :] * piece
        length = tl.maximum(tl.minimum(count - offset, piece), 0) + tl.zeros([ROWS, EACH], tl.int32)
        fetch(start.to(tl.int64) + tl.arange(0, ROWS)[:, None] * stride + offset, length)


@cache
def early(device: torch.device) -> bool:
    """Whether kernels on this device are placed before the one ahead has ended."""
    return not INTERPRETED and torch.cuda.get_device_capability(device) >= (9, 0)


def lanes(device: torch.device, warps: int) -> int:
    """How many threads of a program may ask the L2 for something ahead; 0 where it can't be asked."""
    return 32 * warps if early(device) else 0


def start(
    kernel: Any,
    programs: tuple[int, ...],
    *arguments: Any,
    device: torch.device,
    warps: int,
    stages: int = 2,
    **constants: Any,
) -> None:
    """The kernel is on its way, on the current stream."""
    launch: dict[str, Any] = {"launch_pdl": True} if early(device) else {}
    kernel[programs](*arguments, EARLY=early(device), num_warps=warps, num_stages=stages, **launch, **constants)


def blocks(count: int, block: int) -> int:
    """How many blocks of this size hold so many."""
    return -(-count // block)


def power(count: int) -> int:
    """The smallest power of two that is at least `count`."""
    return 1 << (count - 1).bit_length()
