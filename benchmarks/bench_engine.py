"""The engine at the 1.5B recipe's shape with random weights: decode, evaluation, and its gap to a plain forward.

    python benchmarks/bench_engine.py [--scale 1.0] [--out FILE]
                                      [--only decode evaluation gap transformers vllm drafts]
                                      [--like "Qwen3 1.7B"]

`--like` takes another shape that the persistent kernel is made for. On one GPU, in less than nine minutes. Each
figure is a JSON line (in FILE too, if asked for); the table at the end has decode in ms a token and as a multiple of
the floor: the bytes of weights and cache of a step at the bandwidth at which this machine reads, measured here.
transformers' own `generate` is run beside it, and vLLM where it is installed. On a machine without a GPU,
`--scale 0.05` checks the program itself.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from beside_vllm import with_vllm
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from opd.models.engine.drafts.steps import ROWS as DRAFT_ROWS
from opd.models.engine.persistent import fit
from opd.models.engine.persistent.cut import CUTS
from opd.models.engine.persistent.steps import PersistentSteps
from opd.models.engine.requests import Request
from opd.models.engine.room import Room, Size
from opd.models.engine.sampler import DraftsChoice, EngineSampler, drafted_way, drafted_way_of_kernel, ways
from opd.models.interfaces import Sampling
from opd.models.load import LanguageModel
from opd.records.rollouts import Prompt

CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda" if CUDA else "cpu")
RECIPES = "Qwen2 1.5B"
LAYERS = {RECIPES: 28, "Qwen2 0.5B": 24, "Qwen3 1.7B": 28, "Qwen3 0.6B": 28, "Llama 3.2 1B": 16}
KINDS: dict[str, tuple[Any, Any, int, int]] = {  # rows of the embedding, and ids
    "Qwen2": (Qwen2ForCausalLM, Qwen2Config, 151_936, 151_665),
    "Qwen3": (Qwen3ForCausalLM, Qwen3Config, 151_936, 151_669),
    "Llama": (LlamaForCausalLM, LlamaConfig, 128_256, 128_256),
}
BATCHES, CONTEXTS = (1, 8, 16, 64, 256), (1_024, 6_144)
SECTIONS = ("decode", "evaluation", "gap", "transformers", "vllm", "drafts")


def main() -> None:
    """Runs the sections that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of the sizes; 1.0 is the real model")
    parser.add_argument("--like", default=RECIPES, choices=LAYERS, help="the shape")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS, help="sections")
    parser.add_argument("--out", type=Path, help="file for the JSON lines")
    asked = parser.parse_args()
    lines: list[dict[str, Any]] = []

    def say(section: str, **figures: Any) -> None:
        lines.append({"section": section, **figures})
        print(json.dumps(lines[-1]), flush=True)
        if asked.out:
            asked.out.write_text("".join(json.dumps(line) + "\n" for line in lines))

    model = make_model(asked.scale, asked.like)
    rate = reading_rate()
    name = torch.cuda.get_device_name() if CUDA else "cpu"
    say("machine", name=name, torch=torch.__version__, parameters=model.parameters, read_TB_s=round(rate / 1e12, 3))
    run: dict[str, Callable[[], None]] = {
        "decode": lambda: decode(model, rate, say, small=asked.scale < 1),
        "evaluation": lambda: evaluation(model, say, small=asked.scale < 1),
        "gap": lambda: gap(model, say),
        "transformers": lambda: plain_generate(model, say, small=asked.scale < 1),
        "vllm": lambda: with_vllm(model, say, prompts=prompts, small=asked.scale < 1),
        "drafts": lambda: drafts(model, say, small=asked.scale < 1),
    }
    for section in asked.only:
        run[section]()
    print_table([line for line in lines if line["section"] == "decode"])


def make_model(scale: float, like: str = RECIPES) -> LanguageModel:
    """The recipe's architecture, or another, with random weights, in bf16; no id ends a response."""
    torch.manual_seed(0)
    cut, (architecture, configuration, rows, ids) = CUTS[like], KINDS[like.partition(" ")[0]]
    config = configuration(
        vocab_size=rows if scale == 1 else 2_048,
        hidden_size=64 * max(1, round(cut.hidden * scale / 64)),
        intermediate_size=64 * max(1, round(cut.inner * scale / 64)),
        num_hidden_layers=max(1, round(LAYERS[like] * scale)),
        num_attention_heads=cut.heads if scale == 1 else 1,
        num_key_value_heads=cut.key_heads if scale == 1 else 1,
        max_position_embeddings=32_768,
        tie_word_embeddings=False,
        **({"head_dim": cut.head} if cut.normed else {}),
    )
    torch.set_default_dtype(torch.bfloat16)
    with DEVICE:
        module = architecture(config).eval()
    torch.set_default_dtype(torch.float32)
    vocabulary = ids if scale == 1 else 2_048
    return LanguageModel(
        module=module, tokenizer=None, path=Path("random"), vocabulary=vocabulary, stop_ids=frozenset()
    )


def reading_rate() -> float:
    """Bytes a second at which a sum reads memory."""
    values = torch.empty(1 << (31 if CUDA else 22), dtype=torch.uint8, device=DEVICE).view(torch.int32).zero_()
    return values.nbytes / median_seconds(lambda: values.sum(dtype=torch.int32), times=10)


def median_seconds(work: Callable[[], Any], *, times: int) -> float:
    """Of one call, after one that isn't counted."""
    work()
    took = []
    for _ in range(times):
        synchronise()
        start = time.perf_counter()
        work()
        synchronise()
        took.append(time.perf_counter() - start)
    return statistics.median(took)


def synchronise() -> None:
    """Nothing is under way on the GPU."""
    if CUDA:
        torch.cuda.synchronize()


def decode(model: LanguageModel, rate: float, say: Callable[..., None], *, small: bool) -> None:
    """The steps of a window, with all rows at one context length; up to 8 rows by the persistent kernel too."""
    module = model.module
    weight_bytes = 2 * (
        sum(one.numel() for one in module.parameters()) - module.get_input_embeddings().weight.numel()
    )
    without = fit.misfit(model)
    if without:
        say("persistent", skipped=without)
    for rows in (1, 8) if small else BATCHES:
        for context in (64,) if small else CONTEXTS:
            steps = 4 if small else 32
            for path in ("graphs",) if without or rows > fit.ROWS else ("graphs", "persistent"):
                page_tokens = 64 if without else fit.PAGE_TOKENS
                pages = -(-(context + 4 * steps) // page_tokens)
                size = Size(
                    rows=rows,
                    sequence_tokens=page_tokens * pages,
                    page_tokens=page_tokens,
                    pages=rows * pages,
                    window=steps,
                    in_order=False,
                )
                room = Room.of(model, Sampling(limit_tokens=4 * steps), size)
                milliseconds = 1e3 * window_seconds(room, path, rows, context, steps) / steps
                floor = 1e3 * (weight_bytes + rows * context * 2 * room.shape.token_numbers) / rate
                say(
                    "decode",
                    path=path,
                    rows=rows,
                    context=context,
                    ms_a_token=round(milliseconds, 4),
                    times_floor=round(milliseconds / floor, 2),
                    tokens_a_second=round(1e3 * rows / milliseconds),
                )
                del room
                if CUDA:
                    torch.cuda.empty_cache()
    if not without:
        laying_out(model, say)


def window_seconds(room: Room, path: str, rows: int, context: int, steps: int) -> float:
    """Median time of a window of steps from this context on."""
    board = room.board
    pages = torch.randperm(room.size.pages, device=DEVICE).view(rows, -1)
    board.table_BM.copy_(pages)
    board.uniform_BW.uniform_()
    for pool in (*room.pools.keys, *room.pools.values):
        pool.normal_()
    run = {
        "graphs": lambda: steps_of_graphs(room, rows, context),
        "persistent": lambda: steps_of_kernel(room, pages.tolist(), context),
        "guesses by graphs": lambda: steps_with_guesses(room, rows, context),
        "guesses by the kernel": lambda: steps_with_guesses(room, rows, context, pages=pages.tolist()),
    }[path]()
    guessed = path.startswith("guesses")

    def window() -> None:
        board.position_B.fill_(context)
        board.left_B.fill_(room.size.window if guessed else 1 << 20)
        board.active_B.fill_(True)
        board.tick.zero_()
        run(steps)

    return median_seconds(window, times=5)


def steps_of_graphs(room: Room, rows: int, context: int) -> Callable[[int], None]:
    """So many steps of these rows, one after the other."""
    _, step = ways(room)

    def run(steps: int) -> None:
        for _ in range(steps):
            step(rows, context + steps)

    return run


def steps_with_guesses(
    room: Room, rows: int, context: int, pages: list[list[int]] | None = None
) -> Callable[[int], None]:
    """So many steps of sequences that have said one thing all along, so that there is always a guess.

    With `pages` of each sequence by the persistent kernel, else by graphs.
    """
    ops, _ = ways(room)
    notes, way = drafted_way(room, ops)
    running: list[Request] = []
    if pages is not None:
        way = drafted_way_of_kernel(room, ops, notes, PersistentSteps(room))
        running = requests_with(pages, context)

    def run(steps: int) -> None:
        notes.column_B.zero_()
        notes.history_BT.zero_()
        if way.kernel is not None:
            way.kernel.take_over(running)
        for _ in range(steps):
            way.step(rows, context + DRAFT_ROWS * steps)

    return run


def steps_of_kernel(room: Room, pages: list[list[int]], context: int) -> Callable[[int], None]:
    """So many steps of a row for each list of pages, in one launch."""
    kernel, running = PersistentSteps(room), requests_with(pages, context)
    return lambda steps: kernel.run(running, steps)


def requests_with(pages: list[list[int]], context: int) -> list[Request]:
    """One for each list of pages, which hold so many tokens."""
    noise = np.zeros(1)
    return [Request(name="", prompt_ids=(0,) * (context + 1), uniforms_T=noise, pages=one) for one in pages]


def drafts(model: LanguageModel, say: Callable[..., None], *, small: bool) -> None:
    """A step of few sequences without guesses and with guesses in all of its rows, by graphs and by the persistent
    kernel, and whole answers, of which nearly all can be guessed.

    The model is another one afterwards.
    """
    steps, page_tokens = (4, 64) if small else (32, fit.PAGE_TOKENS)
    paths = ["graphs", "guesses by graphs"]
    if not fit.misfit(model):
        paths += ["persistent", "guesses by the kernel"]
    for sequences in (1, 2, 4):
        for context in (64,) if small else CONTEXTS:
            columns = DRAFT_ROWS * steps
            pages = -(-(context + columns) // page_tokens)
            size = Size(
                rows=sequences,
                sequence_tokens=page_tokens * pages,
                page_tokens=page_tokens,
                pages=sequences * pages,
                window=columns,
                in_order=False,
            )
            room = Room.of(model, Sampling(limit_tokens=columns), size)
            for path in paths:
                seconds = window_seconds(room, path, sequences, context, steps)
                milliseconds = round(1e3 * seconds / steps, 4)
                say("drafts", path=path, sequences=sequences, context=context, ms_a_step=milliseconds)
    repeating(model)
    asked, tokens = prompts(1, 16 if small else 512, model.vocabulary), 16 if small else 1_024
    greedy = Sampling(limit_tokens=tokens, temperature=1e-3)
    ways_asked: list[tuple[DraftsChoice, bool | None]] = [
        ("off", None),
        ("off", False),
        ("history", None),
        ("history", False),
    ]
    if not fit.misfit(model):
        ways_asked.append(("history", True))
    for choice, persistent in ways_asked:
        sampler = EngineSampler(model, greedy, persistent=persistent, drafts=choice)
        seconds = median_seconds(partial(sampler.sample, asked, seeds=[0]), times=1)
        found = sampler.drafted
        say(
            "drafted",
            path=sampler.said,
            ms_a_token=round(1e3 * seconds / tokens, 4),
            tokens_a_step=round(found.tokens_a_step, 3) if found else 1,
        )


def repeating(model: LanguageModel) -> None:
    """The last token decides the next, and alike for many ids: the model goes round after a few dozen tokens."""
    with torch.no_grad():
        for layer in model.module.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        embedding_RH = model.module.get_input_embeddings().weight
        embedding_RH.copy_(embedding_RH[torch.arange(len(embedding_RH), device=DEVICE) % 512])


def laying_out(model: LanguageModel, say: Callable[..., None]) -> None:
    """What an update costs the persistent kernel: its copy of the weights, anew."""
    size = Size(rows=8, sequence_tokens=1_024, page_tokens=fit.PAGE_TOKENS, pages=64, window=1, in_order=False)
    room = Room.of(model, Sampling(limit_tokens=1), size)
    kernel = PersistentSteps(room)
    seconds = median_seconds(kernel.lay_out, times=5)
    say("layout", ms=round(1e3 * seconds, 3))


def prompts(count: int, tokens: int, vocabulary: int) -> list[Prompt]:
    """Of random ids."""
    ids = torch.randint(vocabulary, (count, tokens), generator=torch.Generator().manual_seed(1)).tolist()
    return [Prompt(row=row, problem="", answer="", token_ids=tuple(one)) for row, one in enumerate(ids)]


def evaluation(model: LanguageModel, say: Callable[..., None], *, small: bool) -> None:
    """Tokens a second of the whole sampler: prefill, 256 rows at once, the host's work between windows."""
    count, prompt_tokens, limit = (8, 16, 8) if small else (64, 512, 1_024)
    sampler = EngineSampler(model, Sampling(limit_tokens=limit), largest_batch=256)
    asked = prompts(count, prompt_tokens, model.vocabulary)
    sampler.sample(asked, seeds=[0, 1, 2, 3])  # compiles, captures
    synchronise()
    start = time.perf_counter()
    rollouts = sampler.sample(asked, seeds=[4, 5, 6, 7])
    took = time.perf_counter() - start
    drawn = sum(len(one.token_ids) for one in rollouts)
    say("evaluation", concurrent=4 * count, prompt_tokens=prompt_tokens, limit_tokens=limit, seconds=round(took, 3),
        tokens_a_second=round(drawn / took))  # fmt: skip


def gap(model: LanguageModel, say: Callable[..., None]) -> None:
    """Log-probabilities of the sampler against one forward of transformers over prompt and response."""
    gaps = []
    for one in EngineSampler(model, Sampling(limit_tokens=64)).sample(prompts(8, 32, model.vocabulary), seeds=[0]):
        ids = torch.tensor([[*one.prompt.token_ids, *one.token_ids]], device=DEVICE)
        with torch.no_grad():
            logits_TV = model.module(input_ids=ids).logits[0, 31:-1, : model.vocabulary].float()
        logp_T = logits_TV.log_softmax(-1).gather(-1, ids[0, 32:].unsqueeze(-1)).squeeze(-1)
        gaps.append(logp_T.cpu() - torch.tensor(one.logp))
    gap_N = torch.cat(gaps)
    say(
        "gap",
        tokens=len(gap_N),
        mean=float(gap_N.abs().mean()),
        largest=float(gap_N.abs().max()),
        k3=float((gap_N.exp() - 1 - gap_N).mean()),
    )


def plain_generate(model: LanguageModel, say: Callable[..., None], *, small: bool) -> None:
    """`generate` of transformers at batch 8: the difference of two lengths."""
    context = 16 if small else 1_000
    ids = torch.randint(model.vocabulary, (8, context), device=DEVICE)

    def generate(tokens: int) -> None:
        model.module.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, min_new_tokens=tokens, do_sample=True,
            top_k=0, pad_token_id=0,
        )  # fmt: skip

    seconds = median_seconds(lambda: generate(20), times=1) - median_seconds(lambda: generate(4), times=1)
    say("transformers", rows=8, context=context, ms_a_token=round(1e3 * seconds / 16, 2))


def print_table(lines: list[dict[str, Any]]) -> None:
    """Decode, a line each."""
    if lines:
        print(f"\n{'path':>10} {'rows':>5} {'context':>8} {'ms a token':>11} {'x floor':>8} {'tokens/s':>9}")
    for line in lines:
        print(f"{line['path']:>10} {line['rows']:5} {line['context']:8} "
              f"{line['ms_a_token']:11.3f} {line['times_floor']:8.2f} "
              f"{line['tokens_a_second']:9,}")  # fmt: skip


if __name__ == "__main__":
    main()
