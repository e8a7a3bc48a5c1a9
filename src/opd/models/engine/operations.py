"""The operations of a decode step, in torch: the CPU's path, and the reference that every kernel is tested against.

Shapes: N tokens, one a row (a decode step has one of each running sequence); H hidden, Q query heads, K key heads,
G = Q / K, D head size, A = Q D, E = (Q + 2 K) D, I inner, V the tokenizer's tokens; P pages of S tokens, M of them
a sequence at most; L keys of a sequence at most; R sequences of T new tokens each in a prefill, N = R T.

    ids_N ── embed ──► x_NH ── norm ──► h_NH
    a layer:   h_NH ── mix ──► a_NA            q, k, v; rotation; keys and values into the pools; attention over them
               a_NA ── add_projection ──► h_NH   x += a W^T, then the norm behind it
               h_NH ── gate ──► g_NI             silu(h W_gate^T) × (h W_up^T)
               g_NI ── add_projection ──► h_NH   x += g W^T, then the norm of the next layer, or the last one
    h_NH ── choose ──► token_N, logp_N ── advance ──► the board, ready for the next step

An operation returns new tensors, which inside a captured graph live in that graph's memory, and changes only what
its first line says. None waits for the device, and none looks at a value on the host. Matrices are [rows out,
columns in], as in the model's own parameters. The residual stream, keys and values have the compute dtype;
norms are formed in float32, rotations, logits and log-probabilities in float32, or in float64 for a float64 model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from opd.models.engine.board import BROKEN, NONE, Board
from opd.models.engine.weights import Qkv
from opd.models.interfaces import Sampling
from opd.models.plain import cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the tokens of a step stand: computed once a step, read by every layer."""

    position_RT: torch.Tensor  # of the tokens, in their sequences; T = 1 in a decode step
    row_NK: torch.Tensor  # int64: rows of a pool seen as [P K S, D] that take the token's keys and values
    cos_ND: torch.Tensor  # of the token's angles, times the model's attention scaling; both halves alike
    sin_ND: torch.Tensor  # the first half negated, so that rotated x = x cos + (x with its halves swapped) sin
    longest: int  # L: no token has more keys, its own among them; a host's number, it may size a grid
    hidden_RTL: torch.Tensor | None  # what is added to scores: 0 for keys 0 … position, -inf behind; null: not needed
    span: int = 1  # so many tokens, one behind the other, are of one sequence, whose keys `mix` has to write first
    tiles: Any = None  # of a prefill: what `Operations.tiles` made of its spans


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A token for each row, with its log-probability in nats."""

    token_N: torch.Tensor  # int64; BROKEN where the probabilities are not finite
    logp_N: torch.Tensor  # of the distribution that it was drawn from
    raw_logp_N: torch.Tensor  # of softmax(logits / temperature) before any cut; the same values where nothing is cut


def embed(ids_N: torch.Tensor, table_VH: torch.Tensor) -> torch.Tensor:
    """x_NH."""
    return functional.embedding(ids_N, table_VH)


def norm(x_NH: torch.Tensor, weight_H: torch.Tensor, epsilon: float) -> torch.Tensor:
    """h_NH: x / rms(x), rounded to the compute dtype, × weight; the last dimension may also be a head's."""
    single_NH = as_dtype(x_NH, torch.float32)  # of float64 too: the models' own norms do so, to the same bits
    scale_N1 = single_NH.square().mean(dim=-1, keepdim=True).add_(epsilon).rsqrt_()
    return as_dtype(single_NH * scale_N1, x_NH.dtype).mul_(weight_H)


def locate(
    position_RT: torch.Tensor,
    table_RM: torch.Tensor,
    cos_LD: torch.Tensor,
    sin_LD: torch.Tensor,
    *,
    page_tokens: int,
    key_heads: int,
    longest: int,
) -> Places:
    """Where the tokens at these positions stand, row by row."""
    page_RT = table_RM.gather(1, position_RT // page_tokens)
    head_K = torch.arange(key_heads, device=position_RT.device)
    first_RT1 = (page_RT * (key_heads * page_tokens) + position_RT % page_tokens).unsqueeze(-1)
    behind_RTL = torch.arange(longest, device=position_RT.device) > position_RT.unsqueeze(-1)
    position_N = position_RT.flatten()
    return Places(
        position_RT=position_RT,
        row_NK=(first_RT1 + head_K * page_tokens).flatten(0, 1),
        cos_ND=cos_LD[position_N],
        sin_ND=sin_LD[position_N],
        longest=longest,
        hidden_RTL=torch.zeros_like(behind_RTL, dtype=cos_LD.dtype).masked_fill_(behind_RTL, -torch.inf),
    )


def mix(
    h_NH: torch.Tensor,
    qkv: Qkv,
    places: Places,
    k_PKSD: torch.Tensor,
    v_PKSD: torch.Tensor,
    table_NM: torch.Tensor | None,
    *,
    epsilon: float,
    scale: float,
) -> torch.Tensor:
    """a_NA: each token's attention over the keys 0 … position of its own pages; its key and value are in the pools.

    Without a table, row n's keys are all in page n (one page a row), and nothing is gathered.
    """
    q_NQD = project_qkv(h_NH, qkv, places, k_PKSD, v_PKSD, epsilon=epsilon)
    return attend(q_NQD, k_PKSD, v_PKSD, places, table_NM, scale=scale).flatten(1)


def project_qkv(
    h_NH: torch.Tensor,
    qkv: Qkv,
    places: Places,
    k_PKSD: torch.Tensor,
    v_PKSD: torch.Tensor,
    *,
    epsilon: float,
) -> torch.Tensor:
    """q_NQD, normalised where the model does and rotated; keys and values are written into the two pools."""
    key_heads, head_size = k_PKSD.shape[1], k_PKSD.shape[3]
    heads_NCD = functional.linear(h_NH, qkv.weight_EH, qkv.bias_E).view(len(h_NH), -1, head_size)
    qk_NCD, v_NKD = heads_NCD[:, :-key_heads], heads_NCD[:, -key_heads:]
    if qkv.q_norm_D is not None and qkv.k_norm_D is not None:
        q_NQD, k_NKD = qk_NCD[:, :-key_heads], qk_NCD[:, -key_heads:]
        qk_NCD = torch.cat([norm(q_NQD, qkv.q_norm_D, epsilon), norm(k_NKD, qkv.k_norm_D, epsilon)], dim=1)
    swapped_NCD = qk_NCD.roll(head_size // 2, dims=-1)
    turned_NCD = (qk_NCD * places.cos_ND.unsqueeze(1)).addcmul_(swapped_NCD, places.sin_ND.unsqueeze(1))
    turned_NCD = as_dtype(turned_NCD, h_NH.dtype)
    row = places.row_NK.view(-1)
    k_PKSD.view(-1, head_size).index_copy_(0, row, turned_NCD[:, -key_heads:].reshape(-1, head_size))
    v_PKSD.view(-1, head_size).index_copy_(0, row, v_NKD.reshape(-1, head_size))
    return turned_NCD[:, :-key_heads]


def attend(
    q_NQD: torch.Tensor,
    k_PKSD: torch.Tensor,
    v_PKSD: torch.Tensor,
    places: Places,
    table_NM: torch.Tensor | None,
    *,
    scale: float,
) -> torch.Tensor:
    """a_NQD, over keys that are all in the pools; scores and sums in float32 or wider.

    The queries of a key head are the rows of one small product, so that no key is repeated.
    """
    rows, key_heads, head_size = len(q_NQD), k_PKSD.shape[1], k_PKSD.shape[3]
    k_BLD, v_BLD = (
        wide(keys_in_order(pool, table_NM, rows=rows, longest=places.longest)).flatten(0, 1)
        for pool in (k_PKSD, v_PKSD)
    )
    q_BGD = wide(q_NQD).reshape(rows * key_heads, -1, head_size)
    score_NQL = torch.bmm(q_BGD, k_BLD.transpose(1, 2)).view(rows, -1, places.longest)
    share_NQL = torch.add(hidden(places), score_NQL, alpha=scale).softmax(dim=-1)
    a_BGD = torch.bmm(share_NQL.view(rows * key_heads, -1, places.longest), v_BLD)
    return as_dtype(a_BGD.view(rows, -1, head_size), q_NQD.dtype)


def attend_many(
    q_RTQD: torch.Tensor,
    k_PKSD: torch.Tensor,
    v_PKSD: torch.Tensor,
    places: Places,
    table_RM: torch.Tensor,
    *,
    scale: float,
) -> torch.Tensor:
    """a_RTQD: the same for several tokens of each sequence, a prefill's chunk."""
    k_RKLD = keys_in_order(k_PKSD, table_RM, rows=len(q_RTQD), longest=places.longest)
    v_RKLD = keys_in_order(v_PKSD, table_RM, rows=len(q_RTQD), longest=places.longest)
    a_RQTD = functional.scaled_dot_product_attention(
        q_RTQD.transpose(1, 2),
        k_RKLD,
        v_RKLD,
        attn_mask=hidden(places).unsqueeze(1).to(q_RTQD.dtype),
        scale=scale,
        enable_gqa=True,
    )
    return a_RQTD.transpose(1, 2)


def hidden(places: Places) -> torch.Tensor:
    """hidden_RTL, which `locate` of this file makes."""
    assert places.hidden_RTL is not None, "places come from the same table as the operation that reads them"
    return places.hidden_RTL


def keys_in_order(pool_PKSD: torch.Tensor, table_RM: torch.Tensor | None, *, rows: int, longest: int) -> torch.Tensor:
    """[R, K, longest, D]: what the pages of each row hold, by position."""
    if table_RM is None:
        return pool_PKSD[:rows, :, :longest]
    page_tokens = pool_PKSD.shape[2]
    if longest <= page_tokens:
        return pool_PKSD[:, :, :longest][table_RM[:, 0]]
    pages_RMKSD = pool_PKSD[table_RM[:, : -(-longest // page_tokens)]]
    return pages_RMKSD.transpose(1, 2).flatten(2, 3)[:, :, :longest]


def wide(x: torch.Tensor) -> torch.Tensor:
    """The same in float32, or in float64 where it is."""
    return x if x.dtype == torch.float64 else as_dtype(x, torch.float32)


def as_dtype(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The same in this dtype; without a call where it has it, for on a CPU a small step is a matter of calls."""
    return x if x.dtype == dtype else x.to(dtype)


def add_projection(
    a_NA: torch.Tensor, weight_HA: torch.Tensor, x_NH: torch.Tensor, norm_H: torch.Tensor, *, epsilon: float
) -> torch.Tensor:
    """h_NH: the norm of x_NH, to which a W^T has been added in place."""
    x_NH.addmm_(a_NA, weight_HA.t())
    return norm(x_NH, norm_H, epsilon)


def gate(h_NH: torch.Tensor, weight_2IH: torch.Tensor) -> torch.Tensor:
    """g_NI: silu(gate) × up; the weight's first I rows are the gate's, the others the up-projection's."""
    gate_NI, up_NI = functional.linear(h_NH, weight_2IH).chunk(2, dim=-1)
    return functional.silu(gate_NI).mul_(up_NI)


def choose(h_NH: torch.Tensor, head_VH: torch.Tensor, uniform_N: torch.Tensor, sampling: Sampling) -> Choice:
    """The token of each row by inversion of its uniform number (float64, in [0, 1)), among the V rows of the head.

    The distribution is softmax(logits / temperature), cut to top_k, top_p and min_p and renormalised, as in
    `models/plain.py`; the token is the first whose cumulative probability, summed in float64 by id, exceeds the
    uniform number.
    """
    return choose_among(logits(h_NH, head_VH), uniform_N, sampling)


def logits(h_NH: torch.Tensor, head_VH: torch.Tensor) -> torch.Tensor:
    """logits_NV, in float32 or wider."""
    return wide(functional.linear(h_NH, head_VH))


def choose_among(logits_NV: torch.Tensor, uniform_N: torch.Tensor, sampling: Sampling) -> Choice:
    """The same from logits."""
    raw_NV = (logits_NV / sampling.temperature).softmax(dim=-1)
    probability_NV = raw_NV if sampling.full_support else cut(raw_NV.log(), sampling).exp()
    cumulative_NV = probability_NV.cumsum(dim=-1, dtype=torch.float64)
    total_N1 = cumulative_NV[:, -1:]
    token_N1 = torch.searchsorted(cumulative_NV, uniform_N.unsqueeze(1) * total_N1, right=True)
    token_N1.clamp_(max=logits_NV.shape[-1] - 1)  # beyond the last only where nothing is finite
    logp_N = probability_NV.gather(-1, token_N1).log_().squeeze(1)
    raw_logp_N = logp_N if sampling.full_support else raw_NV.gather(-1, token_N1).log_().squeeze(1)
    token_N = token_N1.masked_fill_(~total_N1.isfinite(), BROKEN).squeeze(1)
    return Choice(token_N=token_N, logp_N=logp_N, raw_logp_N=raw_logp_N)


def advance(board: Board, choice: Choice, stop_V: torch.Tensor) -> None:
    """The board has taken the tokens: in this step's column, as the next ids, positions and `tick` moved on.

    A row that is not active stays as it is and gets NONE. One that has drawn an id of `stop_V` (bool), its last
    allowed token or BROKEN is active no more, and keeps what it drew.
    """
    token_B = choice.token_N.masked_fill(~board.active_B, NONE)
    for column_BW, value_B in (
        (board.token_BW, token_B),
        (board.logp_BW, choice.logp_N),
        (board.raw_logp_BW, choice.raw_logp_N),
    ):
        column_BW.index_copy_(1, board.tick, value_B.unsqueeze(1))
    drawn_B = token_B >= 0
    board.ids_B.copy_(torch.where(drawn_B, token_B, board.ids_B))
    board.position_B.add_(drawn_B)
    board.left_B.sub_(drawn_B.long())
    stopped_B = stop_V[token_B.clamp(min=0)]  # of what was drawn: a prompt may end with an id that no token has
    torch.logical_and(drawn_B & ~stopped_B, board.left_B > 0, out=board.active_B)
    board.tick.add_(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """One way to do the operations of a step; the signatures and the meaning are those of this file."""

    embed: Callable[..., torch.Tensor]
    norm: Callable[..., torch.Tensor]
    locate: Callable[..., Places]
    mix: Callable[..., torch.Tensor]
    project_qkv: Callable[..., torch.Tensor]
    attend_many: Callable[..., torch.Tensor]
    add_projection: Callable[..., torch.Tensor]
    gate: Callable[..., torch.Tensor]
    choose: Callable[..., Choice]
    advance: Callable[..., None]
    tiles: Callable[..., Any] | None = None
    """(starts, counts, padded, device): how `attend_many` shares a prefill's queries out, from numbers of the host,
    once for all layers; null: it does not ask."""


TORCH = Operations(
    embed=embed,
    norm=norm,
    locate=locate,
    mix=mix,
    project_qkv=project_qkv,
    attend_many=attend_many,
    add_projection=add_projection,
    gate=gate,
    choose=choose,
    advance=advance,
)
