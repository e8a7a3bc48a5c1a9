"""What one update came to: sums over a step's micro-batches, on their way to means.

Shapes: N response tokens.
"""

import math
from dataclasses import dataclass, field

import torch

from opd.records.metrics import Gap
from opd.train.ranks.ranks import ALONE, Ranks
from opd.train.update.batch import Batch
from opd.train.update.passes import Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Taught:
    """The tokens of one of several teachers: how many, and means over them."""

    tokens: int
    kl: float
    clamped: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateStats:
    """What one update came to; `loss` is a mean over the trained tokens of the step, the rest over all of them."""

    loss: float
    kl: float
    surprise: float
    gap: Gap
    gradient_norm: float
    learning_rate: float
    trained_tokens: int
    objective: dict[str, float]
    teachers: dict[str, Taught] = field(default_factory=dict)  # by name; empty where there is one


@dataclass(slots=True, kw_only=True)
class Tally:
    """Sums so far; the loss goes over trained tokens, everything else over all. They stay on the device."""

    tokens: int  # of all ranks
    trained_tokens: int  # of all ranks
    sums: dict[str, torch.Tensor] = field(default_factory=dict)
    largest_gaps: list[torch.Tensor] = field(default_factory=list)

    def add(self, seen: Seen, batch: Batch) -> None:
        """The tokens of one more micro-batch are in the sums."""
        sampler_logp_N = batch.behaviour_logp_N if batch.raw_logp_N is None else batch.raw_logp_N
        gap_N = seen.logp_N - sampler_logp_N
        values = {
            "loss": seen.loss_N * seen.weight_N,
            "kl": seen.logp_N - batch.teacher_logp_N,
            "surprise": -seen.logp_N,
            "gap": gap_N.abs(),
            "k3": torch.expm1(gap_N) - gap_N,
        } | {f"objective/{name}": value_N for name, value_N in seen.metrics_N.items()}
        for teacher, taught_N in seen.taught_N.items():
            values[f"tokens/{teacher}"] = taught_N
            for name, value_N in (("kl", values["kl"]), ("clamped", seen.metrics_N.get("clamped"))):
                if value_N is not None:
                    values[f"{name}/{teacher}"] = torch.where(taught_N, value_N, 0)
        for name, value_N in values.items():
            total = value_N.double().sum()
            self.sums[name] = self.sums[name] + total if name in self.sums else total
        self.largest_gaps.append(gap_N.abs().max())

    def stats(
        self, *, gradient_norm: float, learning_rate: float, term_norms: dict[str, float], ranks: Ranks = ALONE
    ) -> UpdateStats:
        """The means over all ranks; `term_norms` are reported with what the objective reports."""
        sums, largest_gap = self._over_all(ranks)
        loss = sums.pop("loss") / max(1, self.trained_tokens)
        means = {name: total / self.tokens for name, total in sums.items()}
        objective = {
            name.removeprefix("objective/"): mean for name, mean in means.items() if name.startswith("objective/")
        }
        return UpdateStats(
            loss=loss,
            kl=means["kl"],
            surprise=means["surprise"],
            gap=Gap(mean=means["gap"], largest=largest_gap, k3=means["k3"]),
            gradient_norm=gradient_norm,
            learning_rate=learning_rate,
            trained_tokens=self.trained_tokens,
            objective=objective | {f"gradient_norm_{name}": norm for name, norm in term_norms.items()},
            teachers={
                name: Taught(
                    tokens=int(tokens),
                    kl=sums[f"kl/{name}"] / tokens,
                    clamped=sums.get(f"clamped/{name}", 0.0) / tokens,
                )
                for key, tokens in sorted(sums.items())
                if (name := key.removeprefix("tokens/")) != key
            },
        )

    def _over_all(self, ranks: Ranks) -> tuple[dict[str, float], float]:
        """The sums, and the largest gap; a rank that learned from nothing adds nothing."""
        sums: dict[str, float] = {}
        largest = 0.0
        if self.sums:
            sums = dict(zip(self.sums, torch.stack([*self.sums.values()]).tolist(), strict=True))
            largest = float(torch.stack(self.largest_gaps).max())
        if ranks.count == 1:
            return sums, largest
        found = ranks.everyone((sums, largest))
        names = list(dict.fromkeys(name for one, _ in found for name in one))
        totals = {name: math.fsum(one.get(name, 0.0) for one, _ in found) for name in names}
        return totals, max(gap for _, gap in found)
