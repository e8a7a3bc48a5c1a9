"""Log-probabilities of given tokens: the one shift.

Shapes: P positions of all sequences end to end, H hidden, N kept tokens. A tensor at [n] is about token n.

    hidden_PH[p - 1]  --head-->  log-probabilities of every token at p  --gather-->  logp_N of the token at p

This is the only file in which a token's index and its predictor's index differ by one (faults E25). Logits are
formed for a chunk of kept tokens at a time, by `models/head.py`, and never for the prompt.
"""

import torch

from opd.models.head import HEAD_CHUNK_TOKENS, head_logits, head_logp
from opd.models.load import LanguageModel
from opd.models.packing import hidden_states
from opd.models.sequences import Sequences


def token_logp(
    model: LanguageModel, sequences: Sequences, *, temperature: float = 1.0, chunk_tokens: int = HEAD_CHUNK_TOKENS
) -> torch.Tensor:
    """logp_N: log softmax(logits / temperature) at each kept token, nats. Float32 or wider.

    The softmax is over the tokenizer's tokens: padded rows of the embedding have no share (faults E33). For scoring:
    with gradients, the logits of every chunk are kept; what learns goes through `backward_in_chunks`.
    """
    return logp_of(model, *before_kept(model, sequences), temperature=temperature, chunk_tokens=chunk_tokens)


def logp_of(
    model: LanguageModel, hidden_NH: torch.Tensor, ids_N: torch.Tensor, *, temperature: float, chunk_tokens: int
) -> torch.Tensor:
    """The same from the hidden states that predict the tokens."""
    chunks = zip(hidden_NH.split(chunk_tokens), ids_N.split(chunk_tokens), strict=True)
    return torch.cat([head_logp(model, *chunk, temperature=temperature) for chunk in chunks])


def likeliest(
    model: LanguageModel, hidden_NH: torch.Tensor, *, count: int, temperature: float, chunk_tokens: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """(ids_NK, logp_NK): the `count` likeliest tokens after each hidden state, the likeliest first, and nats.

    All of them where the vocabulary has fewer. Another product with the head's matrix; the model below is not run.
    """
    logp_NK, ids_NK = [], []
    for hidden_CH in hidden_NH.split(chunk_tokens):
        logp_CV = (head_logits(model, hidden_CH) / temperature).log_softmax(dim=-1)
        found = logp_CV.topk(min(count, logp_CV.shape[-1]), dim=-1)
        logp_NK.append(found.values)
        ids_NK.append(found.indices)
    return torch.cat(ids_NK), torch.cat(logp_NK)


def before_kept(model: LanguageModel, sequences: Sequences) -> tuple[torch.Tensor, torch.Tensor]:
    """(hidden_NH, ids_N): the kept tokens in reading order, each with the hidden state that predicts it."""
    hidden_PH = hidden_states(model.module, sequences, packs=model.packs)
    return hidden_PH[sequences.kept_N - 1], sequences.ids_P[sequences.kept_N]
