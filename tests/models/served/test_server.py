"""The server itself: what it answers, what it refuses, and as a program of its own."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner
from tests.models.served.conftest import rollouts_of

from opd.models.plain import PlainScorer
from opd.models.served import probe, server
from opd.records.files import read_json


@pytest.fixture
def post(serve, teacher) -> Iterator[Callable[..., httpx2.Response]]:
    """`post(prompt=[1, 2])`: the answer to a request with these fields changed."""
    one = serve(teacher, limit_tokens=50)
    with httpx2.Client(base_url=one.url, trust_env=False) as client:

        def send(**changed: Any) -> httpx2.Response:
            request = {"model": "teacher", "prompt": [1, 2, 3], "prompt_logprobs": 0} | changed
            return client.post("/v1/completions", json=request)

        yield send


def test_an_answer_has_an_entry_a_token_and_null_for_the_first(post, teacher) -> None:
    (rollout,) = rollouts_of(6)
    ids = [*rollout.prompt.token_ids, *rollout.token_ids]
    (choice,) = post(prompt=ids).json()["choices"]
    first, *entries = choice["prompt_logprobs"]
    assert first is None
    assert [list(one) for one in entries] == [[str(token)] for token in ids[1:]]
    (expected,) = PlainScorer(teacher).score([rollout])
    assert [one[str(token)]["logprob"] for token, one in zip(ids[1:], entries, strict=True)] == pytest.approx(
        expected.teacher_logp, abs=1e-5
    )
    assert post(prompt=[5]).json()["choices"][0]["prompt_logprobs"] == [None]


@pytest.mark.parametrize(
    ("changed", "status", "said"),
    [
        ({"model": "other"}, 404, "no model 'other'; there is 'teacher'"),
        ({"prompt": []}, 400, "prompt"),
        ({"prompt": "text"}, 400, "prompt"),
        ({"prompt": [1, 312]}, 400, "id 312 is beyond the vocabulary of 312"),
        ({"prompt": [1, -1]}, 400, "prompt"),
        ({"prompt": [1] * 50}, 400, "50 tokens and 1 more exceed the limit of 50"),
        ({"prompt_logprobs": 21}, 400, "more than the 20"),
        ({"prompt_logprobs": None}, 400, "prompt_logprobs"),
        ({"max_tokens": 2}, 400, "max_tokens"),
        ({"temperature": 0.5}, 400, "temperature"),
        ({"best_of": 2}, 400, "best_of"),
    ],
)
def test_what_it_can_not_answer_is_refused_with_the_reason(post, changed, status: int, said: str) -> None:
    answer = post(**changed)
    assert answer.status_code == status
    assert said in answer.json()["error"]["message"]


def test_without_a_token_to_draw_a_sequence_may_be_one_longer(post) -> None:
    assert post(prompt=[1] * 50, max_tokens=0).status_code == 200


@pytest.mark.patient
def test_as_a_program_it_serves_until_it_is_killed(make_scorer, serve, teacher, random_models) -> None:
    """SIGKILL in the midst of a step: the other server scores what is left."""
    command = [sys.executable, "-m", "opd.models.served.server", str(random_models / "teacher"), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"NO_COLOR": "1"}) as program:
        try:
            port = next(
                int(found.group(1)) for line in program.stderr if (found := re.search(r"127\.0\.0\.1:(\d+)", line))
            )
            stays = serve(teacher)
            there = type("There", (), {"url": f"http://127.0.0.1:{port}"})
            scorer = make_scorer(there, stays, in_flight=2)
            seen = len(stays.door.requests)
            stays.door.pause_seconds = 0.05
            stays.door.asked = lambda: (
                program.send_signal(signal.SIGKILL) if len(stays.door.requests) == seen + 3 else None
            )
            rollouts = rollouts_of(*[30] * 60)
            scored = scorer.score(rollouts)
        finally:
            program.kill()
    for found, expected in zip(scored, PlainScorer(teacher).score(rollouts), strict=True):
        assert found.teacher_logp == pytest.approx(expected.teacher_logp, abs=1e-5)
    killed, _ = scorer.records
    assert killed.version.startswith("opd ")
    assert killed.scored == 0  # nothing that it answered could be proven
    assert killed.failures > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no/such/model", "--port", "0"], "no such directory"),
        (["opd:arith_tiny/teacher", "--port", "0", "--key-variable", "NO_SUCH_KEY"], "NO_SUCH_KEY is not set"),
        (["opd:arith_tiny/teacher"], "--port"),
    ],
)
def test_as_a_program_it_says_what_it_lacks(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(server.main, arguments)
    assert result.exit_code == 2
    assert said in result.output


def test_a_probe_is_recorded_by_a_command(random_models, reference, tmp_path) -> None:
    file = tmp_path / "probe.json"
    arguments = [str(random_models / "teacher"), "--dtype", "float32", "--out", str(file)]
    assert CliRunner().invoke(probe.main, arguments).exit_code == 0
    assert read_json(file) == reference.resolved()
    refused = CliRunner().invoke(probe.main, ["no/such/model", "--out", str(file)])
    assert refused.exit_code == 2
    assert "no such directory" in refused.output
