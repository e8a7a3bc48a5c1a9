"""vLLM's own server on a GPU, proven and scored by as any other; skipped where it is not installed."""

import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import httpx2
import pytest
from tests.models.served.conftest import SEQUENCE_TOKENS, rollouts_of

from opd.models.load import load_model
from opd.models.plain import PlainScorer
from opd.models.served.scorer import served_scorer
from opd.models.served.settings import ServedSettings
from opd.records.errors import AskedWrongly

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed"),
]
PORT = 18_731
START_SECONDS = 300.0


@pytest.fixture(scope="module")
def folder(served_folder) -> Path:
    """Without padded rows: the server would give them a share."""
    return served_folder(rows=312)


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """Of a server that is ready."""
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder)]
    command += ["--served-model-name", "teacher", "--host", "127.0.0.1", "--port", str(PORT), "--dtype", "bfloat16"]
    command += ["--max-model-len", "256", "--max-logprobs", "5", "--gpu-memory-utilization", "0.2", "--enforce-eager"]
    with subprocess.Popen(command) as program:
        try:
            deadline = time.monotonic() + START_SECONDS
            while not _ready(f"http://127.0.0.1:{PORT}/health"):
                assert program.poll() is None, "the server has ended"
                assert time.monotonic() < deadline, "the server is not ready"
                time.sleep(1)
            yield f"http://127.0.0.1:{PORT}"
        finally:
            program.terminate()


def _ready(url: str) -> bool:
    try:
        return httpx2.get(url, trust_env=False).status_code == 200
    except httpx2.RequestError:
        return False


def made(url: str, folder: Path, **changed):
    asked = {"dtype": "bfloat16", "sequence_tokens": SEQUENCE_TOKENS, "alternatives": 0} | changed
    return served_scorer(ServedSettings(urls=(url,)), folder, **asked)


def test_it_is_the_teacher_and_scores_as_the_teacher_does(url: str, folder: Path) -> None:
    scorer = made(url, folder, alternatives=3)
    print(scorer.records)  # noqa: T201  # the figures, with -s
    rollouts = rollouts_of(1, 7, 70, 20, 33, 2)
    plain = PlainScorer(load_model(folder, dtype="float32", device="cpu"), alternatives=3).score(rollouts)
    bound = 0.01 + 4 * scorer.records[0].agreement.largest_rounding
    for found, expected in zip(scorer.score(rollouts), plain, strict=True):
        assert found.teacher_logp == pytest.approx(expected.teacher_logp, abs=bound)
        assert found.alternatives.count == 3


def test_more_candidates_and_longer_sequences_than_it_gives_are_refused_at_the_start(url: str, folder: Path) -> None:
    with pytest.raises(AskedWrongly, match="--max-logprobs 6"):
        made(url, folder, alternatives=6)
    with pytest.raises(AskedWrongly, match="--max-model-len 257"):
        made(url, folder, sequence_tokens=256)


def test_in_bfloat16_it_is_not_a_teacher_in_float32(url: str, folder: Path) -> None:
    with pytest.raises(AskedWrongly, match="another dtype than float32"):
        made(url, folder, dtype="float32")
