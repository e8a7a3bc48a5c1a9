"""Steps as graphs: the ladder anywhere, the graphs on a GPU.

Shapes: T tokens.
"""

import pytest
import torch

from opd.models.engine.graphs import StepGraphs, rungs
from opd.models.engine.sampler import EngineSampler
from opd.models.interfaces import Sampling
from opd.models.plain import PlainSampler

FREE = Sampling(limit_tokens=40)
KINDS = ["qwen2", "qwen3", "llama"]
WIDE = {"hidden_size": 128, "num_attention_heads": 4, "head_dim": 32}  # heads that the kernels take


def test_rungs_end_with_the_rows_of_the_room_and_waste_at_most_half():
    for rows in range(1, 300):
        ladder = rungs(rows)
        assert ladder[-1] == rows
        assert list(ladder) == sorted(set(ladder))
        for running in range(1, rows + 1):
            assert next(rung for rung in ladder if rung >= running) < 2 * running


@pytest.fixture
def on_gpu(make_decoder):
    """`on_gpu("qwen2", "float32")`: a small model on the GPU, with heads that the kernels take."""

    def make(kind: str, dtype: str):
        model = make_decoder(kind, dtype, **WIDE)
        model.module.cuda()
        return model

    return make


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
def test_on_a_gpu_the_same_seeds_give_the_tokens_of_the_plain_sampler(
    kind, on_gpu, prompts, stopping_often, same_rollouts
):
    """In float32, for rows that come and go, through every rung of the ladder: 20 requests in 12 rows, then fewer."""
    model = stopping_often(on_gpu(kind, "float32"))
    plain, engine = PlainSampler(model, FREE), EngineSampler(model, FREE, largest_batch=12, window=4)
    for _ in range(2):  # the second time all are replays of the first one's graphs
        for count, seeds in ((5, range(4)), (1, [4]), (1, [5, 6]), (1, range(7, 10)), (2, range(10, 14))):
            some = prompts()[:count]
            same_rollouts(engine.sample(some, seeds=seeds), plain.sample(some, seeds=seeds), atol=1e-4)
    assert engine._kept[1]._step._graphs.keys() == set(rungs(12)) == {1, 2, 4, 8, 12}


@pytest.mark.gpu
@pytest.mark.parametrize("settings", [{"top_p": 0.9}, {"top_k": 20, "temperature": 0.7}, {"min_p": 0.05}], ids=str)
def test_on_a_gpu_a_cut_distribution_is_that_of_the_plain_sampler(
    settings, on_gpu, prompts, same_rollouts, monkeypatch
):
    model, cut = on_gpu("qwen2", "float32"), Sampling(limit_tokens=20, **settings)
    plain = PlainSampler(model, cut).sample(prompts(), seeds=[0, 1])
    same_rollouts(EngineSampler(model, cut).sample(prompts(), seeds=[0, 1]), plain, atol=1e-4)


@pytest.mark.gpu
def test_on_a_gpu_a_full_cache_changes_no_token(on_gpu, prompts, same_rollouts):
    model = on_gpu("llama", "float32")
    roomy = EngineSampler(model, FREE, page_tokens=16, window=4).sample(prompts(), seeds=range(4))
    tight = EngineSampler(model, FREE, page_tokens=16, cache_tokens=160, window=4)
    same_rollouts(tight.sample(prompts(), seeds=range(4)), roomy, atol=1e-4)


@pytest.mark.gpu
def test_on_a_gpu_graphs_follow_weights_that_are_written_in_place(on_gpu, prompts, same_rollouts):
    """No prefix, no graph and no copy of the old weights is left (faults E41, E51)."""
    model = on_gpu("qwen2", "float32")
    engine = EngineSampler(model, FREE)
    before = engine.sample(prompts(), seeds=[0])
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.mul_(1.05)
    engine.follow(1)
    after = engine.sample(prompts(), seeds=[0])
    assert [one.token_ids for one in before] != [one.token_ids for one in after]
    fresh = PlainSampler(model, FREE)
    fresh.follow(1)
    same_rollouts(after, fresh.sample(prompts(), seeds=[0]), atol=5e-4)


@pytest.mark.gpu
def test_on_a_gpu_bf16_log_probabilities_are_those_of_a_forward_over_the_whole(on_gpu, prompts, logits_of):
    """Within what bf16 rounds with weights as large as these: a mean gap of 0.07 nats was seen."""
    model = on_gpu("qwen2", "bfloat16")
    gaps_T = []
    for one in EngineSampler(model, FREE).sample(prompts(), seeds=[0, 1]):
        ids = torch.tensor([[*one.prompt.token_ids, *one.token_ids]], device="cuda")
        with torch.no_grad():
            logits_TV = model.module(input_ids=ids).logits[0, :, : model.vocabulary].float()
        start = len(one.prompt.token_ids) - 1
        logp_TV = logits_TV[start:-1].log_softmax(-1).cpu()
        chosen_T = logp_TV.gather(-1, torch.tensor(one.token_ids).unsqueeze(-1)).squeeze(-1)
        gaps_T.append((chosen_T - torch.tensor(one.logp)).abs())
    assert torch.cat(gaps_T).mean() < 0.15


@pytest.mark.gpu
def test_a_thousand_steps_on_a_gpu_take_no_more_memory_than_the_first(on_gpu, prompts):
    model = on_gpu("qwen2", "bfloat16")
    engine = EngineSampler(model, FREE, window=8)
    engine.sample(prompts(), seeds=[0, 1])
    taken = torch.cuda.memory_allocated()
    for _ in range(25):
        engine.sample(prompts(), seeds=[0, 1])
    assert torch.cuda.memory_allocated() <= taken


def test_a_graph_is_captured_once_a_rung(monkeypatch):
    """The first step of a rung runs as it is; the others are replays."""
    captured, replayed = [], []

    class Replay:
        def replay(self) -> None:
            replayed.append(1)

    def capture(self: StepGraphs, rung: int) -> Replay:
        captured.append(rung)
        return Replay()

    monkeypatch.setattr(StepGraphs, "_run_and_capture", capture)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    graphs = StepGraphs(rungs(12), lambda rung: None)
    for rows in (3, 4, 5, 12, 9, 3):
        graphs(rows, 99)
    assert captured == [4, 8, 12]
    assert len(replayed) == 3
