"""The engine's operations by the same kernels: a prefill, and steps as graphs of any number of rows.

Shapes: as in `engine/operations.py`; B blocks of ids, U stretches of keys.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import torch

from opd.models.engine.board import BROKEN
from opd.models.engine.graphs import StepGraphs, rungs
from opd.models.engine.kernels import draws, products, table
from opd.models.engine.kernels.launch import blocks, power
from opd.models.engine.operations import TORCH, Choice, Operations, Places
from opd.models.engine.room import Room
from opd.models.engine.step import Step, decode_step
from opd.models.engine.weights import Qkv
from opd.models.exact.chained import attention, rows
from opd.models.exact.chained.operations import (
    BLOCK,
    LEAST_DEEP,
    STRETCH,
    TILE_QUERIES,
    attend,
    doublings,
    logp_of,
    norm,
    product,
    start,
    summed,
)
from opd.models.exact.chained.operations import gate as gate_rows
from opd.models.exact.order import Tiles
from opd.models.interfaces import Sampling

PROGRAMS = 1_024  # that a step's attention has, about: splits of the keys for few rows, none for many
FEW_ROWS = 64  # whose gate and up are one kernel


def ways(room: Room) -> tuple[Operations, Step]:
    """The operations of a room, and its steps."""
    ops = operations_of(room)

    def step(rung: int) -> None:
        decode_step(room, ops, rows=rung, longest=room.size.sequence_tokens)

    return ops, StepGraphs(rungs(room.size.rows), step)


def operations_of(room: Room) -> Operations:
    """Those of a prefill and of a step."""
    pairs = room.size.rows * room.shape.key_heads
    kernels = _Kernels(arrived=torch.zeros(pairs, dtype=torch.int32, device=room.cos_LD.device))
    return replace(
        TORCH,
        embed=table.embed,
        norm=norm,
        locate=table.locate,
        mix=kernels.mix,
        project_qkv=project_qkv,
        attend_many=attend_many,
        add_projection=add_projection,
        gate=gate,
        choose=choose,
        advance=table.advance,
        tiles=partial(Tiles.of_prefill, size=TILE_QUERIES),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernels:
    """The operations that have to know more than their arguments."""

    arrived: torch.Tensor  # zeros between steps; of a row and key head, programs that have ended

    def mix(
        self,
        h_NH: torch.Tensor,
        qkv: Qkv,
        places: Places,
        k_PKSD: torch.Tensor,
        v_PKSD: torch.Tensor,
        table_NM: torch.Tensor,
        *,
        epsilon: float,
        scale: float,
    ) -> torch.Tensor:
        """a_NA; see `operations.mix`."""
        query_NQD = project_qkv(h_NH, qkv, places, k_PKSD, v_PKSD, epsilon=epsilon)
        return attend_step(
            *(query_NQD, k_PKSD, v_PKSD, places.position_RT, table_NM, self.arrived),
            scale=scale,
            longest=places.longest,
        ).flatten(1)


def attend_step(
    query_NQD: torch.Tensor,
    k_PKSD: torch.Tensor,
    v_PKSD: torch.Tensor,
    position_N: torch.Tensor,
    table_NM: torch.Tensor,
    arrived: torch.Tensor,
    *,
    scale: float,
    longest: int,
) -> torch.Tensor:
    """a_NQD: each row's query over the keys up to its position, of at most `longest` that are all in the pools."""
    (many, heads, size), key_heads, device = query_NQD.shape, k_PKSD.shape[1], query_NQD.device
    most, padded, group = blocks(longest, STRETCH), max(LEAST_DEEP, power(size)), heads // key_heads
    splits = min(most, power(max(1, PROGRAMS // (many * key_heads))))
    out_NQD = torch.empty_like(query_NQD)
    top_NQU, mass_NQU = (torch.empty(many * heads * most, device=device) for _ in range(2))
    sum_NQUD = torch.empty(many * heads * most, padded, device=device)
    start(
        attention.step_kernel,
        (splits, key_heads, many),
        *(query_NQD, k_PKSD, v_PKSD, table_NM, position_N, out_NQD, top_NQU, mass_NQU, sum_NQUD, arrived),
        *(table_NM.stride(0), most, scale * math.log2(math.e)),
        device=device,
        warps=4,
        stages=2,
        K=key_heads,
        G=group,
        GP=max(16, power(group)),
        GC=power(group),
        D=size,
        DP=padded,
        S=k_PKSD.shape[2],
        T=STRETCH,
        SPLITS=splits,
    )
    return out_NQD


def project_qkv(
    h_NH: torch.Tensor,
    qkv: Qkv,
    places: Places,
    k_PKSD: torch.Tensor,
    v_PKSD: torch.Tensor,
    *,
    epsilon: float,
) -> torch.Tensor:
    """q_NQD, and keys and values in the pools; see `operations.project_qkv`."""
    many, key_heads, size = len(h_NH), k_PKSD.shape[1], k_PKSD.shape[3]
    heads = len(qkv.weight_EH) // size - 2 * key_heads
    qkv_NE = product(h_NH, qkv.weight_EH, qkv.bias_E)
    query_NQD = torch.empty(many, heads, size, dtype=h_NH.dtype, device=h_NH.device)
    start(
        rows.place_kernel,
        (many,),
        *(qkv_NE, *(qkv_NE if one is None else one for one in (qkv.q_norm_D, qkv.k_norm_D))),
        *(places.cos_ND, places.sin_ND, places.row_NK, query_NQD, k_PKSD, v_PKSD, epsilon),
        device=h_NH.device,
        warps=4,
        Q=heads,
        QP=power(heads),
        K=key_heads,
        KP=power(key_heads),
        D=size,
        DOUBLINGS=doublings(size),
        NORMED=qkv.q_norm_D is not None,
    )
    return query_NQD


def attend_many(
    q_RTQD: torch.Tensor,
    k_PKSD: torch.Tensor,
    v_PKSD: torch.Tensor,
    places: Places,
    table_RM: torch.Tensor,
    *,
    scale: float,
) -> torch.Tensor:
    """a_RTQD; see `operations.attend_many`. Padding has no tile, and zeros."""
    return attend(q_RTQD.flatten(0, 1), k_PKSD, v_PKSD, places.tiles, scale, table_SM=table_RM).view_as(q_RTQD)


def add_projection(
    a_NA: torch.Tensor, weight_HA: torch.Tensor, x_NH: torch.Tensor, norm_H: torch.Tensor, *, epsilon: float
) -> torch.Tensor:
    """h_NH, and x_NH in place; see `operations.add_projection`."""
    return norm(product(a_NA, weight_HA, added_MN=x_NH, out_MN=x_NH), norm_H, epsilon)


def gate(h_NH: torch.Tensor, weight_2IH: torch.Tensor) -> torch.Tensor:
    """g_NI; see `operations.gate`."""
    (many, deep), inner = h_NH.shape, len(weight_2IH) // 2
    if many > FEW_ROWS:
        return gate_rows(*product(h_NH, weight_2IH).chunk(2, dim=-1))
    g_NI = torch.empty(many, inner, dtype=h_NH.dtype, device=h_NH.device)
    tall, piece = (16, 128) if many <= 16 else (64, 64)
    start(
        products.gate_kernel,
        (blocks(many, tall), blocks(inner, 64)),
        *(h_NH, weight_2IH, g_NI, many, 0),
        device=h_NH.device,
        warps=4,
        stages=3,
        INNER=inner,
        DEEP=deep,
        TURNED=False,
        BN=tall,
        BO=64,
        BA=min(piece, power(deep)),
        LANES=0,
    )
    return g_NI


def choose(h_NH: torch.Tensor, head_VH: torch.Tensor, uniform_N: torch.Tensor, sampling: Sampling) -> Choice:
    """A token a row, from the whole distribution; see `operations.choose`."""
    many, vocabulary, temperature = len(h_NH), len(head_VH), sampling.temperature
    logits_NV = product(h_NH, head_VH, wide=True)
    top_NB, mass_NB = summed(logits_NV, vocabulary=vocabulary, temperature=temperature)
    token_N = torch.empty(many, dtype=torch.int64, device=h_NH.device)
    aside_N = torch.empty(many, device=h_NH.device)  # the draw's own log-probabilities
    count = top_NB.shape[1]
    start(
        draws.draw_kernel,
        (many,),
        *(logits_NV, top_NB, mass_NB, aside_N, uniform_N, token_N, aside_N, aside_N),
        *(vocabulary, count, 1.0 / temperature),
        device=h_NH.device,
        warps=8,
        BV=BLOCK,
        BB=power(count),
        BROKEN=BROKEN,
        CUT=False,
    )
    logp_N, _ = logp_of(logits_NV, top_NB, mass_NB, token_N, temperature=temperature)
    return Choice(token_N=token_N, logp_N=logp_N, raw_logp_N=logp_N)
