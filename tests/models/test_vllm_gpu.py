"""The real vLLM on a GPU, held to what the small one for the CPU is held to; skipped where it is not installed."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from tests.train.ranks.processes import together

from opd.models.chat import prompt_ids
from opd.models.interfaces import Sampling
from opd.models.load import LanguageModel, load_model
from opd.models.plain import PlainScorer
from opd.models.vllm.sampler import VllmSampler
from opd.models.vllm.scorer import VllmScorer
from opd.models.vllm.team import Team
from opd.records.rollouts import Prompt, Rollout

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed"),
    pytest.mark.filterwarnings("ignore"),  # its own
]


@pytest.fixture(scope="module")
def folder(served_folder) -> Path:
    """With 8 padded rows."""
    return served_folder(rows=320)


@pytest.fixture(scope="module")
def model(folder: Path) -> LanguageModel:
    return fresh(folder)


def fresh(folder: Path) -> LanguageModel:
    loaded = load_model(folder, dtype="bfloat16", device="cuda")
    return replace(loaded, stop_ids=frozenset(range(0, 312, 32)))


@pytest.fixture(scope="module")
def served(model: LanguageModel):
    sampler = VllmSampler(model, Sampling(limit_tokens=48), prompt_tokens=40, largest_batch=16)
    yield sampler
    sampler.close()


def some_prompts(model: LanguageModel) -> list[Prompt]:
    texts = [f"Compute {n}+{3 * n}-2." for n in range(1, 9)]
    ids = [prompt_ids(model.tokenizer, text) for text in texts]
    return [Prompt(row=row, problem="", answer="", token_ids=one) for row, one in enumerate(ids)]


def gaps(model: LanguageModel, rollouts: list[Rollout]) -> np.ndarray:
    scored = PlainScorer(model).score(rollouts)
    pairs = zip(rollouts, scored, strict=True)
    return np.concatenate([np.abs(np.subtract(one.logp, right.teacher_logp)) for one, right in pairs])


def disturb(model: LanguageModel, *, seed: int) -> None:
    torch.manual_seed(seed)
    with torch.no_grad():
        for one in model.module.parameters():
            one.add_(torch.randn_like(one), alpha=0.05)


def test_its_rollouts_have_the_log_probabilities_of_transformers_and_end_as_ours_do(model, served) -> None:
    rollouts = served.sample(some_prompts(model), seeds=[0, 1, 2])
    assert max(max(one.token_ids) for one in rollouts) < model.vocabulary
    found = gaps(model, rollouts)
    assert found.mean() < 0.05
    assert found.max() < 0.5
    for one in rollouts:
        ends = [token in model.stop_ids for token in one.token_ids]
        assert not any(ends[:-1])
        assert ends[-1] or len(one.token_ids) == 48
    assert len({one.token_ids for one in rollouts}) == len(rollouts)


def test_the_same_seeds_give_the_same_rollouts_whoever_is_beside_them(model, served) -> None:
    """In bfloat16 a batch of another size may round otherwise, so most of them is what can be asked."""
    prompts = some_prompts(model)
    together = served.sample(prompts, seeds=[5, 6])
    assert [one.token_ids for one in served.sample(prompts, seeds=[5, 6])] == [one.token_ids for one in together]
    alone = [served.sample([prompt], seeds=[seed])[0] for prompt in prompts[:4] for seed in (5, 6)]
    assert sum(a.token_ids == b.token_ids for a, b in zip(alone, together, strict=False)) >= 6


def test_after_an_update_nothing_of_the_old_weights_is_left(model, served) -> None:
    """E41: the prompts are in its prefix cache."""
    served.sample(some_prompts(model), seeds=[0])
    for version in (1, 2):
        disturb(model, seed=version)
        served.follow(version)
        rollouts = served.sample(some_prompts(model), seeds=[0, 1])
        assert gaps(model, rollouts).mean() < 0.05
        assert {one.policy_version for one in rollouts} == {version}


def test_its_scores_are_those_of_transformers(model, served) -> None:
    rollouts = served.sample(some_prompts(model), seeds=[7])
    scorer = VllmScorer(model, sequence_tokens=100)
    try:
        pairs = zip(scorer.score(rollouts), PlainScorer(model).score(rollouts), strict=True)
        found = np.concatenate([np.abs(np.subtract(one.teacher_logp, right.teacher_logp)) for one, right in pairs])
    finally:
        scorer.close()
    assert found.mean() < 0.05
    assert found.max() < 0.5


def test_asleep_its_memory_is_free_and_awake_it_has_the_newest_weights(model) -> None:
    """E39, E40."""
    sampler = VllmSampler(model, Sampling(limit_tokens=16), prompt_tokens=40, largest_batch=16, sleeps=True)
    try:
        for version in range(3):
            rollouts = sampler.sample(some_prompts(model), seeds=[version])
            assert gaps(model, rollouts).mean() < 0.05
            disturb(model, seed=10 + version)
            sampler.follow(version + 1)
    finally:
        sampler.close()


def test_one_that_was_closed_starts_again_and_captures_its_graphs_anew(model) -> None:
    sampler = VllmSampler(model, Sampling(limit_tokens=16), prompt_tokens=40, largest_batch=16)
    found = []
    for _ in range(2):
        found.append([one.token_ids for one in sampler.sample(some_prompts(model), seeds=[5])])
        sampler.close()
    assert found[0] == found[1]


@dataclass(frozen=True)
class Mirror:
    """Two ranks, of which the other asks for what this one does, and has a GPU of its own beside it."""

    rank: int = 0
    count: int = 2

    def everyone(self, value: object) -> list:
        return [value, value]

    def while_looking(self, call: Callable) -> object:
        return call()


def test_as_a_rank_of_a_run_it_draws_and_scores_what_it_does_alone(folder) -> None:
    """By `external_launcher`, in the thread of its own; the process group is ours before it and after it."""
    (as_rank,) = together(1, drawn_as_a_rank, folder)
    alone = drawn(folder, Team(), closes=False)
    assert [ids for ids, _, _ in as_rank] == [ids for ids, _, _ in alone]
    for (_, *ours), (_, *theirs) in zip(as_rank, alone, strict=True):
        assert np.allclose(np.concatenate(ours), np.concatenate(theirs), atol=1e-3)


def drawn_as_a_rank(folder: Path) -> list[tuple]:
    dist.init_process_group("cpu:gloo,cuda:nccl")
    torch.cuda.set_device(0)
    speak()
    found = drawn(folder, Team(Mirror()), closes=True)
    speak()
    return found


def speak() -> None:
    for one in (torch.ones(1), torch.ones(1, device="cuda")):
        dist.all_reduce(one)


def drawn(folder: Path, team: Team, *, closes: bool) -> list[tuple]:
    """Tokens, their log-probabilities and a teacher's, by three versions of the weights.

    The last by vLLMs that are started anew, where those before are closed.
    """
    model = fresh(folder)
    sampler = VllmSampler(model, Sampling(limit_tokens=24), prompt_tokens=40, largest_batch=16, team=team)
    scorer = VllmScorer(fresh(folder), sequence_tokens=100, team=team)
    found = []
    for version in range(3):
        rollouts = sampler.sample(some_prompts(model), seeds=[0, 1])
        assert gaps(model, rollouts).mean() < 0.05
        scored = scorer.score(rollouts)
        found.append(
            (
                [one.token_ids for one in rollouts],
                np.concatenate([one.logp for one in rollouts]),
                np.concatenate([one.teacher_logp for one in scored]),
            )
        )
        disturb(model, seed=version)
        sampler.follow(version + 1)
        if version == 1 and closes:
            sampler.close()
            scorer.close()
    sampler.close()
    scorer.close()
    return found
