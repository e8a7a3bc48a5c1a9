"""What is said before step one: everything that is missing, at once, and what the run will see."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from opd.models.engine.persistent import fit
from opd.models.machine import memory_bytes
from opd.records.errors import AskedWrongly
from opd.records.places import recipe_path
from opd.records.rollouts import Prompt
from opd.records.settings import read
from opd.train.ahead.lacks import lacks
from opd.train.ahead.memory import GIB
from opd.train.ahead.notes import (
    evaluation_notes,
    notes,
    notes_of,
    packing_notes,
    prompt_notes,
    rehearsal_notes,
    repetition_notes,
    template_notes,
)
from opd.train.ahead.plan import forecast_of, make_plan
from opd.train.ahead.rehearsal import Rehearsal
from opd.train.ahead.survey import survey_of
from opd.train.corpus.duplicates import repetition
from opd.train.parts import build
from opd.train.recipe import Recipe
from opd.train.run import prepare
from opd.train.scoring import longest_prompt

REFERENCE = 1_777_088_000  # parameters of the reference student and teacher, head untied


def test_a_recipe_whose_parts_are_here_lacks_nothing(make_recipe) -> None:
    assert lacks(make_recipe()) == []


def test_all_that_is_missing_is_said_at_once(make_recipe, tmp_path: Path) -> None:
    recipe = make_recipe(
        f"student.model={tmp_path}/no-student",
        "student.parameters=1000000000000",
        f"teacher.model={tmp_path}",
        "teacher.parameters=1000000000000",
        f"data.path={tmp_path}/none.jsonl",
    )
    memory = f"{20e12 / GIB:.1f} GiB, cpu has {memory_bytes('cpu') / GIB:.1f} GiB"
    where_else = "name a model directory, or owner/name on the hub"
    assert lacks(recipe) == [
        f"student: model '{tmp_path}/no-student': no such directory; {where_else}",
        f"teacher: {tmp_path} has no config.json: it is not a Hugging Face model directory",
        f"memory: weights, optimizer state and gradients take {memory}",
        f"training data: data '{tmp_path}/none.jsonl': no such file",
    ]


def test_data_that_is_another_file_is_said_before_anything_is_loaded(make_recipe) -> None:
    """E59."""
    (fault,) = lacks(make_recipe("data.sha256=0123"))
    assert fault.startswith("training data: ")
    assert fault.endswith("the recipe asks for 0123")


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what is missing where there is no CUDA device")
def test_a_gpu_that_is_asked_for_and_not_there_is_said_with_the_memory_it_needs(make_recipe) -> None:
    student, teacher = (
        [f"{role}.model=./not-fetched-yet", f"{role}.parameters={REFERENCE}"] for role in ("student", "teacher")
    )
    recipe = make_recipe("machine.device=cuda", *student, *teacher, "teacher.dtype=bfloat16")
    assert lacks(recipe)[2:] == [
        "device: the recipe asks for a CUDA device with at least 30 GiB; this machine has none"
    ]


@pytest.mark.parametrize(
    ("prompts_per_step", "sets", "rows", "note"),
    [
        (
            2,
            ["budget.steps=2057"],
            15_285,
            "at most 2,057 steps × 2 prompts: 4,114 of 15,285 rows (26.9%) will be seen",
        ),
        (
            16,
            ["budget.steps=500"],
            2_000,
            "at most 500 steps × 16 prompts: 2,000 of 2,000 rows (100.0%) will be seen",
        ),
        (
            16,
            ["budget.steps=500", "budget.epochs=1"],
            2_000,
            "at most 125 steps × 16 prompts: 2,000 of 2,000 rows (100.0%) will be seen",
        ),
    ],
)
def test_coverage_is_said_before_step_one(
    make_recipe, prompts_per_step: int, sets: list[str], rows: int, note: str
) -> None:
    """E61: the whole diagnosis of a run that only ever saw a prefix, in one line."""
    sets = [f"rollouts.prompts_per_step={prompts_per_step}", *sets]
    assert notes(make_recipe(*sets), rows=rows)[0] == note
    in_order = note if "100.0%" in note else f"{note}, always the same first ones (data.shuffle = false)"
    assert notes(make_recipe(*sets, "data.shuffle=false"), rows=rows)[0] == in_order


def test_a_bfloat16_student_is_said_to_have_float32_masters(make_recipe) -> None:
    assert any("float32 master weights" in note for note in notes(make_recipe("student.dtype=bfloat16"), rows=7))


def test_a_clip_that_cannot_act_is_said_and_one_that_can_is_not(make_recipe) -> None:
    """Objectives, section 5: with one update a step the ratio is 1."""
    (note,) = [note for note in notes(make_recipe(), rows=7) if "clip" in note]
    assert (
        note == "objective.clip = 0.2 never acts: with one update a step (optimizer.minibatches = 1) the ratio is 1"
    )
    assert not [note for note in notes(make_recipe("optimizer.minibatches=2"), rows=7) if "clip" in note]
    assert not [note for note in notes(make_recipe("objective.name=k2"), rows=7) if "clip" in note]


def test_a_save_that_no_step_reaches_is_said(make_recipe) -> None:
    assert [note for note in notes(make_recipe("save.every=4"), rows=7) if "lies beyond the last step (3)" in note]
    assert not [note for note in notes(make_recipe("save.every=3"), rows=7) if "beyond" in note]


def test_a_task_reward_is_weighed_against_the_teacher_before_the_run(make_recipe) -> None:
    """E55. Of 4 rollouts one is right: mean -.5, deviation 1, so its advantage is 1.5; of 2, sqrt(1/2)."""
    four = make_recipe("reward.weight=2", "rollouts.per_prompt=4")
    (note,) = [note for note in notes(four, rows=7) if "task reward" in note]
    assert note.startswith("the task reward adds up to 3 to a token's advantage (reward.weight = 2), beside the")
    assert "at most 10" in note
    two = make_recipe("reward.weight=1", 'reward.normalise="group_mean"')
    assert any("adds up to 1 to" in note for note in notes(two, rows=7))  # +1 against a mean of 0


@pytest.mark.parametrize("sets", [["reward.weight=1", "rollouts.per_prompt=1"], ["reward.wrong=1.0"]])
def test_a_task_reward_that_does_nothing_is_said(make_recipe, sets: list[str]) -> None:
    assert any("the task reward does nothing" in note for note in notes(make_recipe(*sets), rows=7))


BOXED = {
    "math500": ("math500.jsonl", "{problem} Put it within \\boxed{}."),
    "tiny": ("opd:arith_tiny/x", "{problem}"),
}


def test_another_instruction_in_training_than_in_evaluation_is_said_with_both(make_recipe) -> None:
    """E38."""
    (note,) = evaluation_notes(make_recipe("data.prompt={problem} Say Answer: last."), BOXED)
    assert note == (
        "data.prompt does not ask for \\boxed{}, and math500 does: training says 'Say Answer: last.', "
        "math500 says 'Put it within \\\\boxed{}.'"
    )
    assert evaluation_notes(make_recipe("data.prompt={problem} Use \\boxed{}."), BOXED) == []
    embedded = make_recipe("data.path=opd:arith_tiny/train.jsonl")
    assert evaluation_notes(embedded, BOXED) == []  # evaluated by its own task, which asks for nothing


def prompts(*problems: str) -> list[Prompt]:
    return [
        Prompt(row=row, problem=problem, answer="", token_ids=tuple(map(ord, problem)))
        for row, problem in enumerate(problems)
    ]


def test_doubled_braces_in_the_rows_are_counted_and_nested_ones_are_not() -> None:
    """E38."""
    (note,) = prompt_notes(prompts("put it in \\boxed{{}}", "x^{a_{b}}", "2+2"))
    assert note.startswith("data: 1 of 3 problems hold doubled braces ({{)")


def test_problems_that_repeat_are_counted_and_the_cure_is_named_beyond_one_in_a_hundred() -> None:
    """E62."""
    different = [str(number) for number in range(200)]
    assert repetition_notes(repetition(different)) == []
    assert repetition_notes(None) == []
    (note,) = repetition_notes(repetition([*different, "7", "8"]))
    assert note == "data: 2 of 202 problems (1.0%) repeat an earlier one but for spelling"
    (note,) = repetition_notes(repetition([*different, "7", "8", "9"]))
    assert note.startswith("data: 3 of 203 problems")
    assert note.endswith("opd data dedupe keeps the first of each")


def test_a_plan_of_repeated_problems_cannot_work_unless_they_are_allowed(make_recipe, tmp_path: Path) -> None:
    """E62: with the models here and without, and the plan counts them either way."""
    data = tmp_path / "again.jsonl"
    row = json.dumps({"problem": "Compute 1+1.", "answer": "2"})
    data.write_text(f"{row}\n{row}\n")
    for sets in ([], ["student.model=./none"]):
        recipe = make_recipe(f"data.path={data}", *sets)
        plan = make_plan(recipe, out=tmp_path)
        assert (plan.rows, plan.different) == (2, 1)
        assert [fault for fault in plan.lacks if "row 1 asks what row 0 does" in fault]
        assert not [note for note in plan.notes if "repeat" in note]  # once is enough
        allowed = make_plan(make_recipe(f"data.path={data}", *sets, "data.repeats=allow"), out=tmp_path)
        assert not [fault for fault in allowed.lacks if "row 1" in fault]
        assert [note for note in allowed.notes if note.startswith("data: 1 of 2 problems (50.0%) repeat")]


class Tokenizer(NamedTuple):
    chat_template: str


def test_a_model_whose_padding_is_computed_is_named_with_the_reason(load) -> None:
    student = load()
    padded = replace(student, unpackable="NotImplementedError: attention with sliding_window")
    assert packing_notes(student, {None: student}) == []
    assert packing_notes(student, {None: padded}) == [
        "the teacher is computed over padded rectangles: NotImplementedError: attention with sliding_window"
    ]


def test_templates_that_differ_are_said_with_what_differs() -> None:
    """E35."""
    one = Tokenizer("{{ bos }}{% for m in messages %}<User>{{ m }}{% endfor %}<think>")
    assert template_notes(one, one) == []
    (note,) = template_notes(one, Tokenizer(one.chat_template.replace("<think>", "")))
    lines = [line.strip() for line in note.splitlines()[1:]]
    assert lines == ["-{% endfor %}", "+{% endfor %}<think>"]


def rehearsal(**changed: object) -> Rehearsal:
    values = {
        "start_seconds": 10.0,
        "step_seconds": {"sample": 6.0, "score": 1.0, "update": 3.0},
        "save_seconds": 5.0,
        "peak_bytes": 1,
        "rollout_tokens": 8,
    }
    return Rehearsal(**(values | changed))


def test_the_forecast_stops_where_the_budget_would(make_recipe) -> None:
    """The budget's own rule, step by step, with steps and saves that always take as long."""
    recipe = make_recipe("budget.steps=1000", "save.every=10", "budget.max_wall_seconds=600.0")
    elapsed, step = 10.0, 0
    while True:
        step += 1
        elapsed += 10.0
        if elapsed + 1.2 * (10.0 + 2 * 5.0) >= 600.0:
            break
        elapsed += 5.0 * (step % 10 == 0)
    said = forecast_of(recipe, rehearsal(), last_step=1000)
    assert abs(said.steps - step) <= 1
    assert said.seconds <= 600.0
    assert forecast_of(make_recipe(), rehearsal(), last_step=3).seconds == 10 + 3 * 10 + 5


def test_a_reserve_shorter_than_a_save_and_saves_that_never_come_are_said(make_recipe) -> None:
    recipe = make_recipe("budget.steps=1000", "save.every=100", "budget.max_wall_seconds=600.0")
    short, late, seldom = rehearsal_notes(recipe, rehearsal(), steps=50, rows=400)
    assert "after 50 steps: 25.0% of the rows" in short
    assert "a save takes 5.0 s" in late
    assert "take 1,000 s of max_wall_seconds = 600" in seldom
    (end,) = rehearsal_notes(make_recipe(), rehearsal(eos_teacher_logp=-14.0), steps=3, rows=7)
    assert "end of sequence -14.0 nats" in end  # E23
    enough = make_recipe("save.every=10", "budget.max_wall_seconds=600.0", "budget.reserve_seconds=6.0")
    assert rehearsal_notes(enough, rehearsal(), steps=3, rows=400) == []


def test_a_plan_counts_rows_tokens_and_disk(make_recipe, tmp_path: Path) -> None:
    recipe = make_recipe("budget.steps=30", "save.every=5", "save.keep=2", "save.keep_every=10")
    plan = make_plan(recipe, out=tmp_path / "not" / "there")
    assert (plan.steps, plan.rows, plan.rows_seen) == (30, 7, 7)
    assert plan.rollout_tokens == 30 * 2 * 2 * 8
    parameters = 2 * (32 * 32 * 2 + 32 * 16 * 2 + 32 + 16 * 2 + 3 * 32 * 64 + 2 * 32) + 320 * 32 + 32
    disk = {part.name: part.bytes for part in plan.disk.parts}
    assert disk["checkpoints, 6 at once"] == 6 * 4 * parameters  # two newest, one in the making, steps 10, 20, 30
    assert disk["trainer states, 2 at once"] == 2 * 12 * parameters
    told = make_plan(make_recipe("budget.steps=30", "save.alternatives=5"), out=tmp_path).disk.parts[-1].bytes
    assert told - disk["rollouts, at most"] == plan.rollout_tokens * 5 * 8
    assert plan.lacks == ()
    assert not (tmp_path / "not").exists()
    best = make_plan(make_recipe("budget.steps=30", "save.every=5", "save.keep_best=9"), out=tmp_path)
    assert best.disk.parts[0].name == "checkpoints, 7 at once"  # there are six in all, and one in the making


def test_a_disk_that_is_too_small_and_a_context_that_is_too_short_are_in_the_way(
    make_recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opd.train.ahead.plan.shutil.disk_usage", lambda _: SimpleNamespace(free=1))
    plan = make_plan(make_recipe("rollouts.limit_tokens=512"), out=tmp_path, rehearsed=True)
    assert [fault.partition(":")[0] for fault in plan.lacks] == ["student", "teacher", "disk"]
    assert plan.rehearsal is None


def test_a_plan_needs_no_models_and_no_data(make_recipe, tmp_path: Path) -> None:
    recipe = make_recipe("student.model=./none", "student.parameters=1000", "teacher.model=./none")
    plan = make_plan(recipe, out=tmp_path)
    assert plan.rows == 7  # counted without a tokenizer
    assert not plan.memory.complete
    assert {part.name: part.bytes for part in plan.memory.parts}["AdamW's two moments"] == 8_000
    nothing = make_plan(make_recipe(f"data.path={tmp_path}/none.jsonl"), out=tmp_path)
    assert (nothing.rows, nothing.steps, nothing.rollout_tokens) == (None, None, None)
    assert any("clip" in note for note in nothing.notes)


def test_a_rehearsed_plan_has_times_and_an_end(make_recipe, tmp_path: Path) -> None:
    plan = make_plan(make_recipe("budget.max_wall_seconds=600.0"), out=tmp_path, rehearsed=True)
    assert plan.rehearsal is not None
    assert plan.forecast is not None
    assert plan.forecast.steps == 3
    assert any("reserve" in note for note in plan.notes)
    json.dumps(plan.resolved(), allow_nan=False)


@pytest.mark.patient
@pytest.mark.parametrize("name", ["opd_math_1p5b", "smollm2_dapo"])
def test_the_recipes_on_the_reference_data_say_that_it_repeats_itself_and_are_not_refused_for_it(
    name: str, shared: Path, tmp_path: Path
) -> None:
    """E62: 233 of 15,285 in another spelling, which the reference trains on."""
    sets = [f"data.path={shared}/data/dapo_math_unique.jsonl"]
    plan = make_plan(read(Recipe, recipe_path(name), sets=sets), out=tmp_path)
    assert (plan.rows, plan.different) == (15_285, 15_052)
    assert not [fault for fault in plan.lacks if "training data" in fault]
    assert [note for note in plan.notes if note.startswith("data: 233 of 15,285 problems (1.5%) repeat")]


# --- what `opd train` would refuse ----------------------------------------------------------------------


def save_lfm2(folder: Path, tokens_of: Path) -> Path:
    """A model directory whose layers are convolutions and attention, with a tokenizer that fits the student's."""
    shutil.copytree(tokens_of, folder)
    config = AutoConfig.for_model(
        "lfm2",
        layer_types=["conv", "full_attention"],
        vocab_size=320,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        eos_token_id=json.loads((tokens_of / "config.json").read_text())["eos_token_id"],
    )
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


def test_a_student_that_can_not_be_sampled_from_is_refused_by_plan_and_run_alike(
    make_recipe, random_models: Path, tmp_path: Path
) -> None:
    folder = save_lfm2(tmp_path / "lfm2", random_models / "student")
    recipe = make_recipe(f"student.model={folder}")
    reason = "opd can't sample from lfm2: it has recurrent layers, whose state can't be shared"
    plan = make_plan(recipe, out=tmp_path / "run")
    assert plan.sampler is None
    assert [fault for fault in plan.lacks if reason in fault]
    with pytest.raises(AskedWrongly, match=reason):
        build(recipe)
    assert make_plan(make_recipe(f"teacher.model={folder}"), out=tmp_path / "run").lacks == ()


@pytest.mark.parametrize(
    ("sets", "sampler"),
    [
        ([], "engine"),
        (['machine.engine="plain"'], "plain"),
        (["lora.rank=2"], "plain: its q_proj is peft's Linear, not a plain matrix"),
    ],
)
def test_the_plan_says_which_sampler_is_taken(make_recipe, tmp_path: Path, sets: list[str], sampler: str) -> None:
    recipe = make_recipe(*sets)
    assert make_plan(recipe, out=tmp_path).sampler == sampler == build(recipe).sampled_by


def test_the_plan_says_how_many_vllms_the_ranks_are(make_recipe, tmp_path: Path) -> None:
    recipe = make_recipe("machine.engine=vllm", "machine.tensor_parallel=2", "rollouts.prompts_per_step=4")
    made = {ranks: make_plan(recipe, out=tmp_path, ranks=ranks) for ranks in (1, 3, 4)}
    assert made[4].sampler == "vllm: 2 of them, each on 2 GPUs"
    assert not [fault for fault in made[4].lacks if "tensor_parallel" in fault]
    for ranks, there in ((1, "one process"), (3, "3 processes")):
        (fault,) = (one for one in made[ranks].lacks if "tensor_parallel" in one)
        assert fault.startswith(f"machine.tensor_parallel = 2 with {there}: ")
    uncut = make_plan(recipe.changed(["machine.tensor_parallel=3"]), out=tmp_path, ranks=3)
    assert [fault for fault in uncut.lacks if "can't be shared evenly among 3 GPUs" in fault]


@pytest.mark.parametrize(
    ("sets", "fault"),
    [
        (['lora.targets=["query"]'], "student: lora: no linear layer is called query"),
        (['lora.targets=["lm_head"]'], "student: lora.targets names lm_head, which is the embedding too"),
        (["lora.rank=2", 'machine.engine="engine"'], "student: the engine can't run this model: its q_proj"),
        (["machine.drafts=history", "machine.engine=plain"], 'student: machine.drafts = "history" '),
        (["machine.drafts=history", "lora.rank=2"], 'student: machine.drafts = "history" '),
        (["machine.engine=persistent"], "{student}: the persistent kernel can't run this model here: it computes in"),
        (
            ["machine.engine=persistent", "student.dtype=bfloat16", "machine.device=cpu"],
            "{student}: the persistent kernel can't run this model here: there is no GPU",
        ),
        (
            ["machine.engine=graphs", "machine.device=cpu"],
            "{student}: machine.engine = 'graphs' can't be had here: CUDA graphs are a GPU's",
        ),
        (
            ["machine.exact=true", "student.dtype=bfloat16", "machine.device=cpu"],
            "{student}: machine.exact can't be had here: there is no GPU; set it to false",
        ),
        (
            ['reward.grader="nope:f"'],
            "reward: grader = 'nope:f': ModuleNotFoundError: No module named 'nope'; correct",
        ),
        (['reward.grader="json:nope"'], "reward: grader = 'json:nope': AttributeError"),
    ],
)
def test_what_a_run_refuses_is_in_the_way_of_its_plan(
    make_recipe, tmp_path: Path, sets: list[str], fault: str
) -> None:
    """And the run makes no folder."""
    recipe = make_recipe(*sets)
    fault = fault.replace("{student}", f"student: {recipe.student.model}")
    plan = make_plan(recipe, out=tmp_path / "run")
    assert [one for one in plan.lacks if one.startswith(fault)], plan.lacks
    with pytest.raises(AskedWrongly, match=re.escape(fault.removeprefix("student: "))):
        prepare(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_kernel_that_is_asked_for_has_to_hold_the_longest_prompt_and_its_response(
    make_recipe, tmp_path: Path, monkeypatch
) -> None:
    """16,352 tokens together, and not one more; the response alone would fit."""
    monkeypatch.setattr(fit, "misfit", lambda _: None)
    sets = ["machine.engine=persistent", "student.dtype=bfloat16", "machine.device=cpu"]
    longest = longest_prompt(survey_of(make_recipe(*sets)).prompts)
    assert longest > 1
    for tokens, refused in ((16_352, False), (16_353, True)):
        faults = survey_of(make_recipe(*sets, f"rollouts.limit_tokens={tokens - longest}")).faults
        said = [one for one in faults if "its sequences have at most 16,352 tokens, and 16,353 are asked for" in one]
        assert bool(said) is refused, faults


def test_ranks_that_can_not_be_one_vllm_are_said_beside_all_that_is_missing(make_recipe, tmp_path: Path) -> None:
    recipe = make_recipe("machine.engine=vllm", "machine.tensor_parallel=3", "data.sha256=0123")
    faults = lacks(recipe, ranks=2)
    assert [fault for fault in faults if fault.startswith("machine.tensor_parallel = 3 with 2 processes: ")]
    assert [fault for fault in faults if fault.startswith("training data: ")]
    with pytest.raises(AskedWrongly, match=r"(?s)asks for 0123.*machine.tensor_parallel = 3 with one process: "):
        prepare(recipe, tmp_path / "run")


def test_ranks_on_a_cpu_have_its_memory_among_them(
    make_recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = make_recipe("rollouts.prompts_per_step=4")
    alone, two = (make_plan(recipe, out=tmp_path, ranks=ranks) for ranks in (1, 2))
    assert (alone.memory.has_bytes, two.memory.has_bytes) == (memory_bytes("cpu"), memory_bytes("cpu") // 2)
    three_times = 3 * max(alone.memory.needed_bytes, two.memory.needed_bytes)
    monkeypatch.setattr("opd.train.ahead.plan.memory_bytes", lambda _: three_times)
    for ranks in (1, 2):
        assert make_plan(recipe, out=tmp_path, ranks=ranks).lacks == ()
    (fault,) = make_plan(recipe, out=tmp_path, ranks=4).lacks
    assert fault.startswith("memory: a rank takes about ")
    assert " GiB for each of 4 ranks; start fewer ranks, or lower machine.micro_batch_tokens" in fault


def test_a_teacher_with_a_longer_prompt_takes_more_to_score_and_to_keep(make_routed, tmp_path: Path) -> None:
    """Rows alone in their micro-batch, so that each of the prompt's tokens is one more of the forward pass."""
    asked = "Be brief. " * 9 + "{problem}"
    plans = {
        sets: make_plan(make_routed("machine.micro_batch_tokens=1", *sets), out=tmp_path)
        for sets in ((), (f"teachers.math.prompt={asked}",))
    }
    short, long = plans.values()
    seen = build(make_routed(*list(plans)[1])).prompts
    drawn = max(len(one.token_ids) for one in seen)
    scored = max(len(one.teacher_ids or ()) for one in seen)
    assert scored > 2 * drawn
    for plan, tokens in ((short, drawn + 8), (long, scored + 8)):
        sizes = {(part.phase, part.name): part.bytes for part in plan.memory.parts}
        assert sizes["score", "forward pass of a micro-batch"] == tokens * (3 * 64 + 6 * 32) * 4
        assert sizes["score", "logits of a chunk"] == tokens * 320 * 4 * 3
    updates = [[part for part in plan.memory.parts if part.phase == "update"] for plan in plans.values()]
    assert updates[0] == updates[1]
    assert short.prompt_tokens == long.prompt_tokens == drawn
    more = max(len(one.token_ids) + len(one.teacher_ids or ()) for one in seen) - drawn
    assert long.disk.needed_bytes - short.disk.needed_bytes == 3 * 3 * 2 * 4 * more


def test_a_compiler_that_is_not_there_is_lacking(make_recipe, tmp_path: Path, monkeypatch) -> None:
    recipe = make_recipe("machine.compile=true")
    assert lacks(recipe) == []
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    (fault,) = lacks(recipe)
    assert fault.startswith("machine.compile needs a compiler")


@pytest.mark.parametrize("content", ["{}", '{"model": {"type": "BPE", "vocab": {}, "merges": []}}', "[", ""])
def test_a_broken_tokenizer_is_one_line_of_the_plan(
    make_recipe, random_models: Path, tmp_path: Path, content: str
) -> None:
    for role in ("student", "teacher"):
        folder = tmp_path / role
        shutil.copytree(random_models / role, folder)
        (folder / "tokenizer.json").write_text(content)
        recipe = make_recipe(f"{role}.model={folder}")
        plan = make_plan(recipe, out=tmp_path / "run")
        assert plan.lacks
        assert all("\n" not in fault for fault in plan.lacks)
        with pytest.raises(AskedWrongly):
            build(recipe)


def test_rows_that_are_left_out_are_said(make_recipe, tmp_path: Path) -> None:
    """E73: one without a problem, and under a reward one that nothing could answer."""
    recipe = make_recipe("rollouts.per_prompt=2", "reward.weight=1.0")
    with Path(recipe.data.path).open("a") as file:
        file.write('{"problem": " ", "answer": "1"}\n{"problem": "Prove it.", "answer": ""}\n')
    plan = make_plan(recipe, out=tmp_path)
    said = "data: rows that are left out: 1 with a blank problem, 1 without an answer that a response could equal"
    assert plan.rows == 7
    assert said in plan.notes
    parts = build(recipe)
    assert parts.reward is not None
    parts.reward.close()
    assert said in notes_of(recipe, parts, evaluations={})


@pytest.mark.parametrize(
    ("sets", "note"),
    [
        (["optimizer.minibatches=100"], "optimizer.minibatches = 100 is more than the 4 rollouts of a step"),
        (["optimizer.minibatches=2", "objective.name=k2"], "k2 has no ratio: with optimizer.minibatches = 2"),
        (
            ["rollouts.top_p=0.9", "objective.name=reverse_kl"],
            "rollouts: top_p = 0.9, top_k = 0: tokens are not drawn",
        ),
        (["rollouts.top_k=5", "objective.name=jsd"], "rollouts: top_p = 1, top_k = 5: tokens are not drawn"),
    ],
)
def test_what_several_updates_or_a_cut_do_unseen_is_said(make_recipe, sets: list[str], note: str) -> None:
    assert [said for said in notes(make_recipe(*sets), rows=7) if said.startswith(note)]
    silent = [["optimizer.minibatches=4"], ["objective.name=k2"], ["optimizer.minibatches=2", "objective.name=jsd"]]
    for others in silent:
        said = notes(make_recipe(*others), rows=7)
        assert not [one for one in said if "minibatches" in one and "=" in one and "never acts" not in one]
        assert not [one for one in said if "tokens are not drawn" in one]
