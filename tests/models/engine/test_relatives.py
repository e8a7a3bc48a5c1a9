"""The persistent kernel on the other shapes that it is made for, and on a small one; on a GPU."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from tests.models.engine.small import SMALL

from opd.models.engine.persistent.cut import CUTS
from opd.models.engine.sampler import EngineSampler
from opd.models.interfaces import Sampling
from opd.models.load import LanguageModel
from opd.records.rollouts import StopReason

OTHERS = [name for name in CUTS if name != "Qwen2 1.5B"]
FREE = Sampling(limit_tokens=40)

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", params=[*OTHERS, "Qwen3 small"])
def relative(request, make_wide) -> Iterator[LanguageModel]:
    """Three layers of each shape in turn."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(CUTS, "Qwen3 small", SMALL)
        yield make_wide(layers=3, like=request.param)


@pytest.fixture(scope="module")
def gaps(relative: LanguageModel, gaps_of) -> Callable[..., torch.Tensor]:
    """Those of that model's rollouts."""
    return gaps_of(relative)


def test_log_probabilities_are_as_close_to_float32_as_those_of_the_graphs(relative, gaps, of_lengths):
    """Lengths across every page's edge, and so long that pages are merged another way."""
    prompts = of_lengths(1, 127, 128, 129, 16, 1_023, 1_024, 8_180)
    ours = EngineSampler(relative, FREE, persistent=True)
    theirs = EngineSampler(relative, FREE, persistent=False)
    assert ours.said == "engine: persistent kernel to 8 sequences"
    own_T, other_T = gaps(ours.sample(prompts, seeds=[0])), gaps(theirs.sample(prompts, seeds=[0]))
    assert own_T.mean() < 1.2 * other_T.mean() + 1e-3
    assert own_T.max() < 2 * other_T.max() + 1e-2


def test_what_a_row_gets_depends_on_that_row_alone_to_the_last_bit(relative, same_bits, of_lengths):
    prompts = of_lengths(5, 127, 400, 129, 16, 1_000, 1_024, 600)
    whole = EngineSampler(relative, FREE, persistent=True).sample(prompts, seeds=[0])
    for window in (1, 32):
        sampler = EngineSampler(relative, FREE, persistent=True, window=window)
        assert same_bits(sampler.sample(prompts[::-1], seeds=[0])[::-1], whole)
        assert same_bits(sampler.sample([prompts[5], prompts[2]], seeds=[0]), [whole[5], whole[2]])


def test_rows_end_siblings_enter_and_pages_turn(relative, gaps, of_lengths):
    model = replace(relative, stop_ids=frozenset(range(0, relative.vocabulary, 30)))
    sampler = EngineSampler(model, Sampling(limit_tokens=60), largest_batch=8, persistent=True, window=8)
    rollouts = sampler.sample(of_lengths(200, 131, 64), seeds=range(8))
    assert {one.stop for one in rollouts} == {StopReason.EOS, StopReason.LENGTH}
    graphs = EngineSampler(model, Sampling(limit_tokens=60), largest_batch=8, persistent=False)
    other_T = gaps(graphs.sample(of_lengths(200, 131, 64), seeds=range(8)))
    assert gaps(rollouts).mean() < 1.2 * other_T.mean() + 1e-3


def test_a_cut_distribution_is_as_close_to_float32_as_that_of_the_graphs(relative, gaps, of_lengths):
    """By the log-probabilities before the cut."""
    cut, prompts = Sampling(limit_tokens=20, top_p=0.9), of_lengths(60, 130)
    raw = {
        persistent: [
            replace(one, logp=one.raw_logp)
            for one in EngineSampler(relative, cut, persistent=persistent).sample(prompts, seeds=range(4))
        ]
        for persistent in (True, False)
    }
    assert gaps(raw[True]).mean() < 1.2 * gaps(raw[False]).mean() + 1e-3


def test_a_thousand_launches_give_the_same_twice(relative, same_bits, of_lengths):
    sampler = EngineSampler(relative, Sampling(limit_tokens=1_000), persistent=True, window=1)
    prompts = of_lengths(5, 60, 100, 128, 200, 300, 17, 90)
    assert same_bits(sampler.sample(prompts, seeds=[0]), sampler.sample(prompts, seeds=[0]))
