"""The trial of an exact model, on models whose sums are written out here.

Shapes: N rows, K columns and O outputs of a product.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch

from opd.models.engine.persistent.program import LaunchFailed
from opd.models.exact.trial import by_products, by_sampling
from opd.models.interfaces import Sampling
from opd.models.load import LanguageModel
from opd.models.logprobs import token_logp
from opd.models.plain import PlainSampler
from opd.models.sequences import packed
from opd.records.rollouts import Prompt, Rollout


def exactly(
    x_NK: torch.Tensor, weight_OK: torch.Tensor, bias_O: torch.Tensor | None = None, *, wide: bool = False
) -> torch.Tensor:
    """Row by row: no company changes a bit."""
    bias = 0 if bias_O is None else bias_O
    return torch.stack([(x_K * weight_OK).sum(-1) + bias for x_K in x_NK]).detach()


def gated(gate_NI: torch.Tensor, up_NI: torch.Tensor) -> torch.Tensor:
    """Anything of both."""
    return gate_NI * up_NI


def gate_of_steps(h_NH: torch.Tensor, weight_2IH: torch.Tensor) -> torch.Tensor:
    return gated(*exactly(h_NH, weight_2IH).chunk(2, dim=-1))


@pytest.fixture
def few_rows(monkeypatch) -> None:
    """As the trial's, and few enough for sums that are written out."""
    monkeypatch.setattr("opd.models.exact.trial.ROWS", (6, 3, 2, 1))


@pytest.mark.usefixtures("few_rows")
def test_products_that_are_the_same_in_any_company_pass(either64):
    """Tied and untied, with norms and with biases of queries and keys."""
    assert by_products(either64, product=exactly, gate=gated, gate_of_steps=gate_of_steps) is None


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize("rows", [3, 2, 1])
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("queries, keys and values", lambda c: (2 * c.hidden_size, c.hidden_size)),
        ("the output projection", lambda c: (c.hidden_size, c.hidden_size)),
        ("down", lambda c: (c.hidden_size, c.intermediate_size)),
        ("the head", lambda c: (312, c.hidden_size)),
    ],
)
def test_a_product_that_sums_otherwise_for_so_many_rows_is_named(student64, name, shape, rows):
    """Off by a part in 10¹², for one matrix and one number of rows."""

    def uneven(x_NK, weight_OK, bias_O=None, *, wide=False):
        out_NO = exactly(x_NK, weight_OK, bias_O, wide=wide)
        off = len(x_NK) == rows and tuple(weight_OK.shape) == shape(student64.module.config)
        return out_NO * (1 + 1e-12) if off else out_NO

    fault = by_products(student64, product=uneven, gate=gated, gate_of_steps=gate_of_steps)
    assert fault == (
        f"this chip's instructions for large tiles and for small ones don't sum alike: {name}, {rows} rows of 6"
    )


@pytest.mark.usefixtures("few_rows")
def test_a_gate_of_the_samplers_own_that_differs_is_named(student64):
    def other(h_NH, weight_2IH):
        return gate_of_steps(h_NH, weight_2IH) * (1 + 1e-12 * (len(h_NH) == 2))

    fault = by_products(student64, product=exactly, gate=gated, gate_of_steps=other)
    assert str(fault).endswith("gate and up, 2 rows of 6")


class Agreeing:
    """A sampler whose log-probabilities are the trainer's of all that it has drawn; `changed` has the last word."""

    def __init__(self, model: LanguageModel, sampling: Sampling, changed: Callable[[Rollout], Rollout]) -> None:
        self._model, self._sampling, self._changed = model, sampling, changed

    def follow(self, version: int) -> None:
        """There is one version."""

    @torch.no_grad()
    def sample(self, prompts: Sequence[Prompt], *, seeds: Sequence[int]) -> list[Rollout]:
        assert len({len(one.token_ids) for one in prompts}) == 2
        drawn = PlainSampler(self._model, self._sampling).sample(prompts, seeds=seeds)
        logp_N = token_logp(self._model, packed(drawn, device=self._model.device))
        parts = logp_N.split([len(one.token_ids) for one in drawn])
        return [
            self._changed(replace(one, logp=tuple(part.tolist()))) for one, part in zip(drawn, parts, strict=True)
        ]


def test_a_sampler_that_is_the_trainers_to_the_last_bit_passes_and_one_bit_is_found(student64):
    model = replace(student64, stop_ids=frozenset())

    def one_bit(rollout: Rollout) -> Rollout:
        if rollout.prompt.row == 0:
            return rollout
        return replace(rollout, logp=(*rollout.logp[:-1], math.nextafter(rollout.logp[-1], 0.0)))

    assert by_sampling(model, lambda *given: Agreeing(*given, lambda one: one)) is None
    fault = str(by_sampling(model, lambda *given: Agreeing(*given, one_bit)))
    assert "large tiles and for small ones don't sum alike" in fault
    assert fault.endswith("nats apart in 1 of 32 tokens")


def test_a_kernel_that_can_not_be_started_is_a_reason_too(student64):
    def refused(rollout: Rollout) -> Rollout:
        raise LaunchFailed("too many blocks in cooperative launch")

    fault = by_sampling(student64, lambda *given: Agreeing(*given, refused))
    assert fault == "the persistent kernel can't be started: too many blocks in cooperative launch"
