"""Log-probabilities of tokens and the slope of the logits, in torch and in kernels, against their definition.

Shapes: C tokens, V real tokens, R columns of the logits.
"""

import importlib.util
import os

import pytest
import torch

from opd.models import softmax

C, V, R = 5, 31, 37

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before the first import: kernels run as numpy
HAS_KERNELS = importlib.util.find_spec("triton") is not None
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def tokens(columns: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits, ids, and the slope of each log-probability."""
    numbers = torch.Generator().manual_seed(0)
    logits_CR = (5 * torch.randn(C, columns, generator=numbers)).to(DEVICE, dtype)
    ids_C = torch.randint(V, (C,), generator=numbers).to(DEVICE)
    return logits_CR, ids_C, torch.randn(C, generator=numbers).to(DEVICE, dtype)


def by_definition(
    logits_CR: torch.Tensor, ids_C: torch.Tensor, slope_C: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """In float64, the slope by autograd."""
    logits = logits_CR.double().requires_grad_()
    scaled_CV = logits[:, :V] / temperature
    logp_C = scaled_CV[torch.arange(C), ids_C] - scaled_CV.exp().sum(-1).log()
    (logp_C * slope_C.double()).sum().backward()
    return logp_C.detach(), logits.grad


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_in_torch_both_are_the_definition(temperature):
    """Exact to rounding, in float64; there is no padding there."""
    logits_CV, ids_C, slope_C = tokens(V, torch.float64)
    expected_C, expected_CV = by_definition(logits_CV, ids_C, slope_C, temperature)
    how = {"vocabulary": V, "temperature": temperature}
    logp_C, kept = softmax.token_logp(logits_CV.clone(), ids_C, **how)
    torch.testing.assert_close(logp_C, expected_C, rtol=0, atol=1e-13)
    found_CV = softmax.slope(kept, ids_C, slope_C, dtype=torch.float64, **how)
    torch.testing.assert_close(found_CV, expected_CV, rtol=0, atol=1e-13)


def test_a_view_of_the_logits_is_divided_in_place_and_its_slope_is_right():
    """E19. The bad condition first: what autograd kept of a tensor is divided through a view of it."""
    kept = torch.randn(C, R, dtype=torch.float64, requires_grad=True).exp()
    kept[:, :V].div_(0.5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.sum().backward()
    logits_CR, ids_C, slope_C = (one.cpu() for one in tokens(R, torch.float64))
    expected_C, expected_CR = by_definition(logits_CR, ids_C, slope_C, 0.5)
    logp_C, left = softmax.token_logp(logits_CR.clone()[:, : R - 1], ids_C, vocabulary=V, temperature=0.5)
    torch.testing.assert_close(logp_C, expected_C, rtol=0, atol=1e-13)
    found_CV = softmax.slope(left, ids_C, slope_C, vocabulary=V, temperature=0.5, dtype=torch.float64)
    torch.testing.assert_close(found_CV[:, :V], expected_CR[:, :V], rtol=0, atol=1e-13)


@pytest.mark.skipif(not HAS_KERNELS, reason="needs triton")
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("block", [16, 64])
def test_in_kernels_both_are_the_definition_and_padding_has_no_share(monkeypatch, temperature, block):
    """E33: rows of several blocks and of a part of one, to float32's rounding."""
    from opd.models import softmax_kernels

    monkeypatch.setattr(softmax_kernels, "BLOCK", block)
    logits_CR, ids_C, slope_C = tokens(R, torch.float32)
    logits_CR[:, V:] = 1e4
    expected_C, expected_CR = by_definition(logits_CR, ids_C, slope_C, temperature)
    how = {"vocabulary": V, "temperature": temperature}
    logp_C, normaliser_C = softmax_kernels.token_logp(logits_CR, ids_C, **how)
    torch.testing.assert_close(logp_C.double(), expected_C, rtol=0, atol=5e-6)
    found_CR = softmax_kernels.slope(logits_CR, normaliser_C, ids_C, slope_C, dtype=torch.float32, **how)
    torch.testing.assert_close(found_CR.double(), expected_CR, rtol=0, atol=5e-6)
    assert not found_CR[:, V:].any()
