"""What a second teacher costs in a step: in memory and seconds, staying on the GPU or coming in turn.

    python benchmarks/bench_teachers.py           one GPU, random weights, a minute
    python benchmarks/bench_teachers.py --tiny    the program itself, on any machine

The shape is that of recipes/opd_math_1p5b.toml, in bfloat16 with compiled layers: 8 rollouts of 3,500 tokens, prompt
included, by turns of one teacher and the other. A JSON line for each measurement: seconds of the third call, the
teachers' memory between two calls, the most while they score. `same` says whether the scores of a teacher that comes
in turn are those of one that stays, to the last bit.

Predicted, on one NVIDIA H200: a visit of 3.31 GiB takes 0.07 s at 50 GB/s, so two in turn 0.14 s more than two that
stay, and the scores are the same.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace

import torch
from bench_step import REAL, TINY, Shape, model_of, rollout

from opd.models.interfaces import Scorer
from opd.models.layers import compile_layers
from opd.models.load import LanguageModel
from opd.models.machine import describe, synchronise
from opd.models.plain import PlainScorer
from opd.models.scorers import RoutedScorer, VisitingScorer, to_host_memory
from opd.records.rollouts import Rollout, ScoredRollout

GIB = 1 << 30
NAMES = ("math", "code")
CALLS = 3  # the first compiles, the second allocates


def main() -> None:
    """Measures one teacher, two that stay and two in turn."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tiny", action="store_true", help="a model of two layers")
    shape = TINY if parser.parse_args().tiny else REAL
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(json.dumps(describe(device)))
    rollouts = [rollout(shape, row, shape.tokens - shape.prompt_tokens) for row in range(shape.sequences)]
    rollouts = [
        replace(one, prompt=replace(one.prompt, teacher=NAMES[row % len(NAMES)])) for row, one in enumerate(rollouts)
    ]
    models = [model_of(shape, device, seed=seed) for seed in (1, 2)]
    for model in models if device == "cuda" else []:
        compile_layers(model.module)
    scorers = [scorer_of(shape, one) for one in models]
    measured("one teacher", scorers[0], models[:1], rollouts, device)
    staying = measured(
        "two that stay", RoutedScorer(dict(zip(NAMES, scorers, strict=True))), models, rollouts, device
    )
    began = time.perf_counter()
    for model in models:
        to_host_memory(model.module)
    print(
        json.dumps({"what": "to the host's memory, at the start", "seconds": round(time.perf_counter() - began, 3)})
    )
    visiting = [
        VisitingScorer(scorer, model.module, device=device) for scorer, model in zip(scorers, models, strict=True)
    ]
    both = RoutedScorer(dict(zip(NAMES, visiting, strict=True)))
    in_turn = measured("two in turn", both, models, rollouts, device)
    print(json.dumps({"same": [one.teacher_logp for one in in_turn] == [one.teacher_logp for one in staying]}))


def scorer_of(shape: Shape, model: LanguageModel) -> PlainScorer:
    """As the recipe has it: micro-batches of 16,384 positions."""
    return PlainScorer(model, largest_tokens=16_384, chunk_tokens=shape.chunk_tokens)


def measured(
    what: str, scorer: Scorer, models: Sequence[LanguageModel], rollouts: Sequence[Rollout], device: str
) -> list[ScoredRollout]:
    """The scores; the line of what the last of several calls took is printed."""
    for _ in range(CALLS):
        if device == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        at_rest = torch.cuda.memory_allocated() if device == "cuda" else 0
        synchronise(device)
        began = time.perf_counter()
        scored = scorer.score(rollouts)
        synchronise(device)
        seconds = time.perf_counter() - began
    most = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    weights = sum(one.nbytes for model in models for one in model.module.parameters())
    line = {"what": what, "seconds": round(seconds, 3), "weights_gib": weights / GIB}
    print(json.dumps(line | {"at_rest_gib": round(at_rest / GIB, 3), "peak_gib": round(most / GIB, 3)}))
    return scored


if __name__ == "__main__":
    main()
