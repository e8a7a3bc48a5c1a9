"""The exact forward pass: the trainer's numbers are the sampler's, to the last bit. On a GPU, but for the refusals.

Shapes: M rows, N outputs, K columns, T tokens, P tokens of all sequences.
"""

import copy
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from opd.models.engine.sampler import EngineSampler
from opd.models.exact import model as choice
from opd.models.exact.model import exact_model, misfit, persistent_misfit
from opd.models.exact.order import Order
from opd.models.head import head_logp
from opd.models.interfaces import Sampling
from opd.models.load import LanguageModel
from opd.models.logprobs import before_kept, token_logp
from opd.models.sequences import packed
from opd.records.errors import AskedWrongly
from opd.records.rollouts import Prompt, Rollout, ScoredRollout, StopReason
from opd.train.objective import find
from opd.train.objectives.k1_policy_gradient import K1PolicyGradient
from opd.train.update.updater import OptimizerSettings, Updater


@pytest.fixture(scope="module", params=["persistent", "graphs"])
def exact(make_wide, request) -> LanguageModel:
    """Three layers with an exact forward pass, in either order."""
    return exact_model(make_wide(layers=3), persistent=request.param == "persistent")


@pytest.fixture(params=["persistent", "graphs"])
def learner(make_wide, request) -> LanguageModel:
    """Two layers of its own for a test that learns: gradients go to an updater's masters from then on."""
    return exact_model(make_wide(layers=2), persistent=request.param == "persistent")


@torch.no_grad()
def trainers(model: LanguageModel, rollouts: Sequence[Rollout], *, temperature: float = 1.0) -> list[float]:
    """The log-probabilities that the trainer's forward pass gives, of all rollouts in one row."""
    sequences = packed(rollouts, device=model.device)
    return [float(one) for one in token_logp(model, sequences, temperature=temperature)]


def samplers(rollouts: Sequence[Rollout]) -> list[float]:
    """Those that the sampler gave."""
    return [logp for one in rollouts for logp in one.logp]


def test_without_a_gpu_or_in_another_dtype_there_is_nothing_to_be_exact_with(student64):
    model = student64
    with pytest.raises(
        AskedWrongly, match=r"machine.exact can't be had here: it computes in bfloat16, and .* float64"
    ):
        exact_model(model)
    assert "it computes in bfloat16" in str(persistent_misfit(model))
    narrow = replace(model, module=copy.deepcopy(model.module).to(torch.bfloat16))
    assert misfit(narrow) == "there is no GPU"
    assert "end to end" in str(misfit(replace(narrow, unpackable="it has windows")))


def test_a_gpu_whose_sms_are_too_small_is_refused_with_both_numbers(student64, monkeypatch):
    module = copy.deepcopy(student64.module).to(torch.bfloat16)
    monkeypatch.setattr(LanguageModel, "device", torch.device("cuda"))
    monkeypatch.setattr(choice, "_shared_bytes", lambda _: 101_376)
    assert "166,912 bytes of an SM's shared memory, and this GPU gives 101,376" in str(
        misfit(replace(student64, module=module))
    )


@pytest.fixture
def suited(monkeypatch, some_order) -> Callable[[str | None], None]:
    """`suited(reason)`: any model may be exact here, and the persistent kernel can't run it for this reason."""
    monkeypatch.setitem(sys.modules, "opd.models.exact.layers", SimpleNamespace(make_exact=lambda *_: None))
    monkeypatch.setattr(choice, "misfit", lambda _: None)

    def order(*, persistent: bool) -> Order:
        return replace(some_order, persistent=persistent, trial=lambda _: None)

    monkeypatch.setattr(choice, "_order", order)
    return lambda reason: monkeypatch.setattr(choice, "persistent_misfit", lambda _: reason)


@pytest.mark.parametrize(
    ("asked", "reason", "sequence_tokens", "persistent"),
    [
        (None, None, 16_352, True),
        (None, None, 16_353, False),  # longer than the kernel's sequences
        (None, "there is no nvcc", 7_168, False),
        (True, None, 7_168, True),
        (False, None, 7_168, False),
    ],
)
def test_the_engine_that_is_asked_for_decides_the_order(
    suited, student64, asked, reason, sequence_tokens, persistent
):
    suited(reason)
    model = exact_model(student64, persistent=asked, sequence_tokens=sequence_tokens)
    assert model.exact is not None
    assert model.exact.persistent is persistent


def test_a_kernel_that_is_asked_for_and_a_chip_that_does_not_sum_alike_are_refused(
    suited, student64, some_order, monkeypatch
):
    suited("there is no nvcc")
    with pytest.raises(
        AskedWrongly, match=r"machine.exact can't be had here: the persistent kernel .*: there is no nvcc"
    ):
        exact_model(student64, persistent=True)
    monkeypatch.setattr(
        choice, "_order", lambda *, persistent: replace(some_order, trial=lambda _: "this chip's sums differ")
    )
    with pytest.raises(AskedWrongly, match=r"can't be had here: this chip's sums differ; set it to false"):
        exact_model(student64)


def test_an_exact_model_samples_from_the_whole_distribution_alone(student64, some_order):
    model = replace(student64, exact=some_order)
    with pytest.raises(AskedWrongly, match="exact sampling is from the whole distribution"):
        EngineSampler(model, Sampling(limit_tokens=4, top_p=0.9))


def test_a_head_that_autograd_would_multiply_is_not_exact_and_says_so(student64, some_order):
    """The update's own way, into a gradient of its own, is; without gradients there is nothing to refuse."""
    model = replace(student64, exact=some_order)
    hidden_NH = torch.zeros(2, student64.module.config.hidden_size, dtype=torch.float64)
    with pytest.raises(ValueError, match="an exact head learns into a gradient_RH"):
        head_logp(model, hidden_NH, torch.tensor([1, 2]))


@pytest.mark.parametrize("name", ["reverse_kl", "jsd", "topk_reverse_kl"])
def test_a_divergence_says_of_the_visited_token_what_the_orders_own_sums_say(student64, teacher64, some_order, name):
    """An order that is off by an eighth of a nat shows as that gap, whatever softmax the divergence itself uses."""

    def token_logp(
        logits_CR: torch.Tensor, ids_C: torch.Tensor, *, vocabulary: int, temperature: float
    ) -> tuple[torch.Tensor, None]:
        logp_CV = (logits_CR[:, :vocabulary] / temperature).log_softmax(-1)
        return logp_CV.gather(-1, ids_C.unsqueeze(-1)).squeeze(-1) + 0.125, None

    module = copy.deepcopy(student64.module).requires_grad_(True)
    order = replace(some_order, product=lambda x, weight, *, wide: x @ weight.t(), token_logp=token_logp)
    prompt = Prompt(row=0, problem="", answer="", token_ids=(3, 4, 5))
    drawn = Rollout(prompt=prompt, sample=0, token_ids=(6, 7, 8), logp=(0.0,) * 3, stop=StopReason.LENGTH)
    logp = tuple(trainers(student64, [drawn], temperature=0.8))
    scored = [ScoredRollout(rollout=replace(drawn, logp=logp), teacher_logp=logp)]
    updater = Updater(
        replace(student64, module=module, exact=order),
        find(name)(),
        OptimizerSettings(lr=1e-6),
        teachers={None: teacher64},
        temperature=0.8,
    )
    gap = updater.update(scored, step=1).gap
    assert gap.mean == pytest.approx(0.125, abs=1e-9)
    assert gap.largest == pytest.approx(0.125, abs=1e-9)


@pytest.mark.gpu
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_sampler_and_trainer_agree_to_the_last_bit(exact, of_lengths, temperature):
    """Lengths across every page's edge, prompts that are shared, rows that come and go, packed in any company."""
    sampling = Sampling(limit_tokens=150, temperature=temperature)
    model = replace(exact, stop_ids=frozenset(range(0, exact.vocabulary, 50)))
    prompts = of_lengths(1, 127, 128, 129, 16, 1_023, 1_024, 600)
    rollouts = EngineSampler(model, sampling).sample(prompts, seeds=[0, 1, 2])
    assert samplers(rollouts) == trainers(exact, rollouts, temperature=temperature)
    for some in (rollouts[3:4], rollouts[5:9][::-1]):
        assert samplers(some) == trainers(exact, some, temperature=temperature)


@pytest.mark.gpu
def test_a_long_sequence_agrees_too(exact, of_lengths):
    """The longest has 16,352 tokens with its response, as many as the persistent kernel takes."""
    rollouts = EngineSampler(exact, Sampling(limit_tokens=64)).sample(of_lengths(8_150, 3_000, 16_288), seeds=[0])
    assert samplers(rollouts) == trainers(exact, rollouts)


@pytest.mark.gpu
@pytest.mark.parametrize("persistent", [True, False])
def test_weights_of_heavy_tails_agree_too(make_wide, of_lengths, persistent):
    """Student's t with three degrees of freedom: activations as no Gaussian has them."""
    model = make_wide(layers=2)
    with torch.no_grad():
        for parameter in model.module.parameters():
            if parameter.dim() == 2:
                tails = torch.distributions.StudentT(3.0).sample(parameter.shape)
                parameter.copy_((0.02 * tails).clamp(-2, 2))
    model = exact_model(model, persistent=persistent)
    rollouts = EngineSampler(model, Sampling(limit_tokens=64)).sample(of_lengths(5, 130, 300), seeds=[0, 1])
    assert samplers(rollouts) == trainers(model, rollouts)


@pytest.mark.gpu
def test_a_token_has_one_log_probability_in_any_batch_and_window(exact, of_lengths):
    prompts = of_lengths(40, 200, 129)
    whole = EngineSampler(exact, Sampling(limit_tokens=60)).sample(prompts, seeds=[0, 1])
    for window in (1, 8):
        some = EngineSampler(exact, Sampling(limit_tokens=60), window=window).sample(prompts[1:2], seeds=[1])
        assert (some[0].token_ids, some[0].logp) == (whole[3].token_ids, whole[3].logp)


@pytest.mark.gpu
def test_the_weights_after_an_update_are_sampled_from_and_leave_no_gap_either(learner, of_lengths):
    """No weights, pages or graphs of before are used again (faults E40, E41), and nothing drifts (E51)."""
    sampler = EngineSampler(learner, Sampling(limit_tokens=40))
    updater = Updater(learner, K1PolicyGradient(), OptimizerSettings(lr=1e-3))
    drawn = []
    for step in (1, 2, 3):
        rollouts = sampler.sample(of_lengths(5, 130, 128), seeds=[0, 1])
        scored = [ScoredRollout(rollout=one, teacher_logp=tuple(0.5 * logp for logp in one.logp)) for one in rollouts]
        assert updater.update(scored, step=step).gap.largest == 0
        drawn.append([one.logp for one in rollouts])
    assert drawn[0] != drawn[1] != drawn[2]


@pytest.mark.gpu
def test_the_size_of_a_chunk_and_padded_rows_of_the_head_change_no_bit(exact, of_lengths):
    """2,200 ids of 2,304 rows, in blocks that don't divide them (faults E17, E18, E33)."""
    rollouts = EngineSampler(exact, Sampling(limit_tokens=70)).sample(of_lengths(9, 90), seeds=[0])
    with torch.no_grad():
        sequences = packed(rollouts, device=exact.device)
        found = [token_logp(exact, sequences, chunk_tokens=chunk).tolist() for chunk in (7, 64, 1_024)]
        hidden_NH, ids_N = before_kept(exact, sequences)
        padding = exact.module.get_output_embeddings().weight[exact.vocabulary :]
        kept = padding.clone()
        padding.fill_(3.0)
        try:
            poisoned = [float(head_logp(exact, hidden_NH[n : n + 1], ids_N[n : n + 1])) for n in range(3)]
        finally:  # other tests read the same model
            padding.copy_(kept)
    assert found[0] == found[1] == found[2] == samplers(rollouts)
    assert poisoned == found[0][:3]


@pytest.mark.gpu
def test_gradients_are_those_of_the_ordinary_forward_pass_to_its_own_rounding(exact, make_wide, of_lengths):
    """Each matrix's gradient points where a float32 model's does, as nearly as the ordinary bf16 model's."""
    rollouts = EngineSampler(exact, Sampling(limit_tokens=80)).sample(of_lengths(30, 70), seeds=[0])
    ordinary = make_wide(layers=3)
    single = copy.deepcopy(ordinary)
    single.module.float()
    gradients = {}
    for name, model in (("exact", exact), ("ordinary", ordinary), ("single", single)):
        model.module.zero_grad(set_to_none=True)
        hidden_NH, ids_N = before_kept(model, packed(rollouts, device=model.device))
        logits_NV = model.module.get_output_embeddings()(hidden_NH)[:, : model.vocabulary].float()
        logits_NV.log_softmax(-1).gather(-1, ids_N.unsqueeze(-1)).sum().backward()
        gradients[name] = {key: one.grad.double() for key, one in model.module.named_parameters()}
    for key, expected in gradients["single"].items():
        own, other = (
            1 - torch.cosine_similarity(gradients[name][key].flatten(), expected.flatten(), dim=0)
            for name in ("exact", "ordinary")
        )
        assert own < 2 * other + 1e-4, key


@pytest.mark.gpu
def test_more_sequences_than_the_kernel_takes_agree_by_the_graphs(make_wide, of_lengths):
    """Forty at once, as no window of the persistent kernel has them; the last ones alone."""
    model = exact_model(make_wide(layers=2), persistent=False)
    prompts = of_lengths(*range(1, 600, 60))
    rollouts = EngineSampler(model, Sampling(limit_tokens=90)).sample(prompts, seeds=[0, 1, 2, 3])
    assert samplers(rollouts) == trainers(model, rollouts)
    (alone,) = EngineSampler(model, Sampling(limit_tokens=90)).sample(prompts[-1:], seeds=[3])
    assert (alone.token_ids, alone.logp) == (rollouts[-1].token_ids, rollouts[-1].logp)


@pytest.mark.gpu
@pytest.mark.parametrize("like", ["Qwen3 0.6B", "Llama 3.2 1B"])
def test_relatives_agree_by_the_graphs_whatever_the_persistent_kernel_can_run(make_wide, of_lengths, like):
    model = exact_model(make_wide(layers=2, like=like))
    assert model.exact is not None
    assert not model.exact.persistent
    sampler = EngineSampler(model, Sampling(limit_tokens=64))
    assert sampler.said == "engine: graphs, exact"
    rollouts = sampler.sample(of_lengths(1, 127, 700), seeds=[0, 1])
    assert samplers(rollouts) == trainers(model, rollouts)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["reverse_kl", "jsd", "topk_reverse_kl", "k1_policy_gradient"])
@pytest.mark.parametrize("minibatches", [1, 2])
def test_no_objective_leaves_a_gap(learner, make_wide, of_lengths, name, minibatches):
    """Of whole distributions too: what is said of the visited token comes from the sampler's sums."""
    rollouts = EngineSampler(learner, Sampling(limit_tokens=40, temperature=0.8)).sample(
        of_lengths(5, 130), seeds=[0, 1]
    )
    scored = [ScoredRollout(rollout=one, teacher_logp=one.logp) for one in rollouts]
    settings = OptimizerSettings(lr=1e-4, minibatches=minibatches, largest_importance=2.0)
    updater = Updater(
        learner, find(name)(), settings, teachers={None: make_wide(layers=1)}, temperature=0.8, chunk_tokens=64
    )
    stats = updater.update(scored, step=1)
    assert stats.gap.largest == 0
    assert stats.objective["importance"] == 1


@pytest.mark.gpu
@pytest.mark.parametrize("persistent", [True, False])
def test_a_product_that_sums_otherwise_is_refused_before_step_one(make_wide, persistent, monkeypatch):
    """The trainer's large tiles become the vendor's library, which adds up in an order of its own."""
    order = choice._order(persistent=persistent)

    def product(x_MK, weight_NK, bias_N=None, *, added_MN=None, wide=False, **where):
        if len(x_MK) <= 128:
            return order.product(x_MK, weight_NK, bias_N, added_MN=added_MN, wide=wide, **where)
        return other(x_MK, weight_NK, bias_N, added_MN=added_MN, wide=wide)

    def other(x_MK, weight_NK, bias_N=None, *, added_MN=None, wide=False):
        out_MN = torch.mm(x_MK, weight_NK.t(), out_dtype=torch.float32)
        out_MN = out_MN if bias_N is None else out_MN + bias_N
        out_MN = out_MN if wide else out_MN.bfloat16()
        return out_MN if added_MN is None else added_MN + out_MN

    trial = order.trial if persistent else partial(order.trial.func, **order.trial.keywords | {"product": product})
    monkeypatch.setattr(choice, "_order", lambda **_: replace(order, product=product, trial=trial))
    with pytest.raises(AskedWrongly, match="large tiles and for small ones don't sum alike"):
        exact_model(make_wide(layers=2), persistent=persistent)
