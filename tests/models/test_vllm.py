"""vLLM as sampler and scorer, on a small one for the CPU (`vllm_double.py`): against transformers' own forward."""

import copy
import random
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.models import vllm_double
from transformers import GenerationConfig

from opd.models.interfaces import Sampling
from opd.models.load import LanguageModel, load_model
from opd.models.plain import PlainScorer
from opd.models.vllm import server
from opd.models.vllm.memory import BLOCK_TOKENS, cache_bytes
from opd.models.vllm.sampler import VllmSampler, request_seed
from opd.models.vllm.scorer import VllmScorer
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.rollouts import Prompt, Rollout, StopReason

LENGTHS = (7, 1, 20)


def some_prompts(*lengths: int) -> list[Prompt]:
    return [
        Prompt(
            row=row, problem="", answer="", token_ids=tuple((13 * row + 7 * place) % 312 for place in range(length))
        )
        for row, length in enumerate(lengths or LENGTHS)
    ]


read = cache(lambda folder: load_model(folder, dtype="float32", device="cpu"))


def loaded(folder: Path) -> LanguageModel:
    """A fresh one in float32, whose responses end at one of ten ids."""
    model = read(folder)
    return replace(model, module=copy.deepcopy(model.module), stop_ids=frozenset(range(0, 312, 32)))


@pytest.fixture(autouse=True)
def each_by_itself() -> Iterator[None]:
    """What a test leaves running is no neighbour of the next one's."""
    yield
    for one in server._running:
        one.closed = True
    server._running.clear()
    server._ended.clear()


@pytest.fixture
def model(random_models: Path) -> LanguageModel:
    return loaded(random_models / "student")


@pytest.fixture
def tied_or_not(either: Path) -> LanguageModel:
    return loaded(either)


def sampler(model: LanguageModel, **settings) -> VllmSampler:
    sampling = Sampling(**{"limit_tokens": 12} | settings.pop("sampling", {}))
    return VllmSampler(model, sampling, **{"prompt_tokens": 20, "vllm": vllm_double} | settings)


def scored_like_transformers(model: LanguageModel, rollouts: list[Rollout], *, temperature: float = 1.0) -> bool:
    """Whether each rollout's log-probabilities are those of transformers' forward over prompt and response."""
    plain = PlainScorer(model, temperature=temperature).score(rollouts)
    pairs = zip(rollouts, plain, strict=True)
    return all(np.allclose(one.logp, scored.teacher_logp, atol=2e-4) for one, scored in pairs)


def disturb(model: LanguageModel, *, seed: int) -> None:
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for one in model.module.parameters():
            one.add_(torch.randn_like(one), alpha=0.1)


# --- what a rollout is ----------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_log_probabilities_are_of_the_distribution_that_was_drawn_from(tied_or_not, temperature) -> None:
    """E43: at a temperature too, where vLLM's default would be those of the raw softmax."""
    model = tied_or_not
    rollouts = sampler(model, sampling={"temperature": temperature}).sample(some_prompts(), seeds=[0, 1, 2])
    assert [(one.prompt.row, one.sample) for one in rollouts] == [(row, n) for row in range(3) for n in range(3)]
    assert len({len(one.token_ids) for one in rollouts}) > 1
    assert scored_like_transformers(model, rollouts, temperature=temperature)


def test_a_rollout_ends_at_our_ids_or_at_the_limit(model) -> None:
    rollouts = sampler(model).sample(some_prompts(), seeds=range(5))
    for one in rollouts:
        ends = [token in model.stop_ids for token in one.token_ids]
        assert not any(ends[:-1])
        assert one.stop is (StopReason.EOS if ends[-1] else StopReason.LENGTH)
        assert one.stop is StopReason.EOS or len(one.token_ids) == 12
    assert {one.stop for one in rollouts} == {StopReason.EOS, StopReason.LENGTH}


def test_what_the_model_itself_would_end_at_or_shape_does_nothing(model, tmp_path: Path) -> None:
    """E42: with 300 end-of-sequence ids, a temperature and a penalty in its own files, nothing stops or changes."""
    folder = tmp_path / "model"
    shutil.copytree(model.path, folder)
    GenerationConfig(eos_token_id=list(range(300)), repetition_penalty=1.1, do_sample=True, top_k=20).save_pretrained(
        folder
    )
    own = replace(load_model(folder, dtype="float32", device="cpu"), stop_ids=frozenset())
    own.module.config.eos_token_id = list(range(300))
    served = sampler(own)
    rollouts = served.sample(some_prompts(), seeds=[0, 1])
    assert {len(one.token_ids) for one in rollouts} == {12}
    assert scored_like_transformers(own, rollouts)
    (llm,) = [served._server._llm]
    drawn = [one for one in llm.seen if one.prompt_logprobs is None]
    assert {(one.temperature, one.top_p, one.top_k, one.min_p, one.repetition_penalty) for one in drawn} == {
        (1.0, 1.0, 0, 0.0, 1.0)
    }
    assert {path.name for path in llm.folder.iterdir()} == {"config.json"}
    assert llm.generation_config == "vllm"


def test_ids_beyond_the_tokenizer_are_never_drawn_and_have_no_share(untied_model) -> None:
    """E33, E34: the padded rows of the head would have nearly all of the probability."""
    model = load_model(untied_model, dtype="float32", device="cpu")
    assert model.vocabulary == 312
    with torch.no_grad():
        head = model.module.get_output_embeddings().weight
        head[312:] = 30 * head[:8].sign()
    rollouts = sampler(model).sample(some_prompts(), seeds=range(4))
    assert max(max(one.token_ids) for one in rollouts) < 312
    assert scored_like_transformers(model, rollouts)


def test_noise_is_of_seed_row_and_epoch_and_not_of_the_company(model) -> None:
    prompts = some_prompts()
    served = sampler(model)
    together = served.sample(prompts, seeds=[5, 6])
    alone = [served.sample([prompt], seeds=[seed])[0] for prompt in reversed(prompts) for seed in (6, 5)][::-1]
    assert [one.token_ids for one in together] == [one.token_ids for one in alone]
    again = served.sample([replace(one, epoch=1) for one in prompts], seeds=[5, 6])
    assert [one.token_ids for one in again] != [one.token_ids for one in together]
    assert together[0].token_ids != together[1].token_ids  # E50: rollouts of one prompt are not copies


def test_seeds_are_63_bits_and_no_two_are_alike() -> None:
    (prompt,) = some_prompts(3)
    keys = [(seed, row, epoch) for seed in (0, 1, 2**64 - 1) for row in range(200) for epoch in range(3)]
    seeds = {request_seed(seed, replace(prompt, row=row, epoch=epoch)) for seed, row, epoch in keys}
    assert len(seeds) == len(keys)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_the_random_numbers_of_the_process_go_on_as_if_nothing_were(model) -> None:
    """vLLM seeds every generator when it starts."""
    torch.manual_seed(3)
    before = torch.get_rng_state(), random.getstate()
    sampler(model).sample(some_prompts(), seeds=[0])
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()


# --- weights that change --------------------------------------------------------------------------------


@pytest.mark.parametrize("sleeps", [False, True])
def test_after_an_update_nothing_of_the_old_weights_is_left(tied_or_not, sleeps) -> None:
    """E40, E41: the same prompts, whose keys and values are in the cache, under new weights and under newer ones."""
    model = tied_or_not
    served = sampler(model, sleeps=sleeps)
    seen = []
    for version in range(3):
        rollouts = served.sample(some_prompts(), seeds=[0, 1])
        assert {one.policy_version for one in rollouts} == {version}
        assert scored_like_transformers(model, rollouts)
        seen.append([one.token_ids for one in rollouts])
        disturb(model, seed=version)
        served.follow(version + 1)
    assert seen[0] != seen[1] != seen[2]


def test_without_an_update_a_prompt_is_computed_once_for_all_of_its_rollouts(model) -> None:
    served = sampler(model)
    prompts = some_prompts(7, 5, 20)
    served.sample(prompts, seeds=range(3))
    llm = served._server._llm
    assert llm.prefills == 3 + 1  # and that of the canary
    assert {one.token_ids[:-1] for one in prompts} < llm.prefixes.keys()


def test_asleep_it_holds_nothing_and_awake_it_samples_as_one_that_never_slept(model) -> None:
    """E39: level-2 sleep leaves weights that make every token equally likely."""
    served = sampler(model, sleeps=True)
    first = served.sample(some_prompts(), seeds=[0, 1])
    llm = served._server._llm
    assert llm.asleep
    assert not any(parameter.any() for parameter in llm.module.parameters())
    awake = sampler(model)
    awake.sample(some_prompts(), seeds=[4])
    again = served.sample(some_prompts(), seeds=[2, 3])
    assert [one.token_ids for one in again] == [one.token_ids for one in awake.sample(some_prompts(), seeds=[2, 3])]
    assert scored_like_transformers(model, [*first, *again])


def test_a_biased_token_is_what_it_says_after_sleep_and_update(untied_model) -> None:
    """E40 to the letter: the weights are made to say token 7, and nothing else is drawn from then on."""
    model = replace(load_model(untied_model, dtype="float32", device="cpu"), stop_ids=frozenset())
    served = sampler(model, sleeps=True)
    served.sample(some_prompts(), seeds=[0])
    with torch.no_grad():
        model.module.model.embed_tokens.weight.fill_(1.0)  # the same hidden state everywhere, whose first number is 1
        for layer in model.module.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        model.module.model.norm.weight.fill_(1.0)
        head = model.module.get_output_embeddings().weight
        head.zero_()[7, 0] = 40.0
    served.follow(1)
    rollouts = served.sample(some_prompts(), seeds=[0, 1])
    assert {token for one in rollouts for token in one.token_ids} == {7}


def test_weights_that_did_not_arrive_are_noticed_before_a_token_is_drawn(model, monkeypatch) -> None:
    """E39: the loader says that it has taken all, and has taken nothing."""

    def load(self, weights):
        return {name for name, _ in weights}

    monkeypatch.setattr(vllm_double._Worker, "load_weights", load)
    with pytest.raises(AnswerIsNo, match=r"log-probabilities of 16 tokens lie .* nats a token from the trainer's"):
        sampler(model).sample(some_prompts(), seeds=[0])


def test_a_tensor_that_has_no_counterpart_is_named(model, monkeypatch) -> None:
    real = vllm_double._Worker.load_weights
    monkeypatch.setattr(
        vllm_double._Worker,
        "load_weights",
        lambda self, weights: real(self, [one for one in weights if "norm" not in one[0]]),
    )
    with pytest.raises(AskedWrongly, match=r"of vLLM's tensors \d+ are in none of the model's, \S+norm\S* first"):
        sampler(model).sample(some_prompts(), seeds=[0])


def test_a_cache_that_is_not_dropped_is_an_error(model, monkeypatch) -> None:
    monkeypatch.setattr(vllm_double.LLM, "reset_prefix_cache", lambda self: False)
    with pytest.raises(RuntimeError, match="prefix cache"):
        sampler(model).sample(some_prompts(), seeds=[0])


def test_probabilities_that_are_not_finite_are_an_error_that_names_the_row(model) -> None:
    with torch.no_grad():
        model.module.get_output_embeddings().weight[3] = torch.nan
    with pytest.raises(FloatingPointError, match=r"row 0: the log-probability of token 0 is nan"):
        sampler(model).sample(some_prompts(), seeds=[0])


def test_closed_it_is_gone_and_the_next_call_starts_another(model) -> None:
    served = sampler(model)
    first = served.sample(some_prompts(), seeds=[0])
    llm = served._server._llm
    served.close()
    assert llm.closed
    assert not llm.folder.exists()
    assert [one.token_ids for one in served.sample(some_prompts(), seeds=[0])] == [one.token_ids for one in first]


def test_one_that_is_closed_does_not_end_another(model, answers) -> None:
    """vLLM's shutdown destroys the process group, so they are shut down together, with the last."""
    served, teacher = sampler(model), scorer(model)
    served.sample(some_prompts(), seeds=[0])
    teacher.score(answers)
    both = [one._server._llm for one in (served, teacher)]
    teacher.close()
    assert scored_like_transformers(model, served.sample(some_prompts(), seeds=[1]))
    served.close()
    assert all(one.closed for one in both)


def test_after_the_last_the_next_one_captures_in_a_pool_of_its_own(model, monkeypatch) -> None:
    """torch refuses a pool whose graphs are gone, and vLLM keeps one for the whole process."""

    class Platform:
        _global_graph_pool = (0, 1)

    monkeypatch.setitem(sys.modules, "vllm.platforms", SimpleNamespace(current_platform=Platform()))
    first, last = sampler(model), sampler(model)
    for one in (first, last):
        one.sample(some_prompts(), seeds=[0])
    first.close()
    assert Platform._global_graph_pool == (0, 1)
    last.close()
    assert Platform._global_graph_pool is None


# --- what is refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sampling", "said"),
    [
        ({"top_p": 0.9}, r"top_p = 0\.9, top_k = 0, min_p = 0\.0 with vLLM"),
        ({"top_k": 5}, "top_k = 5"),
        ({"min_p": 0.1}, r"min_p = 0\.1"),
        ({"temperature": 2.5}, r"temperature = 2\.5: vLLM takes at most 2\.0"),
    ],
)
def test_a_distribution_whose_log_probabilities_it_can_not_give_is_refused(model, sampling, said) -> None:
    with pytest.raises(AskedWrongly, match=said):
        sampler(model, sampling=sampling)


def test_a_model_that_it_can_not_have_is_refused_with_the_reason(random_models) -> None:
    from opd.models.adapters import LoraSettings, attach

    wide = load_model(random_models / "student", dtype="float64", device="cpu")
    with pytest.raises(AskedWrongly, match="it computes in float64, and vLLM has float32, bfloat16, float16"):
        sampler(wide)
    adapted = load_model(random_models / "student", dtype="float32", device="cpu")
    attach(adapted.module, LoraSettings(rank=2), seed=0)
    with pytest.raises(AskedWrongly, match="it has adapters"):
        sampler(adapted)


def test_a_prompt_that_would_be_cut_short_is_refused(model) -> None:
    served = sampler(model)
    with pytest.raises(
        AskedWrongly, match="33 tokens of a prompt and its limit: vLLM was started for sequences of 32"
    ):
        served.sample(some_prompts(21), seeds=[0])


def test_a_vllm_that_does_not_start_says_why_in_one_line(model) -> None:
    with pytest.raises(AskedWrongly, match=r"vLLM does not start with it: max_model_len \(1012\).*max_model_len$"):
        sampler(model, prompt_tokens=1_000).sample(some_prompts(), seeds=[0])


# --- the teacher ----------------------------------------------------------------------------------------


@pytest.fixture
def answers(model) -> list[Rollout]:
    return sampler(model, sampling={"limit_tokens": 20}).sample(some_prompts(), seeds=[0, 1])


def scorer(model: LanguageModel, **settings) -> VllmScorer:
    return VllmScorer(model, **{"sequence_tokens": 40, "vllm": vllm_double} | settings)


@pytest.mark.parametrize("sleeps", [False, True])
def test_its_scores_are_those_of_transformers(random_models, answers, sleeps) -> None:
    teacher = load_model(random_models / "teacher", dtype="float32", device="cpu")
    served = scorer(teacher, sleeps=sleeps)
    for some in (answers, answers[::-1]):
        expected = PlainScorer(teacher).score(some)
        for one, right in zip(served.score(some), expected, strict=True):
            assert one.rollout is right.rollout
            assert np.allclose(one.teacher_logp, right.teacher_logp, atol=2e-4)


@pytest.mark.parametrize("lost", ["all", "one", "last"])
def test_a_score_that_can_not_be_had_is_an_error_and_never_a_zero(model, answers, monkeypatch, lost) -> None:
    """E45, E46."""
    served = scorer(model)
    served.score(answers)
    real = vllm_double.LLM._of_prompt

    def of_prompt(self, ids, settings):
        given = real(self, ids, settings)
        return {"all": None, "one": [*given[:-2], {}, given[-1]], "last": given[:-1]}[lost]

    monkeypatch.setattr(vllm_double.LLM, "_of_prompt", of_prompt)
    with pytest.raises(RuntimeError, match=r"vLLM gave (no|\d+) log-probabilit"):
        served.score(answers)


def test_a_score_that_is_not_finite_is_an_error_that_names_the_row(model, answers) -> None:
    with torch.no_grad():
        model.module.get_output_embeddings().weight[3] = torch.nan
    with pytest.raises(FloatingPointError, match=r"row 0: the score of token 0 is nan"):
        scorer(model).score(answers)


def test_a_sequence_longer_than_it_was_made_for_is_refused(model, answers) -> None:
    with pytest.raises(AskedWrongly, match="vLLM was started for sequences of 11"):
        scorer(model, sequence_tokens=10).score(answers)


# --- memory ---------------------------------------------------------------------------------------------


def test_the_cache_is_that_of_the_sequences_at_once_and_one_block() -> None:
    """28,672 bytes a token of the reference model: 1.75 GiB for 8 × 8,192."""
    from transformers import Qwen2Config

    config = Qwen2Config(
        num_hidden_layers=28, hidden_size=1_536, num_attention_heads=12, num_key_value_heads=2, vocab_size=16
    )
    block = BLOCK_TOKENS * 28_672
    assert cache_bytes(config, width=2, rows=8, sequence_tokens=8_192) == int(1.75 * (1 << 30)) + block
    assert cache_bytes(config, width=2, rows=3, sequence_tokens=BLOCK_TOKENS + 1) == (3 * 2 + 1) * block
