"""Backward through the head in chunks, against autograd over all logits at once.

Shapes: N tokens, C of them in a chunk, H hidden, V real tokens, R rows of the head's matrix.
"""

import gc
import weakref
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from opd.models.head import backward_in_chunks, head_logits, head_logp, head_matrix
from opd.models.load import LanguageModel

N, H, V, R = 7, 5, 11, 13
PRODUCTS = {torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.addmm_.default}


class Head(torch.nn.Module):
    """A head and nothing below it."""

    def __init__(self, *, dtype: torch.dtype, bias: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.head = torch.nn.Linear(H, R, bias=bias, dtype=dtype)

    def get_output_embeddings(self) -> torch.nn.Linear:
        return self.head


def model(dtype: torch.dtype = torch.float64, *, bias: bool = False) -> LanguageModel:
    head = Head(dtype=dtype, bias=bias)
    return LanguageModel(module=head, tokenizer=None, path=Path("head"), vocabulary=V, stop_ids=frozenset())


def tokens(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Hidden states, ids, and how hard each token pulls."""
    numbers = torch.Generator().manual_seed(1)
    hidden_NH = torch.randn(N, H, dtype=dtype, generator=numbers)
    return hidden_NH, torch.randint(V, (N,), generator=numbers), torch.randn(N, dtype=dtype, generator=numbers)


def by_autograd(one: LanguageModel, temperature: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Log-probabilities by their definition, and both gradients of their weighted sum of squares."""
    hidden_NH, ids_N, pull_N = tokens()
    hidden_NH.requires_grad_()
    weight_RH = one.module.head.weight.detach().requires_grad_()
    logits_NV = (hidden_NH @ weight_RH[:V].T) / temperature
    logp_N = logits_NV[torch.arange(N), ids_N] - logits_NV.exp().sum(-1).log()
    (pull_N * logp_N**2).sum().backward()
    return logp_N.detach(), hidden_NH.grad, weight_RH.grad


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("chunk_tokens", [1, 3, N, 100])
@pytest.mark.parametrize("of", ["token", "distribution"])
def test_both_gradients_are_autograds_whatever_the_size_of_a_chunk(temperature, chunk_tokens, of):
    """E18, E33: over a padded vocabulary, for an objective of tokens and for one of whole distributions."""
    one, (hidden_NH, ids_N, pull_N) = model(), tokens()
    expected_N, expected_NH, expected_RH = by_autograd(one, temperature)
    gradient_RH, found = torch.zeros(R, H, dtype=torch.float64), []

    def value_of(hidden_CH: torch.Tensor, chunk: slice) -> torch.Tensor:
        if of == "token":
            logp_C = head_logp(one, hidden_CH, ids_N[chunk], temperature=temperature, gradient_RH=gradient_RH)
        else:
            logp_CV = (head_logits(one, hidden_CH, gradient_RH=gradient_RH) / temperature).log_softmax(-1)
            logp_C = logp_CV.gather(-1, ids_N[chunk, None]).squeeze(-1)
        found.append(logp_C.detach())
        return (pull_N[chunk] * logp_C**2).sum()

    backward_in_chunks(value_of, hidden_NH.requires_grad_(), chunk_tokens=chunk_tokens)
    torch.testing.assert_close(torch.cat(found), expected_N, rtol=0, atol=1e-12)
    torch.testing.assert_close(hidden_NH.grad, expected_NH, rtol=0, atol=1e-12)
    torch.testing.assert_close(gradient_RH, expected_RH, rtol=0, atol=1e-12)
    assert not gradient_RH[V:].any()
    assert one.module.head.weight.grad is None


def test_the_matrixs_gradient_is_added_to_what_stands_there():
    one, (hidden_NH, ids_N, _) = model(), tokens()
    found = []
    for start in (0.0, 2.5):
        gradient_RH = torch.full((R, H), start, dtype=torch.float64)
        hidden = hidden_NH.clone().requires_grad_()
        head_logp(one, hidden, ids_N, gradient_RH=gradient_RH).sum().backward()
        found.append(gradient_RH - start)
    assert found[0].any()
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=1e-14)


def test_in_bf16_the_gradient_is_added_up_in_float32():
    """A pull of 1/1024 beside a gradient of 64 is below half of bf16's spacing there, and stays."""
    one, (hidden_NH, ids_N, _) = model(torch.bfloat16), tokens(torch.bfloat16)
    gradients = []
    for start in (0.0, 64.0):
        gradient_RH = torch.full((R, H), start)
        hidden = hidden_NH.clone().requires_grad_()
        (head_logp(one, hidden, ids_N, gradient_RH=gradient_RH).sum() / 1024).backward()
        gradients.append(gradient_RH - start)
    assert gradients[0].abs().max() < 0.25
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=1e-5)
    assert torch.equal((gradients[0] + 64).bfloat16(), torch.full((R, H), 64.0).bfloat16())  # the bad condition


class Counted(TorchDispatchMode):
    """Products of matrices that are carried out."""

    def __init__(self) -> None:
        super().__init__()
        self.products = 0

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        self.products += op in PRODUCTS
        return op(*args, **(kwargs or {}))


def test_a_chunk_costs_three_products():
    """Logits, the gradient of the hidden states, that of the matrix; logits formed again would be a fourth."""
    one, (hidden_NH, ids_N, _) = model(), tokens()
    gradient_RH = torch.zeros(R, H, dtype=torch.float64)
    with Counted() as counted:
        backward_in_chunks(
            lambda hidden_CH, chunk: head_logp(one, hidden_CH, ids_N[chunk], gradient_RH=gradient_RH).sum(),
            hidden_NH.requires_grad_(),
            chunk_tokens=3,
        )
    assert counted.products == 3 * 3


def test_nothing_of_a_chunk_is_left_when_the_next_one_begins():
    """E18: the logits that a chunk keeps for its way back are gone."""
    one, (hidden_NH, ids_N, _) = model(), tokens()
    gradient_RH, kept = torch.zeros(R, H, dtype=torch.float64), []

    def value_of(hidden_CH: torch.Tensor, chunk: slice) -> torch.Tensor:
        gc.collect()
        assert not any(reference() is not None for reference in kept)
        logp_C = head_logp(one, hidden_CH, ids_N[chunk], gradient_RH=gradient_RH)
        kept.extend(weakref.ref(saved) for saved in logp_C.grad_fn.saved_tensors if saved.shape[-1] == V)
        return logp_C.sum()

    backward_in_chunks(value_of, hidden_NH.requires_grad_(), chunk_tokens=3)
    assert len(kept) == 3


@pytest.mark.parametrize("bias", [True, False])
def test_without_a_place_for_it_the_gradient_is_autograds(bias):
    """A head that is more than a matrix, or a caller that wants `grad`."""
    one, (hidden_NH, ids_N, _) = model(bias=bias), tokens()
    assert (head_matrix(one) is None) == bias
    head_logp(one, hidden_NH, ids_N).sum().backward()
    assert one.module.head.weight.grad[:V].any()
    assert not one.module.head.weight.grad[V:].any()


def test_a_frozen_head_gives_its_hidden_states_a_gradient_and_has_none(student64):
    """As adapters need it."""
    frozen = replace(student64)
    matrix_RH = head_matrix(frozen)
    hidden_NH = torch.randn(N, matrix_RH.shape[1], dtype=torch.float64, requires_grad=True)
    matrix_RH.requires_grad_(False)
    try:
        head_logp(frozen, hidden_NH, torch.arange(N)).sum().backward()
        assert hidden_NH.grad.any()
        assert matrix_RH.grad is None
    finally:
        matrix_RH.requires_grad_(True)
