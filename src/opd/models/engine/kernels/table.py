"""The operations on CUDA: the signatures and the meaning of `operations.py`, done by the kernels of this folder.

Shapes: as in `operations.py`; B blocks of the vocabulary, Z slices of a product.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from opd.models.engine import operations as reference
from opd.models.engine.board import BROKEN, NONE, Board
from opd.models.engine.drafts.operations import LONGEST, Ahead, Drafting, Notes
from opd.models.engine.kernels import attention, bookkeeping, cuts, draws, guesses, logits, norms, products
from opd.models.engine.kernels.launch import blocks, lanes, power, start
from opd.models.engine.kernels.plan import Tile, plan_for
from opd.models.engine.operations import TORCH, Choice, Operations, Places
from opd.models.engine.weights import Qkv, Weights
from opd.models.interfaces import Sampling

LEAST_HEAD = 32  # numbers: half a head is one side of a tensor core's product
MOST_ROWS = 512  # of a decode step; a prefill's products are left to the vendor's library
BLOCK_TOKENS = 64  # of the vocabulary, summed up as one
CHUNK_TOKENS = 4_096  # of the vocabulary that a cut looks at together


def operations(weights: Weights, *, key_heads: int, rows: int) -> Operations:
    """The table for a decoder with these weights and steps of at most so many rows."""
    kernels = Kernels(
        after_projection={layer.out_HA.data_ptr(): layer.gate_up_2IH for layer in weights.layers},
        arrived_NK=torch.zeros(rows, key_heads, dtype=torch.int32, device=weights.norm_H.device),
    )
    return replace(
        TORCH,
        embed=embed,
        norm=norm,
        locate=locate,
        mix=kernels.mix,
        attend_many=attend_many,
        add_projection=kernels.add_projection,
        gate=gate,
        choose=choose,
        advance=advance,
    )


def misfit(*, head_size: int, dtype: torch.dtype) -> str | None:
    """Why the kernels can't run a decoder; None when they can."""
    if dtype == torch.float64:
        return "they compute in float32 at most"
    if head_size < LEAST_HEAD or head_size != power(head_size):
        return f"its heads have {head_size} numbers, not a power of two from {LEAST_HEAD} on"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """The operations that have to know more than their arguments."""

    after_projection: Mapping[int, torch.Tensor]  # by the address of an output projection: what is read after it
    arrived_NK: torch.Tensor  # zeros between steps; of a row's splits that have ended

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
        rows, device = len(h_NH), h_NH.device
        _, key_heads, page_tokens, head_size = k_PKSD.shape
        group = len(qkv.weight_EH) // head_size // key_heads - 2
        plan, heads = plan_for(rows), group * key_heads
        tile = plan.keys
        qkv_NE = linear(h_NH, qkv.weight_EH, qkv.bias_E, plan.qkv)
        a_NA = torch.empty(rows, heads * head_size, dtype=h_NH.dtype, device=device)
        part = torch.empty(rows * heads * tile.splits, head_size, dtype=torch.float32, device=device)
        top, mass = torch.empty(2, len(part), dtype=torch.float32, device=device)
        start(
            attention.attention_kernel,
            (tile.splits, key_heads, rows),
            *(qkv_NE, *(qkv_NE if one is None else one for one in (qkv.q_norm_D, qkv.k_norm_D))),
            *(places.cos_ND, places.sin_ND, places.row_NK, k_PKSD, v_PKSD, table_NM, places.position_RT),
            *(a_NA, part, top, mass, self.arrived_NK, table_NM.stride(0), scale * math.log2(math.e), epsilon),
            device=device,
            warps=tile.warps,
            stages=tile.stages,
            **{"K": key_heads, "G": group, "GP": max(16, power(group)), "GC": power(group), "D": head_size},
            **{"S": page_tokens, "T": min(tile.tokens, page_tokens)},
            **{
                "LEAST": max(1, tile.least_tokens // page_tokens),
                "SPLITS": tile.splits,
                "SP": power(tile.splits),
                "NORMED": qkv.q_norm_D is not None,
                "SPAN": places.span,
            },
            LANES=lanes(device, tile.warps) if tile.asks else 0,
        )
        return a_NA

    def add_projection(
        self, a_NA: torch.Tensor, weight_HA: torch.Tensor, x_NH: torch.Tensor, norm_H: torch.Tensor, *, epsilon: float
    ) -> torch.Tensor:
        """h_NH, and x_NH in place; see `operations.add_projection`."""
        plan = plan_for(len(a_NA))
        deep = weight_HA.shape[1] > weight_HA.shape[0]
        tile = None if len(a_NA) > MOST_ROWS else plan.down if deep else plan.out
        ahead = self.after_projection.get(weight_HA.data_ptr())
        ahead_bytes = 0 if ahead is None else min(plan.ahead_bytes, ahead.nbytes)
        parts_ZNH = None
        if tile is None:
            x_NH.addmm_(a_NA, weight_HA.t())
        else:
            parts_ZNH = product(a_NA, weight_HA, None, tile.sliced(weight_HA.shape[1]), torch.float32)
        return add_and_norm(x_NH, parts_ZNH, norm_H, epsilon, ahead=ahead, ahead_bytes=ahead_bytes)


def embed(ids_N: torch.Tensor, table_VH: torch.Tensor) -> torch.Tensor:
    """x_NH; see `operations.embed`."""
    rows, hidden = len(ids_N), table_VH.shape[1]
    x_NH = torch.empty(rows, hidden, dtype=table_VH.dtype, device=table_VH.device)
    sizes = {"HIDDEN": hidden, "BH": power(hidden)}
    start(norms.embed_kernel, (rows,), ids_N, table_VH, x_NH, device=x_NH.device, warps=4, **sizes)
    return x_NH


def norm(x_NH: torch.Tensor, weight_H: torch.Tensor, epsilon: float) -> torch.Tensor:
    """h_NH; see `operations.norm`."""
    return add_and_norm(x_NH, None, weight_H, epsilon)


def add_and_norm(
    x_NH: torch.Tensor,
    parts_ZNH: torch.Tensor | None,
    weight_H: torch.Tensor,
    epsilon: float,
    *,
    ahead: torch.Tensor | None = None,
    ahead_bytes: int = 0,
) -> torch.Tensor:
    """The norm of x_NH, to which the parts have been added in place; meanwhile the L2 is asked for what is ahead."""
    rows, hidden = x_NH.shape
    warps = plan_for(rows).norm_warps
    h_NH = torch.empty_like(x_NH)
    fetching = 60 if ahead_bytes and lanes(x_NH.device, warps) else 0  # programs that do nothing else
    start(
        norms.norm_kernel,
        (rows + fetching,),
        *(x_NH, x_NH if parts_ZNH is None else parts_ZNH, weight_H, h_NH, weight_H if ahead is None else ahead),
        *(rows, ahead_bytes, epsilon),
        device=x_NH.device,
        warps=warps,
        **{"HIDDEN": hidden, "PARTS": 0 if parts_ZNH is None else len(parts_ZNH), "BH": power(hidden)},
        LANES=lanes(x_NH.device, warps) if fetching else 0,
    )
    return h_NH


def linear(
    h_NH: torch.Tensor, weight_EH: torch.Tensor, bias_E: torch.Tensor | None, tile: Tile | None
) -> torch.Tensor:
    """The product h W^T + b, in the type of h."""
    if tile is None:
        return torch.nn.functional.linear(h_NH, weight_EH, bias_E)
    return product(h_NH, weight_EH, bias_E, replace(tile, slices=1), h_NH.dtype)[0]


def product(
    a_NA: torch.Tensor, weight_OA: torch.Tensor, bias_O: torch.Tensor | None, tile: Tile, dtype: torch.dtype
) -> torch.Tensor:
    """out_ZNO: a W^T, in the slices of the tile."""
    (rows, deep), out = a_NA.shape, len(weight_OA)
    piece = blocks(blocks(deep, tile.slices), tile.columns) * tile.columns
    slices = blocks(deep, piece)
    out_ZNO = torch.empty(slices, rows, out, dtype=dtype, device=a_NA.device)
    start(
        products.product_kernel,
        (blocks(rows, tile.rows), blocks(out, tile.outputs), slices),
        *(a_NA, weight_OA, weight_OA if bias_O is None else bias_O, out_ZNO, rows),
        min(tile.own_bytes, piece * a_NA.element_size()) if out % tile.outputs == 0 else 0,
        device=a_NA.device,
        warps=tile.warps,
        stages=tile.stages,
        **{"OUT": out, "DEEP": deep, "SLICE": piece, "BIASED": bias_O is not None},
        **{"BN": tile.rows, "BO": tile.outputs, "BA": tile.columns, "TURNED": tile.turned},
        LANES=lanes(a_NA.device, tile.warps),
    )
    return out_ZNO


def gate(h_NH: torch.Tensor, weight_2IH: torch.Tensor) -> torch.Tensor:
    """g_NI; see `operations.gate`."""
    (rows, deep), inner = h_NH.shape, len(weight_2IH) // 2
    tile = None if rows > MOST_ROWS else plan_for(rows).gate
    g_NI = torch.empty(rows, inner, dtype=h_NH.dtype, device=h_NH.device)
    if tile is None:
        both_N2I = torch.nn.functional.linear(h_NH, weight_2IH)
        programs = (rows, blocks(inner, 1024))
        start(products.gated_kernel, programs, both_N2I, g_NI, device=g_NI.device, warps=4, INNER=inner, BI=1024)
        return g_NI
    start(
        products.gate_kernel,
        (blocks(rows, tile.rows), blocks(inner, tile.outputs)),
        *(h_NH, weight_2IH, g_NI, rows),
        min(tile.own_bytes, deep * h_NH.element_size()) if inner % tile.outputs == 0 else 0,
        device=h_NH.device,
        warps=tile.warps,
        stages=tile.stages,
        **{"INNER": inner, "DEEP": deep, "TURNED": tile.turned},
        **{"BN": tile.rows, "BO": tile.outputs, "BA": tile.columns},
        LANES=lanes(h_NH.device, tile.warps),
    )
    return g_NI


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
    """Where tokens stand; see `operations.locate`. Nothing is hidden by a mask: kernels look at the positions."""
    tokens, head_size = position_RT.numel(), cos_LD.shape[1]
    row_NK = torch.empty(tokens, key_heads, dtype=torch.int64, device=position_RT.device)
    cos_ND, sin_ND = torch.empty(2, tokens, head_size, dtype=cos_LD.dtype, device=position_RT.device)
    start(
        bookkeeping.locate_kernel,
        (tokens,),
        *(position_RT, table_RM, cos_LD, sin_LD, row_NK, cos_ND, sin_ND, table_RM.stride(0), position_RT.shape[1]),
        device=position_RT.device,
        warps=1,
        **{"K": key_heads, "KP": power(key_heads), "S": page_tokens, "D": head_size, "DP": power(head_size)},
    )
    return Places(
        position_RT=position_RT, row_NK=row_NK, cos_ND=cos_ND, sin_ND=sin_ND, longest=longest, hidden_RTL=None
    )


def attend_many(
    q_RTQD: torch.Tensor,
    k_PKSD: torch.Tensor,
    v_PKSD: torch.Tensor,
    places: Places,
    table_RM: torch.Tensor,
    *,
    scale: float,
) -> torch.Tensor:
    """A prefill's attention; see `operations.attend_many`, which does it."""
    key_L = torch.arange(places.longest, device=q_RTQD.device)
    behind_RTL = key_L > places.position_RT.unsqueeze(-1)
    hidden_RTL = torch.zeros_like(behind_RTL, dtype=q_RTQD.dtype).masked_fill_(behind_RTL, -torch.inf)
    places = replace(places, hidden_RTL=hidden_RTL)
    return reference.attend_many(q_RTQD, k_PKSD, v_PKSD, places, table_RM, scale=scale)


def choose(h_NH: torch.Tensor, head_VH: torch.Tensor, uniform_N: torch.Tensor, sampling: Sampling) -> Choice:
    """A token a row; see `operations.choose`."""
    (rows, hidden), vocabulary, device = h_NH.shape, len(head_VH), h_NH.device
    tile, coldness = plan_for(rows).head, 1.0 / sampling.temperature
    logits_NV = torch.empty(rows, vocabulary, dtype=torch.float32, device=device)
    if tile is None:
        matrix_product(h_NH, head_VH, logits_NV)
        return choose_among(logits_NV, uniform_N, sampling)
    block = tile.outputs
    count = blocks(vocabulary, block)
    top_NB, mass_NB = torch.empty(2, rows, count, dtype=torch.float32, device=device)
    summed = (logits_NV, top_NB, mass_NB)
    start(
        logits.head_kernel,
        (blocks(rows, tile.rows), count),
        *(h_NH, head_VH, *summed, rows, vocabulary, count, coldness),
        device=device,
        warps=tile.warps,
        stages=tile.stages,
        **{"HIDDEN": hidden, "BN": tile.rows, "BV": block, "BH": tile.columns, "TURNED": tile.turned},
    )
    return draw(*summed, uniform_N, sampling, block=block)


def choose_among(logits_NV: torch.Tensor, uniform_N: torch.Tensor, sampling: Sampling) -> Choice:
    """A token a row from logits, which a cut changes; see `operations.choose_among`."""
    (rows, vocabulary), count = logits_NV.shape, blocks(logits_NV.shape[1], BLOCK_TOKENS)
    top_NB, mass_NB = torch.empty(2, rows, count, dtype=torch.float32, device=logits_NV.device)
    summed = (logits_NV, top_NB, mass_NB)
    start(
        logits.summary_kernel,
        (rows, blocks(count, 64)),
        *(*summed, vocabulary, count, 1.0 / sampling.temperature),
        device=logits_NV.device,
        warps=8,
        **{"BV": BLOCK_TOKENS, "BB": 64},
    )
    return draw(*summed, uniform_N, sampling, block=BLOCK_TOKENS)


def matrix_product(h_NH: torch.Tensor, head_VH: torch.Tensor, logits_NV: torch.Tensor) -> None:
    """`logits_NV` is h W^T, summed and left in float32."""
    if h_NH.dtype == torch.float32:
        torch.mm(h_NH, head_VH.t(), out=logits_NV)
    else:
        torch.mm(h_NH, head_VH.t(), out_dtype=torch.float32, out=logits_NV)


def draw(
    logits_NV: torch.Tensor,
    top_NB: torch.Tensor,
    mass_NB: torch.Tensor,
    uniform_N: torch.Tensor,
    sampling: Sampling,
    *,
    block: int,
) -> Choice:
    """A token a row by its uniform number, from logits whose blocks are summed up. A cut changes all three."""
    (rows, vocabulary), count, device = logits_NV.shape, top_NB.shape[1], logits_NV.device
    coldness, cut = 1.0 / sampling.temperature, not sampling.full_support
    token_N = torch.empty(rows, dtype=torch.int64, device=device)
    raw_mass_N, logp_N, raw_logp_N = torch.empty(3, rows, dtype=torch.float32, device=device)
    summed = (logits_NV, top_NB, mass_NB, raw_mass_N)
    if cut:
        least = math.log(sampling.min_p) if sampling.min_p else -math.inf
        chunk = min(CHUNK_TOKENS, block * power(count))
        start(
            cuts.cut_kernel,
            (rows,),
            *(*summed, vocabulary, count, coldness, sampling.top_k or vocabulary, sampling.top_p, least),
            device=device,
            warps=8,
            **{"BV": block, "BB": power(count), "CHUNK": chunk},
        )
    start(
        draws.draw_kernel,
        (rows,),
        *(*summed, uniform_N, token_N, logp_N, raw_logp_N, vocabulary, count, coldness),
        device=device,
        warps=8,
        **{"BV": block, "BB": power(count), "BROKEN": BROKEN, "CUT": cut},
    )
    return Choice(token_N=token_N, logp_N=logp_N, raw_logp_N=raw_logp_N)


def advance(board: Board, choice: Choice, stop_V: torch.Tensor) -> None:
    """The board has taken the tokens; see `operations.advance`."""
    rows = len(board.ids_B)
    start(
        bookkeeping.advance_kernel,
        (1,),
        *(choice.token_N, choice.logp_N, choice.raw_logp_N, stop_V, board.ids_B, board.position_B, board.left_B),
        *(board.active_B, board.token_BW, board.logp_BW, board.raw_logp_BW, board.tick),
        *(rows, board.token_BW.stride(0)),
        device=stop_V.device,
        warps=4,
        **{"NONE": NONE, "BB": power(rows)},
    )


def guess(board: Board, notes: Notes, *, span: int, nobodys: int) -> Ahead:
    """The rows of the next step; see `drafts.operations.guess`."""
    (sequences, pages), rows, device = board.table_BM.shape, len(board.ids_B) * span, board.ids_B.device
    ids_N, position_N = torch.empty(2, rows, dtype=torch.int64, device=device)
    uniform_N = torch.empty(rows, dtype=torch.float64, device=device)
    table_NM = torch.empty(rows, pages, dtype=torch.int32, device=device)
    lives_N = torch.empty(rows, dtype=torch.bool, device=device)
    start(
        guesses.guess_kernel,
        (sequences,),
        *(notes.history_BT, board.ids_B, board.position_B, board.left_B, board.active_B, board.table_BM),
        *(board.uniform_BW, notes.column_B, ids_N, position_N, uniform_N, table_NM, lives_N),
        *(notes.history_BT.shape[1], board.uniform_BW.shape[1], pages, nobodys),
        device=device,
        warps=8,
        **{"SPAN": span, "SP": power(span), "LONGEST": LONGEST, "BT": 1_024, "BM": 64},
    )
    return Ahead(ids_N=ids_N, position_N=position_N, uniform_N=uniform_N, table_NM=table_NM, lives_N=lives_N)


def take(board: Board, notes: Notes, ahead: Ahead, choice: Choice, stop_V: torch.Tensor) -> None:
    """Board and notes have taken what is kept; see `drafts.operations.take`."""
    sequences = len(board.ids_B)
    span = len(ahead.ids_N) // sequences
    start(
        guesses.take_kernel,
        (sequences,),
        *(choice.token_N, choice.logp_N, choice.raw_logp_N, ahead.ids_N, ahead.lives_N, stop_V),
        *(board.ids_B, board.position_B, board.left_B, board.active_B),
        *(board.token_BW, board.logp_BW, board.raw_logp_BW, notes.history_BT, notes.column_B, notes.counts_B3),
        *(notes.history_BT.shape[1], board.token_BW.shape[1]),
        device=stop_V.device,
        warps=1,
        **{"SPAN": span, "SP": power(span)},
    )


DRAFTING = Drafting(guess=guess, take=take)
