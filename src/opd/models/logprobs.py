"""Log-probabilities of given tokens: the one shift, and the head in chunks.

Shapes: P positions of all sequences end to end, H hidden, V real tokens, N kept tokens. A tensor at [n] is about
token n.

    hidden_PH[p - 1]  --head-->  log-probabilities of every token at p  --gather-->  logp_N of the token at p

This is the only file in which a token's index and its predictor's index differ by one (faults E25). Logits are
formed for a chunk of kept tokens at a time and never for the prompt; with gradients, a chunk's logits are formed
again in the backward pass instead of being kept.
"""

from collections.abc import Callable

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from opd.models.load import LanguageModel
from opd.models.packing import hidden_states
from opd.models.sequences import Sequences

HEAD_CHUNK_TOKENS = 128  # 74 MiB a float32 matrix at V = 151,936; a divergence holds about ten of them


def token_logp(
    model: LanguageModel, sequences: Sequences, *, temperature: float = 1.0, chunk_tokens: int = HEAD_CHUNK_TOKENS
) -> torch.Tensor:
    """logp_N: log softmax(logits / temperature) at each kept token, nats. Float32 or wider.

    The softmax is over the tokenizer's tokens: padded rows of the embedding have no share (faults E33).
    """

    def logp_of(hidden_CH: torch.Tensor, ids_C: torch.Tensor) -> tuple[torch.Tensor]:
        logits_CV = head_logits(model, hidden_CH) / temperature
        return (-functional.cross_entropy(logits_CV, ids_C, reduction="none"),)

    hidden_NH, ids_N = before_kept(model, sequences)
    (logp_N,) = in_chunks(logp_of, hidden_NH, ids_N, chunk_tokens=chunk_tokens)
    return logp_N


def before_kept(model: LanguageModel, sequences: Sequences) -> tuple[torch.Tensor, torch.Tensor]:
    """(hidden_NH, ids_N): the kept tokens in reading order, each with the hidden state that predicts it."""
    hidden_PH = hidden_states(model.module, sequences, packs=model.packs)
    return hidden_PH[sequences.kept_N - 1], sequences.ids_P[sequences.kept_N]


def in_chunks(
    function: Callable[..., tuple[torch.Tensor, ...]], *tensors_N: torch.Tensor, chunk_tokens: int
) -> tuple[torch.Tensor, ...]:
    """What `function` gives for each run of `chunk_tokens` tokens, joined; it may not mix tokens.

    With gradients, a chunk is computed again in the backward pass instead of being kept.
    """
    recompute = torch.is_grad_enabled() and len(tensors_N[0]) > chunk_tokens
    chunks = zip(*(tensor_N.split(chunk_tokens) for tensor_N in tensors_N), strict=True)
    pieces = [
        checkpoint(function, *chunk, use_reentrant=False) if recompute else function(*chunk) for chunk in chunks
    ]
    return tuple(torch.cat(column) for column in zip(*pieces, strict=True))


def head_logits(model: LanguageModel, hidden_NH: torch.Tensor) -> torch.Tensor:
    """logits_NV over the tokenizer's tokens, in float32 or wider."""
    logits_NV: torch.Tensor = model.module.get_output_embeddings()(hidden_NH)[:, : model.vocabulary]
    return logits_NV if logits_NV.dtype == torch.float64 else logits_NV.float()
