"""Each kernel against the operation of its name: on the GPU where there is one, else in Triton's interpreter.

Shapes: N rows, A columns in, O rows of a weight, H hidden, I inner, K key heads, D head size, P pages of S tokens,
M pages of a sequence, V ids, W columns of the board.
"""

import math
import os
from dataclasses import fields, replace

import pytest
import torch

from opd.models.engine import operations
from opd.models.engine.board import BROKEN, Board
from opd.models.engine.drafts.operations import TORCH_DRAFTING, Ahead, Notes
from opd.models.engine.operations import TORCH, Choice
from opd.models.engine.weights import Qkv
from opd.models.interfaces import Sampling
from opd.models.plain import sampling_logp

ON_GPU = torch.cuda.is_available()
pytest.importorskip("triton", reason="the kernels need Triton, which comes with torch's CUDA builds")
if not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("there is a GPU, but torch sees none", allow_module_level=True)

from opd.models.engine.kernels import plan, table  # noqa: E402
from opd.models.engine.kernels.plan import KeysTile, Plan, Tile  # noqa: E402

DEVICE = torch.device("cuda" if ON_GPU else "cpu")
SMALL = Tile(rows=16, outputs=32, columns=32)
SLICED = replace(SMALL, slices=3)
TURNED = replace(SMALL, outputs=64, slices=2, turned=True)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return values.float().to(DEVICE)


@pytest.fixture
def planned(monkeypatch):
    """`planned(gate=tile)`: every number of rows has this plan."""

    def use(**choices) -> None:
        keys = KeysTile(splits=4, least_tokens=32, tokens=16)
        kept = {"qkv": SMALL, "out": SLICED, "gate": SMALL, "down": SLICED, "head": replace(SMALL, outputs=64)}
        monkeypatch.setattr(plan, "PLANS", {1 << 20: Plan(**({"keys": keys} | kept | choices))})

    return use


@pytest.mark.parametrize("tile", [SMALL, SLICED, TURNED, None])
@pytest.mark.parametrize(("rows", "deep"), [(5, 96), (20, 70)])
def test_a_projection_is_added_and_normalised_in_whatever_slices(tile, rows, deep, planned):
    planned(out=tile, down=tile)
    a_NA, weight_HA, norm_H = normal(rows, deep), normal(72, deep, seed=1), normal(72, seed=2)
    x_NH = normal(rows, 72, seed=3)
    expected_x_NH = x_NH.double() + a_NA.double() @ weight_HA.double().t()
    expected_NH = expected_x_NH * (expected_x_NH.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * norm_H
    kernels = table.Kernels(after_projection={}, arrived_NK=torch.zeros(1, device=DEVICE))
    h_NH = kernels.add_projection(a_NA, weight_HA, x_NH, norm_H, epsilon=1e-6)
    torch.testing.assert_close(x_NH, expected_x_NH.float(), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(h_NH, expected_NH.float(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("tile", [SMALL, TURNED, None])
def test_the_gate_is_silu_of_one_half_times_the_other(tile, planned):
    planned(gate=tile)
    h_NH, weight_2IH = normal(5, 40), normal(2 * 50, 40, seed=1)
    gate_NI, up_NI = (h_NH.double() @ weight_2IH.double().t()).chunk(2, dim=-1)
    expected_NI = (gate_NI / (1 + (-gate_NI).exp()) * up_NI).float()
    torch.testing.assert_close(table.gate(h_NH, weight_2IH), expected_NI, rtol=1e-5, atol=1e-4)


def test_a_row_of_a_product_does_not_depend_on_the_others(planned):
    planned(gate=SMALL)
    h_NH, weight_2IH = normal(20, 64), normal(96, 64, seed=1)
    together_NI = table.gate(h_NH, weight_2IH)
    assert torch.equal(table.gate(h_NH[17:19].contiguous(), weight_2IH), together_NI[17:19])


@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("splits", [1, 4])
def test_attention_is_that_of_torch_and_leaves_the_same_cache(normed, splits, planned):
    """Without a cached key, with one page to the last token, beyond it, and with all pages full."""
    planned(keys=KeysTile(splits=splits, least_tokens=32, tokens=16))
    key_heads, group, head_size, page_tokens, pages_each = 2, 3, 32, 32, 6
    position_RT = torch.tensor([[0], [31], [32], [40], [95]], device=DEVICE)
    order = torch.randperm(5 * pages_each, generator=torch.Generator().manual_seed(4))
    table_NM = order.view(5, pages_each).int().to(DEVICE)
    angle = normal(page_tokens * pages_each, head_size // 2, seed=5)
    cos_LD, sin_LD = torch.cat([angle.cos()] * 2, -1), torch.cat([-angle.sin(), angle.sin()], -1)
    where = {"page_tokens": page_tokens, "key_heads": key_heads, "longest": 96}
    pools = [normal(31, key_heads, page_tokens, head_size, seed=6 + one) for one in (0, 1)]
    theirs = [pool.clone() for pool in pools]
    h_NH, weight_EH = normal(5, 48, seed=8), normal((group + 2) * key_heads * head_size, 48, seed=9) / 7
    bias_E = normal(len(weight_EH), seed=10)
    q_norm_D, k_norm_D = (normal(head_size, seed=seed) if normed else None for seed in (11, 12))
    qkv = Qkv(weight_EH=weight_EH, bias_E=bias_E, q_norm_D=q_norm_D, k_norm_D=k_norm_D)
    ours = table.Kernels(after_projection={}, arrived_NK=torch.zeros(5, 2, dtype=torch.int32, device=DEVICE))
    results = []
    for ops_locate, mix, (keys, values) in ((table.locate, ours.mix, pools), (TORCH.locate, TORCH.mix, theirs)):
        places = ops_locate(position_RT, table_NM, cos_LD, sin_LD, **where)
        results.append(mix(h_NH, qkv, places, keys, values, table_NM, epsilon=1e-6, scale=head_size**-0.5))
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-4)
    for mine, other in zip(pools, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-4)
    assert not ours.arrived_NK.any()  # ready for the next layer


@pytest.mark.parametrize("splits", [1, 4])
def test_rows_of_one_sequence_attend_to_the_new_tokens_before_them(splits, planned):
    """Four rows of each of three: across a page's edge, from the first token on, and two of them without a token."""
    planned(keys=KeysTile(splits=splits, least_tokens=32, tokens=16))
    key_heads, group, head_size, page_tokens = 2, 3, 32, 32
    position_RT = torch.tensor([30, 31, 32, 33, 0, 1, 2, 3, 70, 71, 0, 0], device=DEVICE).unsqueeze(1)
    table_NM = torch.tensor([[4, 2, 9], [1, 5, 7], [3, 8, 6]], dtype=torch.int32, device=DEVICE).repeat_interleave(
        4, 0
    )
    table_NM[-2:] = 10
    angle = normal(96, head_size // 2, seed=5)
    cos_LD, sin_LD = torch.cat([angle.cos()] * 2, -1), torch.cat([-angle.sin(), angle.sin()], -1)
    where = {"page_tokens": page_tokens, "key_heads": key_heads, "longest": 96}
    pools = [normal(11, key_heads, page_tokens, head_size, seed=6 + one) for one in (0, 1)]
    theirs = [pool.clone() for pool in pools]
    h_NH, weight_EH = normal(12, 48, seed=8), normal((group + 2) * key_heads * head_size, 48, seed=9) / 7
    qkv = Qkv(weight_EH=weight_EH, bias_E=None, q_norm_D=None, k_norm_D=None)
    ours = table.Kernels(after_projection={}, arrived_NK=torch.zeros(12, 2, dtype=torch.int32, device=DEVICE))
    results = []
    for ops_locate, mix, (keys, values) in ((table.locate, ours.mix, pools), (TORCH.locate, TORCH.mix, theirs)):
        places = replace(ops_locate(position_RT, table_NM, cos_LD, sin_LD, **where), span=4)
        results.append(mix(h_NH, qkv, places, keys, values, table_NM, epsilon=1e-6, scale=head_size**-0.5)[:10])
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-4)
    for mine, other in zip(pools, theirs, strict=True):
        torch.testing.assert_close(mine[:10], other[:10], rtol=1e-5, atol=1e-4)
    assert not ours.arrived_NK.any()


def guessing(span: int) -> tuple[Board, Notes]:
    """Five sequences: a long one, one with two tokens left, one without a guess, an ended one, one of a token."""
    board = Board.empty(rows=5, window=6, pages=3, nobodys=9, dtype=torch.float32, device=DEVICE)
    notes = Notes.empty(sequences=5, tokens=2_200, device=DEVICE)
    some = torch.Generator().manual_seed(1)
    notes.history_BT.copy_(torch.randint(0, 4, (5, 2_200), generator=some))
    notes.history_BT[0, 1_890:1_901] = 2  # goes round in one token
    notes.history_BT[2, :4] = torch.arange(4, device=DEVICE) + 20
    board.position_B.copy_(torch.tensor([1_900, 40, 3, 60, 0]))
    board.ids_B.copy_(notes.history_BT.gather(1, board.position_B.unsqueeze(1)).squeeze(1))
    board.left_B.copy_(torch.tensor([6, 2, 6, 5, 6]))
    board.active_B.copy_(torch.tensor([True, True, True, False, True]))
    board.table_BM.copy_(torch.arange(15).view(5, 3))
    board.uniform_BW.copy_(torch.rand(5, 6, generator=some, dtype=torch.float64))
    notes.column_B.copy_(torch.tensor([0, 4, 0, 1, 0]))
    return board, notes


@pytest.mark.parametrize("span", [1, 2, 3, 4, 8])
def test_guesses_and_what_is_kept_of_the_draws_are_those_of_torch(span):
    """Every row draws what the next one read, but for one that stops, one that differs, and one that is broken."""
    both = []
    for way in (table.DRAFTING, TORCH_DRAFTING):
        board, notes = guessing(span)
        ahead = way.guess(board, notes, span=span, nobodys=9)
        token_NS = torch.cat(
            [ahead.ids_N.view(5, span)[:, 1:], torch.ones(5, 1, dtype=torch.int64, device=DEVICE)], 1
        )
        token_NS[4, min(span - 1, 2)] = BROKEN
        token_NS[2] = 7
        logp_N, raw_logp_N = normal(5 * span), normal(5 * span, seed=1)
        choice = Choice(token_N=token_NS.flatten().contiguous(), logp_N=logp_N, raw_logp_N=raw_logp_N)
        way.take(board, notes, ahead, choice, torch.arange(8, device=DEVICE) == 3)
        for row, position in enumerate(board.position_B.tolist()):
            notes.history_BT[row, position + 1 :] = 0  # behind the newest: any
        both.append((ahead, board, notes))
    for kind, ours, theirs in zip((Ahead, Board, Notes), *both, strict=True):
        for field in fields(kind):
            assert torch.equal(getattr(ours, field.name), getattr(theirs, field.name)), field.name
    _, board, notes = both[0]
    assert notes.counts_B3[:, 0].tolist() == [1, 1, 1, 0, 1]
    assert span == 1 or notes.counts_B3[:, 2].sum() > 0


@pytest.mark.parametrize("size", [8, 24])  # a head's numbers need not be a power of two
def test_places_are_those_of_torch(size):
    table_RM = torch.tensor([[7, 1, 2], [3, 6, 5]], dtype=torch.int32, device=DEVICE)
    position_RT = torch.tensor([[0, 5, 9], [3, 4, 11]], device=DEVICE)
    tables = (normal(12, size), normal(12, size, seed=1))
    where = {"page_tokens": 4, "key_heads": 2, "longest": 12}
    ours, theirs = (one(position_RT, table_RM, *tables, **where) for one in (table.locate, TORCH.locate))
    for name in ("row_NK", "cos_ND", "sin_ND"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name)), name


@pytest.mark.parametrize("tile", [replace(SMALL, outputs=64), replace(TURNED, slices=1), None])
def test_a_uniform_number_gives_the_token_that_torch_gives(tile, planned):
    """Also the two ends of the interval, and an id that has no probability at all."""
    planned(head=tile)
    h_NH, head_VH = normal(6, 32), normal(300, 32, seed=1) / 4
    uniform_N = torch.tensor([0.0, 0.2, 0.5, 0.7, 0.99, 1 - 2**-53], dtype=torch.float64, device=DEVICE)
    sampling = Sampling(temperature=0.8, limit_tokens=1)
    ours, theirs = (one(h_NH, head_VH, uniform_N, sampling) for one in (table.choose, operations.choose))
    assert ours.token_N.tolist() == theirs.token_N.tolist()
    torch.testing.assert_close(ours.logp_N, theirs.logp_N, rtol=0, atol=1e-5)
    assert torch.equal(ours.logp_N, ours.raw_logp_N)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the interpreter's numpy says what it meets
def test_what_is_not_finite_gives_no_token():
    h_NH, head_VH = torch.ones(2, 32, device=DEVICE), torch.ones(70, 32, device=DEVICE)
    head_VH[3, 0], h_NH[1, 0] = math.inf, math.nan
    uniform_N = torch.full((2,), 0.5, dtype=torch.float64, device=DEVICE)
    choice = table.choose(h_NH, head_VH, uniform_N, Sampling(limit_tokens=1))
    assert choice.token_N.tolist() == [BROKEN, BROKEN]


CUTS = [{"top_k": 5}, {"top_p": 0.7}, {"top_p": 0.9, "top_k": 20}, {"min_p": 0.1}, {"top_k": 299}]


@pytest.mark.patient
@pytest.mark.parametrize("settings", CUTS, ids=str)
@pytest.mark.parametrize("ties", [False, True])
def test_a_cut_keeps_what_a_sort_keeps(settings, ties, monkeypatch):
    """Among equal logits the lowest ids."""
    monkeypatch.setattr(table, "CHUNK_TOKENS", 128)
    sampling = Sampling(temperature=0.7, limit_tokens=1, **settings)
    row_V = 3 * normal(300, seed=3)
    row_V = row_V.round() if ties else row_V
    uniform_N = torch.linspace(0, 0.999, 6, dtype=torch.float64, device=DEVICE)
    logits_NV = row_V.repeat(6, 1)
    scaled_NBV = torch.nn.functional.pad(logits_NV / 0.7, (0, 20), value=-math.inf).view(6, 5, 64)
    top_NB = scaled_NBV.amax(-1)
    mass_NB = (scaled_NBV - top_NB.unsqueeze(-1)).exp().sum(-1)
    choice = table.draw(logits_NV.clone(), top_NB, mass_NB, uniform_N, sampling, block=64)
    logp_V = sampling_logp(row_V.unsqueeze(0), sampling)[0].double()
    expected = torch.searchsorted(logp_V.exp().cumsum(0), uniform_N * logp_V.exp().sum(), right=True)
    assert choice.token_N.tolist() == expected.tolist()
    torch.testing.assert_close(choice.logp_N.double(), logp_V[expected], rtol=0, atol=1e-5)
    raw_V = (row_V / 0.7).log_softmax(-1)
    torch.testing.assert_close(choice.raw_logp_N, raw_V[expected], rtol=0, atol=1e-5)


def test_the_board_moves_on_as_with_torch():
    """One row goes on, one stops by its id, one by its limit, one is broken, one was not active.

    The last two read an id behind the tokenizer's, as a prompt may end with.
    """
    boards = []
    for _ in "ab":
        board = Board.empty(rows=5, window=3, pages=2, nobodys=9, dtype=torch.float32, device=DEVICE)
        board.ids_B.copy_(torch.tensor([0, 1, 2, 8, 8]))
        board.position_B.copy_(torch.arange(5) + 10)
        board.left_B.copy_(torch.tensor([4, 4, 1, 4, 4]))
        board.active_B.copy_(torch.tensor([True, True, True, True, False]))
        board.tick.fill_(1)
        boards.append(board)
    choice = Choice(
        token_N=torch.tensor([3, 6, 4, BROKEN, 5], device=DEVICE), logp_N=normal(5), raw_logp_N=normal(5, seed=1)
    )
    stop_V = torch.arange(8, device=DEVICE) == 6
    for board, advance in zip(boards, (table.advance, operations.advance), strict=True):
        advance(board, choice, stop_V)
    for field in fields(Board):
        assert torch.equal(getattr(boards[0], field.name), getattr(boards[1], field.name)), field.name
    assert boards[0].active_B.tolist() == [True, False, False, False, False]


def test_heads_that_no_tensor_core_takes_are_a_misfit():
    assert table.misfit(head_size=128, dtype=torch.bfloat16) is None
    assert "16 numbers" in str(table.misfit(head_size=16, dtype=torch.bfloat16))
    assert "96 numbers" in str(table.misfit(head_size=96, dtype=torch.bfloat16))
    assert "float32" in str(table.misfit(head_size=128, dtype=torch.float64))


def test_slices_divide_the_columns_evenly():
    """7 × 1,280 of the 8,960 columns of a 1.5B Qwen2; 13 turns can't be shared by 7 programs."""
    tile = Tile(rows=16, outputs=32, columns=256, slices=7)
    assert tile.sliced(8_960).slices == 7
    assert tile.sliced(256 * 13).slices == 1
    assert tile.sliced(256 * 12).slices == 6
    assert tile.sliced(100).slices == 1
