"""What a step came to is told of the tokens of all ranks, as one process would tell it; a rank may have none."""

from dataclasses import asdict
from typing import Any

import pytest
import torch
from tests.train.ranks.processes import together

from opd.train.ranks.joining import joined
from opd.train.ranks.ranks import ALONE, Ranks
from opd.train.update.batch import Batch
from opd.train.update.passes import Seen
from opd.train.update.tally import Tally

SHARES = ((0, 3), (3, 3), (3, 8))  # of eight tokens, by three ranks: the second has none
RATES = {"gradient_norm": 2.0, "learning_rate": 0.5, "term_norms": {"k1": 1.5}}


def tokens(first: int, last: int) -> tuple[Seen, Batch]:
    """Some of the eight; the last of them all is the one where trainer and sampler are furthest apart."""
    place_N = torch.arange(8, dtype=torch.float64)[first:last]
    seen = Seen(
        logp_N=-1 - place_N / 8,
        weight_N=(place_N % 3).clamp(max=1),
        loss_N=place_N.square() / 4,
        metrics_N={"ratio": 1 + place_N / 16},
    )
    batch = Batch(
        weight_N=seen.weight_N,
        behaviour_logp_N=seen.logp_N + place_N.pow(3) / 512,
        teacher_logp_N=seen.logp_N - 0.25,
        advantage_N=torch.zeros_like(place_N),
    )
    return seen, batch


def stats(shares: tuple[tuple[int, int], ...], ranks: Ranks) -> dict[str, Any]:
    tally = Tally(tokens=8, trained_tokens=5)
    for first, last in shares:
        if last > first:
            tally.add(*tokens(first, last))
    found = tally.stats(**RATES, ranks=ranks)
    return asdict(found) | {"gap": found.gap.resolved()}


def stats_together() -> dict[str, Any]:
    with joined(device="cpu") as ranks:
        return stats((SHARES[ranks.rank],), ranks)


def test_ranks_tell_what_one_process_tells() -> None:
    alone = stats(((0, 8),), ALONE)
    assert alone["gap"]["largest"] == 7**3 / 512
    for found in together(3, stats_together):
        assert found.keys() == alone.keys()
        for name, value in alone.items():
            assert found[name] == pytest.approx(value, rel=1e-14), name
