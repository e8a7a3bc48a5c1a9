"""The slow, exact sampler and scorer, against enumerated distributions and transformers' own forward.

Shapes: B sequences, T positions, V ids, S seeds.
"""

import copy
import json
import math
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

from opd.models import plain
from opd.models.engine.sampler import EngineSampler
from opd.models.interfaces import Sampling
from opd.models.load import LanguageModel, load_model
from opd.models.plain import PlainSampler, PlainScorer, misfit, sampling_logp
from opd.records.errors import AskedWrongly
from opd.records.rollouts import Prompt, Rollout, StopReason

RAGGED = ((305, 308, 7), (44,), (305, 308, 250, 251, 17, 309, 310), (305, 21, 306, 4), (9, 9))


def prompts(*ids: tuple[int, ...], epoch: int = 0) -> list[Prompt]:
    return [
        Prompt(row=row, problem="", answer="", token_ids=one, epoch=epoch) for row, one in enumerate(ids or RAGGED)
    ]


def sampled(model: LanguageModel, some=None, *, seeds=range(4), limit_tokens=8, largest_batch=256, **sampling):
    sampler = PlainSampler(model, Sampling(limit_tokens=limit_tokens, **sampling), largest_batch=largest_batch)
    return sampler.sample(prompts() if some is None else some, seeds=list(seeds))


def ids_of(rollouts: list[Rollout]) -> list[tuple[int, ...]]:
    return [one.token_ids for one in rollouts]


def next_probability_V(model: LanguageModel, ids: tuple[int, ...]) -> np.ndarray:
    """Probability of each of the tokenizer's tokens after these ids, by transformers' forward."""
    with torch.no_grad():
        logits_V = model.module(input_ids=torch.tensor([ids])).logits[0, -1, : len(model.tokenizer)]
    return logits_V.double().softmax(dim=-1).numpy()


def stopping_often(model: LanguageModel) -> LanguageModel:
    """The same model, for which a sixth of the ids end a response: some rollouts are short, some are not."""
    return replace(model, stop_ids=frozenset(range(0, model.vocabulary, 6)))


# --- log-probabilities ----------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize(("dtype", "largest"), [("float32", 1e-4), ("float64", 1e-9)])
def test_the_scorer_gives_the_sampled_tokens_the_values_that_they_were_drawn_with(
    either, dtype, largest, temperature
):
    """E25, E43: a model that is its own teacher is told nothing: every difference is 0."""
    model = stopping_often(load_model(either, dtype=dtype, device="cpu"))
    rollouts = sampled(model, temperature=temperature, limit_tokens=12)
    assert len({len(one.token_ids) for one in rollouts}) > 4  # ragged, and compacted on the way
    for one in PlainScorer(model, temperature=temperature, largest_tokens=64).score(rollouts):
        np.testing.assert_allclose(one.teacher_logp, one.rollout.logp, rtol=0, atol=largest)


def test_scores_come_back_in_the_order_of_the_rollouts_however_they_are_grouped(student64, teacher64):
    rollouts = sampled(stopping_often(student64), limit_tokens=12)
    together = PlainScorer(teacher64).score(rollouts)
    assert [one.rollout for one in together] == rollouts
    for largest_tokens in (1, 20, 50):
        grouped = PlainScorer(teacher64, largest_tokens=largest_tokens, chunk_tokens=3).score(rollouts)
        for one, other in zip(together, grouped, strict=True):
            assert one.rollout == other.rollout
            np.testing.assert_allclose(one.teacher_logp, other.teacher_logp, rtol=0, atol=1e-12)


def test_a_score_is_that_of_transformers_for_exactly_the_sampled_ids(student64, teacher64):
    """E25, E30: ids that no text would encode to, scored one by one."""
    (prompt,) = prompts((305, 308, 7))
    ids = (22, 22, 311, 0, 306)
    rollout = Rollout(prompt=prompt, sample=0, token_ids=ids, logp=(0.0,) * 5, stop=StopReason.EOS)
    (scored,) = PlainScorer(teacher64).score([rollout])
    expected = [math.log(next_probability_V(teacher64, prompt.token_ids + ids[:n])[ids[n]]) for n in range(5)]
    np.testing.assert_allclose(scored.teacher_logp, expected, rtol=0, atol=1e-12)


def test_the_score_is_that_of_the_sampled_token_and_not_of_the_likeliest(bigram):
    """E28: after 5 the likeliest is 9 at -0.1 nats; 4 was sampled, at -3.2."""
    table_VV = torch.zeros(12, 12, dtype=torch.float64)
    rest = math.log((1 - math.exp(-0.1) - math.exp(-3.2)) / 10)
    table_VV[5] = rest
    table_VV[5, 9], table_VV[5, 4] = -0.1, -3.2
    (prompt,) = prompts((5,))
    for token, expected in ((4, -3.2), (9, -0.1), (0, rest)):
        rollout = Rollout(prompt=prompt, sample=0, token_ids=(token,), logp=(0.0,), stop=StopReason.LENGTH)
        (scored,) = PlainScorer(bigram(table_VV)).score([rollout])
        assert scored.teacher_logp == pytest.approx((expected,), abs=1e-12)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_alternatives_are_the_likeliest_tokens_of_transformers_at_each_place(student64, teacher64, temperature):
    rollouts = sampled(student64, seeds=range(2))
    options = {"temperature": temperature, "largest_tokens": 20, "chunk_tokens": 3}
    plainly = PlainScorer(teacher64, **options).score(rollouts)
    for one, other in zip(PlainScorer(teacher64, **options, alternatives=5).score(rollouts), plainly, strict=True):
        assert (one.rollout, one.teacher_logp, other.alternatives) == (other.rollout, other.teacher_logp, None)
        for place in range(len(one.rollout.token_ids)):
            before = one.rollout.prompt.token_ids + one.rollout.token_ids[:place]
            likely_V = next_probability_V(teacher64, before) ** (1 / temperature)
            order = np.argsort(-likely_V, kind="stable")[:5]
            shown = slice(5 * place, 5 * place + 5)
            assert one.alternatives.ids[shown].tolist() == order.tolist()
            expected = np.log(likely_V[order] / likely_V.sum())
            np.testing.assert_allclose(one.alternatives.logp[shown], expected, rtol=0, atol=1e-6)  # kept in float32


def test_of_a_small_vocabulary_all_tokens_are_alternatives(bigram):
    (prompt,) = prompts((5,))
    rollout = Rollout(prompt=prompt, sample=0, token_ids=(4, 9), logp=(0.0,) * 2, stop=StopReason.LENGTH)
    (scored,) = PlainScorer(bigram(torch.zeros(12, 12, dtype=torch.float64)), alternatives=100).score([rollout])
    assert scored.alternatives.count == 12
    assert sorted(scored.alternatives.ids[12:]) == list(range(12))


def test_a_score_that_is_not_finite_is_an_error_that_names_the_row(random_models):
    """E45: never a zero in its place."""
    model = load_model(random_models / "teacher", dtype="float32", device="cpu")
    rollouts = sampled(model, prompts((305, 308, 7)), seeds=[0])
    with torch.no_grad():
        model.module.model.norm.weight[3] = torch.nan
    with pytest.raises(FloatingPointError, match=r"row 0: the score of token 0 is nan; nothing was updated"):
        PlainScorer(model).score(rollouts)


@pytest.mark.parametrize("largest_batch", [0, -3])
def test_a_batch_of_nobody_is_refused(student64, largest_batch):
    with pytest.raises(AskedWrongly, match=f"^largest_batch = {largest_batch}: it is at least 1$"):
        PlainSampler(student64, Sampling(limit_tokens=4), largest_batch=largest_batch)


def test_no_prompts_or_no_seeds_give_no_rollouts(student64):
    """As with the engine: every sampler says the same."""
    sampling = Sampling(limit_tokens=4)
    for sampler in (PlainSampler(student64, sampling), EngineSampler(student64, sampling)):
        assert sampler.sample(prompts(), seeds=[]) == []
        assert sampler.sample([], seeds=[1]) == []


def test_a_model_that_overflows_is_not_sampled_from(random_models):
    """E45, the sampler's half."""
    model = load_model(random_models / "student", dtype="float32", device="cpu")
    with torch.no_grad():
        model.module.model.norm.weight[3] = torch.inf
    with pytest.raises(FloatingPointError, match="of 20 of 20 sequences are not finite"):
        sampled(model)


# --- distributions --------------------------------------------------------------------------------------


def fit_of(counts: Counter[int], probability_V: np.ndarray) -> float:
    """p of Pearson's chi-square; tokens that are expected fewer than five times share one cell."""
    total = sum(counts.values())
    assert set(counts) <= set(np.flatnonzero(probability_V))
    likely = np.flatnonzero(probability_V * total >= 5)
    assert len(likely) >= 4
    observed = [counts[token] for token in likely]
    expected = probability_V[likely] * total
    rest = total - expected.sum()
    if rest > 1:
        observed, expected = [*observed, total - sum(observed)], [*expected, rest]
    return float(stats.chisquare(observed, np.array(expected) * sum(observed) / sum(expected)).pvalue)


def test_first_and_second_tokens_come_as_often_as_the_softmax_says(random_models):
    """4,000 rollouts of one prompt: the first tokens, then the second ones after the commonest first."""
    model = load_model(random_models / "student", dtype="float32", device="cpu")
    some = prompts((305, 308, 7, 309))
    rollouts = sampled(model, some, seeds=range(4000), limit_tokens=2, largest_batch=1000)
    firsts = Counter(one.token_ids[0] for one in rollouts)
    ((commonest, times),) = firsts.most_common(1)
    seconds = Counter(one.token_ids[1] for one in rollouts if one.token_ids[0] == commonest)
    assert times > 300
    assert fit_of(firsts, next_probability_V(model, some[0].token_ids)) > 1e-3
    assert fit_of(seconds, next_probability_V(model, (*some[0].token_ids, commonest))) > 1e-3
    assert fit_of(firsts, next_probability_V(model, (*some[0].token_ids, commonest))) < 1e-9  # it can tell


def slow_cut(probability_V: np.ndarray, *, temperature: float, top_p: float, top_k: int) -> np.ndarray:
    """The definition: likeliest first, equal ones by id; until so many are in, or so much probability is."""
    scaled = probability_V ** (1 / temperature)
    scaled = scaled / scaled.sum()
    kept, mass = np.zeros_like(scaled), 0.0
    for rank, token in enumerate(sorted(range(len(scaled)), key=lambda token: (-scaled[token], token))):
        if mass >= top_p or (top_k and rank >= top_k):
            break
        kept[token] = scaled[token]
        mass += scaled[token]
    return kept / kept.sum()


@given(
    st.lists(st.integers(-32, 32).map(lambda n: n / 4), min_size=1, max_size=9),  # equal, or well apart
    st.sampled_from([1.0, 0.6, 1.7]),
    st.sampled_from([1.0, 0.9517, 0.4937, 0.1071, 1e-6]),  # no sum of equal shares, where rounding would decide
    st.integers(0, 5),
)
def test_a_cut_distribution_is_that_of_the_definition(logits, temperature, top_p, top_k):
    sampling = Sampling(temperature=temperature, top_p=top_p, top_k=top_k, limit_tokens=1)
    logits_V = np.array(logits)
    probability_V = np.exp(logits_V - logits_V.max())
    expected_V = slow_cut(probability_V / probability_V.sum(), temperature=temperature, top_p=top_p, top_k=top_k)
    logp_BV = sampling_logp(torch.from_numpy(logits_V).unsqueeze(0), sampling)
    np.testing.assert_allclose(logp_BV[0].exp().numpy(), expected_V, rtol=0, atol=1e-9)


def test_rows_of_a_batch_are_cut_each_by_its_own_order():
    probability_BV = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.25, 0.5, 0.25]], dtype=torch.float64)
    kept = sampling_logp(probability_BV.log(), Sampling(top_p=0.6, limit_tokens=1)).exp()
    expected = torch.tensor([[5 / 8, 3 / 8, 0], [0, 0, 1], [1 / 3, 2 / 3, 0]], dtype=torch.float64)
    torch.testing.assert_close(kept, expected)


@pytest.mark.parametrize("cut", [{"top_k": 4}, {"top_p": 0.3}, {"top_k": 9, "top_p": 0.4, "temperature": 0.8}])
def test_a_cut_sampler_draws_inside_the_cut_and_gives_the_renormalised_values(student64, cut):
    """E43: the log-probability is that of the distribution that the token was drawn from."""
    for one in sampled(student64, seeds=range(8), limit_tokens=4, **cut):
        for n, (token, logp) in enumerate(zip(one.token_ids, one.logp, strict=True)):
            before = one.prompt.token_ids + one.token_ids[:n]
            full = {"temperature": 1.0, "top_p": 1.0, "top_k": 0} | cut
            expected_V = slow_cut(next_probability_V(student64, before), **full)
            assert logp == pytest.approx(math.log(expected_V[token]), abs=1e-9)


# --- seeds and batches ----------------------------------------------------------------------------------


def test_rollouts_of_one_prompt_differ_and_the_same_seeds_repeat_them(student64):
    """E50."""
    first = sampled(student64)
    assert len(set(ids_of(first))) == len(first)
    assert sampled(student64) == first
    assert not set(ids_of(first)) & set(ids_of(sampled(student64, seeds=range(4, 8))))


def test_a_row_that_comes_again_in_a_later_epoch_is_sampled_anew(student64):
    first, again = (sampled(student64, prompts(epoch=epoch)) for epoch in (0, 1))
    assert all(one.token_ids != other.token_ids for one, other in zip(first, again, strict=True))


def test_two_rows_with_the_same_text_are_sampled_each_for_itself(student64):
    one, other = sampled(student64, prompts((305, 7), (305, 7)), seeds=[0])
    assert one.token_ids != other.token_ids


def test_rollouts_come_prompt_by_prompt_in_the_order_of_the_seeds(student64):
    rollouts = sampled(student64, seeds=[7, 3, 9], limit_tokens=2)
    assert [(one.prompt.row, one.sample) for one in rollouts] == [(row, n) for row in range(5) for n in range(3)]
    alone = sampled(student64, seeds=[3], limit_tokens=2)
    assert ids_of(rollouts[1::3]) == ids_of(alone)


@pytest.mark.parametrize("largest_batch", [1, 2, 3, 7, 256])
def test_a_rollout_depends_on_none_that_is_sampled_with_it(either64, largest_batch):
    """Alone, together, in ragged batches and in batches that are compacted when half have ended: the same."""
    model = stopping_often(either64)
    together = sampled(model, limit_tokens=16, largest_batch=largest_batch)
    alone = [sampled(model, [prompt], seeds=[seed], limit_tokens=16) for prompt in prompts() for seed in range(4)]
    assert sorted({one.stop for one in together}) == [StopReason.EOS, StopReason.LENGTH]
    for one, (other,) in zip(together, alone, strict=True):
        assert (one.prompt, one.token_ids, one.stop) == (other.prompt, other.token_ids, other.stop)
        np.testing.assert_allclose(one.logp, other.logp, rtol=0, atol=1e-10)


def test_no_prompts_give_no_rollouts(student64):
    assert sampled(student64, []) == []


# --- ends -----------------------------------------------------------------------------------------------


def test_a_response_ends_with_the_first_token_that_stops_and_keeps_it(student64):
    """E21."""
    model = stopping_often(student64)
    rollouts = sampled(model, seeds=range(20), limit_tokens=12)
    ended = [one for one in rollouts if one.stop is StopReason.EOS]
    assert len(ended) > 50
    for one in ended:
        assert one.token_ids[-1] in model.stop_ids
        assert not set(one.token_ids[:-1]) & model.stop_ids


def test_a_response_that_the_limit_cuts_is_as_long_as_the_limit_and_gets_no_end(student64):
    """E22."""
    model = stopping_often(student64)
    cut = [one for one in sampled(model, seeds=range(20), limit_tokens=3) if one.stop is StopReason.LENGTH]
    assert len(cut) > 20
    for one in cut:
        assert len(one.token_ids) == len(one.logp) == 3
        assert not set(one.token_ids) & model.stop_ids


def test_an_end_at_the_very_limit_is_an_end(student64):
    """The limit's last token is the model's own: the response is whole, and not cut short."""
    model = stopping_often(student64)
    free = next(one for one in sampled(model, seeds=range(20), limit_tokens=12) if len(one.token_ids) == 5)
    (at_limit,) = [
        one
        for one in sampled(model, [free.prompt], seeds=range(20), limit_tokens=5)
        if one.token_ids == free.token_ids
    ]
    assert at_limit.stop is StopReason.EOS


def test_an_end_token_that_is_also_the_padding_is_kept_all_the_same(random_models):
    """E21: with pad == eos a mask by ids would drop the end; lengths do not."""
    model = load_model(random_models / "student", dtype="float64", device="cpu")
    expected = sampled(stopping_often(model))
    model.tokenizer.pad_token = model.tokenizer.eos_token
    model.module.config.pad_token_id = model.module.generation_config.pad_token_id = 0
    assert 0 in stopping_often(model).stop_ids  # and 0 is what fills the rectangles
    assert sampled(stopping_often(model)) == expected


# --- what must not shape the distribution ---------------------------------------------------------------


def with_padded_rows_at(model: LanguageModel, logit: float) -> LanguageModel:
    """The rows beyond the tokenizer's ids get this logit, whatever the model has read."""
    head = model.module.get_output_embeddings()
    biased = nn.Linear(head.in_features, head.out_features, dtype=head.weight.dtype)
    with torch.no_grad():
        biased.weight.copy_(head.weight)
        biased.weight[model.vocabulary :] = 0
        biased.bias.zero_()
        biased.bias[model.vocabulary :] = logit
    model.module.set_output_embeddings(biased)
    return model


def test_an_id_that_the_tokenizer_lacks_is_never_sampled(random_models):
    """E34: a padded row of logit +20, which a softmax over all rows would draw nearly always."""
    plain = load_model(random_models / "student", dtype="float64", device="cpu")
    expected = sampled(plain)
    model = with_padded_rows_at(load_model(random_models / "student", dtype="float64", device="cpu"), 20.0)
    with torch.no_grad():
        probability_V = model.module(input_ids=torch.tensor([[305, 7]])).logits[0, -1].softmax(dim=-1)
    assert probability_V[model.vocabulary :].sum() > 0.99  # the bad condition exists
    rollouts = sampled(model)
    assert max(max(one.token_ids) for one in rollouts) < len(model.tokenizer)
    assert ids_of(rollouts) == ids_of(expected)


def test_a_models_own_generation_settings_change_nothing(random_models, tmp_path):
    """E42: temperature, top-p, top-k, penalties and limits of generation_config.json are not ours."""
    folder = tmp_path / "student"
    shutil.copytree(random_models / "student", folder)
    settings = json.loads((folder / "generation_config.json").read_text())
    settings |= {
        "do_sample": True,
        "temperature": 0.1,
        "top_p": 0.2,
        "top_k": 2,
        "repetition_penalty": 1.5,
        "no_repeat_ngram_size": 1,
        "suppress_tokens": list(range(100)),
        "max_new_tokens": 2,
        "min_new_tokens": 8,
    }
    (folder / "generation_config.json").write_text(json.dumps(settings))
    opinionated, plain = (
        load_model(one, dtype="float64", device="cpu") for one in (folder, random_models / "student")
    )
    assert GenerationConfig.from_pretrained(folder).repetition_penalty == 1.5  # transformers would have heeded it
    assert opinionated.module.generation_config.to_diff_dict() == plain.module.generation_config.to_diff_dict()
    assert sampled(opinionated) == sampled(plain)
    assert PlainScorer(opinionated).score(sampled(plain)) == PlainScorer(plain).score(sampled(plain))


def test_weights_that_changed_are_sampled_from_at_once(random_models):
    """E41: the same sampler after an update gives what a fresh one gives; nothing of the old weights is kept."""
    model = load_model(random_models / "student", dtype="float64", device="cpu")
    sampler = PlainSampler(model, Sampling(limit_tokens=8))
    before = sampler.sample(prompts(), seeds=[0, 1])
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.mul_(1.05)
    sampler.follow(3)
    after = sampler.sample(prompts(), seeds=[0, 1])
    fresh = PlainSampler(model, Sampling(limit_tokens=8)).sample(prompts(), seeds=[0, 1])
    assert ids_of(after) == ids_of(fresh) != ids_of(before)
    assert [one.logp for one in after] == [one.logp for one in fresh]
    assert {one.policy_version for one in before} == {0}
    assert {one.policy_version for one in after} == {3}


# --- models that it is not for ----------------------------------------------------------------------------

TINY = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
ATTEND = {  # positions, masks and caches of other kinds
    "gpt2": {"n_embd": 32, "n_head": 4, "n_layer": 2, "bos_token_id": 0, "eos_token_id": 0},
    "bloom": {"n_layer": 2, "n_head": 4},
    "gemma2": {"head_dim": 8, "sliding_window": 3, "final_logit_softcapping": None},
    "qwen3_moe": {"head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24},
}
RECUR = {
    "lfm2": {"layer_types": ["conv", "full_attention"] * 2, "block_auto_adjust_ff_dim": False},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 4, "num_experts": 2},
    "mamba": {"state_size": 4},
    "falcon_h1": {"mamba_d_state": 4, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_ssm": 64},
    "rwkv": {"attention_hidden_size": 32},
}


def of_kind(kind: str, changes: dict[str, object]) -> LanguageModel:
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **{**TINY, **changes})
    module = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)  # far from zero, so that what is left out is felt
    return LanguageModel(module=module, tokenizer=None, path=Path(kind), vocabulary=50, stop_ids=frozenset())


@pytest.mark.parametrize("kind", ATTEND)
def test_what_attends_is_sampled_from_whatever_its_positions_and_its_cache(kind):
    model = of_kind(kind, ATTEND[kind])
    assert misfit(model.module) is None
    (rollout,) = sampled(model, prompts((3, 1, 4)), seeds=[0], limit_tokens=6)
    with torch.no_grad():
        logits_TV = model.module(input_ids=torch.tensor([(3, 1, 4, *rollout.token_ids)])).logits[0, 2:-1]
    expected = logits_TV.log_softmax(-1).gather(-1, torch.tensor(rollout.token_ids)[:, None])[:, 0]
    torch.testing.assert_close(torch.tensor(rollout.logp), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", RECUR)
def test_what_recurs_is_refused_by_name_before_anything_is_sampled(kind):
    """Its state is no list of keys and values: shared by the rollouts of a prompt, it ended in a traceback."""
    model = of_kind(kind, RECUR[kind])
    reason = "takes no keys and values" if kind == "rwkv" else "has recurrent layers"
    assert reason in misfit(model.module)
    with pytest.raises(AskedWrongly, match=rf"^{kind}: opd can't sample from {kind}: it.* {reason}"):
        PlainSampler(model, Sampling(limit_tokens=4))


def test_what_its_build_does_not_show_is_found_by_a_trial(student64, monkeypatch):
    """A decoder that forgets what is padded: every prompt but the longest would be another one."""
    module = copy.deepcopy(student64.module)
    forward = module.model.forward
    monkeypatch.setattr(module.model, "forward", lambda **named: forward(**{**named, "attention_mask": None}))
    taken = plain._arguments(student64.module.model)
    monkeypatch.setattr(plain, "_arguments", lambda _: taken)
    assert misfit(module) is None
    with pytest.raises(AskedWrongly, match=r"can't sample from qwen2: in steps, its hidden states lie .* from those"):
        PlainSampler(replace(student64, module=module), Sampling(limit_tokens=4))


# --- the context ----------------------------------------------------------------------------------------


def test_a_prompt_that_leaves_no_room_for_the_limit_is_refused_before_anything_is_sampled(student64):
    """E37: refused, not cut. 512 positions: 509 + 3 fit, 510 + 3 do not."""
    assert student64.context_tokens == 512
    (fits,) = sampled(student64, prompts((7,) * 509), seeds=[0], limit_tokens=3)
    assert len(fits.token_ids) == 3
    with pytest.raises(
        AskedWrongly,
        match=r"^row 1: 510 prompt tokens \+ limit_tokens = 3 exceed the context of 512 .*lower limit_tokens$",
    ):
        sampled(student64, prompts((7,), (7,) * 510), limit_tokens=3)


def test_a_prompt_may_be_a_single_token(either64):
    (one,) = sampled(either64, prompts((305,)), seeds=[0], limit_tokens=4)
    (scored,) = PlainScorer(either64).score([one])
    np.testing.assert_allclose(scored.teacher_logp, one.logp, rtol=0, atol=1e-10)
    assert one.logp[0] == pytest.approx(math.log(next_probability_V(either64, (305,))[one.token_ids[0]]), abs=1e-10)
