"""The trainer's operations, by the kernels of this folder.

Shapes: M rows, N outputs and K columns of a product; N tokens, H hidden, Q query heads and K key heads of D, I inner;
C tokens of the head, R columns of its logits, V of them the tokenizer's; L positions, S sequences, B blocks of ids.
"""

import math
from typing import Any

import torch

from opd.models.engine.kernels.launch import blocks, power
from opd.models.engine.kernels.launch import start as launched
from opd.models.exact.chained import attention, products, rows
from opd.models.exact.order import Tiles

TILE_QUERIES = 128
STRETCH = 128  # keys
BLOCK = 64  # ids that are summed up as one
BLOCKS = 64  # of a program
LEAST_DEEP = 16  # columns of a tensor core's instruction


def start(kernel: Any, programs: tuple[int, ...], *given: Any, device: torch.device, **how: Any) -> None:
    """The kernel is on its way; no product is fused with the sum that it goes into."""
    launched(kernel, programs, *given, device=device, enable_fp_fusion=False, **how)


def product(
    x_MK: torch.Tensor,
    weight_NK: torch.Tensor,
    bias_N: torch.Tensor | None = None,
    *,
    added_MN: torch.Tensor | None = None,
    wide: bool = False,
    out_MN: torch.Tensor | None = None,
) -> torch.Tensor:
    """[M, N]: x W^T + b + `added_MN`, rounded once to bf16, or with `wide` not. `out_MN` may be what is added."""
    (many, deep), outputs = x_MK.shape, len(weight_NK)
    x_MK = x_MK.contiguous()
    if out_MN is None:
        kind = torch.float32 if wide else x_MK.dtype
        out_MN = torch.empty(many, outputs, dtype=kind, device=x_MK.device)
    if many:
        tile = _tile(many, outputs, deep)
        start(
            products.product_kernel,
            (blocks(many, tile["BN"]) * blocks(outputs, tile["BO"]),),
            *(x_MK, weight_NK, weight_NK if bias_N is None else bias_N, x_MK if added_MN is None else added_MN),
            *(out_MN, many),
            device=x_MK.device,
            OUT=outputs,
            DEEP=deep,
            BIASED=bias_N is not None,
            ADDED=added_MN is not None,
            **tile,
        )
    return out_MN


def _tile(many: int, outputs: int, deep: int) -> dict[str, Any]:
    """How a product is cut. It decides how long it takes and no bit of what comes out."""
    narrow = outputs <= 4_096  # too few tiles to keep a GPU busy, if they are wide
    if many <= 16:
        tall, broad, piece, warps, stages = 16, 16 if narrow else 64, 256 if narrow else 128, 4, 5 if narrow else 4
    elif many <= 64:
        tall, broad, piece, warps, stages = 64, 32 if narrow else 64, 128, 4, 4
    elif many <= 512:
        tall, broad, piece, warps, stages = 64 if narrow else 128, 64 if narrow else 128, 64, 4 if narrow else 8, 4
    else:
        tall, broad, piece, warps, stages = 128, 64 if outputs <= 512 else 256, 64, 8, 3
    # Two pieces at least: of a single one, the compiler would begin the sum with the bias instead of ending with it.
    piece = max(LEAST_DEEP, min(piece, power(deep) // 2))
    return {"BN": tall, "BO": broad, "BA": piece, "TURNED": False, "warps": warps, "stages": stages}


def norm(x_NH: torch.Tensor, weight_H: torch.Tensor, epsilon: float) -> torch.Tensor:
    """The rows, divided by their root mean square and rounded, × weight."""
    x_NH = x_NH.contiguous()
    hidden, out_NH = x_NH.shape[1], torch.empty_like(x_NH)
    if len(x_NH):
        sizes = {"HIDDEN": hidden, "BH": power(hidden)}
        start(rows.norm_kernel, (len(x_NH),), x_NH, weight_H, out_NH, epsilon, device=x_NH.device, warps=4, **sizes)
    return out_NH


def turn(
    x_NCD: torch.Tensor,
    cos_LD: torch.Tensor,
    sin_LD: torch.Tensor,
    position_N: torch.Tensor,
    norm_D: torch.Tensor | None,
    epsilon: float,
) -> torch.Tensor:
    """Heads, normalised where there is a weight for it, and rotated; the tables are `engine.weights.rotation`'s."""
    x_NCD = x_NCD.contiguous()
    (many, heads, size), out_NCD = x_NCD.shape, torch.empty_like(x_NCD)
    if many:
        weight_D = x_NCD if norm_D is None else norm_D
        start(
            rows.turn_kernel,
            (many,),
            *(x_NCD, weight_D, cos_LD, sin_LD, position_N.contiguous(), out_NCD, epsilon),
            device=x_NCD.device,
            warps=4,
            HEADS=heads,
            HP=power(heads),
            D=size,
            DOUBLINGS=doublings(size),
            NORMED=norm_D is not None,
        )
    return out_NCD


def doublings(head_size: int) -> int:
    """Of 1, to hold half a head."""
    return power(head_size // 2).bit_length() - 1


def gate(gate_NI: torch.Tensor, up_NI: torch.Tensor) -> torch.Tensor:
    """silu(gate), rounded, × up. Rows may lie apart, as the halves of one product do."""
    many, inner = gate_NI.shape
    out_NI = torch.empty(many, inner, dtype=gate_NI.dtype, device=gate_NI.device)
    if many:
        start(
            rows.gate_kernel,
            (many, blocks(inner, 1_024)),
            *(gate_NI, up_NI, out_NI, gate_NI.stride(0), up_NI.stride(0)),
            device=gate_NI.device,
            warps=4,
            INNER=inner,
            BI=1_024,
        )
    return out_NI


def attend(
    query_NQD: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    tiles: Tiles,
    scale: float,
    *,
    table_SM: torch.Tensor | None = None,
) -> torch.Tensor:
    """a_NQD, each query over the keys of its sequence up to its own position; zeros where no tile is.

    Keys and values lie in rows, [N, K, D], or with a table (int32) in pages, [pages, K, tokens, D].
    """
    query_NQD, keys, values = query_NQD.contiguous(), keys.contiguous(), values.contiguous()
    (_, heads, size), out_NQD = query_NQD.shape, torch.zeros_like(query_NQD)
    if len(tiles.tile_sequence):
        start(
            attention.tiles_kernel,
            (heads, len(tiles.tile_sequence)),
            *(query_NQD, keys, values, out_NQD, *(getattr(tiles, name) for name in Tiles.__slots__)),
            *(tiles.key_row if table_SM is None else table_SM, 0 if table_SM is None else table_SM.stride(0)),
            scale * math.log2(math.e),
            device=query_NQD.device,
            warps=8,
            stages=2,
            Q=heads,
            K=keys.shape[1],
            D=size,
            DP=max(LEAST_DEEP, power(size)),
            S=1 if table_SM is None else keys.shape[2],
            T=STRETCH,
            BM=TILE_QUERIES,
            PAGED=table_SM is not None,
        )
    return out_NQD


def summed(logits_CR: torch.Tensor, *, vocabulary: int, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """(top_CB, mass_CB): of each block of ids the largest logit over the temperature, and the exponentials' sum."""
    many, count = len(logits_CR), blocks(vocabulary, BLOCK)
    top_CB, mass_CB = (_floats(many, count, device=logits_CR.device) for _ in range(2))
    if many:
        start(
            rows.summary_kernel,
            (many, blocks(count, BLOCKS)),
            *(logits_CR, top_CB, mass_CB, logits_CR.stride(0), vocabulary, count, 1.0 / temperature),
            device=logits_CR.device,
            warps=8,
            BV=BLOCK,
            BB=BLOCKS,
        )
    return top_CB, mass_CB


def logp_of(
    logits_CR: torch.Tensor,
    top_CB: torch.Tensor,
    mass_CB: torch.Tensor,
    ids_C: torch.Tensor,
    *,
    temperature: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(logp_C, normaliser_C) from logits whose blocks are summed up."""
    many, count = top_CB.shape
    logp_C, normaliser_C = (_floats(many, device=logits_CR.device) for _ in range(2))
    if many:
        start(
            rows.logp_kernel,
            (many,),
            *(logits_CR, top_CB, mass_CB, ids_C.contiguous(), logp_C, normaliser_C),
            *(logits_CR.stride(0), count, 1.0 / temperature),
            device=logits_CR.device,
            warps=4,
            BB=power(count),
        )
    return logp_C, normaliser_C


def token_logp(
    logits_CR: torch.Tensor, ids_C: torch.Tensor, *, vocabulary: int, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """(logp_C, normaliser_C): log softmax(logits / temperature) of each id, and log Σ exp(logits / temperature)."""
    top_CB, mass_CB = summed(logits_CR, vocabulary=vocabulary, temperature=temperature)
    return logp_of(logits_CR, top_CB, mass_CB, ids_C, temperature=temperature)


def _floats(*size: int, device: torch.device) -> torch.Tensor:
    """Memory of its own: where a tensor begins, a compiler may decide its layout by, and so the order of a sum."""
    return torch.empty(*size, dtype=torch.float32, device=device)
