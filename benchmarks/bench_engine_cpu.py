"""Is the engine worth having on a CPU: tokens a second beside transformers' `generate` and the plain sampler.

    python benchmarks/bench_engine_cpu.py [--model opd:arith_tiny/student] [--batch 64] [--rounds 7]

One thread, float32. The three take turns in one process, so that a machine that is busy is busy for all of them; the
figure is the median over rounds of the ratio within a round. `generate` and the samplers write until the end of each
answer, at most the benchmark's limit. `generate` gets the prompts as one rectangle and 64 rows of it at once; the
samplers share each prompt's prefill among its rollouts. Prints a table and a JSON line.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence

import torch
from transformers import GenerationConfig

from opd.evaluate.benchmark import find, read_questions
from opd.models.chat import prompt_ids, user_text
from opd.models.engine.sampler import EngineSampler
from opd.models.interfaces import Sampler
from opd.models.load import LanguageModel, find_model, load_model
from opd.models.machine import describe
from opd.models.plain import PlainSampler
from opd.records.rollouts import Prompt

SEEDS = (0, 1, 2, 3)


def main() -> None:
    """Measures all three, and says what the engine's seconds were spent on."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="opd:arith_tiny/student")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    benchmark = find("arith_tiny")
    model = load_model(find_model(asked.model), dtype="float32", device="cpu")
    prompts = [
        Prompt(
            row=question.row,
            problem=question.problem,
            answer=question.gold,
            token_ids=prompt_ids(model.tokenizer, user_text(benchmark.prompt, question.problem)),
        )
        for question in read_questions(benchmark)[: asked.batch // len(SEEDS)]
    ]
    sampling = benchmark.sampling
    ways: dict[str, Callable[[], int]] = {
        "engine": sampled(EngineSampler(model, sampling, largest_batch=asked.batch), prompts),
        "plain": sampled(PlainSampler(model, sampling, largest_batch=asked.batch), prompts),
        "generate": generated(model, prompts, limit_tokens=sampling.limit_tokens),
    }
    for way in ways.values():
        way()
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(asked.rounds):
        for name, way in ways.items():
            rates[name].append(rate(way))
    machine = describe("cpu")
    print(f"{machine['name']}, torch {machine['torch']}, 1 thread, {asked.model}, {asked.batch} at once")
    for name, values in rates.items():
        print(f"{name:<9}{statistics.median(values):>9,.0f} tokens/s   best {max(values):>8,.0f}")
    ratios = {name: ratio(rates["engine"], values) for name, values in rates.items() if name != "engine"}
    for name, value in ratios.items():
        print(f"engine / {name:<9}{value:.2f}")
    tokens_per_second = {name: statistics.median(values) for name, values in rates.items()}
    print(
        json.dumps(
            {"machine": machine, "batch": asked.batch, "tokens_per_second": tokens_per_second, "ratios": ratios}
        )
    )


def sampled(sampler: Sampler, prompts: Sequence[Prompt]) -> Callable[[], int]:
    """Samples every prompt with every seed; the number of tokens."""
    return lambda: sum(len(one.token_ids) for one in sampler.sample(prompts, seeds=SEEDS))


def generated(model: LanguageModel, prompts: Sequence[Prompt], *, limit_tokens: int) -> Callable[[], int]:
    """The same by `generate`, padded on the left; the number of tokens, ends included, padding not."""
    longest = max(len(prompt.token_ids) for prompt in prompts)
    padding = model.tokenizer.pad_token_id
    rows = [prompt.token_ids for prompt in prompts for _ in SEEDS]
    ids_BT = torch.tensor([(padding,) * (longest - len(ids)) + ids for ids in rows])
    real_BT = (torch.arange(longest) >= torch.tensor([[longest - len(ids)] for ids in rows])).long()
    settings = GenerationConfig(
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        max_new_tokens=limit_tokens,
        pad_token_id=padding,
        eos_token_id=sorted(model.stop_ids),
    )

    def write() -> int:
        with torch.no_grad():
            written_BT = model.module.generate(ids_BT, attention_mask=real_BT, generation_config=settings)
        return int((written_BT[:, longest:] != padding).sum())

    return write


def rate(way: Callable[[], int]) -> float:
    """Tokens a second of one call."""
    began = time.perf_counter()
    tokens = way()
    return tokens / (time.perf_counter() - began)


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median over rounds of how many times as fast."""
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))


if __name__ == "__main__":
    main()
