"""Each operation against the model's own modules or a loop over the definition.

Shapes: N tokens, H hidden, Q query heads, K key heads, D head size, P pages of S tokens, V ids, W columns.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.models.qwen2.modeling_qwen2 import Qwen2MLP, Qwen2RMSNorm, apply_rotary_pos_emb
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from opd.models.engine import operations
from opd.models.engine.board import BROKEN, NONE, Board
from opd.models.engine.mixer import Mixer
from opd.models.engine.operations import TORCH, Choice, advance, choose_among, locate, mix, project_qkv
from opd.models.engine.room import Room, Size
from opd.models.engine.shape import Shape
from opd.models.engine.step import located
from opd.models.engine.weights import Weights, rotation
from opd.models.interfaces import Sampling
from opd.models.noise import draw
from opd.models.plain import sampling_logp


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_norm_is_the_models_own_to_the_bit(dtype):
    module = Qwen2RMSNorm(24, eps=1e-6).to(dtype)
    with torch.no_grad():
        module.weight.copy_(normal(24, seed=1))
    x_NH = 3 * normal(5, 24, dtype=dtype)
    assert torch.equal(operations.norm(x_NH, module.weight.detach(), 1e-6), module(x_NH).detach())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gated_mlp_is_the_models_own(make_decoder, dtype):
    mlp: Qwen2MLP = make_decoder("qwen2", str(dtype).removeprefix("torch.")).module.model.layers[0].mlp
    h_NH = normal(5, 32, dtype=dtype)
    weight_2IH = torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]).detach()
    x_NH = normal(5, 32, seed=2, dtype=dtype)
    expected = x_NH + mlp(h_NH)
    g_NI = operations.gate(h_NH, weight_2IH)
    operations.add_projection(g_NI, mlp.down_proj.weight.detach(), x_NH, torch.ones(32, dtype=dtype), epsilon=1e-6)
    torch.testing.assert_close(x_NH, expected.detach())


def test_a_token_goes_to_its_row_of_its_page():
    """Tokens 0, 5 and 9 of three sequences with pages of 4, two key heads: by hand."""
    table_RM = torch.tensor([[7, 1, 2], [3, 6, 5], [0, 8, 4]], dtype=torch.int32)
    position_RT = torch.tensor([[0], [5], [9]])
    tables = torch.arange(12.0).unsqueeze(1).expand(12, 4)
    places = locate(position_RT, table_RM, tables, -tables, page_tokens=4, key_heads=2, longest=10)
    # (page × heads + head) × tokens of a page + token of the page
    assert places.row_NK.tolist() == [
        [(7 * 2 + 0) * 4 + 0, (7 * 2 + 1) * 4 + 0],
        [(6 * 2 + 0) * 4 + 1, (6 * 2 + 1) * 4 + 1],
        [(4 * 2 + 0) * 4 + 1, (4 * 2 + 1) * 4 + 1],
    ]
    assert places.cos_ND[:, 0].tolist() == [0, 5, 9]
    assert places.sin_ND[:, 3].tolist() == [0, -5, -9]
    assert places.hidden_RTL is not None
    assert [int((row == 0).sum()) for row in places.hidden_RTL] == [1, 6, 10]


def test_queries_and_keys_are_normalised_and_rotated_as_the_model_does(kind, make_decoder):
    """q, and what has been written into the pools, against the model's projections, norms and rotation."""
    model = make_decoder(kind)
    attention, layer = model.module.model.layers[0].self_attn, Weights.of(model).layers[0]
    shape = Shape.of(model)
    position_RT = torch.tensor([[3], [0], [41]])
    cos_LD, sin_LD = rotation(model.module.model.rotary_emb, 64, dtype=torch.float32)
    table_RM = torch.tensor([[0], [2], [1]], dtype=torch.int32)
    places = locate(position_RT, table_RM, cos_LD, sin_LD, page_tokens=64, key_heads=shape.key_heads, longest=42)
    keys, values = (torch.zeros(4, shape.key_heads, 64, shape.head_size) for _ in "kv")
    h_NH = normal(3, 32)
    q_NQD = project_qkv(h_NH, layer.qkv, places, keys, values, epsilon=shape.epsilon)
    with torch.no_grad():
        q, k, v = (
            getattr(attention, f"{name}_proj")(h_NH).view(3, 1, -1, shape.head_size).transpose(1, 2) for name in "qkv"
        )
        if isinstance(getattr(attention, "q_norm", None), Qwen3RMSNorm):
            q, k = attention.q_norm(q), attention.k_norm(k)
        q, k = apply_rotary_pos_emb(q, k, *model.module.model.rotary_emb(h_NH, position_RT))
    torch.testing.assert_close(q_NQD, q.squeeze(2))
    for row, (page, position) in enumerate([(0, 3), (2, 0), (1, 41)]):
        torch.testing.assert_close(keys[page, :, position], k[row].squeeze(1))
        torch.testing.assert_close(values[page, :, position], v[row].squeeze(1))
    assert int((keys != 0).any(dim=-1).sum()) == 3 * shape.key_heads  # and nothing else was written


def slow_attention(
    q_QD: torch.Tensor, keys, values, pages: list[int], position: int, *, scale: float
) -> torch.Tensor:
    """By the definition, a query and a key at a time, in float64."""
    page_tokens, group = keys.shape[2], len(q_QD) // keys.shape[1]
    rows = []
    for query, q_D in enumerate(q_QD.double()):
        places = [(pages[at // page_tokens], query // group, at % page_tokens) for at in range(position + 1)]
        weights = [math.exp(scale * float(q_D @ keys[place].double())) for place in places]
        total = sum(weight * values[place].double() for weight, place in zip(weights, places, strict=True))
        rows.append(total / sum(weights))
    return torch.stack(rows)


@pytest.mark.parametrize(("page_tokens", "in_order"), [(2, False), (8, False), (32, False), (32, True)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_attention_is_the_sum_over_the_keys_of_the_rows_own_pages(page_tokens, in_order, dtype):
    """What lies in other pages, or behind the position, has no share, however large it is."""
    key_heads, heads, head_size, positions = 2, 6, 8, [0, 7, 12]
    each = 32 // page_tokens
    pages = 3 * each + 1
    keys, values = (normal(pages, key_heads, page_tokens, head_size, seed=s, dtype=dtype) for s in (1, 2))
    order = list(range(3)) if in_order else np.random.default_rng(0).permutation(pages)
    tables = [[int(order[row * each + m]) for m in range(each)] for row in range(3)]
    for row, position in enumerate(positions):
        for behind in range(position + 1, 32):
            keys[tables[row][behind // page_tokens], :, behind % page_tokens] = 1000.0
            values[tables[row][behind // page_tokens], :, behind % page_tokens] = 1000.0
    table_NM = torch.tensor(tables, dtype=torch.int32)
    places = locate(
        torch.tensor(positions).unsqueeze(1),
        table_NM,
        torch.zeros(32, 8),
        torch.zeros(32, 8),
        page_tokens=page_tokens,
        key_heads=key_heads,
        longest=13,
    )
    q_NQD = normal(3, heads, head_size, seed=3, dtype=dtype)
    found = operations.attend(q_NQD, keys, values, places, None if in_order else table_NM, scale=0.3)
    expected = torch.stack(
        [
            slow_attention(q_NQD[row], keys, values, tables[row], position, scale=0.3)
            for row, position in enumerate(positions)
        ]
    )
    assert found.dtype == dtype
    atol = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float64: 1e-7}[dtype]
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=atol)


def test_a_chunk_of_several_tokens_attends_as_each_of_them_alone():
    key_heads, heads, head_size, page_tokens = 2, 4, 8, 4
    keys, values = (normal(9, key_heads, page_tokens, head_size, seed=s) for s in (1, 2))
    table_RM = torch.tensor([[7, 1, 2, 0], [3, 6, 5, 8]], dtype=torch.int32)
    position_RT = torch.tensor([[4, 5, 6], [11, 12, 13]])
    q_RTQD = normal(2, 3, heads, head_size, seed=3)
    angles = torch.zeros(16, 8)
    places = locate(position_RT, table_RM, angles, angles, page_tokens=page_tokens, key_heads=key_heads, longest=14)
    found = operations.attend_many(q_RTQD, keys, values, places, table_RM, scale=0.3)
    for row in range(2):
        for t in range(3):
            position, pages = int(position_RT[row, t]), table_RM[row].tolist()
            expected = slow_attention(q_RTQD[row, t], keys, values, pages, position, scale=0.3)
            torch.testing.assert_close(found[row, t].double(), expected, rtol=0, atol=1e-5)


def test_mixing_is_projection_and_attention_with_the_new_key_among_the_keys(make_decoder):
    """One decode step of one sequence against the model's attention over all of its tokens."""
    model = make_decoder("qwen3")
    attention, layer, shape = model.module.model.layers[0].self_attn, Weights.of(model).layers[0], Shape.of(model)
    h_TH = normal(6, 32)
    cos_LD, sin_LD = rotation(model.module.model.rotary_emb, 8, dtype=torch.float32)
    keys, values = (torch.zeros(2, shape.key_heads, 8, shape.head_size) for _ in "kv")
    table_NM = torch.tensor([[1]], dtype=torch.int32)
    for position in range(6):
        places = locate(
            torch.tensor([[position]]), table_NM, cos_LD, sin_LD, page_tokens=8, key_heads=2, longest=position + 1
        )
        h_NH = h_TH[position : position + 1]
        a_NA = mix(h_NH, layer.qkv, places, keys, values, table_NM, epsilon=shape.epsilon, scale=shape.scale)
        found_H = (a_NA @ layer.out_HA.t())[0]
        with torch.no_grad():
            angles = model.module.model.rotary_emb(h_TH, torch.arange(position + 1).unsqueeze(0))
            expected, _ = attention(h_TH[None, : position + 1], position_embeddings=angles, attention_mask=None)
        torch.testing.assert_close(found_H, expected[0, -1], rtol=1e-5, atol=1e-5)


# --- the choice -----------------------------------------------------------------------------------------


@given(
    st.lists(st.floats(-8, 8), min_size=2, max_size=12),
    st.floats(0, 1, exclude_max=True),
    st.sampled_from([{}, {"temperature": 0.6}, {"top_k": 3}, {"top_p": 0.7}, {"min_p": 0.3, "temperature": 1.7}]),
)
def test_the_token_is_the_one_that_the_plain_sampler_draws(logits, uniform, cut):
    """Given the same logits and the same number, in float64, with both log-probabilities."""
    sampling = Sampling(limit_tokens=1, **cut)
    logits_NV, uniform_N = torch.tensor([logits], dtype=torch.float64), torch.tensor([uniform], dtype=torch.float64)
    logp_NV = sampling_logp(logits_NV, sampling)
    choice = choose_among(logits_NV, uniform_N, sampling)
    token = int(choice.token_N)
    borders = logp_NV.exp().cumsum(dim=-1)[0] / logp_NV.exp().sum()
    if float((borders - uniform).abs().min()) > 1e-12:  # on a border, rounding decides
        assert token == int(draw(logp_NV.exp(), uniform_N))
    assert float(choice.logp_N) == pytest.approx(float(logp_NV[0, token]), abs=1e-9)
    raw_V = (logits_NV[0] / sampling.temperature).log_softmax(dim=-1)
    assert float(choice.raw_logp_N) == pytest.approx(float(raw_V[token]), abs=1e-9)


@pytest.mark.parametrize("cut", [{}, {"top_k": 5}, {"top_p": 0.9}])
@pytest.mark.parametrize("uniform", [0.0, math.nextafter(1.0, 0.0)])
def test_the_smallest_and_the_largest_number_draw_tokens_that_can_be_drawn(cut, uniform):
    """The first and the last of 300 ids have no probability at all."""
    logits_NV = normal(4, 300)
    logits_NV[:, :50] = logits_NV[:, 250:] = -torch.inf
    uniform_N = torch.full((4,), uniform, dtype=torch.float64)
    choice = choose_among(logits_NV, uniform_N, Sampling(limit_tokens=1, **cut))
    assert bool(((choice.token_N >= 50) & (choice.token_N < 250)).all())
    assert bool(choice.logp_N.isfinite().all())


@pytest.mark.parametrize("cut", [{}, {"top_k": 5}, {"top_p": 0.9}, {"min_p": 0.1}])
def test_a_row_without_a_distribution_is_broken_and_the_others_are_not(cut):
    logits_NV = normal(3, 20)
    logits_NV[1, 7] = torch.nan
    choice = choose_among(logits_NV, torch.full((3,), 0.5, dtype=torch.float64), Sampling(limit_tokens=1, **cut))
    assert (choice.token_N == BROKEN).tolist() == [False, True, False]


# --- the board ------------------------------------------------------------------------------------------


def board(rows: int) -> Board:
    empty = Board.empty(rows=rows, window=4, pages=1, nobodys=9, dtype=torch.float32, device=torch.device("cpu"))
    empty.active_B.fill_(True)
    empty.ids_B.fill_(5)
    empty.position_B.copy_(torch.arange(rows))
    empty.left_B.fill_(3)
    return empty


def choice(*tokens: int) -> Choice:
    token_N = torch.tensor(tokens)
    return Choice(token_N=token_N, logp_N=-token_N.float(), raw_logp_N=-2 * token_N.float())


def test_the_board_moves_on_and_rows_that_have_ended_stay():
    """Of four rows one stops, one is at its limit, one breaks; a fifth was not active. Stop id: 2."""
    five = board(5)
    five.left_B[1] = 1
    five.active_B[4] = False
    stop_V = torch.tensor([False, False, True, False, False, False, False, False])
    advance(five, choice(2, 3, BROKEN, 4, 6), stop_V)
    assert five.active_B.tolist() == [False, False, False, True, False]
    assert five.token_BW[:, 0].tolist() == [2, 3, BROKEN, 4, NONE]
    assert five.position_B.tolist() == [1, 2, 2, 4, 4]
    assert five.ids_B.tolist() == [2, 3, 5, 4, 5]
    advance(five, choice(1, 1, 1, 7, 1), stop_V)
    assert five.token_BW[:, :2].tolist() == [[2, NONE], [3, NONE], [BROKEN, NONE], [4, 7], [NONE, NONE]]
    assert five.logp_BW[3, :2].tolist() == [-4.0, -7.0]
    assert five.raw_logp_BW[3, :2].tolist() == [-8.0, -14.0]
    assert five.position_B.tolist() == [1, 2, 2, 5, 4]
    assert five.tick.tolist() == [2]


def test_a_broken_row_keeps_an_id_that_no_token_has():
    """A prompt may end with the id of a padded row of the embedding, behind all that `stop_V` knows."""
    two = board(2)
    two.ids_B.copy_(torch.tensor([9, 9]))
    two.active_B[1] = False
    advance(two, choice(BROKEN, 3), torch.zeros(8, dtype=torch.bool))
    assert two.token_BW[:, 0].tolist() == [BROKEN, NONE]
    assert two.ids_B.tolist() == [9, 9]
    assert two.active_B.tolist() == [False, False]


def test_the_first_rows_of_a_board_are_views_of_it():
    four = board(4)
    advance(four.first(2), choice(3, 4), torch.zeros(8, dtype=torch.bool))
    assert four.token_BW[:, 0].tolist() == [3, 4, NONE, NONE]
    assert four.ids_B.tolist() == [3, 4, 5, 5]
    assert four.tick.tolist() == [1]


def test_a_prepared_mix_is_the_mix_to_the_bit(kind, make_decoder):
    """Step by step over changing numbers of rows and keys, and what it has written into the pools too."""
    model = make_decoder(kind)
    size = Size(rows=3, sequence_tokens=24, page_tokens=24, pages=3, window=4, in_order=True)
    plain, prepared = (Room.of(model, Sampling(limit_tokens=4), size) for _ in range(2))
    layer, shape = plain.weights.layers[1], plain.shape
    for position, rows in ((0, 3), (1, 3), (2, 2), (9, 2), (17, 1)):
        bound = -(-(position + 1) // 8) * 8
        table_RM = torch.arange(rows, dtype=torch.int32).unsqueeze(1)
        places = located(plain, TORCH, torch.full((rows, 1), position), table_RM, longest=bound)
        mixer = Mixer(prepared, rows=rows, longest=bound)
        found, expected = (
            way(
                normal(rows, 32, seed=position),
                layer.qkv,
                places,
                room.pools.keys[1],
                room.pools.values[1],
                None,
                epsilon=shape.epsilon,
                scale=shape.scale,
            )
            for way, room in ((mixer, prepared), (mix, plain))
        )
        assert torch.equal(found, expected)
        assert torch.equal(prepared.pools.keys[1], plain.pools.keys[1])
        assert torch.equal(prepared.pools.values[1], plain.pools.values[1])
