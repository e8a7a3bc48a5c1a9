"""The persistent kernel under NVIDIA's compute-sanitizer, on a small shape; on a GPU."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.models.engine.small import SMALL

from opd.models.engine.persistent import build
from opd.models.engine.persistent.build import find_compiler, library
from opd.models.engine.persistent.cut import CUTS
from opd.models.engine.sampler import EngineSampler
from opd.models.interfaces import Sampling
from opd.models.load import LanguageModel
from opd.records.rollouts import Rollout

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
        library.cache_clear()
        sampler = EngineSampler(small, Sampling(limit_tokens=7), persistent=True, window=3)
        return sampler.sample(of_lengths(1, 127, 128, 129, 16, 600, 1_023, 1_100), seeds=[0])

    yield sample
    library.cache_clear()


@pytest.mark.parametrize("which", FLAGS)
def test_a_build_draws_by_the_models_probabilities(small, sampled, gaps_of, which):
    assert gaps_of(small)(sampled(which)).mean() < 0.05


def test_where_every_lane_arrives_the_rollouts_are_the_same_to_the_last_bit(sampled, same_bits):
    assert same_bits(sampled("every lane"), sampled("ordinary"))


@pytest.fixture
def sanitizer() -> str:
    found = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if found is None:
        pytest.skip("compute-sanitizer is not installed")
    return found


@pytest.mark.parametrize(
    ("tool", "which", "said"),
    [
        ("memcheck", "ordinary", "ERROR SUMMARY: 0 errors"),
        ("synccheck", "ordinary", "ERROR SUMMARY: 0 errors"),
        ("racecheck", "every lane", "0 hazards displayed"),  # it knows no arrival of a lane for its warp
    ],
)
def test_the_sanitizer_finds_nothing(sanitizer, tool, which, said):
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


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small programs that are right, compiled."""
    made, compiler = tmp_path_factory.mktemp("control") / "control", find_compiler()
    if compiler is None:
        pytest.skip("nvcc is not to be found")
    source = Path(__file__).with_name("control.cu")
    subprocess.run([compiler, "-arch=sm_90a", "-o", made, source], check=True)
    return made


@pytest.mark.parametrize(
    ("kind", "clean"), [("named", True), ("lanes", True), ("warp", False), ("bulk-lanes", True), ("bulk-warp", False)]
)
def test_racecheck_follows_an_arrival_for_the_lane_alone_that_arrives(sanitizer, control, kind, clean):
    """Why the kernel has a build for it: of programs that are right, those with one arrival a warp are reported."""
    run = subprocess.run(
        [sanitizer, "--tool", "racecheck", control, kind], capture_output=True, text=True, check=False
    )
    assert "no error" in run.stdout
    assert ("0 hazards displayed" in run.stdout) == clean, run.stdout[-2_000:]
