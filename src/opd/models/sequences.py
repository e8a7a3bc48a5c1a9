"""Rollouts → rectangles of token ids, and how many go into one.

Shapes: B sequences, T positions. Sequences are padded on the right, so that a causal model needs neither an
attention mask nor position ids, and a real token's log-probability can't feel the padding (faults E26, E27).
What is trained is known from lengths, never from ids (E21).

    ids_BT    p p p r r r E . .        keep_BT   0 0 0 1 1 1 1 0 0
              p p r r . . . . .                  0 0 1 1 0 0 0 0 0
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from opd.records.rollouts import Rollout


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequences:
    """Prompts and responses, side by side."""

    ids_BT: torch.Tensor
    keep_BT: torch.Tensor  # true where a response token stands


def padded(rollouts: Sequence[Rollout], *, device: torch.device) -> Sequences:
    """The rollouts as one rectangle; padding is id 0, which nothing reads."""
    longest = max(sequence_tokens(rollout) for rollout in rollouts)
    ids_BT = torch.zeros(len(rollouts), longest, dtype=torch.long)
    keep_BT = torch.zeros(len(rollouts), longest, dtype=torch.bool)
    for b, rollout in enumerate(rollouts):
        start, end = len(rollout.prompt.token_ids), sequence_tokens(rollout)
        ids_BT[b, :end] = torch.tensor(rollout.prompt.token_ids + rollout.token_ids)
        keep_BT[b, start:end] = True
    return Sequences(ids_BT=ids_BT.to(device), keep_BT=keep_BT.to(device))


def spread(values: Sequence[Sequence[float]], keep_BT: torch.Tensor, *, dtype: torch.dtype) -> torch.Tensor:
    """One value a response token → a rectangle with the value at its token and 0 elsewhere."""
    flat = torch.tensor([value for row in values for value in row], dtype=dtype, device=keep_BT.device)
    if flat.numel() != int(keep_BT.sum()):
        raise ValueError(f"{flat.numel()} values for {int(keep_BT.sum())} response tokens")
    return torch.zeros(keep_BT.shape, dtype=dtype, device=keep_BT.device).masked_scatter(keep_BT, flat)


def micro_batches(rollouts: Sequence[Rollout], *, largest_tokens: int) -> list[list[int]]:
    """Indices of the rollouts, in groups whose padded rectangle holds at most `largest_tokens` positions.

    Longest first, so that a group has little padding. A rollout that is longer alone is a group of its own.
    """
    order = sorted(range(len(rollouts)), key=lambda index: -sequence_tokens(rollouts[index]))
    groups: list[list[int]] = []
    for index in order:
        width = sequence_tokens(rollouts[groups[-1][0]]) if groups else 0
        if groups and (len(groups[-1]) + 1) * width <= largest_tokens:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def sequence_tokens(rollout: Rollout) -> int:
    """Tokens of prompt and response together."""
    return len(rollout.prompt.token_ids) + len(rollout.token_ids)
