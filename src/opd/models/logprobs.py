"""Log-probabilities of given tokens: the one shift, and the head in chunks.

Shapes: B sequences, T positions, H hidden, V real tokens, N kept tokens. A tensor at [b, t] is about token t.

    hidden_BTH[b, t - 1]  --head-->  log-probabilities of every token at t  --gather-->  logp_BT[b, t]

This is the only file in which a token's index and its predictor's index differ by one (faults E25). Logits are
formed for a chunk of kept tokens at a time and never for the prompt or the padding; with gradients, a chunk's
logits are formed again in the backward pass instead of being kept.
"""

from typing import Any

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from opd.models.load import LanguageModel

HEAD_CHUNK_TOKENS = 2048  # 2.3 GiB of logits and their gradient at V = 151,936


def token_logp(
    model: LanguageModel,
    ids_BT: torch.Tensor,
    keep_BT: torch.Tensor,
    *,
    temperature: float = 1.0,
    chunk_tokens: int = HEAD_CHUNK_TOKENS,
) -> torch.Tensor:
    """logp_BT: log softmax(logits / temperature) at each kept token, nats; 0 elsewhere. Float32 or wider.

    The softmax is over the tokenizer's tokens: padded rows of the embedding have no share (faults E33).
    """
    if bool(keep_BT[:, 0].any()):
        raise ValueError("the first token of a sequence has no predictor and can't be kept")
    hidden_BTH = model.module.get_decoder()(input_ids=ids_BT, use_cache=False).last_hidden_state
    predicted_BT = keep_BT[:, 1:]
    hidden_NH = hidden_BTH[:, :-1][predicted_BT]
    targets_N = ids_BT[:, 1:][predicted_BT]
    logp_N = _chunked(model, hidden_NH, targets_N, temperature=temperature, chunk_tokens=chunk_tokens)
    return torch.zeros(ids_BT.shape, dtype=logp_N.dtype, device=logp_N.device).masked_scatter(keep_BT, logp_N)


def head_logits(model: LanguageModel, hidden_NH: torch.Tensor) -> torch.Tensor:
    """logits_NV over the tokenizer's tokens, in float32 or wider."""
    logits_NV: torch.Tensor = model.module.get_output_embeddings()(hidden_NH)[:, : model.vocabulary]
    return logits_NV if logits_NV.dtype == torch.float64 else logits_NV.float()


def _chunked(
    model: LanguageModel,
    hidden_NH: torch.Tensor,
    targets_N: torch.Tensor,
    *,
    temperature: float,
    chunk_tokens: int,
) -> torch.Tensor:
    def logp_of(hidden_CH: torch.Tensor, targets_C: torch.Tensor) -> torch.Tensor:
        logits_CV = head_logits(model, hidden_CH) / temperature
        return -functional.cross_entropy(logits_CV, targets_C, reduction="none")

    pieces: list[Any] = []
    recompute = torch.is_grad_enabled() and len(targets_N) > chunk_tokens
    for hidden_CH, targets_C in zip(hidden_NH.split(chunk_tokens), targets_N.split(chunk_tokens), strict=True):
        if recompute:
            pieces.append(checkpoint(logp_of, hidden_CH, targets_C, use_reentrant=False))
        else:
            pieces.append(logp_of(hidden_CH, targets_C))
    return torch.cat(pieces)
