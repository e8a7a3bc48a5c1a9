"""A whole run with vLLM as sampler and scorer, on the small one for the CPU, and recipes that ask too much of it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.models import vllm_double

from opd.cli.main import run as command
from opd.models import samplers
from opd.models.vllm import server
from opd.records.errors import AskedWrongly
from opd.train.ahead import lacks as missing
from opd.train.ahead.rehearsal import rehearse
from opd.train.parts import build
from opd.train.run import prepare, run

BOTH = ("machine.engine=vllm", "machine.scorer=vllm", "optimizer.lr=0.03")


@pytest.fixture(autouse=True)
def each_by_itself() -> Iterator[None]:
    """What a test leaves running is no neighbour of the next one's."""
    yield
    for one in server._running:
        one.closed = True
    server._running.clear()
    server._ended.clear()


@pytest.fixture
def started(monkeypatch) -> list[vllm_double.LLM]:
    """Every vLLM that was started, where one is found as if it were installed."""
    found: list[vllm_double.LLM] = []

    class Noted(vllm_double.LLM):
        def __init__(self, *given, **named) -> None:
            super().__init__(*given, **named)
            found.append(self)

    class Library:
        LLM = Noted
        SamplingParams = vllm_double.SamplingParams

    monkeypatch.setattr(server, "find_vllm", lambda: Library)
    for module in (samplers, missing):
        monkeypatch.setattr(module, "vllm_version", lambda: "0.25.1")
    return found


@pytest.mark.parametrize(("sleeps", "scorer"), [("false", "vllm"), ("true", "plain")])
def test_the_gap_stays_that_of_rounding_while_the_student_moves(
    make_recipe, tmp_path: Path, started, sleeps: str, scorer: str
) -> None:
    """E40, E41, E51: a stale copy or a stale cache would open the gap with the first update, at this rate."""
    recipe = make_recipe(*BOTH, "budget.steps=4", f"machine.vllm_sleeps={sleeps}", f"machine.scorer={scorer}")
    run(recipe, prepare(recipe, tmp_path / "run"), tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 4
    assert lines[-1]["kl"] != pytest.approx(lines[0]["kl"], abs=0.1)
    for line in lines:
        assert line["gap"]["largest"] < 1e-3
        assert line["objective"]["importance"] == pytest.approx(1, abs=1e-3)
        assert line["objective"]["truncated"] == 0
    summary = json.loads((tmp_path / "run" / "run.json").read_text())
    assert summary["machine"]["sampler"] == "vllm 0.25.1"
    assert summary["machine"]["largest_importance"] == "2.0"
    assert [one.asleep for one in started] == ([True] if sleeps == "true" else [False, False])


def test_scores_and_updates_are_those_without_it(make_recipe, tmp_path: Path, started) -> None:
    """The same rollouts, scored by either: the student's samples are the engine's."""
    lines = {}
    for scorer in ("plain", "vllm"):
        recipe = make_recipe(f"machine.scorer={scorer}")
        out = tmp_path / scorer
        run(recipe, prepare(recipe, out), out)
        lines[scorer] = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    for plain, served in zip(lines["plain"], lines["vllm"], strict=True):
        assert served["kl"] == pytest.approx(plain["kl"], abs=1e-3)
        assert served["gradient_norm"] == pytest.approx(plain["gradient_norm"], rel=1e-2)


def test_a_rehearsal_starts_one_for_itself_and_leaves_none(make_recipe, tmp_path: Path, started) -> None:
    rehearse(make_recipe(*BOTH), place=tmp_path)
    assert len(started) == 2
    assert all(one.closed for one in started)


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (("machine.engine=vllm", "objective.name=reverse_kl", "rollouts.top_p=0.9"), r"top_p = 0\.9"),
        (("machine.engine=vllm", "rollouts.temperature=3.0"), r"temperature = 3\.0: vLLM takes at most 2\.0"),
        (("machine.scorer=vllm", "rollouts.temperature=0.7"), r"temperature = 0\.7 with a teacher in vLLM"),
        (("machine.scorer=vllm", "objective.name=reverse_kl"), "reverse_kl, which compares whole distributions"),
        (("machine.scorer=vllm", "save.alternatives=3"), r"save\.alternatives = 3 with a teacher in vLLM"),
        ((*BOTH, "machine.vllm_sleeps=true"), "its sleep is of the whole process"),
        (("machine.tensor_parallel=2",), r"tensor_parallel = 2 without vLLM, which alone spans several GPUs"),
    ],
)
def test_what_it_can_not_give_is_refused_with_the_recipe(make_recipe, sets, said) -> None:
    """E43, E44."""
    with pytest.raises(AskedWrongly, match=said):
        make_recipe(*sets)


def test_several_gpus_need_several_processes(make_recipe, started) -> None:
    with pytest.raises(AskedWrongly, match=r"machine\.tensor_parallel = 2 with one process: .* torchrun"):
        build(make_recipe(*BOTH, "machine.tensor_parallel=2"))


def test_adapters_are_refused(make_recipe, started) -> None:
    with pytest.raises(AskedWrongly, match="vLLM can't run this model here: it has adapters"):
        build(make_recipe("machine.engine=vllm", "lora.rank=2"))


@pytest.mark.parametrize("key", ["engine", "scorer"])
def test_the_exit_code_of_asking_for_it_where_it_is_not_is_2(make_recipe, tmp_path: Path, capsys, key) -> None:
    make_recipe()  # writes the file
    path = str(tmp_path / "recipe.toml")
    code = command(["train", path, "--out", str(tmp_path / "run"), "--set", f"machine.{key}=vllm"])
    assert code == 2
    assert "vllm is not installed; pip install 'vllm>=0.25.1,<0.26'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("key", ["engine", "scorer"])
def test_without_it_a_run_is_told_before_a_model_is_loaded(make_recipe, key) -> None:
    said = missing.lacks(make_recipe(f"machine.{key}=vllm"))
    assert len(said) == 1
    assert said[0].startswith("machine: vllm is not installed; pip install 'vllm>=0.25.1,<0.26'")
