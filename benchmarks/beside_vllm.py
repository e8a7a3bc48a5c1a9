"""vLLM beside the engine, for `bench_engine.py`: decode at its best, and sampler and scorer as opd uses them.

Every figure is a JSON line. `vllm_decode` is plain generation without seeds and log-probabilities, first with CUDA
graphs alone, as opd starts it, then compiled, which is vLLM at its best; `seeded` is as opd asks for rollouts.
`engine_decode` asks the engine the same: whole calls with prompts of the same lengths, scheduling, board and rollouts
included, and of two lengths the difference. (`decode` of bench_engine.py is the windows of steps alone.)
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from opd.models.engine.sampler import EngineSampler
from opd.models.interfaces import Sampling
from opd.models.load import LanguageModel
from opd.models.plain import PlainScorer
from opd.models.vllm.installed import find_vllm, vllm_version
from opd.models.vllm.memory import Size
from opd.models.vllm.sampler import VllmSampler
from opd.models.vllm.scorer import VllmScorer
from opd.models.vllm.server import GRAPHS, Server
from opd.records.errors import AskedWrongly
from opd.records.rollouts import Prompt, Rollout

Say = Callable[..., None]
MakePrompts = Callable[[int, int, int], list[Prompt]]
SHAPES = ((8, 1_000), (8, 6_000), (64, 1_000), (256, 1_000))  # sequences, tokens of a prompt
TINY = ((4, 16),)
SHORT, LONG = 32, 288  # new tokens; their difference is decode alone
TURNS = 3  # of each; with one, and 128 tokens between them, 256 sequences came out as 3.8 ms and as 6.4


def with_vllm(model: LanguageModel, say: Say, *, prompts: MakePrompts, small: bool) -> None:
    """Its figures, or why there are none; before them those of the engine for the same calls."""
    engine(model, say, prompts=prompts, small=small)
    try:
        vllm = find_vllm()
        version = vllm_version()
    except AskedWrongly as error:
        say("vllm", skipped=str(error))
        return
    say("vllm", version=version)
    for name, compilation in (("graphs", GRAPHS), ("compiled", {})):
        decode(model, vllm, say, prompts=prompts, name=name, compilation=compilation, small=small)
    rollouts = sampler(model, say, prompts=prompts, vllm=vllm, small=small)
    scorer(model, rollouts, say, vllm=vllm)


def engine(model: LanguageModel, say: Say, *, prompts: MakePrompts, small: bool) -> None:
    """Milliseconds a token of the engine, with seeds, as all that it samples."""
    for rows, context in TINY if small else SHAPES:
        asked = prompts(rows, context, model.vocabulary)
        samplers = {
            tokens: EngineSampler(model, Sampling(limit_tokens=tokens), largest_batch=rows)
            for tokens in (SHORT, LONG)
        }
        milliseconds = milliseconds_a_token(
            lambda tokens, asked=asked, samplers=samplers: samplers[tokens].sample(asked, seeds=[0])
        )
        report(say, "engine_decode", milliseconds, path=samplers[LONG].said, rows=rows, context=context)


def report(say: Say, section: str, milliseconds: float, *, rows: int, **of: Any) -> None:
    """The line of a decode: its time, and what so many rows come to."""
    say(section, rows=rows, **of, ms_a_token=round(milliseconds, 3), tokens_a_second=round(1e3 * rows / milliseconds))


def milliseconds_a_token(generate: Callable[[int], object]) -> float:
    """The median difference of two lengths, after each was run once: that compiles and fills a prefix cache."""
    seconds: dict[int, list[float]] = {}
    for tokens in (SHORT, LONG):
        seconds[tokens] = [timed(lambda tokens=tokens: generate(tokens))[0] for _ in range(1 + TURNS)][1:]
    return 1e3 * statistics.median(
        (long - short) / (LONG - SHORT) for short, long in zip(seconds[SHORT], seconds[LONG], strict=True)
    )


def decode(
    model: LanguageModel,
    vllm: Any,
    say: Say,
    *,
    prompts: MakePrompts,
    name: str,
    compilation: dict[str, Any],
    small: bool,
) -> None:
    """Milliseconds a token, with and without seeds."""
    shapes = TINY if small else SHAPES
    size = Size(rows=max(rows for rows, _ in shapes), sequence_tokens=max(tokens for _, tokens in shapes) + LONG)
    server = Server(model, size, compilation=compilation, vllm=vllm)
    took, _ = timed(lambda: server.generate([[1, 2, 3]], [vllm.SamplingParams(max_tokens=1)]))
    say("vllm_start", path=name, seconds=round(took, 1))
    for rows, context in shapes:
        ids = [one.token_ids for one in prompts(rows, context, model.vocabulary)]
        for seeded in (False, True) if name == "graphs" else (False,):
            settings = {
                tokens: [_settings(vllm, tokens, seed if seeded else None) for seed in range(rows)]
                for tokens in (SHORT, LONG)
            }
            milliseconds = milliseconds_a_token(
                lambda tokens, ids=ids, settings=settings: server.generate(ids, settings[tokens])
            )
            report(say, "vllm_decode", milliseconds, path=name, seeded=seeded, rows=rows, context=context)
    server.close()


def sampler(model: LanguageModel, say: Say, *, prompts: MakePrompts, vllm: Any, small: bool) -> list[Rollout]:
    """Rollouts as a run has them; how far their log-probabilities lie from transformers'; what an update costs."""
    count, context, limit = (2, 16, 8) if small else (64, 512, 1_024)
    served = VllmSampler(
        model,
        Sampling(limit_tokens=limit),
        prompt_tokens=context,
        largest_batch=256,
        vllm=vllm,
    )
    asked = prompts(count, context, model.vocabulary)
    served.sample(asked, seeds=[0, 1, 2, 3])
    took, rollouts = timed(lambda: served.sample(asked, seeds=[4, 5, 6, 7]))
    drawn = sum(len(one.token_ids) for one in rollouts)
    served.sample(asked[:1], seeds=[0])  # the first of a single request is slower
    alone = statistics.median(timed(lambda: served.sample(asked[:1], seeds=[0]))[0] for _ in range(TURNS))
    updated = []
    for version in range(1, 1 + TURNS):
        served.follow(version)
        updated.append(timed(lambda: served.sample(asked[:1], seeds=[0]))[0])
    sent = statistics.median(updated) - alone  # the weights, the cache dropped, the canary, a prefill
    served.close()
    say(
        "vllm_evaluation",
        concurrent=4 * count,
        prompt_tokens=context,
        limit_tokens=limit,
        seconds=round(took, 3),
        tokens_a_second=round(drawn / took),
        update_seconds=round(sent, 3),
    )
    some = rollouts[:8]
    plain = PlainScorer(model).score(some)
    gap = [
        b - a
        for one, right in zip(some, plain, strict=True)
        for a, b in zip(one.logp, right.teacher_logp, strict=True)
    ]
    say("vllm_gap", **_gap(gap))
    return some


def scorer(model: LanguageModel, rollouts: Sequence[Rollout], say: Say, *, vllm: Any) -> None:
    """Scores of eight sequences of 3,500 tokens, or of what there is; how far from transformers' they lie."""
    repeated = [_lengthened(one, 3_500 if len(one.token_ids) > 100 else len(one.token_ids)) for one in rollouts]
    longest = max(len(one.prompt.token_ids) + len(one.token_ids) for one in repeated)
    served = VllmScorer(model, sequence_tokens=longest, vllm=vllm)
    served.score(repeated[:1])
    took, scored = timed(lambda: served.score(repeated))
    served.close()
    plain_took, plain = timed(lambda: PlainScorer(model).score(repeated))
    gap = [
        b - a
        for one, right in zip(scored, plain, strict=True)
        for a, b in zip(one.teacher_logp, right.teacher_logp, strict=True)
    ]
    tokens = sum(len(one.prompt.token_ids) + len(one.token_ids) for one in repeated)
    say("vllm_score", tokens=tokens, seconds=round(took, 3), plain_seconds=round(plain_took, 3), **_gap(gap))


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what came back."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    found = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start, found


def _settings(vllm: Any, tokens: int, seed: int | None) -> Any:
    asked = {} if seed is None else {"seed": seed, "logprobs": 0, "flat_logprobs": True}
    return vllm.SamplingParams(temperature=1.0, max_tokens=tokens, ignore_eos=True, detokenize=False, **asked)


def _gap(gap: Sequence[float]) -> dict[str, float]:
    """Of trainer - sampler, nats: mean and largest size, and k3."""
    return {
        "gap_mean": sum(map(abs, gap)) / len(gap),
        "gap_largest": max(map(abs, gap)),
        "gap_k3": sum(math.expm1(one) - one for one in gap) / len(gap),
    }


def _lengthened(rollout: Rollout, tokens: int) -> Rollout:
    """The rollout's own tokens again and again, up to this length with the prompt."""
    wanted = max(1, tokens - len(rollout.prompt.token_ids))
    times = -(-wanted // len(rollout.token_ids))
    ids = (rollout.token_ids * times)[:wanted]
    return Rollout(
        prompt=rollout.prompt, sample=rollout.sample, token_ids=ids, logp=(0.0,) * len(ids), stop=rollout.stop
    )
