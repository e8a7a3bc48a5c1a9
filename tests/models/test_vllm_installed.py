"""Which vLLM is taken, and what is said where there is none, another one, or no GPU."""

from pathlib import Path

import pytest
import torch
from tests.models import vllm_double

from opd.models.interfaces import Sampling
from opd.models.load import load_model
from opd.models.samplers import choose_sampler
from opd.models.vllm import server
from opd.models.vllm.installed import find_vllm, vllm_version
from opd.models.vllm.sampler import VllmSampler
from opd.records.errors import AskedWrongly


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`installed("0.25.1")`: to whoever asks for the version, that one is installed."""

    def install(version: str) -> None:
        folder = tmp_path / f"vllm-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: vllm\nVersion: {version}\n")
        monkeypatch.syspath_prepend(tmp_path)

    return install


@pytest.mark.parametrize("version", ["0.25.1", "0.25.2", "0.25.3.dev1+g1", "0.25.1+cu130"])
def test_the_versions_that_are_known_are_taken(installed, version) -> None:
    installed(version)
    assert vllm_version() == version


@pytest.mark.parametrize("version", ["0.24.9", "0.25.0", "0.26.0", "1.25.1"])
def test_another_version_is_refused_with_the_range(installed, version) -> None:
    installed(version)
    with pytest.raises(AskedWrongly, match=rf"vllm {version} is installed, and opd knows vllm>=0\.25\.1,<0\.26;"):
        vllm_version()


def test_without_one_it_is_said_what_to_install() -> None:
    try:
        vllm_version()
    except AskedWrongly as error:
        assert str(error).startswith("vllm is not installed; pip install 'vllm>=0.25.1,<0.26'")  # noqa: PT017
    else:
        pytest.skip("vLLM is installed here")


def test_without_a_gpu_it_is_refused(installed, monkeypatch) -> None:
    installed("0.25.1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(AskedWrongly, match=r"vllm 0\.25\.1 needs a CUDA device here, and torch sees none"):
        find_vllm()


def test_the_choice_says_which_it_is_and_that_its_numbers_differ(installed, random_models, monkeypatch) -> None:
    installed("0.25.1")
    monkeypatch.setattr(server, "find_vllm", lambda: vllm_double)
    model = load_model(random_models / "student", dtype="float32", device="cpu")
    chosen = choose_sampler(model, Sampling(limit_tokens=4), engine="vllm", largest_batch=3)
    assert (type(chosen.sampler), chosen.said, chosen.differs) == (VllmSampler, "vllm 0.25.1", True)
    assert chosen.sampler._server.size.sequence_tokens == model.context_tokens
    chosen = choose_sampler(model, Sampling(limit_tokens=4), engine="vllm", largest_batch=3, prompt_tokens=9)
    assert (chosen.sampler._server.size.rows, chosen.sampler._server.size.sequence_tokens) == (3, 13)
