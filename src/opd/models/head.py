"""The head: from hidden states to logits and log-probabilities, and the way back, a chunk of tokens at a time.

Shapes: N tokens, C of them in a chunk, H hidden, V real tokens, R rows of the head's matrix W (V and padding).

Where something is learned, the way back through the head follows a chunk at once. So a chunk costs three products,
and nothing of it is left when the next one begins:

    hidden_CH ──W──► logits ──► logp_C ──► loss ──► slope of the logits ──W──► gradient of hidden_CH
                                                     └────── × hidden_CH ────► added to the gradient of W, in place

That takes a loss that mixes no tokens, which every objective is.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from opd.models import softmax
from opd.models.exact.order import Order
from opd.models.load import LanguageModel

HEAD_CHUNK_TOKENS = 128  # 74 MiB a float32 matrix at V = 151,936; a divergence holds about ten of them

Context = Any  # what torch hands from a function's forward to its backward


def backward_in_chunks(
    value_of: Callable[[torch.Tensor, slice], torch.Tensor], hidden_NH: torch.Tensor, *, chunk_tokens: int
) -> None:
    """The gradients of the sum over the chunks of value_of(hidden_CH, chunk) have been added up.

    `value_of` gives a scalar and may not mix tokens. The graph of one chunk exists at a time; that of the model below
    the head is gone through once, at the end.
    """
    gradient_NH = torch.zeros_like(hidden_NH)
    for first in range(0, max(1, len(hidden_NH)), chunk_tokens):
        chunk = slice(first, first + chunk_tokens)
        hidden_CH = hidden_NH.detach()[chunk].requires_grad_()
        value_of(hidden_CH, chunk).backward()
        assert hidden_CH.grad is not None, "a loss of the logits has a gradient at the hidden states"
        gradient_NH[chunk] = hidden_CH.grad
    hidden_NH.backward(gradient_NH)


def head_logits(
    model: LanguageModel, hidden_NH: torch.Tensor, *, gradient_RH: torch.Tensor | None = None
) -> torch.Tensor:
    """logits_NV over the tokenizer's tokens, in float32 or wider. Of `gradient_RH`, see `head_logp`."""
    weight_RH = _matrix(model, gradient_RH)
    if weight_RH is None:
        logits_NR: torch.Tensor = model.module.get_output_embeddings()(hidden_NH)
    else:
        logits_NR = _logits(hidden_NH, weight_RH, gradient_RH, model.exact)
    return _wide(logits_NR[:, : model.vocabulary])


def head_logp(
    model: LanguageModel,
    hidden_NH: torch.Tensor,
    ids_N: torch.Tensor,
    *,
    temperature: float = 1.0,
    gradient_RH: torch.Tensor | None = None,
) -> torch.Tensor:
    """logp_N: log softmax(logits / temperature) of a token at each hidden state, nats. Float32 or wider.

    `gradient_RH`, float32 or wider, is where the backward pass adds the gradient of the head's matrix, in place; it
    may be gone through once. Without it that gradient is autograd's.
    """
    weight_RH = _matrix(model, gradient_RH)
    if weight_RH is None:
        logits_NV = head_logits(model, hidden_NH) / temperature
        return -functional.cross_entropy(logits_NV, ids_N, reduction="none")
    if not hidden_NH.is_cuda:  # on a GPU, products with an odd number of columns are slow: padding is computed, too
        weight_RH = weight_RH[: model.vocabulary]
    logp_N: torch.Tensor = _token_logp(
        hidden_NH, weight_RH, ids_N, model.vocabulary, temperature, gradient_RH, model.exact
    )
    return logp_N


def head_matrix(model: LanguageModel) -> torch.nn.Parameter | None:
    """The parameter that is all of the model's head; None where the head is more than a matrix."""
    head: Any = model.module.get_output_embeddings()
    alone = type(head) is torch.nn.Linear and [name for name, _ in head.named_parameters()] == ["weight"]
    return head.weight if alone else None


class _Logits(torch.autograd.Function):
    """hidden_CH · weight_RH^T."""

    @staticmethod
    def forward(
        ctx: Context,
        hidden_CH: torch.Tensor,
        weight_RH: torch.Tensor,
        gradient_RH: torch.Tensor | None,
        exact: Order | None,
    ) -> torch.Tensor:
        ctx.save_for_backward(hidden_CH, weight_RH)
        ctx.gradient_RH = gradient_RH
        return _product(hidden_CH, weight_RH, exact=exact)

    @staticmethod
    def backward(ctx: Context, slope_CR: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        hidden_CH, weight_RH = ctx.saved_tensors
        return _back(slope_CR.to(hidden_CH.dtype), hidden_CH, weight_RH, ctx.gradient_RH), None, None, None


class _TokenLogp(torch.autograd.Function):
    """The log-probability of each of ids_C."""

    @staticmethod
    def forward(
        ctx: Context,
        hidden_CH: torch.Tensor,
        weight_RH: torch.Tensor,
        ids_C: torch.Tensor,
        vocabulary: int,
        temperature: float,
        gradient_RH: torch.Tensor | None,
        exact: Order | None,
    ) -> torch.Tensor:
        logits_CR = _wide(_product(hidden_CH, weight_RH, exact=exact))
        logp_C, kept = softmax.token_logp(
            logits_CR, ids_C, vocabulary=vocabulary, temperature=temperature, exact=exact
        )
        ctx.save_for_backward(hidden_CH, weight_RH, ids_C, *kept)
        ctx.vocabulary, ctx.temperature, ctx.gradient_RH = vocabulary, temperature, gradient_RH
        return logp_C

    @staticmethod
    def backward(ctx: Context, slope_C: torch.Tensor) -> tuple[torch.Tensor, None, None, None, None, None, None]:
        hidden_CH, weight_RH, ids_C, *kept = ctx.saved_tensors
        slope_CR = softmax.slope(
            kept,
            ids_C,
            slope_C,
            vocabulary=ctx.vocabulary,
            temperature=ctx.temperature,
            dtype=hidden_CH.dtype,
        )
        return _back(slope_CR, hidden_CH, weight_RH, ctx.gradient_RH), None, None, None, None, None, None


_logits: Any = _Logits.apply
_token_logp: Any = _TokenLogp.apply


def _matrix(model: LanguageModel, gradient_RH: torch.Tensor | None) -> torch.Tensor | None:
    """The head's matrix, for a product that autograd does not see; None where it has to."""
    weight_RH = head_matrix(model)
    if weight_RH is None:
        assert gradient_RH is None, "the gradient of another head is autograd's"
        return None
    autograds = gradient_RH is None and weight_RH.requires_grad and torch.is_grad_enabled()
    if autograds and model.exact is not None:
        raise ValueError("an exact head learns into a gradient_RH: autograd's own product is not exact")
    return None if autograds else weight_RH.detach()


def _product(hidden_CH: torch.Tensor, weight_RH: torch.Tensor, *, exact: Order | None) -> torch.Tensor:
    """logits_CR; rounded to float32 and not to bf16 where the device's product can."""
    if exact is not None:
        return exact.product(hidden_CH, weight_RH, wide=True)
    if _accumulates_wide(hidden_CH):
        return torch.mm(hidden_CH, weight_RH.t(), out_dtype=torch.float32)
    return hidden_CH @ weight_RH.t()


def _back(
    slope_CR: torch.Tensor, hidden_CH: torch.Tensor, weight_RH: torch.Tensor, gradient_RH: torch.Tensor | None
) -> torch.Tensor:
    """The gradient of hidden_CH; that of the matrix has been added to its own."""
    if gradient_RH is not None:
        some_RH = gradient_RH[: len(weight_RH)]
        if some_RH.dtype == slope_CR.dtype:
            some_RH.addmm_(slope_CR.t(), hidden_CH)
        elif _accumulates_wide(hidden_CH):
            torch.addmm(some_RH, slope_CR.t(), hidden_CH, out_dtype=torch.float32, out=some_RH)
        else:
            some_RH += slope_CR.t() @ hidden_CH
    return slope_CR @ weight_RH


def _accumulates_wide(hidden_CH: torch.Tensor) -> bool:
    return hidden_CH.is_cuda and hidden_CH.dtype in {torch.bfloat16, torch.float16}


def _wide(logits: torch.Tensor) -> torch.Tensor:
    return logits if logits.dtype == torch.float64 else logits.float()
