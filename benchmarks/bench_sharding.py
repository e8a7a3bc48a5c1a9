"""What it costs a step that ranks share masters and moments, or the layers too: `machine.shard`, side by side.

    torchrun --nproc-per-node 2 benchmarks/bench_sharding.py      a GPU a rank, about two minutes
    python benchmarks/bench_sharding.py                           one GPU: a group of one, with all that a group does
    python benchmarks/bench_sharding.py --tiny                    the program itself, on any machine

The shape is that of bench_step.py, 8 rollouts a rank of `--tokens` each, drawn by the engine, without a teacher.
Of each way: seconds of a step by phase, the first and the quickest of three; how often the engine began anew because
its weights had moved; memory; the gradient's norm; and how far the weights are from those of the first way. With
`--state` also the seconds until each rank's rows are on the disk, and until they are read back. JSON lines.
"""

import argparse
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist
from bench_step import REAL, TINY, Report, Shape, model_of, prompt_of

from opd.models.engine.sampler import EngineSampler
from opd.models.interfaces import Sampling
from opd.models.layers import compile_layers
from opd.models.load import LanguageModel
from opd.models.machine import describe, synchronise
from opd.records.rollouts import ScoredRollout
from opd.train.objectives.k1_policy_gradient import K1PolicyGradient
from opd.train.ranks.joining import joined
from opd.train.ranks.layers import with_sharded_layers
from opd.train.ranks.ranks import Ranks
from opd.train.ranks.sharded import ShardedMasters
from opd.train.ranks.shelf import write_rows
from opd.train.saved.shares import read_shares
from opd.train.update.updater import OptimizerSettings, Updater

STEPS = 4  # the first warms up
PROMPTS, PER_PROMPT = 2, 4


@dataclass(slots=True, kw_only=True)
class Found:
    """What was measured of one way."""

    sample: list[float] = field(default_factory=list)  # seconds
    update: list[float] = field(default_factory=list)
    norm: list[float] = field(default_factory=list)
    rebuilt: int = 0
    held_gib: float = 0.0  # between two steps
    update_gib: float = 0.0  # at the peak of an update


def main() -> None:
    """Measures each way, one after the other, on all ranks at once."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tiny", action="store_true", help="a small shape, to try the program")
    parser.add_argument("--tokens", type=int, default=1_024, help="of each rollout")
    parser.add_argument("--compile", action="store_true", help="layers are compiled")
    parser.add_argument("--state", action="store_true", help="write and read a state, too: 12 bytes a parameter")
    parser.add_argument("--ways", nargs="+", default=["none", "optimizer", "full"])
    parser.add_argument("--json", type=Path, help="lines are added to this file, too")
    asked = parser.parse_args()
    with joined(device="auto") as ranks:
        if ranks.count == 1:
            _group_of_one()
        Bench(ranks, asked).measure(asked.ways)


class Bench:
    """One rank, and what it measures."""

    def __init__(self, ranks: Ranks, asked: argparse.Namespace) -> None:
        self.ranks = ranks
        self.shape: Shape = TINY if asked.tiny else REAL
        self.tokens = min(asked.tokens, self.shape.largest_tokens)
        self.compiles, self.writes = asked.compile, asked.state
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.report = Report(file=asked.json if ranks.writes else None)
        self.first: dict[str, torch.Tensor] = {}

    def measure(self, ways: list[str]) -> None:
        """Each way from the same weights."""
        self.say("machine", machine=describe(self.device), ranks=self.ranks.count)
        for way in ways:
            self.one_way(way)
            if self.device == "cuda":
                torch.cuda.empty_cache()

    def one_way(self, way: str) -> None:
        """Some steps and, where ranks have shares, a state."""
        student = model_of(self.shape, self.device, seed=0)
        learner = with_sharded_layers(student, self.ranks) if way == "full" else student
        if self.compiles:
            compile_layers(learner.module)
        shares = None
        if way != "none":
            layers = learner.module if way == "full" else None
            shares = ShardedMasters(student.module, ranks=self.ranks, layers=layers)
        updater = Updater(
            learner,
            K1PolicyGradient(),
            OptimizerSettings(lr=1e-5, weight_decay=0.01),
            largest_tokens=2 * self.shape.tokens,
            chunk_tokens=self.shape.chunk_tokens,
            ranks=self.ranks,
            masters=shares,
        )
        self.say(way, **self.steps(student, updater), distance=self.distance(student))
        if shares is not None and self.writes:
            self.say(f"{way}: state", **self.state(updater, shares))

    def steps(self, student: LanguageModel, updater: Updater) -> dict[str, object]:
        """Seconds, memory and norms."""
        found, limit = Found(), self.tokens
        sampler = EngineSampler(student, Sampling(limit_tokens=limit), largest_batch=PROMPTS * PER_PROMPT)
        prompts = [prompt_of(self.shape, PROMPTS * self.ranks.rank + row) for row in range(PROMPTS)]
        kept = None
        for step in range(1, STEPS + 1):
            self.ranks.everyone(None)
            start = time.perf_counter()
            rollouts = sampler.sample(prompts, seeds=range(PER_PROMPT))
            synchronise(self.device)
            sampled = time.perf_counter()
            found.rebuilt += step > 1 and sampler._kept is not kept
            kept = sampler._kept
            scored = [ScoredRollout(rollout=one, teacher_logp=tuple(x - 0.1 for x in one.logp)) for one in rollouts]
            if self.device == "cuda":
                found.held_gib = torch.cuda.memory_allocated() / (1 << 30)
                torch.cuda.reset_peak_memory_stats()
            began = time.perf_counter()
            stats = updater.update(scored, step=step)
            synchronise(self.device)
            found.sample.append(sampled - start)
            found.update.append(time.perf_counter() - began)
            found.norm.append(stats.gradient_norm)
        if self.device == "cuda":
            found.update_gib = torch.cuda.max_memory_allocated() / (1 << 30)
        return asdict(found) | {"quickest_sample": min(found.sample[1:]), "quickest_update": min(found.update[1:])}

    def distance(self, student: LanguageModel) -> float:
        """Largest difference of a weight from the first way's."""
        weights = {name: one.detach().cpu() for name, one in student.module.named_parameters()}
        self.first = self.first or weights
        return max(float((one.float() - self.first[name].float()).abs().max()) for name, one in weights.items())

    def state(self, updater: Updater, shares: ShardedMasters) -> dict[str, object]:
        """Seconds of writing and reading each rank's rows, and whether they are the same bits."""
        path = tempfile.mkdtemp() if self.ranks.writes else ""
        folder = Path(self.ranks.told(path))
        tensors = updater.state()
        start = time.perf_counter()
        write_rows(folder, shares.placed(tensors), self.ranks)
        self.ranks.everyone(None)
        written = time.perf_counter()
        back = read_shares(folder, shares)
        read = time.perf_counter()
        same = all(torch.equal(back[name], one.cpu()) for name, one in tensors.items())
        size = sum(path.stat().st_size for path in folder.iterdir())
        self.ranks.everyone(None)
        if self.ranks.writes:
            shutil.rmtree(folder)
        return {
            "write": written - start,
            "read": read - written,
            "gigabytes": size / 1e9,
            "same": all(self.ranks.everyone(same and back.keys() == tensors.keys())),
        }

    def say(self, name: str, **values: object) -> None:
        """A line, by rank 0."""
        if self.ranks.writes:
            self.report.add(name, **values)


def _group_of_one() -> None:
    """FSDP2 and the checkpoints ask for a group, which a process alone has not."""
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)


if __name__ == "__main__":
    main()
