"""Several teachers: which rows they have, what they see, what is learned from them, and what is refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.models.served.doors import serving
from tests.train.ranks.runs import go, lines, tables

from opd.models.load import LanguageModel, load_model, load_tokenizer
from opd.models.plain import PlainScorer
from opd.records.errors import AskedWrongly
from opd.records.files import digest, tree
from opd.records.metrics import RunSummary, StepMetrics, TeacherMetrics
from opd.records.rollouts import ScoredRollout
from opd.records.settings import read, validated
from opd.train.ahead import rehearsal
from opd.train.ahead.memory import Found, Shape, load_of, memory_parts
from opd.train.ahead.notes import notes_of
from opd.train.ahead.plan import make_plan
from opd.train.alarms import warnings_of
from opd.train.objective import Divergence
from opd.train.parts import Parts, build
from opd.train.ranks.ranks import Ranks
from opd.train.recipe import Recipe
from opd.train.run import prepare, run
from opd.train.saved.resume import differences, find_start

WIDE = ("student.dtype=float64", "teachers.math.dtype=float64", "teachers.code.dtype=float64")
OWN_PROMPT = 'teachers.code.prompt="Reason. {problem} Box it."'
CODE_ROWS = {0, 3, 6}


def write_rows(tmp_path: Path, *rows: dict) -> str:
    path = tmp_path / "others.jsonl"
    path.write_text("".join(json.dumps({"problem": "1+1?", "answer": "2"} | row) + "\n" for row in rows))
    return f"data.path={path}"


# --- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (["teacher.model=x"], "teacher beside teachers (math, code): give it a name, as [teachers.NAME]"),
        (["machine.scorer=vllm"], "machine.scorer and machine.served are of one [teacher]"),
        (["teachers.code.dtpye=x"], "unknown key 'teachers.code.dtpye'; did you mean 'dtype'?"),
        (["teachers.code.prompt=Solve it."], "teachers.code.prompt = 'Solve it.'"),
        (["teachers.code.prompt='{problem} {{x}}'"], "doubled braces reach the model as they are"),
        (["teachers.code.scorer=served"], 'teachers.code.scorer = "served" needs the servers: teachers.code.served'),
        (
            ["teachers.math.scorer=vllm", "rollouts.temperature=0.7"],
            'set rollouts.temperature = 1, or teachers.math.scorer = "plain"',
        ),
        (["teachers.code.scorer=vllm", "objective={name='jsd'}"], 'teachers.code.scorer = "vllm" with objective jsd'),
        (
            ["teachers.code.scorer=vllm", "teachers.code.device=cpu"],
            'teachers.code.device = "cpu" with teachers.code',
        ),
        (
            ["teachers.code.device=in_turn", "objective={name='jsd'}"],
            'teachers.code.device = "in_turn" with objective',
        ),
        (
            ["teachers.code.scorer=vllm", "teachers.math.scorer=vllm", "machine.vllm_sleeps=true"],
            "machine.vllm_sleeps with vLLM 2 times in this process",
        ),
        (["teachers={'a.b'={model='x'}}"], "teachers.a.b"),
    ],
)
def test_what_several_teachers_can_not_have_is_refused_in_these_words(make_routed, sets, said: str) -> None:
    with pytest.raises(AskedWrongly) as refusal:
        make_routed(*sets)
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_one_teacher_takes_no_field_and_several_need_one(make_recipe, make_routed) -> None:
    with pytest.raises(AskedWrongly, match=r"data.teacher_field = 'of' with one \[teacher\]"):
        make_recipe("data.teacher_field=of")
    values = make_routed().resolved()
    del values["data"]["teacher_field"]
    with pytest.raises(AskedWrongly, match=r"teachers \(math, code\) without data.teacher_field"):
        validated(Recipe, values, source="recipe")
    del values["teachers"]["code"]
    recipe = validated(Recipe, values, source="recipe")  # one with a name has all rows
    assert {prompt.teacher for prompt in build(recipe).prompts} == {"math"}
    assert recipe.digest != make_recipe().digest


def test_a_recipe_with_one_teacher_has_no_word_of_several(make_recipe, make_routed) -> None:
    """So that it keeps the digest that it had."""
    resolved = make_recipe().resolved()
    assert "teachers" not in resolved
    assert "teacher_field" not in resolved["data"]
    routed = make_routed().resolved()
    assert "teacher" not in routed
    assert validated(Recipe, routed, source="recipe") == make_routed()


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({}, r"row 2 of .*: no field 'of' to name its teacher; it has \['answer', 'problem'\]\. Set data.teacher_f"),
        (
            {"of": ""},
            "field 'of' names no teacher: \"\"; there are: code, math. Write one of these names into the row",
        ),
        ({"of": None}, "field 'of' names no teacher: null; there are"),
        ({"of": True}, "field 'of' names no teacher: true; there are"),
        ({"of": ["math"]}, r'field \'of\' names no teacher: \["math"\]; there are'),
        ({"of": "physics"}, r"names teacher 'physics'; there are: code, math\. Add \[teachers.physics\], or leave"),
        ({"of": "Math"}, "names teacher 'Math'; there are: code, math"),
    ],
)
def test_a_row_without_a_known_teacher_is_refused_with_its_number_and_the_names(
    make_routed, tmp_path: Path, row: dict, said: str
) -> None:
    data = write_rows(tmp_path, {"of": "math"}, {"of": "code"}, row)
    with pytest.raises(AskedWrongly, match=said):
        build(make_routed(data, "data.repeats=allow"))
    (lacking,) = make_plan(make_routed(data, "data.repeats=allow"), out=tmp_path).lacks
    assert "row 2 of" in lacking


def test_a_teacher_of_no_row_is_refused(make_routed, tmp_path: Path) -> None:
    """E53: what is configured is what teaches."""
    with pytest.raises(
        AskedWrongly, match=r"no row that has \{'of': 'math'\} .* names teacher 'code'.*\[teachers.code\]"
    ):
        build(make_routed("data.where.of=math"))
    only_too_long = write_rows(tmp_path, {"of": "math"}, {"of": "code", "problem": "9+" * 99})
    with pytest.raises(AskedWrongly, match=r"\(1 longer than .*\) that names teacher 'code'"):
        build(make_routed(only_too_long, "data.limit_prompt_tokens=30", "data.too_long=drop"))


def test_a_name_stands_in_a_value_inside_others_and_may_be_a_number(make_routed, tmp_path: Path) -> None:
    data = write_rows(tmp_path, {"extra": {"level": 1}}, {"extra": {"level": 2.0}})
    values = make_routed(data, "data.teacher_field=extra.level", "data.repeats=allow").resolved()
    values["teachers"] = dict(zip("12", values["teachers"].values(), strict=True))
    prompts = build(validated(Recipe, values, source="recipe")).prompts
    assert [prompt.teacher for prompt in prompts] == ["1", "2"]


def test_each_teacher_is_held_against_the_student(make_routed, untied_model: Path, tmp_path: Path) -> None:
    """E23, E33: a second way to end, in one of them."""
    shutil.copytree(untied_model, tmp_path / "chatty")
    path = tmp_path / "chatty" / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"eos_token_id": [1, 5]}))
    recipe = make_routed(f"teachers.code.model={tmp_path}/chatty")
    with pytest.raises(AskedWrongly, match=r"^teacher code: student and teacher end with different tokens"):
        build(recipe)
    assert any("teacher code: student and teacher end" in one for one in make_plan(recipe, out=tmp_path).lacks)


# --- what a teacher sees ---------------------------------------------------------------------------------------


def test_a_teacher_sees_its_own_turn_and_the_student_does_not(make_routed) -> None:
    recipe = make_routed(OWN_PROMPT)
    parts = build(recipe)
    speaks = parts.student.tokenizer
    plain = build(make_routed()).prompts
    assert [one.token_ids for one in parts.prompts] == [one.token_ids for one in plain]
    assert {one.row for one in parts.prompts if one.teacher == "code"} == CODE_ROWS
    for prompt in parts.prompts:
        if prompt.row in CODE_ROWS:
            seen = speaks.decode(prompt.teacher_ids)
            assert seen == f"<bos><User>Reason. {prompt.problem} Box it.<Assistant><think>\n"
        else:
            assert prompt.teacher_ids is None
    assert all(one.teacher_ids is None for one in plain)


@pytest.fixture
def other_template(untied_model: Path, tmp_path: Path) -> Path:
    """The teacher of code with a chat template of its own."""
    folder = tmp_path / "templated"
    shutil.copytree(untied_model, folder)
    tokenizer = load_tokenizer(folder)
    tokenizer.chat_template = tokenizer.chat_template.replace("<User>", "<User>Sum: ")
    tokenizer.save_pretrained(folder)
    return folder


def test_a_teachers_own_chat_template_is_used_where_that_is_asked_for(make_routed, other_template: Path) -> None:
    (use, own) = (f"teachers.code.model={other_template}", "teachers.code.chat_template=own")
    recipe = make_routed(use, own)
    parts = build(recipe)
    seen = next(one for one in parts.prompts if one.row == 3).teacher_ids
    assert parts.student.tokenizer.decode(seen) == "<bos><User>Sum: Compute 3+3.<Assistant><think>\n"
    assert all(one.teacher_ids is None for one in build(make_routed(use)).prompts)
    notes = notes_of(recipe, parts, evaluations={})
    assert "rows of each teacher: code 3, math 4" in notes
    assert any("the teacher code scores prompts in its own" in note for note in notes)


def test_a_teacher_that_begins_outside_the_reasoning_is_refused(make_routed, other_template: Path) -> None:
    """E36: the student's first token would be of the reasoning, the teacher's of the answer."""
    tokenizer = load_tokenizer(other_template)
    tokenizer.chat_template = tokenizer.chat_template.replace("<think>\\n", "").replace("<think>", "")
    tokenizer.save_pretrained(other_template)
    with pytest.raises(AskedWrongly, match=r"teacher code: the student's prompt ends inside the reasoning"):
        build(make_routed(f"teachers.code.model={other_template}", "teachers.code.chat_template=own"))


def test_a_prompt_that_is_too_long_for_its_teacher_is_refused(make_routed, tmp_path: Path) -> None:
    """512 positions suffice for what the student sees."""
    recipe = make_routed(f'teachers.code.prompt="{"Reason. " * 90}{{problem}}"')
    with pytest.raises(
        AskedWrongly,
        match=r"^teacher code: row 0: .* exceed the context of 512 tokens .*; shorten teachers\.code\.prompt or",
    ):
        build(recipe)
    assert any(one.startswith("teacher code: ") and "context" in one for one in make_plan(recipe, out=tmp_path).lacks)


# --- what is learned -------------------------------------------------------------------------------------------


def logp_by_hand(model: LanguageModel, prompt: tuple[int, ...], response: tuple[int, ...]) -> torch.Tensor:
    """logp_TV of transformers' own logits."""
    logits_TV = model.module(torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1, : model.vocabulary]
    return logits_TV.log_softmax(-1)


def gradient_by_hand(recipe: Recipe, scored: list[ScoredRollout]) -> list[torch.Tensor]:
    """The mean over all tokens of the step, each rollout alone by transformers' logits and by its own teacher."""
    student = load_model(Path(recipe.student.model), dtype="float64", device="cpu")
    teachers = {
        name: load_model(Path(one.model), dtype="float64", device="cpu") for name, one in recipe.teachers.items()
    }
    total = torch.zeros((), dtype=torch.float64)
    for one in scored:
        prompt, response = one.rollout.prompt, one.rollout.token_ids
        teacher = teachers["code" if prompt.row in CODE_ROWS else "math"]
        text = prompt.problem if prompt.row not in CODE_ROWS else f"Reason. {prompt.problem} Box it."
        rendered = f"<bos><User>{text}<Assistant><think>\n"
        seen = tuple(student.tokenizer(rendered, add_special_tokens=False)["input_ids"])
        ours, theirs = (
            logp_by_hand(model, ids, response) for model, ids in ((student, prompt.token_ids), (teacher, seen))
        )
        if isinstance(recipe.objective, Divergence):
            total = total + recipe.objective(ours, theirs.detach()).sum()
        else:
            ours, theirs = (one[range(len(response)), list(response)] for one in (ours, theirs))
            total = total + ((ours - theirs).detach().clamp(-10, 10) * ours).sum()
    tokens = sum(len(one.rollout.token_ids) for one in scored)
    return list(torch.autograd.grad(total / tokens, list(student.module.parameters())))


@pytest.mark.parametrize("objective", ["k1_policy_gradient", "reverse_kl", "topk_forward_kl"])
def test_a_step_of_several_teachers_has_the_gradient_of_the_sum_over_each_ones_rows(
    make_routed, optimizer_steps, objective: str
) -> None:
    """E4, E20: divided by the tokens of all, whatever the micro-batches; padded rows have no share (E33)."""
    recipe = make_routed(
        *WIDE,
        OWN_PROMPT,
        f"objective={{name='{objective}'}}",
        "optimizer.largest_gradient_norm=1e9",
        "machine.micro_batch_tokens=60",
        "machine.head_chunk_tokens=5",
    )
    parts = build(recipe)
    scored = parts.scorer.score(parts.sampler.sample(parts.prompts[:5], seeds=[1, 2]))
    expected = gradient_by_hand(recipe, scored)
    with optimizer_steps() as steps:
        stats = parts.updater.update(scored, step=1)
    for found, right in zip(steps[0].gradients, expected, strict=True):
        assert torch.allclose(found, right, atol=1e-10 * max(1.0, float(right.abs().max())))
    assert sum(one.tokens for one in stats.teachers.values()) == sum(len(one.rollout.token_ids) for one in scored)


def test_each_teacher_has_its_own_numbers_and_they_add_up_to_those_of_all(make_routed, tmp_path: Path) -> None:
    """The teacher of code is the student itself, so that nothing of its KL is another's."""
    recipe = make_routed("teachers.math.dtype=float32", f"teachers.code.model={make_routed().student.model}")
    go(recipe.changed(["optimizer.lr=1e-6"]), tmp_path / "run")
    for line in lines(tmp_path / "run"):
        metrics = validated(StepMetrics, line | {"seconds": {}, "peak_bytes": 1}, source="line")
        own = metrics.teachers
        assert own is not None
        tokens = sum(one.tokens for one in own.values())
        assert tokens == metrics.trained_tokens
        for name in ("kl", "clamped"):
            whole = sum(getattr(one, name) * one.tokens for one in own.values()) / tokens
            assert getattr(metrics, name) == pytest.approx(whole, rel=1e-9)
        assert sum(one.rollouts for one in own.values()) == metrics.rollouts
        assert sum(one.cut_short * one.rollouts for one in own.values()) == metrics.cut_short * metrics.rollouts
        if "code" in own:
            assert own["code"].kl == pytest.approx(0, abs=1e-3)
            assert own["code"].first_token_distance < 1e-3
        if "math" in own:
            assert own["math"].kl > 0.1


def test_a_run_keeps_whose_each_rollout_was_and_what_that_teacher_saw(
    make_routed, tmp_path: Path, untied_model: Path
) -> None:
    recipe = make_routed(OWN_PROMPT)
    summary = go(recipe, tmp_path / "run")
    code = PlainScorer(load_model(untied_model, dtype="float32", device="cpu"))
    kept = [one for table in tables(tmp_path / "run").values() for one in table]
    assert {one.rollout.prompt.row in CODE_ROWS for one in kept} == {True, False}
    for one in kept:
        assert (one.rollout.prompt.teacher == "code") == (one.rollout.prompt.row in CODE_ROWS)
        if one.rollout.prompt.teacher == "code":
            (again,) = code.score([one.rollout.seen_by_teacher])
            assert one.teacher_logp == pytest.approx(again.teacher_logp, abs=1e-4)
    assert summary.teacher is None
    assert summary.teachers == {name: digest(tree(Path(one.model))) for name, one in recipe.teachers.items()}
    assert read(RunSummary, tmp_path / "run" / "run.json") == summary


def test_served_and_in_turn_and_here_make_the_same_run(make_routed, random_models: Path, tmp_path: Path) -> None:
    plain = make_routed(OWN_PROMPT)
    go(plain, tmp_path / "plain")
    visiting = plain.changed(["teachers.code.device=in_turn", "teachers.math.device=cpu"])
    go(visiting, tmp_path / "visiting")
    assert lines(tmp_path / "visiting") == lines(tmp_path / "plain")
    with serving() as serve:
        server = serve(load_model(random_models / "teacher", dtype="float32", device="cpu"))
        there = ("teachers.math.scorer=served", f"teachers.math.served.urls=['{server.url}']")
        summary = go(plain.changed([*there]), tmp_path / "served")
        with pytest.raises(AskedWrongly, match=r"^teachers.code.served: not every server can score"):
            build(plain.changed([one.replace("math", "code") for one in there]))
    assert [one.teacher for one in summary.teacher_servers] == ["math"]
    for one, other in zip(lines(tmp_path / "plain"), lines(tmp_path / "served"), strict=True):
        assert other["kl"] == pytest.approx(one["kl"], rel=1e-4, abs=1e-5)
        assert other["teachers"].keys() == one["teachers"].keys()


# --- before and after a run ------------------------------------------------------------------------------------


def test_a_run_goes_on_only_with_the_teachers_that_it_began_with(
    make_routed, untied_model: Path, tmp_path: Path
) -> None:
    shutil.copytree(untied_model, tmp_path / "code")
    recipe = make_routed(f"teachers.code.model={tmp_path}/code")
    out = tmp_path / "run"
    go(recipe, out)
    longer = recipe.changed(["budget.steps=4"])
    (tmp_path / "code" / "vocab.json").write_text("{}")
    with pytest.raises(AskedWrongly, match=r"the teacher code .*code has changed: vocab.json is new\. A run goes on"):
        prepare(longer, out, start=find_start(longer, out))
    (tmp_path / "code" / "vocab.json").unlink()
    elsewhere = longer.changed(["teachers.code.device=in_turn", "teachers.code.served.urls=['http://127.0.0.1:1']"])
    start = find_start(elsewhere, out)
    assert run(elsewhere, prepare(elsewhere, out, start=start), out, start=start).steps == 4


def test_what_a_teacher_is_may_not_change_and_where_it_scores_may(make_routed) -> None:
    recipe = make_routed()
    elsewhere = [
        "teachers.code.scorer=served",
        "teachers.code.served.urls=['http://127.0.0.1:1']",
        "teachers.math.device=cpu",
    ]
    served = recipe.changed(elsewhere)
    assert differences(recipe, served) == []
    assert differences(served, served.changed(["teachers.code.scorer=plain"])) == []  # its servers are asked no more
    for other in ("teachers.code.dtype=bfloat16", "teachers.math.chat_template=own", "data.teacher_field=x"):
        (found,) = differences(recipe, recipe.changed([other]))
        assert found.startswith(other.partition("=")[0])


def test_the_rehearsal_meets_every_teacher_alone_and_then_all_together(
    make_routed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = make_routed("rollouts.prompts_per_step=2")
    asked: list[set[str | None]] = []

    class Noting:
        def __init__(self, scorer) -> None:
            self.scorer = scorer

        def score(self, rollouts):
            asked.append({one.prompt.teacher for one in rollouts})
            return self.scorer.score(rollouts)

    def noted(recipe: Recipe, *, ranks: Ranks) -> Parts:
        parts = build(recipe, ranks=ranks)
        return replace(parts, scorer=Noting(parts.scorer))

    monkeypatch.setattr(rehearsal, "build", noted)
    found = rehearsal.rehearse(recipe, place=tmp_path)
    assert asked == [{"math"}, {"code"}, {"math", "code"}]
    assert found.steps == 3
    assert found.eos_teachers_logp.keys() == {"math", "code"}
    assert str(found).startswith("rehearsal: 3 steps of 8 tokens a rollout, the last in ")


def test_a_teacher_that_ends_or_begins_otherwise_is_named(make_line) -> None:
    """E23, E36: the mean over all hides the one of several that does."""
    fine = TeacherMetrics(
        rollouts=32,
        tokens=99,
        kl=0.1,
        clamped=0.0,
        cut_short=0.0,
        first_token_kl=0.0,
        first_token_distance=0.1,
        eos_teacher_logp=-0.1,
    )
    ends = fine.model_copy(update={"eos_teacher_logp": -14.0})
    begins = fine.model_copy(update={"first_token_distance": 3.0})
    quiet = make_line(1, teachers={"math": fine, "code": fine}, eos_teacher_logp=-0.1, rollouts=64)
    assert warnings_of(quiet, []) == ()
    (said,) = warnings_of(make_line(2, teachers={"math": fine, "code": ends}, eos_teacher_logp=-7.0), [quiet])
    assert said.startswith("the teacher code gives the student's end of sequence -14.0 nats")
    odd = make_line(3, teachers={"math": fine, "code": begins}, first_token_distance=1.0)
    assert warnings_of(odd, []) == ()  # of 32 rollouts
    (said,) = warnings_of(odd.model_copy(update={"step": 4}), [odd, make_line(3, teachers={"math": fine})])
    assert said.startswith("student and teacher code are 3.0 nats apart at the first token (median of 64 rollouts)")


def test_the_plan_counts_teachers_that_stay_and_the_largest_that_comes_in_turn(make_routed) -> None:
    shape = Shape(layers=2, hidden=32, inner=64, heads=4, kv_heads=2, head_size=8, rows=320, context_tokens=512)
    sizes = {"math": 1_000_000, "code": 3_000_000}
    known = {name: Found(folder=None, fault=None, parameters=size, shape=shape) for name, size in sizes.items()}

    def teachers(*sets: str, device: str = "cuda") -> dict[str, tuple[int, str]]:
        recipe = make_routed("teachers.code.dtype=bfloat16", *sets)
        parts = memory_parts(
            recipe, load_of(recipe, prompt_tokens=9), device=device, student=known["math"], teachers=known
        )
        return {part.name: (part.bytes, part.phase) for part in parts if part.name.startswith("teacher ")}

    turns = [f"teachers.{name}.device=in_turn" for name in sizes]
    math, code = ("teacher math's weights", 4_000_000), ("teacher code's weights", 6_000_000)
    assert teachers() == {math[0]: (math[1], "always"), code[0]: (code[1], "always")}
    assert teachers(turns[1]) == {math[0]: (math[1], "always"), code[0]: (code[1], "score")}
    assert teachers(*turns) == {code[0]: (code[1], "score")}
    assert teachers(*turns, device="cpu") == teachers()
    assert teachers("teachers.code.device=cpu") == {math[0]: (math[1], "always")}
    served = ("teachers.math.scorer=served", "teachers.math.served.urls=['http://127.0.0.1:1']")
    assert teachers(*served) == {code[0]: (code[1], "always")}
