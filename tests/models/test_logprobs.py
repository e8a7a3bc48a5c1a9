"""The one shift and the chunked head, against transformers' own forward and against tables written down.

Shapes: N response tokens, T positions of a sequence, V ids. In the tables of the bigram models,
row x holds the logits after x.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
import torch

from opd.models.head import head_logits
from opd.models.interfaces import Sampling
from opd.models.load import LanguageModel, load_model
from opd.models.logprobs import token_logp
from opd.models.plain import sampling_logp
from opd.models.sequences import pack, packed
from opd.records.rollouts import Prompt, Rollout, StopReason

CPU = torch.device("cpu")
RAGGED = (  # prompt and response, in ids; the lengths differ in both
    ((305, 308, 7), (21, 9, 33, 306)),
    ((305,), (44, 3)),
    ((305, 308, 250, 251, 17, 309, 310), (1, 1, 2, 300, 299, 0, 14, 306)),
    ((2, 3), (306,)),
)


def rollouts(pairs=RAGGED):
    return [
        Rollout(
            prompt=Prompt(row=row, problem="", answer="", token_ids=prompt),
            sample=0,
            token_ids=response,
            logp=(0.0,) * len(response),
            stop=StopReason.LENGTH,
        )
        for row, (prompt, response) in enumerate(pairs)
    ]


def by_transformers(model: LanguageModel, rollout: Rollout, *, temperature: float = 1.0) -> torch.Tensor:
    """logp of each response token: the sequence alone, unpadded, all logits at once."""
    ids = torch.tensor([rollout.prompt.token_ids + rollout.token_ids])
    logits_TV = model.module(input_ids=ids).logits[0, :, : len(model.tokenizer)]
    logp_TV = torch.log_softmax(logits_TV / temperature, dim=-1)
    start = len(rollout.prompt.token_ids)
    return torch.stack([logp_TV[start + n - 1, token] for n, token in enumerate(rollout.token_ids)])


@pytest.mark.parametrize("packs", [True, False])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_each_token_has_the_value_of_its_sequence_alone(either64, temperature, packs):
    """E25 (the shift), E26 (masks), E27 (positions), E44 (the teacher's temperature); in a row and in a rectangle."""
    assert either64.packs
    model = replace(either64, unpackable=None if packs else "a test")
    row = packed(rollouts(), device=CPU)
    with torch.no_grad():
        logp_N = token_logp(model, row, temperature=temperature)
        for rollout, logp_T in zip(rollouts(), logp_N.split(row.responses), strict=True):
            expected = by_transformers(either64, rollout, temperature=temperature)
            torch.testing.assert_close(logp_T, expected, rtol=0, atol=1e-12)


def test_a_token_is_predicted_by_the_one_before_it_and_by_nothing_else(bigram):
    """Rows of the table, picked by hand."""
    table_VV = torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    row = pack([([3], [1, 2, 0]), ([0, 2], [2, 1])], device=CPU)
    logp = torch.log_softmax(table_VV, dim=-1)
    expected_N = torch.stack([logp[3, 1], logp[1, 2], logp[2, 0], logp[2, 2], logp[2, 1]])
    with torch.no_grad():
        torch.testing.assert_close(token_logp(bigram(table_VV), row), expected_N)


def test_a_prompt_alone_has_no_values(student64):
    with torch.no_grad():
        assert token_logp(student64, pack([([1, 2, 3], [])], device=CPU)).shape == (0,)


# --- chunks and gradients -------------------------------------------------------------------------------


def gradients(
    model: LanguageModel, value_of: Callable[[], torch.Tensor]
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    model.module.zero_grad()
    value = value_of()
    weights = torch.arange(1, value.numel() + 1, dtype=value.dtype)  # each token pulls differently
    (value.flatten() * weights).sum().backward()
    return value.detach(), {name: one.grad.clone() for name, one in model.module.named_parameters()}


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_size_of_a_chunk_changes_neither_values_nor_gradients(either, temperature):
    """E18: seven tokens in chunks of three and in one; and both are autograd's own (E19: temperature too)."""
    model = load_model(either, dtype="float64", device="cpu")
    (one,) = rollouts([((305, 308, 7), (21, 9, 33, 21, 5, 0, 306))])
    row = packed([one], device=CPU)

    def chunked(chunk_tokens: int) -> Callable[[], torch.Tensor]:
        def value() -> torch.Tensor:
            return token_logp(model, row, temperature=temperature, chunk_tokens=chunk_tokens)

        return value

    expected, expected_grad = gradients(model, lambda: by_transformers(model, one, temperature=temperature))
    for chunk_tokens in (1, 3, 7, 2048):
        value, grad = gradients(model, chunked(chunk_tokens))
        torch.testing.assert_close(value, expected, rtol=0, atol=1e-12)
        for name, expected_one in expected_grad.items():
            torch.testing.assert_close(grad[name], expected_one, rtol=1e-9, atol=1e-12, msg=name)


def test_without_gradients_none_are_made(student64):
    row = packed(rollouts(), device=CPU)
    with torch.no_grad():
        assert not token_logp(student64, row, chunk_tokens=3).requires_grad


@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize(("real", "rows"), [(3, 5), (1_001, 1_024), (1_000, 1_000)])
def test_columns_that_no_token_has_are_no_part_of_the_sum(bigram, real, rows, temperature):
    """E17: (3, -15, -15) and two zero columns: 3.0000 and not 3.0949; at sizes that no tile divides, too."""
    table_VV = torch.zeros(rows, rows, dtype=torch.float32)
    table_VV[:, 1:real] = -15.0
    table_VV[:, 0] = 3.0 * temperature
    model = bigram(table_VV, vocabulary=real)
    found = torch.log_softmax(torch.tensor([3.0, *[-15.0 / temperature] * (real - 1)], dtype=torch.float64), dim=-1)
    with_phantoms = math.log(math.exp(3.0) + (real - 1) * math.exp(-15.0 / temperature) + rows - real)
    assert (3.0 - with_phantoms < -0.09) == (rows > real)
    row = pack([([1], [0, 2, 0])], device=CPU)
    for chunk_tokens, learns in product((1, 128), (False, True)):  # two ways through the head
        with torch.set_grad_enabled(learns):
            logp_N = token_logp(model, row, temperature=temperature, chunk_tokens=chunk_tokens).detach()
        torch.testing.assert_close(logp_N.double(), found[[0, 2, 0]], rtol=0, atol=1e-5)


# --- what must stay out ---------------------------------------------------------------------------------


def test_a_nan_beside_the_kept_tokens_stays_out_of_values_and_gradients(bigram):
    """E15: the token before a prompt's end (4) has NaN for logits, and so has that which fills rectangles up (0)."""
    table_VV = torch.randn(5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    table_VV[0] = torch.nan
    table_VV[4] = torch.nan
    model = bigram(table_VV)
    logp_N = token_logp(model, pack([([4, 1], [2, 3, 3]), ([4, 2], [0])], device=CPU), chunk_tokens=2)
    assert logp_N.isfinite().all()
    logp_N.sum().backward()
    assert model.module.rows.grad.isfinite().all()
    assert not model.module.rows.grad[[0, 4]].any()
    assert model.module.head.weight.grad.isfinite().all()


def test_rows_beyond_the_tokenizers_ids_have_no_share(bigram):
    """E33: logits (1, 0) and a padded row of 2. The first token has 1 / (1 + 1/e) = .7311, not .2447."""
    table_VV = torch.tensor([[1.0, 0.0, 2.0]] * 3, dtype=torch.float64)
    row = pack([([1], [0])], device=CPU)
    with torch.no_grad():
        padded_away = token_logp(bigram(table_VV, vocabulary=2), row)[0].exp()
        counted = token_logp(bigram(table_VV), row)[0].exp()
    assert padded_away.item() == pytest.approx(1 / (1 + math.exp(-1)), abs=1e-12)
    assert padded_away.item() == pytest.approx(0.7311, abs=5e-5)
    assert counted.item() == pytest.approx(0.2447, abs=5e-5)  # the bad condition exists


def test_enormous_padded_rows_change_no_real_tokens_value(either):
    """E33, for whole models: 8 rows stand beyond the tokenizer's 312 ids."""
    model = load_model(either, dtype="float64", device="cpu")
    row = packed(rollouts(), device=CPU)
    with torch.no_grad():
        before = token_logp(model, row)
        weight = model.module.get_output_embeddings().weight
        assert weight.shape[0] - model.vocabulary == 8
        weight[model.vocabulary :] = 1e6
        assert model.module(input_ids=row.ids_P[None]).logits.argmax(dim=-1).max() >= model.vocabulary
        after = token_logp(model, row)
    torch.testing.assert_close(after, before, rtol=0, atol=1e-12)


# --- temperature and precision --------------------------------------------------------------------------


def test_temperature_scales_the_logits_before_the_softmax(bigram):
    """E43: z = (2, 0) at T = .5 is the softmax of (4, 0): -log(1 + exp(-4)) = -0.01815."""
    expected = -math.log1p(math.exp(-4))
    assert expected == pytest.approx(-0.01815, abs=5e-6)
    table_VV = torch.tensor([[2.0, 0.0]] * 2, dtype=torch.float64)
    with torch.no_grad():
        scored = token_logp(bigram(table_VV), pack([([1], [0])], device=CPU), temperature=0.5)
    sampled = sampling_logp(table_VV[:1], Sampling(temperature=0.5, limit_tokens=1))
    assert scored[0].item() == pytest.approx(expected, abs=1e-12)
    assert sampled[0, 0].item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("dtype", "wide"), [("bfloat16", torch.float32), ("float32", torch.float32), ("float64", torch.float64)]
)
def test_log_probabilities_are_float32_or_wider(random_models, dtype, wide):
    """In bfloat16 a log-probability near -5 would be known to 0.03 only."""
    model = load_model(random_models / "student", dtype=dtype, device="cpu")
    row = packed(rollouts(), device=CPU)
    with torch.no_grad():
        logp_N = token_logp(model, row)
        hidden_NH = torch.ones(2, 32, dtype=model.module.dtype)
        logits_NV = head_logits(model, hidden_NH)
    assert logp_N.dtype is wide
    assert logits_NV.dtype is wide
    assert logits_NV.shape == (2, len(model.tokenizer))
    assert logp_N.min() < -5
