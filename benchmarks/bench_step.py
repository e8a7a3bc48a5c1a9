"""What a training step costs by its parts: scoring, forward and backward, the optimizer, and the whole of it.

    python benchmarks/bench_step.py [--plain-layers] [--only WHAT …] [--json FILE]    one GPU, random weights, minutes
    python benchmarks/bench_step.py --tiny                                the program itself, on any machine

The shape is that of recipes/opd_math_1p5b.toml: Qwen2 with 1,777,088,000 parameters, student and teacher of one size,
2 prompts × 4 rollouts a step. Scoring and update take 8 sequences of 3,500 tokens, two at a time. The whole step
draws rollouts of lengths from a log-normal (mean 3,500, sigma 0.75, cap 7,168, seed 0, correlated within a prompt),
with the end of sequence ignored. Predictions stand beside outcomes: they were made from bytes, FLOPs and the rates
that one NVIDIA H200 had reached before. A JSON line for each measurement, then a table.
"""

import argparse
import gc
import json
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from opd.models.engine.engine import Engine
from opd.models.engine.persistent import fit
from opd.models.engine.persistent.steps import PersistentSteps
from opd.models.engine.requests import Request
from opd.models.engine.room import Room, Size
from opd.models.engine.sampler import ways
from opd.models.exact.model import exact_model
from opd.models.interfaces import Sampling
from opd.models.layers import compile_layers
from opd.models.load import LanguageModel
from opd.models.logprobs import token_logp
from opd.models.machine import describe, synchronise
from opd.models.packing import learn_packing
from opd.models.plain import PlainScorer
from opd.models.sequences import packed
from opd.records.errors import AskedWrongly
from opd.records.rollouts import Prompt, Rollout, ScoredRollout, StopReason
from opd.train.objectives.k1_policy_gradient import K1PolicyGradient
from opd.train.update.updater import OptimizerSettings, Updater

GIB = 1 << 30
REACHED_FLOPS = 5.3e14  # a second, of a forward pass with compiled layers; backward passes reached 0.9 of it
REACHED_BYTES = 3.9e12  # a second, of one pass over the optimizer's memory
DECODE_SECONDS = {
    "graphs": 1.35e-3,
    "persistent": 0.98e-3,
    "exact": 0.98e-3,
    "exact graphs": 1.5e-3,
}  # a decode step of 8 rows without its cache
SECTIONS = ["parts", "graphs", "persistent", "exact", "exact graphs"]
AT_MOST = {"graphs": 12.5, "persistent": 9.0, "exact": 9.0}  # seconds of the whole step
CACHE_BYTES = 3.9e12  # a second
SIGMA, WITHIN = 0.75, 0.6  # of log-lengths; the share of their variance that lies within a prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is measured."""

    config: dict[str, Any]
    vocabulary: int
    sequences: int
    tokens: int  # of a sequence, its prompt included
    prompt_tokens: int
    mean_tokens: int  # of the rollouts that are drawn
    largest_tokens: int
    chunk_tokens: int


REAL = Shape(
    config={
        "vocab_size": 151_936,
        "hidden_size": 1_536,
        "intermediate_size": 8_960,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
    },
    vocabulary=151_665,
    sequences=8,
    tokens=3_500,
    prompt_tokens=100,
    mean_tokens=3_500,
    largest_tokens=7_168,
    chunk_tokens=2_048,
)
TINY = Shape(
    config={
        "vocab_size": 320,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    },
    vocabulary=312,
    sequences=8,
    tokens=40,
    prompt_tokens=8,
    mean_tokens=20,
    largest_tokens=40,
    chunk_tokens=64,
)


@dataclass(slots=True, kw_only=True)
class Report:
    """Measurements so far; each is printed as it is made."""

    file: Path | None
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, **values: Any) -> None:
        """One more line."""
        line = {"name": name} | {key: _short(value) for key, value in values.items()}
        self.rows.append(line)
        print(json.dumps(line), flush=True)
        if self.file is not None:
            with self.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def table(self) -> None:
        """All that has seconds, with what was predicted and what the issue asks for."""
        print(f"\n{'':34}{'seconds':>10}{'predicted':>11}{'at most':>9}{'peak GiB':>10}")
        for row in self.rows:
            if "seconds" in row:
                cells = (row.get(key) for key in ("seconds", "predicted", "at_most", "peak_gib"))
                widths = (10, 11, 9, 10)
                shown = ("" if cell is None else f"{cell:.4g}" for cell in cells)
                print(
                    f"{row['name']:34}"
                    + "".join(f"{cell:>{width}}" for cell, width in zip(shown, widths, strict=True))
                )


def main() -> None:
    """Measures part by part and prints as it goes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tiny", action="store_true", help="a small shape, to try the program")
    parser.add_argument("--plain-layers", action="store_true", help="layers are not compiled")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS, help="what is measured")
    parser.add_argument("--json", type=Path, help="lines are added to this file, too")
    asked = parser.parse_args()
    shape = TINY if asked.tiny else REAL
    device = "cuda" if torch.cuda.is_available() else "cpu"
    report = Report(file=asked.json)
    report.add("machine", machine=describe(device))
    student, teacher = (model_of(shape, device, seed=seed) for seed in (0, 1))
    if device == "cuda" and not asked.plain_layers:
        compile_layers(student.module)
        compile_layers(teacher.module)
    limits = {"largest_tokens": 2 * shape.tokens, "chunk_tokens": shape.chunk_tokens}
    scorer = PlainScorer(teacher, **limits)
    updater = Updater(student, K1PolicyGradient(), OptimizerSettings(lr=1e-6, weight_decay=0.01), **limits)
    rollouts = [rollout(shape, row, shape.tokens - shape.prompt_tokens) for row in range(shape.sequences)]
    if "parts" in asked.only:
        measure_parts(report, shape, student, scorer, updater, rollouts)
    for path in [one for one in ("graphs", "persistent") if one in asked.only]:
        if path == "persistent" and (reason := fit.misfit(student)):
            report.add(path, skipped=reason)
        else:
            measure_step(report, shape, student, scorer, updater, path)
    del updater, student  # its gradients go where the updater put them
    for path in [one for one in ("exact", "exact graphs") if one in asked.only]:
        gc.collect()
        try:
            student = exact_model(model_of(shape, device, seed=0), persistent=path == "exact")
        except AskedWrongly as reason:
            report.add(path, skipped=str(reason))
        else:
            measure_exact(report, shape, student, scorer, limits, path)
            del student
    report.table()


def measure_parts(
    report: Report,
    shape: Shape,
    student: LanguageModel,
    scorer: PlainScorer,
    updater: Updater,
    rollouts: list[Rollout],
) -> None:
    """Scoring and update of sequences of one length; the first call of each compiles and is reported by itself."""
    lengths = [shape.tokens] * shape.sequences
    flops = forward_flops(shape, student, lengths)
    report.add("scoring, first call", seconds=seconds(student, lambda: scorer.score(rollouts), times=1))
    took = seconds(student, lambda: scorer.score(rollouts))
    predicted = flops / REACHED_FLOPS
    report.add("scoring", seconds=took, predicted=predicted, at_most=0.23, tflops=flops / took / 1e12)
    scored = scorer.score(rollouts)
    report.add("update, first call", seconds=seconds(student, lambda: updater.update(scored, step=1), times=1))
    took = seconds(student, lambda: updater.update(scored, step=1))
    optimizer = measure_optimizer(report, student, updater, scored)
    predicted = 3 * flops / (0.9 * REACHED_FLOPS)
    report.add(
        "forward and backward",
        seconds=took - optimizer,
        predicted=predicted,
        at_most=0.75,
        peak_gib=peak_gib(),
        tflops=3 * flops / (took - optimizer) / 1e12,
    )
    report.add("update, whole", seconds=took, predicted=predicted + 30 * student.parameters / REACHED_BYTES)


def measure_optimizer(report: Report, student: LanguageModel, updater: Updater, scored: list[ScoredRollout]) -> float:
    """Seconds of AdamW and of the norm together, inside an update that is otherwise as it is."""
    owners: dict[str, Any] = {"norm": updater._masters, "step": updater._optimizer}
    real, spent = {name: getattr(owner, name) for name, owner in owners.items()}, {}

    def timed(name: str) -> Callable[..., Any]:
        def call(**how: Any) -> Any:
            synchronise(student.device.type)
            start = time.perf_counter()
            given = real[name](**how)
            synchronise(student.device.type)
            spent[name] = time.perf_counter() - start
            return given

        return call

    for name, owner in owners.items():
        setattr(owner, name, timed(name))
    updater.update(scored, step=1)
    for name, owner in owners.items():
        setattr(owner, name, real[name])
    bytes_moved = 30 * student.parameters
    report.add(
        "AdamW, masters and weights",
        seconds=spent["step"],
        predicted=bytes_moved / REACHED_BYTES,
        at_most=0.02,
        terabytes_a_second=bytes_moved / spent["step"] / 1e12,
    )
    report.add("norm of the gradients", seconds=spent["norm"])
    return spent["step"] + spent["norm"]


def measure_step(
    report: Report, shape: Shape, student: LanguageModel, scorer: PlainScorer, updater: Updater, path: str
) -> None:
    """Sampling, scoring and update of one step, everything in memory; what compiles has done so before.

    A shorter step warms up, and a scoring and an update of these very lengths.
    """
    lengths = drawn_lengths(shape)
    report.add("lengths of the step", lengths=lengths, tokens=sum(lengths))
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    engine = engine_of(shape, student, path)
    cache = 2 * 2 * shape.config["num_hidden_layers"] * shape.config["num_key_value_heads"] * head_size(shape)
    read = cache * sum(length**2 / 2 + shape.prompt_tokens * length for length in lengths)
    sampling = DECODE_SECONDS[path] * max(lengths) + read / CACHE_BYTES
    flops = forward_flops(shape, student, [length + shape.prompt_tokens for length in lengths])
    predicted = {
        "sampling": sampling,
        "scoring": flops / REACHED_FLOPS,
        "update": 3 * flops / (0.9 * REACHED_FLOPS) + 30 * student.parameters / REACHED_BYTES,
    }
    one_step(shape, engine, scorer, updater, [max(2, length // 8) for length in lengths])
    updater.update(scorer.score([rollout(shape, row, length) for row, length in enumerate(lengths)]), step=1)
    took = one_step(shape, engine, scorer, updater, lengths)
    for name, value in took.items():
        report.add(f"step by {path}: {name}", seconds=value, predicted=predicted[name])
    report.add(
        f"step by {path}, whole",
        seconds=sum(took.values()),
        predicted=sum(predicted.values()),
        at_most=AT_MOST.get(path),
        peak_gib=peak_gib(),
    )


def measure_exact(
    report: Report, shape: Shape, student: LanguageModel, scorer: PlainScorer, limits: dict[str, int], path: str
) -> None:
    """The step with an exact student; then how far sampler and trainer are apart over more than 100,000 tokens."""
    updater = Updater(student, K1PolicyGradient(), OptimizerSettings(lr=1e-6, weight_decay=0.01), **limits)
    measure_step(report, shape, student, scorer, updater, path)
    engine, numbers = engine_of(shape, student, path), random.Random(5)
    rollouts = sample(engine, shape, [numbers.randint(2, shape.largest_tokens) for _ in range(32)])
    apart, unequal, tokens = 0.0, 0, 0
    with torch.no_grad():
        for first in range(0, len(rollouts), 3):
            some = rollouts[first : first + 3]
            trainers = token_logp(student, packed(some, device=student.device), chunk_tokens=shape.chunk_tokens)
            own = torch.tensor([logp for one in some for logp in one.logp], device=trainers.device)
            if not (trainers.isfinite().all() and own.isfinite().all()):
                raise FloatingPointError("a log-probability of sampler or trainer is not a number")
            apart, tokens = max(apart, float((trainers - own).abs().max())), tokens + len(own)
            unequal += int((trainers != own).sum())
    report.add(f"sampler and trainer, {path}", tokens=tokens, unequal=unequal, largest_difference=apart)


def one_step(
    shape: Shape, engine: Engine, scorer: PlainScorer, updater: Updater, lengths: list[int]
) -> dict[str, float]:
    """Seconds of each phase; each ends with numbers that are on the host."""
    took, start = {}, time.perf_counter()
    rollouts = sample(engine, shape, lengths)
    took["sampling"] = time.perf_counter() - start
    scored = scorer.score(rollouts)
    took["scoring"] = time.perf_counter() - start - took["sampling"]
    updater.update(scored, step=1)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    took["update"] = time.perf_counter() - start - took["sampling"] - took["scoring"]
    return took


def engine_of(shape: Shape, student: LanguageModel, path: str) -> Engine:
    """The engine in a room for one step."""
    page_tokens = 64 if "graphs" in path else fit.PAGE_TOKENS
    each = -(-(shape.prompt_tokens + shape.largest_tokens) // page_tokens)
    size = Size(
        rows=shape.sequences,
        sequence_tokens=each * page_tokens,
        page_tokens=page_tokens,
        pages=shape.sequences * each,
        window=32,
        in_order=False,
    )
    room = Room.of(student, Sampling(limit_tokens=shape.largest_tokens), size)
    kernel = None if "graphs" in path else PersistentSteps(room)
    found = ways(room, student.exact)
    return Engine(room, *found, chunk_tokens=2_048, stop_ids=frozenset(), persistent=kernel)


def sample(engine: Engine, shape: Shape, lengths: list[int]) -> list[Rollout]:
    """Rollouts of just these lengths, four of a prompt."""
    noise = np.random.default_rng(0)
    prompts = [prompt_of(shape, row // 4) for row in range(len(lengths))]
    requests = [
        Request(name=f"row {row}", prompt_ids=prompt.token_ids, uniforms_T=noise.random(length))
        for row, (prompt, length) in enumerate(zip(prompts, lengths, strict=True))
    ]
    engine.begin()
    engine.submit(requests)
    while engine.schedule.busy:
        engine.window()
    engine.schedule.clear()
    return [
        Rollout(
            prompt=prompt,
            sample=row % 4,
            token_ids=tuple(request.token_ids),
            logp=tuple(request.logp),
            stop=StopReason.LENGTH,
        )
        for row, (prompt, request) in enumerate(zip(prompts, requests, strict=True))
    ]


def model_of(shape: Shape, device: str, *, seed: int) -> LanguageModel:
    """A model with random weights, bf16 on a GPU, that never stops."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        **shape.config, max_position_embeddings=32_768, rope_theta=10_000.0, tie_word_embeddings=False
    )
    torch.set_default_dtype(torch.bfloat16 if device == "cuda" else torch.float32)
    with torch.device(device):
        module = Qwen2ForCausalLM(config).eval()
    torch.set_default_dtype(torch.float32)
    module.requires_grad_(seed == 0)
    return LanguageModel(
        module=module,
        tokenizer=None,
        path=Path("random"),
        vocabulary=shape.vocabulary,
        stop_ids=frozenset(),
        unpackable=learn_packing(module),
    )


def rollout(shape: Shape, row: int, tokens: int) -> Rollout:
    """Random tokens after a random prompt."""
    numbers = random.Random(row)
    return Rollout(
        prompt=prompt_of(shape, row),
        sample=0,
        token_ids=tuple(numbers.randrange(shape.vocabulary) for _ in range(tokens)),
        logp=(-math.log(shape.vocabulary),) * tokens,
        stop=StopReason.LENGTH,
    )


def prompt_of(shape: Shape, row: int) -> Prompt:
    """Random tokens."""
    numbers = random.Random(-1 - row)
    ids = tuple(numbers.randrange(shape.vocabulary) for _ in range(shape.prompt_tokens))
    return Prompt(row=row, problem="", answer="", token_ids=ids)


def drawn_lengths(shape: Shape) -> list[int]:
    """Of the step's rollouts, four of a prompt one behind the other."""
    numbers = random.Random(0)
    middle = _middle(shape)
    lengths = []
    for _ in range(shape.sequences // 4):
        shared = numbers.gauss(0, 1)
        for _ in range(4):
            z = math.sqrt(1 - WITHIN) * shared + math.sqrt(WITHIN) * numbers.gauss(0, 1)
            lengths.append(min(shape.largest_tokens, max(2, int(math.exp(middle + SIGMA * z)))))
    return lengths


def _middle(shape: Shape) -> float:
    """The log-normal's mu at which lengths have the mean that is asked for, after the cap."""
    low, high = 0.0, 12.0
    for _ in range(40):
        middle, numbers = (low + high) / 2, random.Random(1)
        draws = [min(shape.largest_tokens, math.exp(numbers.gauss(middle, SIGMA))) for _ in range(5_000)]
        low, high = (middle, high) if sum(draws) / len(draws) < shape.mean_tokens else (low, middle)
    return low


def head_size(shape: Shape) -> int:
    """Of attention."""
    return int(shape.config["hidden_size"] // shape.config["num_attention_heads"])


def forward_flops(shape: Shape, student: LanguageModel, lengths: list[int]) -> float:
    """Of a forward pass over sequences of these lengths, head and causal attention included."""
    config = shape.config
    read = student.parameters - config["vocab_size"] * config["hidden_size"]
    attention = 2 * config["num_hidden_layers"] * config["hidden_size"] * sum(length**2 for length in lengths)
    return float(2 * read * sum(lengths) + attention)


def seconds(student: LanguageModel, work: Callable[[], object], *, times: int = 3) -> float:
    """The least of some runs, from a quiet device to a quiet device."""
    took = []
    for _ in range(times):
        synchronise(student.device.type)
        start = time.perf_counter()
        work()
        synchronise(student.device.type)
        took.append(time.perf_counter() - start)
    return min(took)


def peak_gib() -> float | None:
    """The most that was allocated on the GPU."""
    return torch.cuda.max_memory_allocated() / GIB if torch.cuda.is_available() else None


def _short(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()
