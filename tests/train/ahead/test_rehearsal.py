"""Two steps before the run: as long as they can get, with all that a step allocates, and nothing left behind."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.train.ranks.processes import together

from opd.models.engine.sampler import EngineSampler
from opd.records.errors import AnswerIsNo
from opd.records.files import tree
from opd.records.rollouts import Prompt, ScoredRollout, StopReason
from opd.train.ahead.rehearsal import Rehearsal, is_due, longest_prompts, rehearse
from opd.train.ranks.joining import joined
from opd.train.recipe import Recipe
from opd.train.run import prepare, run
from opd.train.update.tally import UpdateStats
from opd.train.update.updater import Updater


def prompts(*lengths: int) -> list[Prompt]:
    return [
        Prompt(row=row, problem="", answer="", token_ids=(1,) * length, epoch=0) for row, length in enumerate(lengths)
    ]


def test_two_steps_at_the_limit_are_measured_and_nothing_stays(
    make_recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, optimizer_steps
) -> None:
    """E47, E48: the longest case is scored, and AdamW has its moments when the second update begins."""
    seen = []
    real = Updater.update

    def update(self, scored, *, step, places):
        seen.extend(one.rollout for one in scored)
        return real(self, scored, step=step, places=places)

    monkeypatch.setattr(Updater, "update", update)
    place = tmp_path / "disk"
    place.mkdir()
    with optimizer_steps() as steps:
        measured = rehearse(make_recipe("rollouts.limit_tokens=40"), place=place)
    assert len(steps) == 2
    assert {len(rollout.token_ids) for rollout in seen} == {40}
    assert {rollout.stop for rollout in seen} == {StopReason.LENGTH}
    assert len(seen) == 2 * 2 * 2
    assert list(measured.step_seconds) == ["sample", "score", "update"]
    assert measured.seconds == pytest.approx(sum(measured.step_seconds.values()))
    assert measured.rollout_tokens == 40
    assert measured.save_seconds > 0
    assert list(place.iterdir()) == []


def test_a_rollout_goes_on_where_the_model_would_have_stopped(make_recipe, tmp_path: Path) -> None:
    """The embedded student ends its answers after some twenty tokens, and in a rehearsal it does not."""
    sets = [f"{role}.model=opd:arith_tiny/{role}" for role in ("student", "teacher")]
    recipe = make_recipe(*sets, "data.path=opd:arith_tiny/train.jsonl", "rollouts.limit_tokens=64")
    assert rehearse(recipe, place=tmp_path).rollout_tokens == 64


def test_a_reward_is_graded_too_and_leaves_no_process(make_recipe, tmp_path: Path) -> None:
    assert list(rehearse(make_recipe("reward.weight=1"), place=tmp_path).step_seconds) == [
        "sample",
        "score",
        "grade",
        "update",
    ]


def test_the_longest_prompts_are_taken_and_come_again_in_another_epoch() -> None:
    taken = longest_prompts(prompts(2, 9, 5), 2, epoch=4)
    assert [(one.row, one.epoch) for one in taken] == [(1, 4), (2, 4)]
    again = longest_prompts(prompts(2, 9), 5, epoch=0)
    assert [(one.row, one.epoch) for one in again] == [(1, 0), (0, 0), (1, 1), (0, 1), (1, 2)]


def test_memory_that_runs_out_is_said_with_the_step_and_the_phase(
    make_recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E48: it shows in the second step, and the message says where and what to lower."""
    real = EngineSampler.sample
    calls = []

    def sample(self, prompts, *, seeds):
        calls.append(len(prompts))
        if len(calls) == 2:
            raise torch.OutOfMemoryError("no more")
        return real(self, prompts, seeds=seeds)

    monkeypatch.setattr(EngineSampler, "sample", sample)
    with pytest.raises(
        AnswerIsNo, match=r"step 2 of the rehearsal, phase sample; by the plan .* lower rollouts\.largest_batch = 256"
    ):
        rehearse(make_recipe(), place=tmp_path)
    assert [path for path in tmp_path.iterdir() if path.name.startswith(".rehearsal")] == []


def content(out: Path) -> dict[str, object]:
    """All that a run left, but for what a clock and the machine's memory say."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    kept = [{key: value for key, value in line.items() if key not in ("seconds", "peak_bytes")} for line in lines]
    files = {name: digest for name, digest in tree(out).items() if name.endswith((".safetensors", ".parquet"))}
    return {"metrics": kept, "files": files}


@pytest.mark.parametrize("sets", [(), ("lora.rank=2",), ("reward.weight=1", "student.dtype=bfloat16")])
def test_a_run_after_a_rehearsal_is_the_run_without_one_bit_for_bit(make_recipe, tmp_path: Path, sets) -> None:
    """Weights, optimizer, order of rows, noise, and the random numbers of the process; the disk has nothing of it."""
    recipe = make_recipe(*sets, "budget.steps=3", "data.shuffle=true", "save.every=1", "save.keep=3")
    seen = {}
    for name in ("rehearsed", "at once"):
        measured: list[Rehearsal] = []
        out = tmp_path / name
        torch.manual_seed(7)
        random.seed(7)
        parts = prepare(recipe, out, rehearsed=measured.append if name == "rehearsed" else None)
        assert [one.rollout_tokens for one in measured] == ([8] if name == "rehearsed" else [])
        numbers = (torch.get_rng_state().tolist(), random.getstate())
        assert {path.name for path in tmp_path.iterdir() if path.name.startswith(".rehearsal")} == set()
        run(recipe, parts, out)
        seen[name] = (numbers, content(out))
    assert seen["rehearsed"] == seen["at once"]
    assert len(seen["at once"][1]["files"]) > 5


@pytest.mark.parametrize(
    ("device", "asked", "resumes", "due"),
    [
        ("cuda", None, False, True),
        ("cuda", None, True, False),
        ("cuda", False, False, False),
        ("cpu", None, False, False),
        ("cpu", True, False, True),
        ("cpu", True, True, True),
    ],
)
def test_a_new_run_on_a_gpu_begins_with_one_and_others_when_asked(
    make_recipe, device: str, asked: bool | None, resumes: bool, due: bool
) -> None:
    recipe = make_recipe(f"machine.device={device}")
    assert is_due(recipe, asked=asked, resumes=resumes) is due


def rehearsed(recipe: Recipe, place: Path) -> tuple[Rehearsal, int]:
    with joined(device="cpu") as ranks:
        seen: list[int] = []
        real = Updater.update

        def update(self: Updater, scored: list[ScoredRollout], **named: Any) -> UpdateStats:
            seen.append(len(scored))
            return real(self, scored, **named)

        Updater.update = update  # type: ignore[method-assign]  # of this process, which ends here
        return rehearse(recipe, place=place, ranks=ranks), sum(seen)


@pytest.mark.patient
@pytest.mark.parametrize("shard", ["none", "full"])
def test_ranks_rehearse_together_each_its_share_and_nothing_stays(make_recipe, tmp_path: Path, shard: str) -> None:
    """Five prompts by two: three and two, twice; and all tell what the slowest and the fullest took."""
    place = tmp_path / "disk"
    place.mkdir()
    recipe = make_recipe("rollouts.prompts_per_step=5", "rollouts.limit_tokens=12", f"machine.shard={shard}")
    (first, by_first), (other, by_other) = together(2, rehearsed, recipe, place)
    assert first == other
    assert (by_first, by_other) == (2 * 3 * 2, 2 * 2 * 2)
    assert list(first.step_seconds) == ["sample", "score", "update"]
    assert (first.rollout_tokens, first.steps) == (12, 2)
    assert first.save_seconds > 0
    assert list(place.iterdir()) == []


@pytest.mark.gpu
@pytest.mark.parametrize("objective", ["k1_policy_gradient", "reverse_kl"])
def test_the_planned_memory_is_near_the_peak_of_the_rehearsal_on_the_gpu(
    make_recipe, tmp_path: Path, objective: str
) -> None:
    """Random models of 100 million parameters with 50,000 tokens in their vocabulary, 8 rollouts of 512 tokens."""
    from opd.train.ahead.memory import CONTEXT_BYTES
    from opd.train.ahead.plan import make_plan

    models = _large_models(tmp_path)
    recipe = make_recipe(
        *(f"{role}.model={models}" for role in ("student", "teacher")),
        *(f"{role}.dtype=bfloat16" for role in ("student", "teacher")),
        "machine.device=cuda",
        "machine.micro_batch_tokens=4096",
        "rollouts.per_prompt=4",
        "rollouts.limit_tokens=256",
        f"objective.name={objective}",
    )
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    plan = make_plan(recipe, out=tmp_path, rehearsed=True)
    assert plan.rehearsal is not None, plan.lacks
    planned = plan.memory.needed_bytes - 1.03 * CONTEXT_BYTES["cuda"]
    assert 0.9 < planned / plan.rehearsal.peak_bytes < 1.3


def _large_models(folder: Path) -> Path:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from opd.tasks.arith_tiny.tokenizer import make_tokenizer

    config = Qwen2Config(
        vocab_size=50_000,
        hidden_size=768,
        intermediate_size=2_304,
        num_hidden_layers=12,
        num_attention_heads=12,
        num_key_value_heads=2,
        max_position_embeddings=2_048,
        tie_word_embeddings=True,
    )
    place = folder / "large"
    Qwen2ForCausalLM(config).save_pretrained(place)
    make_tokenizer().save_pretrained(place)
    return place
