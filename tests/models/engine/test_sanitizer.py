"""The persistent kernel under NVIDIA's compute-sanitizer, on a small shape; on a GPU."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from opd.models.engine.persistent import build
from opd.models.engine.persistent.cut import CUTS, Cut
from opd.models.engine.sampler import EngineSampler
from opd.models.interfaces import Sampling
from opd.models.load import LanguageModel
from opd.records.rollouts import Rollout

SMALL = Cut(hidden=512, inner=1_536, heads=8, key_heads=4, head=64, normed=True)
FLAGS = {"ordinary": build.FLAGS, "every lane": (*build.FLAGS, "-lineinfo", "-DOPD_EVERY_LANE=1")}

pytestmark = pytest.mark.gpu


@pytest.fixture
def small(make_wide) -> Iterator[LanguageModel]:
    """Two layers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(CUTS, "Qwen3 small", SMALL)
        yield make_wide(layers=2, like="Qwen3 small")


@pytest.fixture
def sampled(small, of_lengths, monkeypatch) -> Iterator[Callable[[str], list[Rollout]]]:
    """`sampled("ordinary")`: three steps a launch by a build, prompts within a page, at its edge and over several."""

    def sample(which: str) -> list[Rollout]:
        monkeypatch.setattr(build, "FLAGS", FLAGS[which])
        build.library.cache_clear()
        sampler = EngineSampler(small, Sampling(limit_tokens=7), persistent=True, window=3)
        return sampler.sample(of_lengths(1, 127, 128, 129, 16, 600, 1_023, 1_100), seeds=[0])

    yield sample
    build.library.cache_clear()


@pytest.mark.parametrize("which", FLAGS)
def test_a_build_draws_by_the_models_probabilities(small, sampled, gaps_of, which):
    assert gaps_of(small)(sampled(which)).mean() < 0.05


def test_where_every_lane_arrives_the_rollouts_are_the_same_to_the_last_bit(sampled, same_bits):
    assert same_bits(sampled("every lane"), sampled("ordinary"))


@pytest.mark.parametrize(
    ("tool", "which", "said"),
    [
        ("memcheck", "ordinary", "ERROR SUMMARY: 0 errors"),
        ("synccheck", "ordinary", "ERROR SUMMARY: 0 errors"),
        ("racecheck", "every lane", "0 hazards displayed"),  # it knows no arrival of a lane for its warp
    ],
)
def test_the_sanitizer_finds_nothing(tool, which, said):
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if sanitizer is None:
        pytest.skip("compute-sanitizer is not installed")
    launches = f"{__file__}::{test_a_build_draws_by_the_models_probabilities.__name__}[{which}]"
    run = subprocess.run(
        [
            *(sanitizer, "--tool", tool, "--kernel-name", "kernel_substring=decode_steps"),
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", launches),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    for each in ("1 passed", said):
        assert each in run.stdout, run.stdout[-4_000:]
