"""Rollouts → one row of token ids, end to end, without padding; and how many go into one row.

Shapes: S sequences, P positions of all of them, N response tokens.

    lengths      5          4        3           position_P   0 1 2 3 4 0 1 2 3 0 1 2
    ids_P        p p r r r  p r r r  p p r       kept_N           2 3 4   6 7 8    11

What is trained is known from lengths, never from ids (faults E21). A tensor over N has the response tokens of the
first rollout, then those of the second, and so on, in the order in which they were sampled.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from opd.records.rollouts import Rollout


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequences:
    """Prompts and responses, one behind the other."""

    ids_P: torch.Tensor
    position_P: torch.Tensor  # of a token in its own sequence, 0 for the first
    kept_N: torch.Tensor  # indices into P of the tokens whose log-probabilities are wanted
    lengths: tuple[int, ...]  # tokens of each sequence
    responses: tuple[int, ...]  # kept tokens of each sequence


def packed(rollouts: Sequence[Rollout], *, device: torch.device) -> Sequences:
    """The rollouts in one row; every response token is kept."""
    return pack([(one.prompt.token_ids, one.token_ids) for one in rollouts], device=device)


def pack(pairs: Sequence[tuple[Sequence[int], Sequence[int]]], *, device: torch.device) -> Sequences:
    """Prompts and responses in one row; the tokens of the responses are kept.

    Raises `ValueError` for a response without a prompt: nothing predicts its first token.
    """
    ids: list[int] = []
    positions: list[int] = []
    kept: list[int] = []
    for prompt, response in pairs:
        if not prompt:
            raise ValueError("the first token of a sequence has no predictor: a response needs a prompt before it")
        start = len(ids)
        ids += [*prompt, *response]
        positions += range(len(ids) - start)
        kept += range(start + len(prompt), len(ids))
    return Sequences(
        ids_P=torch.tensor(ids, device=device),
        position_P=torch.tensor(positions, device=device),
        kept_N=torch.tensor(kept, dtype=torch.long, device=device),
        lengths=tuple(len(prompt) + len(response) for prompt, response in pairs),
        responses=tuple(len(response) for _, response in pairs),
    )


def micro_batches(
    rollouts: Sequence[Rollout], *, largest_tokens: int, packs: bool = True, by_teacher: bool = False
) -> list[list[int]]:
    """Indices of the rollouts, in groups of at most `largest_tokens` positions together.

    Longest first, so that the sequences of a group are of like length. A rollout that is longer alone is a group of
    its own. Without `packs` a group is computed as a rectangle, and its padding counts. `by_teacher`: the rollouts of
    a group have one teacher.
    """
    if by_teacher:
        places: dict[str | None, list[int]] = {}
        for index, rollout in enumerate(rollouts):
            places.setdefault(rollout.prompt.teacher, []).append(index)
        return [
            [own[index] for index in group]
            for own in places.values()
            for group in micro_batches([rollouts[n] for n in own], largest_tokens=largest_tokens, packs=packs)
        ]
    order = sorted(range(len(rollouts)), key=lambda index: -sequence_tokens(rollouts[index]))
    groups: list[list[int]] = []
    positions = 0
    for index in order:
        width = sequence_tokens(rollouts[index if packs or not groups else groups[-1][0]])
        if groups and positions + width <= largest_tokens:
            groups[-1].append(index)
            positions += width
        else:
            groups.append([index])
            positions = sequence_tokens(rollouts[index])
    return groups


def sequence_tokens(rollout: Rollout) -> int:
    """Tokens of prompt and response together."""
    return len(rollout.prompt.token_ids) + len(rollout.token_ids)
