"""The exact order of the graphs: its kernels against torch, and on a GPU sampler against trainer, to the last bit.

Shapes: M rows, N outputs, K columns of a product; T tokens, H hidden, Q query and K key heads of D; V ids.
"""

import os
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from opd.models.engine.operations import TORCH
from opd.models.engine.prefill import Span, prefill
from opd.models.engine.room import Room, Size
from opd.models.engine.sampler import EngineSampler
from opd.models.engine.weights import Qkv
from opd.models.exact.model import exact_model
from opd.models.exact.order import Tiles
from opd.models.exact.trial import ROWS, by_products
from opd.models.interfaces import Sampling
from opd.models.load import LanguageModel
from opd.models.logprobs import token_logp
from opd.models.packing import hidden_states, learn_packing
from opd.models.sequences import pack, packed
from opd.records.rollouts import Prompt, Rollout

ON_GPU = torch.cuda.is_available()
pytest.importorskip("triton", reason="the kernels need Triton, which comes with torch's CUDA builds")
if not ON_GPU and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("there is a GPU, but torch sees none", allow_module_level=True)

from opd.models.exact.chained import operations, steps  # noqa: E402
from opd.models.exact.chained.order import CHAINED  # noqa: E402
from opd.models.exact.layers import make_exact  # noqa: E402

DEVICE = torch.device("cuda" if ON_GPU else "cpu")
KIND = torch.bfloat16 if ON_GPU else torch.float32  # the interpreter multiplies no bfloat16


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = KIND) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE, dtype)


def near(found: torch.Tensor, expected: torch.Tensor) -> None:
    """As near as some roundings to bf16, and a little for the order of sums."""
    torch.testing.assert_close(found.double(), expected.double(), rtol=2e-2, atol=1e-2)


@pytest.mark.parametrize("rows", [1, 20, 70])
def test_a_product_is_rounded_once_behind_bias_and_what_is_added(rows):
    x_MK, weight_NK, bias_N, added_MN = normal(rows, 70), normal(40, 70, seed=1), normal(40, seed=2), normal(rows, 40)
    whole_MN = x_MK.double() @ weight_NK.double().t()
    near(operations.product(x_MK, weight_NK, wide=True), whole_MN)
    near(operations.product(x_MK, weight_NK, bias_N), whole_MN + bias_N.double())
    near(operations.product(x_MK, weight_NK, added_MN=added_MN), whole_MN + added_MN.double())


def test_a_norm_is_that_of_torch():
    x_NH, weight_H = normal(3, 96), normal(96, seed=1)
    near(operations.norm(x_NH, weight_H, 1e-6), functional.rms_norm(x_NH.double(), (96,), weight_H.double(), 1e-6))


@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("size", [24, 32])
def test_keys_and_queries_are_placed_as_torch_does_and_turned_alike_on_both_sides(size, normed):
    """A head of 24 numbers, whose half is no power of two; queries and keys of the sampler are the trainer's."""
    heads, key_heads, tokens = 3, 1, 5
    angle = normal(64, size // 2, seed=5, dtype=torch.float32)
    cos_LD, sin_LD = torch.cat([angle.cos()] * 2, -1), torch.cat([-angle.sin(), angle.sin()], -1)
    position_RT = torch.tensor([[0], [3], [15], [16], [40]], device=DEVICE)
    table_RM = torch.randperm(20, generator=torch.Generator().manual_seed(1)).view(5, 4).int().to(DEVICE)
    places = TORCH.locate(position_RT, table_RM, cos_LD, sin_LD, page_tokens=16, key_heads=key_heads, longest=64)
    norms = [normal(size, seed=seed) if normed else None for seed in (6, 7)]
    qkv = Qkv(weight_EH=normal(5 * size, 48, seed=8) / 7, bias_E=None, q_norm_D=norms[0], k_norm_D=norms[1])
    h_NH = normal(tokens, 48, seed=9)
    pools, theirs = ([torch.zeros(21, key_heads, 16, size, dtype=KIND, device=DEVICE) for _ in "kv"] for _ in "ab")
    found = steps.project_qkv(h_NH, qkv, places, *pools, epsilon=1e-6)
    near(found, TORCH.project_qkv(h_NH, qkv, places, *theirs, epsilon=1e-6))
    for mine, other in zip(pools, theirs, strict=True):
        near(mine, other)
    rows_NCD = operations.product(h_NH, qkv.weight_EH).unflatten(-1, (-1, size))
    for norm_D, given, expected in (
        (norms[0], rows_NCD[:, :heads], found),
        (norms[1], rows_NCD[:, heads : heads + 1], pools[0].view(-1, 1, size)[places.row_NK[:, 0]]),
    ):
        own = operations.turn(given, cos_LD, sin_LD, position_RT.flatten(), norm_D, 1e-6)
        assert torch.equal(own, expected)


def attended(query_TQD: torch.Tensor, key_TKD: torch.Tensor, value_TKD: torch.Tensor, scale: float) -> torch.Tensor:
    """In float64, each query over the keys up to itself."""
    query, key, value = (one.double().transpose(0, 1) for one in (query_TQD, key_TKD, value_TKD))
    return functional.scaled_dot_product_attention(
        query, key, value, is_causal=True, scale=scale, enable_gqa=True
    ).transpose(0, 1)


@pytest.mark.parametrize(("size", "page_tokens"), [(24, 64), (32, 16)])
def test_attention_of_tiles_and_of_steps_is_that_of_torch(size, page_tokens):
    """Two sequences in a row, in pages, and the last token of each as a step; stretches of 128 keys, one partly."""
    heads, key_heads, lengths, scale = 6, 2, (140, 30), size**-0.5
    query_PQD, key_PKD, value_PKD = (normal(170, count, size, seed=count) for count in (heads, key_heads, key_heads))
    ends = [(0, 140), (140, 170)]
    expected = torch.cat([attended(query_PQD[a:b], key_PKD[a:b], value_PKD[a:b], scale) for a, b in ends])
    tiles = Tiles.of(lengths, size=operations.TILE_QUERIES, device=DEVICE)
    in_rows = operations.attend(query_PQD, key_PKD, value_PKD, tiles, scale)
    near(in_rows, expected)
    each = -(-140 // page_tokens)
    table_SM = torch.randperm(2 * each, generator=torch.Generator().manual_seed(1)).view(2, each).int().to(DEVICE)
    pools = [torch.zeros(2 * each + 1, key_heads, page_tokens, size, dtype=KIND, device=DEVICE) for _ in "kv"]
    for pool, given in zip(pools, (key_PKD, value_PKD), strict=True):
        for s, (a, b) in enumerate(ends):
            for t in range(b - a):
                pool[table_SM[s, t // page_tokens], :, t % page_tokens] = given[a + t]
    in_pages = operations.attend(query_PQD, *pools, tiles, scale, table_SM=table_SM)
    last = torch.tensor([139, 169], device=DEVICE)
    arrived = torch.zeros(2 * key_heads, dtype=torch.int32, device=DEVICE)
    position_N = torch.tensor([139, 29], device=DEVICE)
    step_NQD = steps.attend_step(
        query_PQD[last].contiguous(), *pools, position_N, table_SM, arrived, scale=scale, longest=each * page_tokens
    )
    near(step_NQD, expected[last])
    assert not arrived.any()  # ready for the next layer
    if ON_GPU:
        assert torch.equal(in_pages, in_rows)
        assert torch.equal(step_NQD, in_rows[last])
    else:
        near(in_pages, expected)


@pytest.mark.skipif(ON_GPU, reason="in float32 the kernels are the interpreter's; below a GPU compares every bit")
def test_a_ragged_prefill_leaves_the_keys_and_values_of_torch(make_decoder):
    """In two pieces, of which the second begins in the middle of a page, beside a shorter sequence."""
    pools = []
    for own in (True, False):
        size = Size(rows=2, sequence_tokens=48, page_tokens=16, pages=6, window=4, in_order=False)
        room = Room.of(make_decoder("qwen2", "float32"), Sampling(limit_tokens=4), size)
        ops = steps.operations_of(room) if own else TORCH
        first, second = Span(ids=tuple(range(21)), start=0, pages=(4, 1, 0)), Span(ids=(7, 8), start=0, pages=(2,))
        prefill(room, ops, [first, second], chunk_tokens=60)
        prefill(room, ops, [replace(first, start=21), replace(second, start=2)], chunk_tokens=60)
        pools.append(torch.stack([*room.pools.keys, *room.pools.values])[:, :-1])  # the last page is nobody's
    assert float(pools[1].abs().max()) > 1
    torch.testing.assert_close(pools[0], pools[1], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("rows", [3, 70])
def test_gates_and_log_probabilities_are_those_of_torch(rows):
    h_NH, weight_2IH = normal(rows, 40), normal(2 * 50, 40, seed=1) / 6
    gate_NI, up_NI = (h_NH.double() @ weight_2IH.double().t()).chunk(2, dim=-1)
    near(steps.gate(h_NH, weight_2IH), functional.silu(gate_NI) * up_NI)
    logits_CR, ids_C = normal(rows, 203, seed=2, dtype=torch.float32), torch.arange(rows, device=DEVICE)
    logp_C, whole_C = operations.token_logp(logits_CR, ids_C, vocabulary=197, temperature=0.7)
    expected_CV = (logits_CR[:, :197].double() / 0.7).log_softmax(-1)
    torch.testing.assert_close(logp_C.double(), expected_CV[ids_C, ids_C], rtol=0, atol=2e-6)
    torch.testing.assert_close(whole_C.double(), (logits_CR[:, :197].double() / 0.7).logsumexp(-1), rtol=0, atol=2e-6)


def test_a_step_draws_what_torch_draws_with_the_trainers_log_probability():
    h_NH, head_VH = normal(5, 32), normal(150, 32, seed=1) / 3
    uniform_N = torch.linspace(0.05, 0.95, 5, dtype=torch.float64, device=DEVICE)
    sampling = Sampling(limit_tokens=1, temperature=0.7)
    choice = steps.choose(h_NH, head_VH, uniform_N, sampling)
    assert (
        choice.token_N.tolist() == TORCH.choose(h_NH.float(), head_VH.float(), uniform_N, sampling).token_N.tolist()
    )
    padded_RH = torch.cat([head_VH, normal(10, 32)])  # a trainer's head has rows that are no token's
    logits_CR = operations.product(h_NH, padded_RH, wide=True)
    logp_C, _ = operations.token_logp(logits_CR, choice.token_N, vocabulary=150, temperature=0.7)
    assert torch.equal(logp_C, choice.logp_N)


@pytest.mark.skipif(
    ON_GPU, reason="in float32 the kernels are the interpreter's; test_exact.py has gradients in bf16"
)
def test_a_decoder_has_the_values_and_gradients_of_transformers(make_decoder, kind):
    """In float32, where the kernels' order of sums is the only difference."""
    found = {}
    for name in ("own", "theirs"):
        model = make_decoder(kind, "float32")
        model.module.to(DEVICE)
        model = replace(model, unpackable=learn_packing(model.module))
        if name == "own":
            make_exact(model.module.get_decoder(), CHAINED)
        sequences = pack([((1, 2, 3, 4, 5), (3, 4)), (tuple(range(7, 40)), (8, 30))], device=DEVICE)
        hidden_PH = hidden_states(model.module, sequences, packs=True)
        (hidden_PH * normal(*hidden_PH.shape, dtype=torch.float32)).sum().backward()
        found[name] = {"hidden": hidden_PH.detach()} | {
            key: one.grad for key, one in model.module.named_parameters() if one.grad is not None
        }
    assert found["own"].keys() == found["theirs"].keys()
    for key, expected in found["theirs"].items():
        torch.testing.assert_close(found["own"][key], expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))


@pytest.mark.parametrize(
    ("outputs", "deep"), [(256, 1_536), (1_536, 1_536), (17_920, 1_536), (1_536, 8_960), (151_665, 1_536)]
)
def test_the_trial_has_a_product_of_every_kind_of_tile(outputs, deep):
    """Those of a 1.5B Qwen2: keys, the output projection, gate and up, down, the head."""

    def kind_of(rows: int) -> tuple[tuple[str, int], ...]:
        return tuple(operations._tile(rows, outputs, deep).items())

    assert {kind_of(rows) for rows in ROWS} == {kind_of(rows) for rows in range(1, 3_000)}
    assert any(rows <= 16 for rows in ROWS)  # of a gate that is one kernel with its up, both kinds of tile
    assert any(16 < rows <= steps.FEW_ROWS for rows in ROWS)


@pytest.mark.skipif(ON_GPU, reason="on a GPU every exact model goes through it")
def test_the_trial_finds_both_ways_alike_where_no_sum_is_rounded(make_decoder):
    """By the interpreter, of matrices with a single one in a row; and not where the sampler's gate is another."""
    model = make_decoder("qwen2-untied")
    with torch.no_grad():
        for parameter in model.module.parameters():
            if parameter.dim() == 2:
                parameter.copy_(torch.eye(parameter.shape[1])[torch.arange(len(parameter)) % parameter.shape[1]])
    assert CHAINED.trial(model) is None
    given = {**CHAINED.trial.keywords, "gate_of_steps": lambda *given: steps.gate(*given) * 1.01}
    assert str(by_products(model, **given)).endswith("gate and up, 600 rows of 600")


# ---- to the last bit, on a GPU


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("outputs", "deep"),
    [(72, 16), (64, 48), (72, 96), (96, 128), (768, 256), (1_536, 1_536), (1_536, 8_960), (5_000, 256)],
)
def test_a_row_of_a_product_is_the_same_in_any_company(outputs, deep):
    x_MK, weight_NK, bias_N = normal(1_200, deep), normal(outputs, deep, seed=1), normal(outputs, seed=2)
    many_MN = operations.product(x_MK, weight_NK, bias_N, wide=True)
    for rows in (1, 8, 16, 17, 64, 65, 300, 512, 513):
        some_MN = operations.product(x_MK[7 : 7 + rows], weight_NK, bias_N, wide=True)
        assert torch.equal(some_MN, many_MN[7 : 7 + rows]), rows


def trainers(model: LanguageModel, rollouts: Sequence[Rollout], *, temperature: float = 1.0) -> list[float]:
    """The log-probabilities that the trainer's forward pass gives, of all rollouts in one row."""
    with torch.no_grad():
        logp_N = token_logp(model, packed(rollouts, device=model.device), temperature=temperature)
    return [float(one) for one in logp_N]


def samplers(rollouts: Sequence[Rollout]) -> list[float]:
    """Those that the sampler gave."""
    return [logp for one in rollouts for logp in one.logp]


def prompts_of(*lengths: int) -> list[Prompt]:
    numbers = torch.Generator().manual_seed(3)
    ids = [tuple(torch.randint(300, (length,), generator=numbers).tolist()) for length in lengths]
    return [Prompt(row=row, problem="", answer="", token_ids=one) for row, one in enumerate(ids)]


@pytest.mark.gpu
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_every_decoder_that_the_engine_runs_agrees_to_the_last_bit(make_decoder, kind, temperature):
    """Lengths across the stretches' edges, shared prompts, rows that come and go, any number of rows at once."""
    model = make_decoder(kind, "bfloat16")
    model.module.cuda()
    model = exact_model(replace(model, unpackable=learn_packing(model.module)), persistent=False)
    sampling = Sampling(limit_tokens=140, temperature=temperature)
    whole = EngineSampler(model, sampling).sample(prompts_of(1, 100, 127, 128, 129, 200), seeds=[0, 1, 2])
    assert samplers(whole) == trainers(model, whole, temperature=temperature)
    assert samplers(whole[4:6]) == trainers(model, whole[4:6], temperature=temperature)
    few = EngineSampler(model, sampling, largest_batch=3, page_tokens=16, window=5)
    some = few.sample(prompts_of(1, 100, 127, 128, 129, 200)[1:3], seeds=[1, 2])
    assert [(one.token_ids, one.logp) for one in some] == [
        (one.token_ids, one.logp) for one in (*whole[4:6], *whole[7:9])
    ]
