"""The engine's rollouts against those of transformers' own forward: the same seeds, the same tokens.

Shapes: T positions, V the tokenizer's ids.
"""

import json
import math
import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from transformers import GenerationConfig

from opd.models.engine import engine as engines
from opd.models.engine import operations
from opd.models.engine import prefill as prefills
from opd.models.engine import sampler as samplers
from opd.models.engine.operations import choose_among
from opd.models.engine.room import Room
from opd.models.engine.sampler import EngineSampler
from opd.models.engine.schedule import Schedule
from opd.models.interfaces import Sampling
from opd.models.load import load_model
from opd.models.plain import PlainSampler, PlainScorer
from opd.records.errors import AskedWrongly
from opd.records.rollouts import StopReason

FREE = Sampling(limit_tokens=12)


# --- the same tokens ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_same_seeds_give_the_tokens_of_the_plain_sampler(
    kind, dtype, make_decoder, prompts, stopping_often, same_rollouts
):
    """Of every kind of decoder, tied and untied, for ragged prompts, one of them a single token."""
    model = stopping_often(make_decoder(kind, dtype))
    plain = PlainSampler(model, FREE).sample(prompts(), seeds=[0, 1, 2, 3])
    assert len({len(one.token_ids) for one in plain}) > 4  # ragged
    assert StopReason.EOS in {one.stop for one in plain}
    atol = {"float32": 3e-5, "float64": 1e-9}[dtype]
    same_rollouts(EngineSampler(model, FREE).sample(prompts(), seeds=[0, 1, 2, 3]), plain, atol=atol)


@pytest.mark.parametrize("largest_batch", [1, 3, 256])
@pytest.mark.parametrize("page_tokens", [None, 1, 4, 64])
@pytest.mark.parametrize("window", [1, 3, 20])
def test_neither_batches_nor_pages_nor_windows_change_a_token(
    largest_batch, page_tokens, window, make_decoder, prompts, stopping_often, same_rollouts
):
    model = stopping_often(make_decoder("qwen2"))
    plain = PlainSampler(model, FREE).sample(prompts(), seeds=[0, 1, 2])
    engine = EngineSampler(
        model, FREE, largest_batch=largest_batch, page_tokens=page_tokens, window=window, chunk_tokens=5
    )
    same_rollouts(engine.sample(prompts(), seeds=[0, 1, 2]), plain, atol=3e-5)


@pytest.mark.parametrize("cache_tokens", [20, 28, 64])
@pytest.mark.parametrize("page_tokens", [1, 4])
@pytest.mark.parametrize("ragged", [True, False])
def test_a_full_cache_changes_no_token(
    cache_tokens, page_tokens, ragged, make_decoder, prompts, stopping_often, same_rollouts, monkeypatch
):
    """Requests that had to leave come back and go on with the tokens that they would have drawn."""
    left = []
    preempt = Schedule._preempt
    monkeypatch.setattr(Schedule, "_preempt", lambda self: left.append(preempt(self)) or left[-1])
    model = make_decoder("llama")
    model = stopping_often(model) if ragged else replace(model, stop_ids=frozenset())
    plain = PlainSampler(model, FREE).sample(prompts(), seeds=range(4))
    engine = EngineSampler(model, FREE, page_tokens=page_tokens, cache_tokens=cache_tokens, window=2)
    same_rollouts(engine.sample(prompts(), seeds=list(range(4))), plain, atol=3e-5)
    assert ragged or any(request.token_ids for request in left)  # it did happen, in the middle of an answer


@pytest.mark.parametrize("requests", [1, 2, 63, 512])
def test_one_to_512_requests_are_drawn_alike(requests, make_decoder, prompts, drawn):
    model = make_decoder("qwen2")
    some = prompts(*[(305, 7 + row % 3, row % 200) for row in range(requests)])
    sampling = Sampling(limit_tokens=3)
    assert drawn(EngineSampler(model, sampling, largest_batch=512), some, seeds=[5]) == drawn(
        PlainSampler(model, sampling), some, seeds=[5]
    )


def test_no_prompts_give_no_rollouts(make_decoder):
    assert EngineSampler(make_decoder("qwen2"), FREE).sample([], seeds=[0]) == []


def test_rollouts_of_one_prompt_differ_and_are_the_same_whoever_is_sampled_beside_them(make_decoder, prompts, drawn):
    """E50: four seeds, four rollouts; each is what it is alone."""
    engine = EngineSampler(make_decoder("qwen3"), FREE)
    together = drawn(engine, prompts(), seeds=[0, 1, 2, 3])
    assert len(set(together)) == len(together)
    alone = [drawn(engine, [prompt], seeds=[seed])[0] for prompt in prompts() for seed in (0, 1, 2, 3)]
    assert alone == together
    assert drawn(engine, prompts(epoch=1), seeds=[0, 1, 2, 3]) != together


# --- logits and distributions ---------------------------------------------------------------------------


def test_logits_are_those_of_transformers_at_every_token(kind, make_decoder, prompts, logits_of, monkeypatch):
    """All of them, in float32, of prompts of several lengths and through several pages."""
    model = make_decoder(kind)
    seen = []

    def noted(h_NH, head_VH, uniform_N, sampling):
        seen.append(operations.logits(h_NH, head_VH))
        return operations.choose(h_NH, head_VH, uniform_N, sampling)

    monkeypatch.setattr(samplers, "TORCH", replace(operations.TORCH, choose=noted))
    model = replace(model, stop_ids=frozenset())
    rollouts = EngineSampler(model, FREE, page_tokens=4).sample(prompts(), seeds=[0])
    for row, rollout in enumerate(rollouts):
        ids = rollout.prompt.token_ids + rollout.token_ids
        expected_TV = logits_of(model, ids)[len(rollout.prompt.token_ids) - 1 : -1]
        found_TV = torch.stack([logits_BV[row] for logits_BV in seen])
        torch.testing.assert_close(found_TV, expected_TV, rtol=1e-4, atol=1e-4)


def test_the_likeliest_tokens_are_those_of_transformers(kind, make_decoder, prompts):
    """Greedy: with top_k = 1 every seed draws what `generate` without sampling writes."""
    model = make_decoder(kind)
    padding = list(range(model.vocabulary, 320))  # generate would write them
    settings = GenerationConfig(max_new_tokens=12, eos_token_id=306, pad_token_id=307, suppress_tokens=padding)
    rollouts = EngineSampler(model, Sampling(limit_tokens=12, top_k=1)).sample(prompts(), seeds=[3])
    for rollout in rollouts:
        ids = torch.tensor([rollout.prompt.token_ids])
        mask = torch.ones_like(ids)
        with torch.no_grad():
            written = model.module.generate(ids, attention_mask=mask, generation_config=settings)
        assert rollout.token_ids == tuple(written[0, ids.shape[1] :].tolist())
        assert rollout.logp == pytest.approx([0.0] * len(rollout.token_ids), abs=1e-6)


def fit_of(counts: Counter[int], probability_V: np.ndarray) -> float:
    """p of Pearson's chi-square; tokens that are expected fewer than five times share one cell."""
    total = sum(counts.values())
    likely = np.flatnonzero(probability_V * total >= 5)
    assert len(likely) >= 4
    observed = [counts[token] for token in likely]
    expected = probability_V[likely] * total
    observed, expected = [*observed, total - sum(observed)], [*expected, total - expected.sum()]
    return float(stats.chisquare(observed, np.array(expected) * total / sum(expected)).pvalue)


def test_first_and_second_tokens_come_as_often_as_the_softmax_says(make_decoder, prompts, logits_of):
    """4,000 rollouts of one prompt: the first tokens, then the second ones after the commonest first."""
    model = make_decoder("qwen2")
    (prompt,) = prompts((305, 308, 7, 309))
    sampler = EngineSampler(model, Sampling(limit_tokens=2), largest_batch=500)
    rollouts = sampler.sample([prompt], seeds=list(range(4000)))
    firsts = Counter(one.token_ids[0] for one in rollouts)
    ((commonest, times),) = firsts.most_common(1)
    seconds = Counter(one.token_ids[1] for one in rollouts if one.token_ids[0] == commonest)
    assert times > 300

    def next_V(*ids):
        return logits_of(model, prompt.token_ids + ids)[-1].double().softmax(dim=-1).numpy()

    assert fit_of(firsts, next_V()) > 1e-3
    assert fit_of(seconds, next_V(commonest)) > 1e-3
    assert fit_of(firsts, next_V(commonest)) < 1e-9  # it can tell


CUTS = [{"top_k": 4}, {"top_p": 0.3}, {"min_p": 0.2}, {"top_k": 9, "top_p": 0.8, "min_p": 0.05, "temperature": 0.8}]


@pytest.mark.parametrize("cut", CUTS)
def test_both_log_probabilities_of_a_cut_distribution_are_given(cut, make_decoder, prompts, logits_of):
    """E43: that of the distribution which was drawn from, and that of softmax(logits / temperature) itself."""
    model = replace(make_decoder("qwen2", "float64"), stop_ids=frozenset())
    sampling = Sampling(limit_tokens=4, **cut)
    for rollout in EngineSampler(model, sampling).sample(prompts(), seeds=range(4)):
        logits_TV = logits_of(model, rollout.prompt.token_ids + rollout.token_ids)
        steps = zip(rollout.token_ids, rollout.logp, rollout.raw_logp or (), strict=True)
        for n, (token, logp, raw_logp) in enumerate(steps):
            scaled_V = logits_TV[len(rollout.prompt.token_ids) - 1 + n] / sampling.temperature
            probability_V = scaled_V.softmax(dim=-1).numpy()
            kept = slow_cut(probability_V, top_p=sampling.top_p, top_k=sampling.top_k, min_p=sampling.min_p)
            assert token in kept
            assert logp == pytest.approx(math.log(probability_V[token] / sum(probability_V[list(kept)])), abs=1e-9)
            assert raw_logp == pytest.approx(math.log(probability_V[token]), abs=1e-9)


def slow_cut(probability_V: np.ndarray, *, top_p: float, top_k: int, min_p: float) -> set[int]:
    """The definition: likeliest first, until so many are in, so much probability is, or they are too unlikely."""
    kept, mass = set(), 0.0
    for rank, token in enumerate(sorted(range(len(probability_V)), key=lambda token: -probability_V[token])):
        too_unlikely = probability_V[token] < min_p * probability_V.max()
        if (top_p < 1 and mass >= top_p) or (top_k and rank >= top_k) or too_unlikely:
            break
        kept.add(token)
        mass += probability_V[token]
    return kept


def test_the_log_probability_of_a_temperature_is_the_scaled_one(make_decoder, prompts, logits_of):
    """E43: z = (2, 0) at T = 0.5 is -0.01815, not the raw -0.12693."""
    logits_NV = torch.tensor([[2.0, 0.0]])
    choice = choose_among(
        logits_NV, torch.tensor([0.5], dtype=torch.float64), Sampling(temperature=0.5, limit_tokens=1)
    )
    assert choice.logp_N.item() == pytest.approx(-0.01815, abs=1e-5)
    assert choice.raw_logp_N.item() == pytest.approx(-0.01815, abs=1e-5)
    model = make_decoder("qwen2", "float64")
    (one,) = EngineSampler(model, Sampling(limit_tokens=1, temperature=0.5)).sample(prompts((305, 7)), seeds=[1])
    expected_V = (logits_of(model, (305, 7))[-1] / 0.5).log_softmax(dim=-1)
    assert one.logp[0] == pytest.approx(expected_V[one.token_ids[0]].item(), abs=1e-6)
    assert one.raw_logp is None


# --- what must not shape the distribution ---------------------------------------------------------------


def test_an_id_that_the_tokenizer_lacks_is_never_drawn(make_decoder, prompts, drawn):
    """E34: a padded row with a logit above all others, which a softmax over all rows would draw nearly always."""
    model = make_decoder("qwen2-untied")
    expected = drawn(EngineSampler(model, FREE), prompts())
    head = model.module.lm_head.weight
    with torch.no_grad():
        hidden_H = model.module.model(torch.tensor([[305, 308, 7]])).last_hidden_state[0, -1]
        head[model.vocabulary :] = 50 * hidden_H / hidden_H.norm() ** 2
        probability_V = model.module(input_ids=torch.tensor([[305, 308, 7]])).logits[0, -1].softmax(dim=-1)
    assert probability_V[model.vocabulary :].sum() > 0.99  # the bad condition exists
    found = drawn(EngineSampler(model, FREE), prompts())
    assert max(max(ids) for ids in found) < len(model.tokenizer)
    assert found == expected


def test_a_models_own_generation_settings_change_nothing(random_models, tmp_path, prompts, drawn):
    """E42: temperature, top-p, top-k, penalties and limits of generation_config.json are not ours."""
    folder = tmp_path / "student"
    shutil.copytree(random_models / "student", folder)
    settings = json.loads((folder / "generation_config.json").read_text())
    settings |= {"do_sample": True, "temperature": 0.1, "top_k": 2, "repetition_penalty": 1.5, "max_new_tokens": 2}
    (folder / "generation_config.json").write_text(json.dumps(settings))
    opinionated, plain = (
        load_model(one, dtype="float32", device="cpu") for one in (folder, random_models / "student")
    )
    assert GenerationConfig.from_pretrained(folder).repetition_penalty == 1.5  # transformers would have heeded it
    assert drawn(EngineSampler(opinionated, FREE), prompts()) == drawn(EngineSampler(plain, FREE), prompts())


def test_a_model_that_overflows_is_not_sampled_from(make_decoder, prompts):
    """E45, the sampler's half; the next call starts clean."""
    model = make_decoder("qwen2")
    sampler = EngineSampler(model, FREE)
    before = sampler.sample(prompts(), seeds=[0])
    with torch.no_grad():
        kept = model.module.model.norm.weight[3].clone()
        model.module.model.norm.weight[3] = torch.inf
    with pytest.raises(
        FloatingPointError, match=r"row 0: the probabilities of token 0 are not finite: .*learning rate"
    ):
        sampler.sample(prompts(), seeds=[0])
    with torch.no_grad():
        model.module.model.norm.weight[3] = kept
    assert sampler.sample(prompts(), seeds=[0]) == before


def test_weights_that_are_not_finite_behind_a_padded_id_are_an_error_of_the_weights_too(make_decoder, prompts):
    """The prompt ends with 315, a row of the embedding that no token has: it is still the newest id."""
    model = make_decoder("qwen2")
    with torch.no_grad():
        model.module.model.norm.weight.fill_(torch.nan)
    with pytest.raises(FloatingPointError, match="row 0: the probabilities of token 0 are not finite"):
        EngineSampler(model, FREE).sample(prompts((305, 315)), seeds=[0])


# --- weights that move ----------------------------------------------------------------------------------


@pytest.mark.parametrize("page_tokens", [None, 4])
def test_weights_that_changed_are_sampled_from_at_once(page_tokens, make_decoder, prompts):
    """E41: the same sampler after an update gives what a fresh one gives; nothing of the old weights is kept."""
    model = make_decoder("qwen2")
    sampler = EngineSampler(model, FREE, page_tokens=page_tokens)
    before = sampler.sample(prompts(), seeds=[0, 1])
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.mul_(1.05)
    sampler.follow(3)
    after = sampler.sample(prompts(), seeds=[0, 1])
    fresh = EngineSampler(model, FREE, page_tokens=page_tokens).sample(prompts(), seeds=[0, 1])
    assert [(one.token_ids, one.logp) for one in after] == [(one.token_ids, one.logp) for one in fresh]
    assert [one.token_ids for one in after] != [one.token_ids for one in before]
    assert {one.policy_version for one in before} == {0}
    assert {one.policy_version for one in after} == {3}


def test_weights_that_were_put_elsewhere_are_found(make_decoder, prompts, drawn):
    """Someone gives the module new tensors, of other memory: the next call reads those."""
    model, other = make_decoder("qwen2"), make_decoder("qwen2")
    sampler = EngineSampler(model, FREE)
    before = drawn(sampler, prompts())
    with torch.no_grad():
        for parameter in other.module.parameters():
            parameter.mul_(1.05)
        for parameter, moved in zip(model.module.parameters(), other.module.parameters(), strict=True):
            parameter.data = moved.data.clone()
    assert drawn(sampler, prompts()) == drawn(PlainSampler(other, FREE), prompts()) != before


def test_a_room_that_is_kept_between_calls_changes_no_token(make_decoder, prompts, drawn, monkeypatch):
    """As on a GPU: it is left empty, also by an error, and another one is made for more or longer sequences."""
    rooms = []
    make = Room.of.__func__
    monkeypatch.setattr(Room, "of", classmethod(lambda cls, *asked: rooms.append(make(cls, *asked)) or rooms[-1]))
    model = make_decoder("qwen2")
    sampler = EngineSampler(model, FREE, page_tokens=4)
    sampler._keeps = True
    plain = PlainSampler(model, FREE)
    short, long = prompts((305, 7), (44,)), prompts((305, 308, 250, 251, 17, 309, 310))
    for some, made in ((short, 1), (short, 1), (long, 2), (short, 2), (prompts(), 3), (short, 3)):
        assert drawn(sampler, some) == drawn(plain, some)
        assert len(rooms) == made
    with torch.no_grad():
        model.module.model.norm.weight[3] = torch.nan
    with pytest.raises(FloatingPointError):
        drawn(sampler, prompts())
    with torch.no_grad():
        model.module.model.norm.weight[3] = 1.0
    assert drawn(sampler, prompts()) == drawn(plain, prompts())
    assert len(rooms) == 3
    for parameter in model.module.parameters():
        parameter.data = 1.05 * parameter.data
    assert drawn(sampler, prompts()) == drawn(plain, prompts())
    assert len(rooms) == 4


def test_the_gap_to_the_scorer_does_not_grow_while_the_weights_stand_still(make_decoder, prompts):
    """E51: twenty calls of one sampler, each as close to the scorer as the first."""
    model = make_decoder("qwen3")
    sampler, scorer = EngineSampler(model, FREE, page_tokens=4), PlainScorer(model)
    gaps = []
    for version in range(20):
        sampler.follow(version)
        scored = scorer.score(sampler.sample(prompts(epoch=version), seeds=[version]))
        gaps.append(
            max(abs(a - b) for one in scored for a, b in zip(one.teacher_logp, one.rollout.logp, strict=True))
        )
    assert max(gaps) < 1e-4
    assert abs(np.polyfit(range(20), gaps, 1)[0]) < 1e-6


# --- lengths and the cache ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "page_tokens"),
    [(1_500, None), (1_500, 64), pytest.param(32_700, 64, marks=pytest.mark.slow)],
)
def test_a_long_prompt_is_continued_as_transformers_would(tokens, page_tokens, make_decoder, prompts):
    """In chunks, the last of them ragged, beside a short prompt."""
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "hidden_size": 16}
    model = make_decoder("llama", max_position_embeddings=32_768, **sizes)
    ids = tuple(np.random.default_rng(0).integers(0, 300, size=tokens).tolist())
    sampler = EngineSampler(model, Sampling(limit_tokens=6), page_tokens=page_tokens, chunk_tokens=tokens // 3 - 1)
    for scored in PlainScorer(model).score(sampler.sample(prompts(ids, ids[:5]), seeds=[0])):
        assert scored.teacher_logp == pytest.approx(scored.rollout.logp, abs=1e-4)


def test_a_prompt_that_leaves_no_room_for_the_limit_is_refused_before_anything_is_sampled(make_decoder, prompts):
    """E37: refused, not cut. 512 positions: 509 + 3 fit, 510 + 3 do not."""
    model = make_decoder("qwen2")
    sampler = EngineSampler(model, Sampling(limit_tokens=3))
    (fits,) = sampler.sample(prompts((7,) * 509), seeds=[0])
    assert len(fits.token_ids) == 3
    with pytest.raises(
        AskedWrongly, match=r"^row 1: 510 prompt tokens \+ limit_tokens = 3 exceed the context of 512"
    ):
        sampler.sample(prompts((7,), (7,) * 510), seeds=[0])


def test_a_cache_that_can_not_hold_one_sequence_is_refused(make_decoder, prompts):
    model = make_decoder("qwen2")
    sampler = EngineSampler(model, FREE, page_tokens=4, cache_tokens=16)
    with pytest.raises(
        AskedWrongly, match=r"a cache of 16 tokens does not hold one sequence of 19; enlarge it or lower"
    ):
        sampler.sample(prompts(), seeds=[0])


def test_the_prompt_is_computed_once_for_all_of_its_rollouts(make_decoder, prompts, monkeypatch):
    """Eight rollouts of a prompt of seven tokens: six are prefilled, the seventh is each rollout's first step."""
    spans = []
    real = prefills.prefill

    def noted(room, ops, some, *, chunk_tokens):
        spans.extend(some)
        real(room, ops, some, chunk_tokens=chunk_tokens)

    monkeypatch.setattr(engines, "prefill", noted)
    model = make_decoder("qwen2")
    for page_tokens in (None, 4):
        spans.clear()
        sampler = EngineSampler(model, FREE, page_tokens=page_tokens)
        sampler.sample(prompts((305, 308, 250, 251, 17, 309, 310)), seeds=range(8))
        assert [(span.start, len(span.ids)) for span in spans] == [(0, 6)]


@pytest.mark.parametrize(
    "name", ["largest_batch", "page_tokens", "cache_tokens", "window", "chunk_tokens", "prompt_tokens"]
)
@pytest.mark.parametrize("value", [0, -3])
def test_a_size_that_is_none_is_refused_by_its_name(make_decoder, name, value):
    with pytest.raises(AskedWrongly, match=f"^{name} = {value}: it is at least 1$"):
        EngineSampler(make_decoder("qwen2"), FREE, **{name: value})


def test_drafts_that_there_are_none_of_are_refused_with_those_that_there_are(make_decoder):
    with pytest.raises(AskedWrongly, match=r"^drafts = 'foo'; there are: off, history$"):
        EngineSampler(make_decoder("qwen2"), FREE, drafts="foo")


def test_a_misfit_is_refused_with_the_reason(make_decoder):
    model = make_decoder("qwen2")
    model.module.set_output_embeddings(nn.Linear(32, 320, bias=True))
    with pytest.raises(AskedWrongly, match=r"^qwen2: the engine can't run this model: its head has a bias$"):
        EngineSampler(model, FREE)
