"""Rollouts with guesses are those without: the same seeds, the same tokens.

The models may draw eight ids alone, and repeat themselves: about half of what is guessed is kept.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from opd.models.engine import sampler as samplers
from opd.models.engine.drafts import steps
from opd.models.engine.drafts.steps import DraftedSteps
from opd.models.engine.engine import Engine
from opd.models.engine.operations import Operations
from opd.models.engine.requests import Request, State
from opd.models.engine.room import Room, Size
from opd.models.engine.sampler import EngineSampler
from opd.models.engine.schedule import Schedule
from opd.models.interfaces import Sampling
from opd.models.load import LanguageModel
from opd.models.noise import uniforms
from opd.models.plain import PlainSampler
from opd.records.errors import AskedWrongly
from opd.records.metrics import Drafted
from opd.records.rollouts import StopReason

COLD = Sampling(limit_tokens=30, temperature=0.4)
CUTS = [{"top_p": 0.6, "temperature": 0.4}, {"top_k": 2, "temperature": 0.5}, {"min_p": 0.4, "temperature": 0.6}]


@pytest.fixture
def make_brief(make_decoder: Callable[..., LanguageModel]) -> Callable[..., LanguageModel]:
    """`make_brief("qwen2", "float64")`: a small random model of eight ids, none of which ends a response."""

    def make(kind: str, dtype: str = "float64", **settings: int) -> LanguageModel:
        return replace(make_decoder(kind, dtype, **settings), vocabulary=8, stop_ids=frozenset())

    return make


def guessing(room: Room, ops: Operations) -> DraftedSteps:
    """The windows of a room with guesses, in its device's own way."""
    notes, way = samplers.drafted_way(room, ops)
    return DraftedSteps(room, notes, [way])


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama-llama3"])
@pytest.mark.parametrize(("asked", "dtype"), [(1, "float64"), (2, "float32"), (3, "float64"), (4, "float64")])
def test_the_same_seeds_give_the_same_tokens_with_and_without(kind, dtype, asked, make_brief, prompts, same_rollouts):
    """Of four prompts one is a single token; no more than four run, so all is drawn by such steps."""
    model = make_brief(kind, dtype)
    plain = EngineSampler(model, COLD).sample(prompts()[-asked:], seeds=[0])
    sampler = EngineSampler(model, COLD, drafts="history")
    same_rollouts(
        sampler.sample(prompts()[-asked:], seeds=[0]), plain, atol={"float32": 2e-4, "float64": 1e-9}[dtype]
    )
    drafted = sampler.drafted
    assert drafted.steps + drafted.kept == sum(len(one.token_ids) for one in plain)
    assert 0 < drafted.kept <= drafted.guesses
    assert drafted.tokens_a_step > 1


@pytest.mark.parametrize("settings", CUTS, ids=str)
def test_a_cut_distribution_has_the_same_tokens_and_both_log_probabilities(
    settings, make_brief, prompts, same_rollouts
):
    model, sampling = make_brief("qwen2"), Sampling(limit_tokens=30, **settings)
    sampler = EngineSampler(model, sampling, drafts="history")
    same_rollouts(
        sampler.sample(prompts()[:2], seeds=[0]),
        PlainSampler(model, sampling).sample(prompts()[:2], seeds=[0]),
        atol=1e-9,
    )
    assert sampler.drafted.kept


SIZES = [
    {"largest_batch": 256, "window": 8},
    {"largest_batch": 6, "window": 3, "page_tokens": 4, "cache_tokens": 52},
    {"largest_batch": 3, "window": 7, "page_tokens": 1, "cache_tokens": 48},
    {"largest_batch": 4, "window": 40, "page_tokens": 64},
]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_neither_who_comes_and_goes_nor_a_full_cache_changes_a_token(
    sizes, make_brief, prompts, same_rollouts, monkeypatch
):
    """Ten rollouts, some of which stop early: more than four run, then fewer, then more. The notes keep up."""
    followed, left = [], []
    run, preempt = DraftedSteps.run, Schedule._preempt

    def noted(self: DraftedSteps, running: list[Request], tokens: int) -> int:
        steps = run(self, running, tokens)
        for row, one in enumerate(running):
            followed.append(self._notes.history_BT[row, : one.tokens].tolist() == list(one.ids(0, one.tokens)))
        return steps

    monkeypatch.setattr(DraftedSteps, "run", noted)
    monkeypatch.setattr(Schedule, "_preempt", lambda self: left.append(preempt(self)) or left[-1])
    model, seeds = replace(make_brief("qwen2"), stop_ids=frozenset({3})), [0, 1]
    plain = PlainSampler(model, COLD).sample(prompts(), seeds=seeds)
    sampler = EngineSampler(model, COLD, drafts="history", **sizes)
    same_rollouts(sampler.sample(prompts(), seeds=seeds), plain, atol=1e-9)
    assert len({len(one.token_ids) for one in plain}) > 3
    assert followed
    assert all(followed)
    assert "cache_tokens" not in sizes or left


@pytest.mark.parametrize(
    ("stop", "limit", "said", "guesses"),
    [(5, 40, (2, 5), 7), (None, 3, (2, 5, 4), 2), (None, 8, (2, 5, 4, 0) * 2, 7)],
)
def test_an_answer_ends_in_the_middle_of_what_was_guessed(stop, limit, said, guesses, make_brief, prompts):
    """By its id, or by its limit, beyond which nothing is guessed. The last token alone decides: 0, 2, 5, 4, 0."""
    model = make_brief("llama")
    with torch.no_grad():
        for layer in model.module.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    model = replace(model, stop_ids=frozenset() if stop is None else frozenset({stop}))
    sampler = EngineSampler(model, Sampling(limit_tokens=limit, top_k=1), drafts="history")
    (one,) = sampler.sample(prompts((305, 0, 2, 5, 4, 0)), seeds=[0])
    assert one.token_ids == said
    assert one.stop is (StopReason.LENGTH if stop is None else StopReason.EOS)
    assert sampler.drafted == Drafted(steps=1, guesses=guesses, kept=len(said) - 1)


def test_a_cancelled_request_stops_where_it_is_and_changes_nothing_for_the_others(make_decoder):
    model = make_decoder("qwen2")
    drawn = []
    for cancelled in ([], [1]):
        size = Size(rows=3, sequence_tokens=64, page_tokens=4, pages=48, window=5, in_order=False)
        room = Room.of(model, COLD, size)
        ops, step = samplers.ways(room)
        drafted = guessing(room, ops)
        engine = Engine(room, ops, step, chunk_tokens=8, stop_ids=frozenset(), drafted=drafted)
        requests = [
            Request(name="", prompt_ids=(305, row), uniforms_T=uniforms(seed=1, row=row, epoch=0, tokens=30).numpy())
            for row in range(3)
        ]
        engine.submit(requests)
        engine.window()
        engine.cancel([requests[row] for row in cancelled])
        while engine.schedule.busy:
            engine.window()
        drawn.append([one.token_ids for one in requests])
        assert [requests[row].state for row in cancelled] == [State.CANCELLED] * len(cancelled)
        assert engine.schedule.free_pages == 48
    whole, cut = drawn
    assert (cut[0], cut[2]) == (whole[0], whole[2])
    assert 0 < len(cut[1]) <= 5
    assert cut[1] == whole[1][: len(cut[1])]


def answering(*ids: int) -> Request:
    """A request that has drawn these."""
    return Request(name="", prompt_ids=(305,), uniforms_T=np.zeros(400), token_ids=list(ids))


def test_windows_are_left_to_others_while_guesses_are_not_worth_their_rows(make_decoder):
    """Whoever draws: it begins to repeat itself while others draw, is guessed, and goes over to something new."""
    model = make_decoder("qwen2")
    size = Size(rows=1, sequence_tokens=512, page_tokens=512, pages=1, window=32, in_order=True)
    room = Room.of(model, COLD, size)
    notes, way = samplers.drafted_way(room, samplers.ways(room)[0])
    drafted = DraftedSteps(room, notes, [replace(way, worth=1.45)])
    one, decisions = answering(), []
    new, again, other = [*range(64)], [*range(200, 216)] * 6, [*range(64, 160)]  # 2, 3 and 3 windows
    said = new + again + other
    for start in range(0, len(said), 32):
        decisions.append(drafted.takes([one]))
        one.token_ids += said[start : start + 32]
    assert "".join("-+"[one] for one in decisions) == "+---+++-"
    fresh = DraftedSteps(room, notes, [way])
    assert fresh.takes([answering(*range(100))])
    assert not fresh.takes([answering() for _ in range(5)])


def test_where_the_kernel_is_gone_guesses_are_measured_by_what_is_left(make_decoder):
    """Nine steps of the kernel's for one, or 1.1 of the graphs'; asking once more changes no answer."""
    model = make_decoder("qwen2")
    room = Room.of(model, COLD, Size(rows=1, sequence_tokens=512, page_tokens=512, pages=1, window=32, in_order=True))
    notes, way = samplers.drafted_way(room, samplers.ways(room)[0])
    drafted = DraftedSteps(room, notes, [replace(way, worth=9.0, worth_alone=1.1)])
    one = answering(*range(40))
    assert [drafted.takes([one]) for _ in range(3)] == [False] * 3
    drafted.leave_kernel()
    assert [drafted.takes([one]) for _ in range(3)] == [True] * 3


@pytest.mark.parametrize(("worth", "taken"), [(1.0, "++++++++++"), (2.0, "-+++++++++"), (9.0, "----------")])
def test_whoever_does_a_window_the_same_tokens_are_drawn(worth, taken, make_brief, monkeypatch):
    """The last token alone decides, and nearly all can be guessed: more than two tokens a step, less than nine."""
    model = make_brief("llama")
    with torch.no_grad():
        for layer in model.module.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    size = Size(rows=1, sequence_tokens=256, page_tokens=4, pages=64, window=16, in_order=False)
    room = Room.of(model, Sampling(limit_tokens=160, top_k=1), size)
    ops, step = samplers.ways(room)
    notes, way = samplers.drafted_way(room, ops)
    drafted = DraftedSteps(room, notes, [replace(way, worth=worth)])
    windows = []
    monkeypatch.setattr(
        drafted, "takes", lambda running: windows.append(DraftedSteps.takes(drafted, running)) or windows[-1]
    )
    one, other = (Request(name="", prompt_ids=(305, 0, 2, 5), uniforms_T=np.zeros(160)) for _ in "ab")
    for request, by in ((one, drafted), (other, None)):
        engine = Engine(room, ops, step, chunk_tokens=8, stop_ids=frozenset(), drafted=by)
        engine.submit([request])
        while engine.schedule.busy:
            engine.window()
    assert "".join("-+"[one] for one in windows) == taken
    assert one.token_ids == other.token_ids


def test_weights_that_overflow_are_an_error_with_guesses_too(make_decoder, prompts):
    model = make_decoder("qwen2")
    with torch.no_grad():
        model.module.model.norm.weight[3] = torch.inf
    with pytest.raises(FloatingPointError, match=r"row 0: the probabilities of token 0 are not finite"):
        EngineSampler(model, COLD, drafts="history").sample(prompts()[:2], seeds=[0])


def test_an_exact_model_is_not_sampled_with_guesses(make_decoder):
    model = replace(make_decoder("qwen2"), exact=True)
    with pytest.raises(AskedWrongly, match=r'^drafts = "history": exact steps take a token each'):
        EngineSampler(model, COLD, drafts="history")


def test_no_step_is_taken_for_nobody(make_brief, prompts):
    """A window ends when the first sequence has its tokens, however many steps were expected to be needed.

    The last token alone decides, so from the second round of four on all that is guessed is kept.
    """
    model = make_brief("llama")
    with torch.no_grad():
        for layer in model.module.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    sampling, size = (
        Sampling(limit_tokens=64, top_k=1),
        Size(rows=1, sequence_tokens=128, page_tokens=128, pages=1, window=32, in_order=True),
    )
    room = Room.of(model, sampling, size)
    ops, step = samplers.ways(room)
    engine = Engine(
        room,
        ops,
        step,
        chunk_tokens=8,
        stop_ids=frozenset(),
        drafted=guessing(room, ops),
    )
    engine.submit([Request(name="", prompt_ids=(305, 0, 2, 5, 4, 0), uniforms_T=np.zeros(64))])
    engine.window()
    assert (engine.drafted.steps, engine.drafted.kept) == (4, 28)
    assert engine.steps == steps.LOOK  # nothing was known of this call: half of these were for nobody
    engine.window()
    assert (engine.drafted.steps, engine.drafted.kept) == (8, 56)
    assert engine.steps <= steps.LOOK + 8


@pytest.fixture
def on_gpu(
    make_brief: Callable[..., LanguageModel], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], LanguageModel]:
    """`on_gpu("qwen2")`: the same in float32 on the GPU, with heads that the kernels take; never paused."""

    def make(kind: str) -> LanguageModel:
        model = make_brief(kind, "float32", hidden_size=128, num_attention_heads=4, head_dim=32)
        model.module.cuda()
        return model

    monkeypatch.setattr(samplers, "WORTH", dict.fromkeys(samplers.WORTH, 1.0))
    return make


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama"])
@pytest.mark.parametrize("asked", [1, 2, 3, 4])
def test_on_a_gpu_the_tokens_are_those_without_guesses(kind, asked, on_gpu, prompts, same_rollouts):
    """By the graphs of each number of sequences, the second time replayed; with an id that ends a response, too."""
    for stop_ids in ((), (3,)):
        model = replace(on_gpu(kind), stop_ids=frozenset(stop_ids))
        plain = EngineSampler(model, COLD).sample(prompts()[-asked:], seeds=[0])
        sampler = EngineSampler(model, COLD, drafts="history", window=8)
        for _ in range(2):
            same_rollouts(sampler.sample(prompts()[-asked:], seeds=[0]), plain, atol=1e-3)
        assert sampler.drafted.steps + sampler.drafted.kept == sum(len(one.token_ids) for one in plain)
        assert sampler.drafted.kept or stop_ids


@pytest.mark.gpu
@pytest.mark.parametrize("settings", CUTS, ids=str)
def test_on_a_gpu_a_full_cache_and_a_cut_distribution_change_nothing(settings, on_gpu, prompts, same_rollouts):
    model, sampling = on_gpu("qwen2"), Sampling(limit_tokens=30, **settings)
    plain = EngineSampler(model, sampling, page_tokens=16).sample(prompts(), seeds=[0, 1])
    tight = EngineSampler(model, sampling, page_tokens=16, cache_tokens=160, window=5, drafts="history")
    same_rollouts(tight.sample(prompts(), seeds=[0, 1]), plain, atol=1e-3)
    assert tight.drafted.kept
