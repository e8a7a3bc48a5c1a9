"""Norm, rotation, gate, attention and log-probabilities, by kernels that share the persistent kernel's arithmetic.

Shapes: N tokens, H hidden = 1,536, Q = 12 query heads and K = 2 key heads of D = 128, I inner, C tokens of the head,
R columns of its logits, V of them the tokenizer's, L positions; S sequences.

All tensors are on one GPU: bf16, but for the rotation's tables, logits and log-probabilities, which are float32.
"""

import ctypes
from typing import Any

import torch

from opd.models.engine.persistent.build import library
from opd.models.exact.order import Tiles

TILE_QUERIES = 128  # as in cuda/forward.cu


def norm(x_NH: torch.Tensor, weight_H: torch.Tensor, epsilon: float) -> torch.Tensor:
    """The rows, divided by their root mean square and rounded, × weight."""
    x_NH = x_NH.contiguous()
    out_NH = torch.empty_like(x_NH)
    if len(x_NH):
        call("opd_norm", x_NH, weight_H, out_NH, len(x_NH), ctypes.c_float(epsilon))
    return out_NH


def turn(
    x_NCD: torch.Tensor,
    cos_LD: torch.Tensor,
    sin_LD: torch.Tensor,
    position_N: torch.Tensor,
    norm_D: torch.Tensor | None = None,
    epsilon: float = 0.0,  # noqa: ARG001  of norms that this decoder has not
) -> torch.Tensor:
    """Heads rotated by their positions; the tables are `engine.weights.rotation`'s."""
    assert norm_D is None, "the persistent kernel runs no decoder with norms of queries and keys"
    x_NCD = x_NCD.contiguous()
    out_NCD = torch.empty_like(x_NCD)
    if len(x_NCD):
        call("opd_rotate", x_NCD, out_NCD, cos_LD, sin_LD, position_N.contiguous(), *x_NCD.shape[:2])
    return out_NCD


def gate(gate_NI: torch.Tensor, up_NI: torch.Tensor) -> torch.Tensor:
    """silu(gate), rounded, × up. Rows may lie apart, as the halves of one product do."""
    out_NI = torch.empty(gate_NI.shape, dtype=gate_NI.dtype, device=gate_NI.device)
    if len(gate_NI):
        strides = (ctypes.c_longlong(one.stride(0)) for one in (gate_NI, up_NI))
        call("opd_gate", gate_NI, up_NI, out_NI, *strides, *gate_NI.shape)
    return out_NI


def token_logp(
    logits_CR: torch.Tensor, ids_C: torch.Tensor, *, vocabulary: int, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """(logp_C, normaliser_C): log softmax(logits / temperature) of each id, and log Σ exp(logits / temperature)."""
    logp_C, normaliser_C = torch.empty(2, len(logits_CR), dtype=torch.float32, device=logits_CR.device)
    if len(logits_CR):
        numbers = (len(logits_CR), vocabulary, ctypes.c_float(1.0 / temperature))
        row = ctypes.c_longlong(logits_CR.stride(0))
        call("opd_logp", logits_CR, row, ids_C.contiguous(), logp_C, normaliser_C, *numbers)
    return logp_C, normaliser_C


def attend(
    query_NQD: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    tiles: Tiles,
    scale: float,  # noqa: ARG001  1 / sqrt(128): `fit.py` asks for it
    *,
    table_SM: torch.Tensor | None = None,
) -> torch.Tensor:
    """a_NQD, each query over the keys of its sequence up to its own position; zeros where no tile is.

    Keys and values lie in rows, [N, K, D], or with a table (int32) in pages of 128, [pages, K, 128, D].
    """
    query_NQD, keys, values = query_NQD.contiguous(), keys.contiguous(), values.contiguous()
    out_NQD = torch.zeros_like(query_NQD)
    if not len(tiles.tile_sequence):
        return out_NQD
    there = {
        "query": query_NQD,
        "keys": keys,
        "values": values,
        "out": out_NQD,
        **{name: getattr(tiles, name) for name in Tiles.__slots__},
    }
    given = _Attend(**{name: tensor.data_ptr() for name, tensor in there.items()})
    if table_SM is not None:
        given.table, given.table_width = table_SM.data_ptr(), table_SM.stride(0)
    call("opd_attend", ctypes.byref(given), len(tiles.tile_sequence))
    return out_NQD


class _Attend(ctypes.Structure):
    """`Attend` of cuda/forward.cu."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("query", "keys", "values", "out", *Tiles.__slots__, "table")),
        ("table_width", ctypes.c_int),
    ]


def call(name: str, *given: Any) -> None:
    """A function of the library is on its way, on the current stream."""
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    passed = [ctypes.c_void_p(one.data_ptr()) if isinstance(one, torch.Tensor) else one for one in given]
    if code := getattr(library(), name)(*passed, stream):
        raise RuntimeError(f"{name}: CUDA error {code}")
