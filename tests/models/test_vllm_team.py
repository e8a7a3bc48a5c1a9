"""One vLLM that several ranks are together, on the small one for the CPU: real processes, joined by gloo.

Four ranks of which two are a team do everything once (`seen_by_a_rank`), beside one process that does it alone.
"""

import copy
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.models import vllm_double
from tests.train.ranks.processes import started, together
from torch.distributed.fsdp import fully_shard

from opd.models.interfaces import Sampling
from opd.models.load import LanguageModel, load_model
from opd.models.vllm.memory import cache_bytes
from opd.models.vllm.sampler import VllmSampler
from opd.models.vllm.scorer import VllmScorer
from opd.models.vllm.server import Server
from opd.models.vllm.team import Team, uncut, unshared
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.rollouts import Prompt
from opd.train.ranks.joining import joined

pytestmark = pytest.mark.patient

RANKS, SIZE = 4, 2
SHARES = ((0, 4), (1,), (2, 5), (3,))  # the rows of each rank
SEEDS = (5, 6)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a rank, or the process that is alone, had of it."""

    drawn: list[list[tuple[int, ...]]]  # token ids, before and after an update, by one that was closed, and sharded
    logp: list[np.ndarray]
    scores: list[np.ndarray]
    parts: dict[str, np.ndarray]  # of vLLM's weights, after the update
    whole: dict[str, np.ndarray]  # of the trainer's
    asked: dict[str, object]
    said: str = ""  # where another rank drew otherwise


@pytest.fixture(scope="module")
def alone(random_models: Path) -> Seen:
    return seen(random_models, rows=range(6), team=Team(), vllm=Library())


@pytest.fixture(scope="module")
def ranks(random_models: Path) -> list[Seen]:
    return together(RANKS, seen_by_a_rank, random_models)


class Library:
    """The module `vllm`, that keeps what it was asked with."""

    SamplingParams = vllm_double.SamplingParams

    def __init__(self) -> None:
        self.asked: dict[str, object] = {}

    def LLM(self, folder: str, **arguments: Any) -> vllm_double.LLM:
        self.asked = arguments
        return vllm_double.LLM(folder, **arguments)


def seen_by_a_rank(folder: Path) -> Seen:
    with joined(device="cpu") as ranks:
        library = Library()
        found = seen(folder, rows=SHARES[ranks.rank], team=Team(ranks, size=SIZE), vllm=library)
        sharded = drawn_from_shares(folder, ranks, library)
        said = said_of_one_that_differs(folder, ranks, library)
    return replace(found, drawn=[*found.drawn, sharded], said=said)


def seen(folder: Path, *, rows: Sequence[int], team: Team, vllm: Library) -> Seen:
    student, teacher = loaded(folder / "student"), loaded(folder / "teacher")
    sampler = sampler_of(student, team, vllm)
    scorer = VllmScorer(teacher, sequence_tokens=40, team=team, vllm=vllm)
    rollouts = [sampler.sample(prompts(rows), seeds=SEEDS)]
    asked = dict(vllm.asked)
    scored = [scorer.score(rollouts[0]), scorer.score([one for one in rollouts[0] if one.prompt.row == 0])]
    disturb(student)
    sampler.follow(1)
    rollouts.append(sampler.sample(prompts(rows), seeds=SEEDS))
    parts = arrays(sampler._server._llm.parts)
    sampler.close()
    scorer.close()
    rollouts.append(sampler.sample(prompts(rows), seeds=SEEDS))
    return Seen(
        drawn=[[one.token_ids for one in some] for some in rollouts],
        logp=[np.concatenate([one.logp for one in some]) for some in rollouts],
        scores=[np.concatenate([(), *(one.teacher_logp for one in some)]) for some in scored],
        parts=parts,
        whole=arrays(dict(student.module.named_parameters())),
        asked=asked,
    )


def arrays(tensors: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    return {name: one.detach().numpy().copy() for name, one in tensors.items()}


def drawn_from_shares(folder: Path, ranks: Any, vllm: Library) -> list[tuple[int, ...]]:
    """By a student of whose layers each rank has rows alone."""
    student = loaded(folder / "student")
    disturb(student)
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (ranks.count,))
    for layer in student.module.model.layers:
        fully_shard(layer, mesh=mesh)
    sampler = sampler_of(student, Team(ranks, size=SIZE), vllm)
    return [one.token_ids for one in sampler.sample(prompts(SHARES[ranks.rank]), seeds=SEEDS)]


def said_of_one_that_differs(folder: Path, ranks: Any, vllm: Library) -> str:
    """Of the last rank, whose generators are not those of its team."""
    sampler = sampler_of(loaded(folder / "student"), Team(ranks, size=SIZE), vllm)
    draws = vllm_double.LLM._draw
    if ranks.rank == RANKS - 1:
        vllm_double.LLM._draw = lambda self, raw_V, settings, _: draws(self, raw_V.roll(1), settings, None)
    try:
        sampler.sample(prompts(SHARES[ranks.rank]), seeds=SEEDS)
    except AnswerIsNo as error:
        return str(error)
    return ""


def loaded(folder: Path) -> LanguageModel:
    torch.set_num_threads(1)
    model = load_model(folder, dtype="float32", device="cpu")
    return replace(model, stop_ids=frozenset(range(0, 312, 32)))


def sampler_of(model: LanguageModel, team: Team, vllm: Any) -> VllmSampler:
    return VllmSampler(model, Sampling(limit_tokens=10), prompt_tokens=12, team=team, vllm=vllm)


def prompts(rows: Sequence[int]) -> list[Prompt]:
    ids = [tuple((13 * row + 7 * place) % 312 for place in range(2 + 2 * row)) for row in range(6)]
    return [Prompt(row=row, problem="", answer="", token_ids=ids[row]) for row in rows]


def disturb(model: LanguageModel) -> None:
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        for one in model.module.parameters():
            one.add_(torch.randn_like(one), alpha=0.1)


def of_rows(values: Sequence[Any], rows: Sequence[int]) -> list[Any]:
    """Of what there is for each row and seed, that of these rows."""
    return [values[row * len(SEEDS) + seed] for row in rows for seed in range(len(SEEDS))]


# --- what the ranks of a team draw ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "by"), [(0, 0), (1, 1), (2, 2), (3, 1)], ids=["first", "after an update", "started anew", "of shares"]
)
def test_each_rank_gets_the_rollouts_of_its_own_prompts_as_one_process_draws_them(alone, ranks, at, by) -> None:
    for rows, rank in zip(SHARES, ranks, strict=True):
        assert rank.drawn[at] == of_rows(alone.drawn[by], rows)
    assert alone.drawn[0] != alone.drawn[1]


def test_their_log_probabilities_are_those_of_one_process(alone, ranks) -> None:
    lengths = [[len(ids) for ids in some] for some in alone.drawn]
    for at in range(3):
        whole = np.split(alone.logp[at], np.cumsum(lengths[at])[:-1])
        for rows, rank in zip(SHARES, ranks, strict=True):
            assert np.allclose(rank.logp[at], np.concatenate(of_rows(whole, rows)), atol=1e-5)


def test_their_teacher_scores_each_ranks_rollouts_also_where_some_have_none(alone, ranks) -> None:
    lengths = [len(ids) for ids in alone.drawn[0]]
    whole = np.split(alone.scores[0], np.cumsum(lengths)[:-1])
    for rows, rank in zip(SHARES, ranks, strict=True):
        assert np.allclose(rank.scores[0], np.concatenate(of_rows(whole, rows)), atol=1e-5)
        of_the_first = of_rows(whole, [0]) if 0 in rows else [()]
        assert np.allclose(rank.scores[1], np.concatenate(of_the_first), atol=1e-5)


def test_in_each_part_lies_what_it_is_of_the_whole(ranks) -> None:
    """The slices that vLLM's layers take: rows of what widens, columns of what narrows, and the norms whole."""
    for number, rank in enumerate(ranks):
        place = number % SIZE
        assert rank.parts.keys() == rank.whole.keys()
        for name, whole in rank.whole.items():
            expected = whole[:312] if "embed_tokens" in name else whole
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                half = expected.shape[1] // SIZE
                expected = expected[:, place * half : (place + 1) * half]
            elif "norm" not in name:
                half = len(expected) // SIZE
                expected = expected[place * half : (place + 1) * half]
            assert np.array_equal(rank.parts[name], expected), name


def test_a_rank_that_draws_otherwise_than_its_team_ends_the_run(ranks) -> None:
    (said,) = {rank.said for rank in ranks}
    assert said.startswith("vLLM's tokens on ranks [3] are not those of the ranks that they sample with")


def test_what_vllm_is_asked_for_is_one_part_by_who_started_the_ranks(alone, ranks) -> None:
    own = {
        "distributed_executor_backend",
        "tensor_parallel_size",
        "disable_custom_all_reduce",
        "kv_cache_memory_bytes",
    }
    for rank in ranks:
        assert rank.asked["distributed_executor_backend"] == "external_launcher"
        assert rank.asked["tensor_parallel_size"] == SIZE
        assert {**rank.asked, **dict.fromkeys(own)} == {**alone.asked, **dict.fromkeys(own)}
    assert not own - {"kv_cache_memory_bytes"} & alone.asked.keys()


# --- one that is lost -----------------------------------------------------------------------------------


def lost(folder: Path) -> str:
    """As NCCL does, the one that is left waits for ever, and nothing can interrupt it."""
    with joined(device="cpu") as ranks:
        sampler = sampler_of(loaded(folder / "student"), Team(ranks, size=2), vllm_double)
        sampler.sample(prompts([ranks.rank]), seeds=SEEDS)
        leaves = ranks.rank == 1
        vllm_double.LLM.generate = lambda *_, **__: (
            os.kill(os.getpid(), signal.SIGKILL) if leaves else threading.Event().wait()
        )
        sampler.sample(prompts([ranks.rank]), seeds=SEEDS)
    return "it went on"


def test_a_rank_that_is_killed_while_vllm_draws_ends_the_others(random_models) -> None:
    stays, _ = started(2, lost, random_models)
    with pytest.raises(AssertionError, match=r"RankLost: rank 1 is gone: its process \d+ on .* has ended"):
        stays.result()


# --- what does not divide -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "count", "said"),
    [
        (2, 1, "machine.tensor_parallel = 2 with one process: .* start 2, or a multiple, by torchrun .* set it to 1"),
        (2, 3, "machine.tensor_parallel = 2 with 3 processes: .* or set it to what divides them"),
        (4, 2, "machine.tensor_parallel = 4 with 2 processes: vLLM spans 4 GPUs by as many processes"),
    ],
)
def test_ranks_that_can_not_be_shared_out_are_refused(size, count, said) -> None:
    with pytest.raises(AskedWrongly, match=said):
        Team(SimpleNamespace(rank=0, count=count), size=size)


@pytest.mark.parametrize(("size", "ranks"), [(1, 1), (1, 3), (2, 8), (8, 8)])
def test_ranks_that_can_be_are_taken(size, ranks) -> None:
    assert unshared(size, ranks=ranks) is None


@pytest.mark.parametrize(
    ("heads", "kv_heads", "sizes"), [(12, 2, {1, 2, 4, 6, 12}), (32, 8, {1, 2, 4, 8, 16, 32}), (6, 4, {1, 2})]
)
def test_a_decoder_is_cut_where_each_part_has_as_many_heads(heads, kv_heads, sizes) -> None:
    """The sizes that vLLM 0.25.1 takes: it divides queries, and divides or repeats keys."""
    config = SimpleNamespace(num_attention_heads=heads, num_key_value_heads=kv_heads)
    assert {size for size in range(1, 33) if uncut(config, size) is None} == sizes


def test_one_whose_heads_do_not_divide_is_refused_with_its_name(random_models) -> None:
    model = loaded(random_models / "student")
    config = copy.deepcopy(model.module.config)
    config.num_attention_heads = 3
    model.module.config = config
    team = Team(SimpleNamespace(rank=0, count=2), size=2)
    with pytest.raises(
        AskedWrongly, match=r"student: vLLM can't run this model here: machine\.tensor_parallel = 2: its 3"
    ):
        Server(model, SimpleNamespace(sequence_tokens=8), team=team, vllm=vllm_double)


def test_the_heads_of_keys_are_shared_and_the_last_of_them_is_repeated() -> None:
    from transformers import Qwen2Config

    config = Qwen2Config(num_hidden_layers=28, hidden_size=1_536, num_attention_heads=12, num_key_value_heads=2)
    one, two, four = (cache_bytes(config, width=2, rows=8, sequence_tokens=64, parts=parts) for parts in (1, 2, 4))
    assert one == 2 * two == 2 * four


def test_the_least_of_all_ranks_is_what_each_takes() -> None:
    mates = SimpleNamespace(rank=0, count=4, everyone=lambda value: [value, 7, 3, 9])
    assert Team(mates, size=2).least(5) == 3
    assert Team().least(5) == 5


def test_a_rollout_keeps_the_prompt_that_its_rank_gave() -> None:
    """What travels are token ids and seeds; the prompts themselves stay."""
    mates = SimpleNamespace(rank=1, count=2, everyone=lambda value: [["theirs", "theirs"], value])
    asked: list[Any] = []

    def call(requests: list[Any]) -> list[Any]:
        asked.extend(requests)
        return [one.upper() for one in requests]

    assert Team(mates, size=2).shared(["own"], call) == ["OWN"]
    assert asked == ["theirs", "theirs", "own"]
    assert Team(mates, size=1).shared(["own"], call) == ["OWN"]
    assert asked[3:] == ["own"]
