"""What several GPUs gain on the step of recipes/opd_math_1p5b.toml: each rank with 8 rollouts, and one reduction.

    torchrun --nproc-per-node 4 benchmarks/bench_ranks.py [--json FILE]       GPUs of one host, about five minutes
    torchrun --nproc-per-node 2 benchmarks/bench_ranks.py --tiny              the program itself, on any machine

The shape, and how lengths are drawn, are those of bench_step.py. Side by side, in one run: a step of 8 rollouts on
each rank by itself; the same lengths with the gradients added up, which is the price of being several; and a step of
8 rollouts a rank whose lengths are drawn for all of them, which is what one gets: the longest of more rollouts is
longer. Then the reduction alone, how fast the links are (for `machine.link_bytes_per_second`), and the gradients of
one step by one rank and by all. JSON lines, by rank 0.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from bench_step import REAL, TINY, Report, Shape, drawn_lengths, engine_of, forward_flops, model_of, one_step, rollout

from opd.models.engine.engine import Engine
from opd.models.engine.persistent import fit
from opd.models.layers import compile_layers
from opd.models.machine import describe, synchronise
from opd.models.plain import PlainScorer
from opd.records.rollouts import ScoredRollout
from opd.train.objectives.k1_policy_gradient import K1PolicyGradient
from opd.train.ranks.joining import joined
from opd.train.ranks.ranks import ALONE, Ranks
from opd.train.ranks.shares import shares
from opd.train.update.updater import OptimizerSettings, Updater

PER_PROMPT = 4
LINK_BYTES = 3e11  # a second and direction between GPUs of one host, of ring all-reduces; assumed


def main() -> None:
    """Measures, one thing after another, on all ranks at once."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tiny", action="store_true", help="a small shape, to try the program")
    parser.add_argument("--plain-layers", action="store_true", help="layers are not compiled")
    parser.add_argument("--json", type=Path, help="lines are added to this file, too")
    asked = parser.parse_args()
    with joined(device="auto") as ranks:
        Bench(ranks, asked).measure()


class Bench:
    """One rank's models, and what it measures with them."""

    def __init__(self, ranks: Ranks, asked: argparse.Namespace) -> None:
        self.ranks = ranks
        self.shape: Shape = TINY if asked.tiny else REAL
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.report = Report(file=asked.json if ranks.writes else None)
        self.student, self.teacher = (model_of(self.shape, self.device, seed=seed) for seed in (0, 1))
        if self.device == "cuda" and not asked.plain_layers:
            compile_layers(self.student.module)
            compile_layers(self.teacher.module)
        limits = {"largest_tokens": 2 * self.shape.tokens, "chunk_tokens": self.shape.chunk_tokens}
        self.scorer = PlainScorer(self.teacher, **limits)
        settings = OptimizerSettings(lr=1e-6, weight_decay=0.01)
        self.updater = Updater(self.student, K1PolicyGradient(), settings, ranks=ranks, **limits)

    def measure(self) -> None:
        """All of it."""
        self.say("machine", machine=describe(self.device), ranks=self.ranks.count)
        path = "graphs" if fit.misfit(self.student) else "persistent"
        engine = engine_of(self.shape, self.student, path)
        alone = self.drawn(1)
        together = self.drawn(self.ranks.count)
        with self.by(ALONE):
            self.step(engine, [max(2, length // 8) for length in alone])  # warms up
            one = self.step(engine, alone)
        self.say("a step, each rank by itself", **one)
        same = self.step(engine, alone)
        self.say("the same, gradients added up", **same, efficiency=one["whole"] / same["whole"])
        drawn = self.step(engine, self.own(together))
        least = one["whole"] - one["sampling"] + one["sampling"] * max(together) / max(alone)
        self.say(
            "lengths drawn for all ranks",
            **drawn,
            efficiency=one["whole"] / drawn["whole"],
            efficiency_of_the_longest=least / drawn["whole"],  # against one rank that had to wait for it, too
            longest=max(together),
            longest_alone=max(alone),
        )
        self.reduction()
        self.links()
        del engine
        self.gradients(together)

    def drawn(self, ranks: int) -> list[int]:
        """Lengths of 8 rollouts a rank, four of a prompt one behind the other."""
        return drawn_lengths(replace(self.shape, sequences=self.shape.sequences * ranks))

    def own(self, lengths: list[int]) -> list[int]:
        """Those of this rank's prompts, as a run shares them out."""
        prompts = len(lengths) // PER_PROMPT
        mine = shares([self.shape.prompt_tokens] * prompts, ranks=self.ranks.count)[self.ranks.rank]
        return [lengths[PER_PROMPT * prompt + sample] for prompt in mine for sample in range(PER_PROMPT)]

    def step(self, engine: Engine, lengths: list[int]) -> dict[str, float]:
        """Seconds of a step, by phase and whole, of the slowest rank each."""
        self.ranks.everyone(None)  # all begin together
        took = one_step(self.shape, engine, self.scorer, self.updater, lengths)
        found = self.ranks.everyone(took | {"whole": sum(took.values())})
        return {name: max(one[name] for one in found) for name in found[0]}

    def reduction(self) -> None:
        """Seconds of adding up as many float32 numbers as the student has."""
        if self.ranks.count == 1:
            return
        tensors = [torch.ones_like(one, dtype=torch.float32) for one in self.student.module.parameters()]
        size = sum(4 * one.numel() for one in tensors)
        took = [self.timed(partial(self.ranks.add_up, tensors)) for _ in range(4)]
        moved = 2 * size * (self.ranks.count - 1) / self.ranks.count
        best = min(took[1:])
        self.say(
            "reduction",
            seconds=best,
            first=took[0],
            predicted=moved / LINK_BYTES,
            gigabytes=size / 1e9,
            gigabytes_a_second=moved / best / 1e9,
        )

    def links(self) -> None:
        """Bytes a second of a ring, by what goes round in it."""
        if self.ranks.count == 1:
            return
        numbers = (1 << 20 if self.shape is TINY else 1 << 28) // self.ranks.count * self.ranks.count
        flat = torch.ones(numbers, device=self.device)
        own = flat[: numbers // self.ranks.count].clone()
        once = flat.nbytes * (self.ranks.count - 1) / self.ranks.count
        ways = {
            "all-reduce": (2 * once, lambda: self.ranks.add_up([flat])),
            "reduce-scatter": (once, lambda: self.ranks.share_of_sum(flat)),
            "all-gather": (once, lambda: self.ranks.put_together(own)),
        }
        found = {name: moved / min(self.timed(call) for _ in range(4)) for name, (moved, call) in ways.items()}
        self.say("links", gigabytes=flat.nbytes / 1e9, bytes_per_second=min(found.values()), **found)

    def timed(self, call: Callable[[], object]) -> float:
        """Seconds of the slowest rank."""
        self.ranks.everyone(None)
        start = time.perf_counter()
        call()
        synchronise(self.device)
        return max(self.ranks.everyone(time.perf_counter() - start))

    def gradients(self, lengths: list[int]) -> None:
        """How far the gradients of one step by all ranks lie from those of rank 0, which does all of it too."""
        short = [max(2, min(length, self.shape.tokens) // 4) for length in lengths]
        scored = self.scorer.score([rollout(self.shape, row, length) for row, length in enumerate(short)])
        mine = shares([1] * len(scored), ranks=self.ranks.count)[self.ranks.rank]
        whole = self.gradient(scored, list(range(len(scored))), ALONE)
        shared = self.gradient([scored[place] for place in mine], mine, self.ranks)
        difference = sum(float((one - other).square().sum()) for one, other in zip(whole, shared, strict=True))
        norm = sum(float(one.square().sum()) for one in whole)
        self.say(
            "gradients of a step by all ranks and by one",
            relative_distance=max(self.ranks.everyone((difference / norm) ** 0.5)),
            norm=norm**0.5,
            rollouts=len(scored),
            tokens=sum(short),
            flops=forward_flops(self.shape, self.student, short),
        )

    def gradient(self, scored: list[ScoredRollout], places: list[int], ranks: Ranks) -> list[torch.Tensor]:
        """What the optimizer would have moved the masters by; they stay where they are."""
        caught: list[torch.Tensor] = []
        adamw = self.updater._optimizer
        real = adamw.step

        def catch(**_: float) -> None:
            caught.extend(one.grad.clone() for one in self.updater._masters.parameters if one.grad is not None)
            self.updater._masters.forget_gradients()

        adamw.step = catch  # type: ignore[method-assign]
        with self.by(ranks):
            self.updater.update(scored, step=1, places=places)
        adamw.step = real  # type: ignore[method-assign]
        return caught

    @contextmanager
    def by(self, ranks: Ranks) -> Iterator[None]:
        """Updates inside are of these ranks."""
        meeting = (self.updater, self.updater._masters)
        before = [one._ranks for one in meeting]
        for one in meeting:
            one._ranks = ranks
        yield
        for one, own in zip(meeting, before, strict=True):
            one._ranks = own

    def say(self, name: str, **values: object) -> None:
        """A line, by rank 0."""
        if self.ranks.writes:
            self.report.add(name, **values)


if __name__ == "__main__":
    main()
