"""Recipes: what is read, what is refused and in which words, and what a run is built from."""

import json
import tomllib
from pathlib import Path

import pytest
import torch

from opd.records.errors import AskedWrongly
from opd.records.places import shipped_recipes
from opd.records.settings import read
from opd.train import parts as made
from opd.train.objective import find, names
from opd.train.objectives.k2 import K2
from opd.train.parts import build
from opd.train.recipe import Recipe

ROOT = Path(__file__).parents[2]
THERE_ARE = f"there are: {', '.join(names())}"


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (["optimiser.lr=1e-6"], "unknown key 'optimiser'; did you mean 'optimizer'?"),
        (["rollouts.prompt_per_step=2"], "unknown key 'rollouts.prompt_per_step'; did you mean 'prompts_per_step'?"),
        (
            ["optimizer.speed=2"],
            "unknown key 'optimizer.speed'; known here: betas, epsilon, largest_gradient_norm, largest_importance,",
        ),
        (
            ["teacher_model.model=x"],
            "unknown key 'teacher_model'; did you mean 'teacher'?",
        ),  # E53: not popped silently
        (["objective.name=k3"], f"objective: no objective 'k3'; {THERE_ARE}"),
        (["objective=k2"], f"objective needs a name; {THERE_ARE}"),
        (["objective.name=2"], f"objective needs a name; {THERE_ARE}"),
        (["objective.clp=0.1"], "k1_policy_gradient: unknown key 'clp'; did you mean 'clip'?"),
        (["objective.name=k2", "objective.clip=0.1"], "k2: unknown key 'clip'; known here: largest_k1"),
        (["objective.clip=0"], "k1_policy_gradient: clip = 0: input should be greater than 0"),
        (["data.prompt=Solve it."], "prompt 'Solve it.': {problem} must stand in it exactly once"),
        (["data.prompt={problem} {problem}"], "{problem} must stand in it exactly once"),
        (
            [r"data.prompt='{problem} Put it into \boxed{{}}.'"],
            "doubled braces reach the model as they are; write single ones",
        ),
        (["data.prompt={{problem}}"], "doubled braces reach the model as they are"),
        (
            ["budget.max_wall_seconds=60", "budget.reserve_seconds=60"],
            "budget: reserve_seconds = 60.0 leaves nothing of max_wall_seconds = 60.0",
        ),
        (
            ["save.keep_best=2", "save.best_by=reward"],
            'save.best_by = "reward", and the recipe has no reward; add one, or choose kl or loss',
        ),
        (
            ["save.alternatives=5", "save.rollouts=false"],
            "save: alternatives = 5 are kept with the rollouts, and rollouts = false keeps none",
        ),
        (["save.best_by=accuracy"], "save.best_by = 'accuracy': input should be 'kl', 'loss' or 'reward'"),
        (["optimizer.lr=0"], "optimizer.lr = 0: input should be greater than 0"),
        (["optimizer.lr=nan"], "optimizer.lr = nan: input should be a finite number"),
        (["optimizer.betas=[0.9, 1.0]"], "optimizer.betas.1 = 1.0: input should be less than 1"),
        (["rollouts.per_prompt=2.5"], "rollouts.per_prompt = 2.5: input should be a valid integer"),
        (["rollouts.per_prompt='4'"], "rollouts.per_prompt = '4': input should be a valid integer"),
        (["student.dtype=float16"], "student.dtype = 'float16': input should be 'float32', 'bfloat16' or 'float64'"),
        (["save.every=0", "seed=-1"], "save.every = 0: input should be greater than 0; seed = -1: input should be"),
        (["student=tiny"], "student = 'tiny': input should be an object"),
        (["student.model.size=3"], "student.model is a value, not a section: it has no 'size'"),
        (["optimizer.lr"], "--set 'optimizer.lr': write it as section.key=value"),
    ],
)
def test_what_cant_be_a_recipe_is_refused_in_these_words(make_recipe, sets: list[str], message: str) -> None:
    """E38 among others: a template with doubled braces."""
    with pytest.raises(AskedWrongly) as refusal:
        make_recipe(*sets)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert refusal.value.exit_code == 2


@pytest.mark.parametrize("objective", [name for name in names() if find(name).needs_full_support])
@pytest.mark.parametrize(("key", "value"), [("top_p", 0.95), ("top_k", 20)])
def test_rollouts_from_a_part_of_the_softmax_are_refused(make_recipe, objective: str, key: str, value: float) -> None:
    """E43: k1 of such samples estimates no KL of the policy that is trained."""
    with pytest.raises(AskedWrongly) as refusal:
        make_recipe(f"objective.name={objective}", f"rollouts.{key}={value}")
    assert f"{key} = {value}" in str(refusal.value)
    assert f"with objective {objective}" in str(refusal.value)
    assert "set top_p = 1 and top_k = 0" in str(refusal.value)


@pytest.mark.parametrize("section", ["student", "teacher", "data", "rollouts", "objective", "optimizer", "budget"])
def test_a_section_that_is_missing_is_named(recipe_text: str, tmp_path: Path, section: str) -> None:
    values = tomllib.loads(recipe_text)
    del values[section]
    path = tmp_path / "short.json"
    path.write_text(json.dumps(values))
    with pytest.raises(AskedWrongly, match=f"'{section}' is required"):
        read(Recipe, path)


def test_values_that_are_set_are_in_the_recipe_and_nothing_else_moves(make_recipe) -> None:
    plain = make_recipe()
    changed = make_recipe("optimizer.lr=2e-6", "objective.name=k2", "objective.largest_k1=5", "data.where.part=train")
    assert changed.objective == K2(largest_k1=5)
    assert changed.data.where == {"part": "train"}
    expected = plain.resolved()
    expected["optimizer"]["lr"] = 2e-6
    expected["objective"] = {"name": "k2", "largest_k1": 5.0}
    expected["data"]["where"] = {"part": "train"}
    assert changed.resolved() == expected


def test_the_resolved_recipe_reads_back_as_the_same_one(make_recipe, tmp_path: Path) -> None:
    recipe = make_recipe("objective.name=k2", "objective.largest_k1=3", "budget.max_wall_seconds=99.5")
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps(recipe.resolved()))
    again = read(Recipe, path)
    assert again == recipe
    assert again.digest == recipe.digest


def test_the_digest_is_of_what_a_recipe_says_and_not_of_how_it_says_it(make_recipe) -> None:
    plain = make_recipe()
    assert make_recipe("optimizer.warmup_steps=0", "objective.clip=0.2", "seed=0").digest == plain.digest
    assert make_recipe("seed=1").digest != plain.digest
    assert make_recipe("objective.clip=0.3").digest != plain.digest


def test_digests_are_the_same_in_every_version(tmp_path: Path, golden) -> None:
    """A key that is added, dropped or defaulted anew moves them: then runs of two versions are not of one recipe."""
    path = tmp_path / "recipe.toml"
    path.write_text(
        """
        student.model = "s"
        teacher.model = "t"
        data.path = "d"
        rollouts = { prompts_per_step = 2, per_prompt = 4, limit_tokens = 8 }
        objective.name = "k1_policy_gradient"
        optimizer.lr = 1e-6
        budget.steps = 3
        """
    )
    golden(
        "recipe_digests",
        {
            "k1_policy_gradient": read(Recipe, path).digest,
            "k2": read(Recipe, path, sets=["objective.name=k2"]).digest,
        },
    )


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*.toml")), ids=lambda path: path.stem)
def test_a_shipped_recipe_is_one(path: Path) -> None:
    recipe = read(Recipe, path)
    assert path.stem in shipped_recipes()
    assert Recipe.model_validate_json(json.dumps(recipe.resolved())) == recipe


def test_without_shuffling_there_is_no_order_seed(make_recipe) -> None:
    assert make_recipe("seed=7").order_seed == 7
    assert make_recipe("seed=7", "data.shuffle=false").order_seed is None


# --- what is built --------------------------------------------------------------------------------------------


def test_only_the_student_is_trained(make_recipe, make_scored, optimizer_steps, load) -> None:
    """E49, E48: two steps; the optimizer owns as many numbers as the student has, the teacher has no gradient."""
    parts = build(make_recipe())
    teacher = load("teacher", dtype="float32")
    with optimizer_steps() as steps:
        for step in (1, 2):
            rollouts = parts.sampler.sample(parts.prompts[:2], seeds=[step])
            stats = parts.updater.update(parts.scorer.score(rollouts), step=step)
            assert stats.gradient_norm > 0
    owned = {id(parameter) for parameter in steps[0].parameters}
    assert owned == {id(parameter) for parameter in parts.student.module.parameters()}
    assert sum(parameter.numel() for parameter in steps[0].parameters) == parts.student.parameters
    built = parts.scorer._model.module
    assert not any(parameter.requires_grad for parameter in built.parameters())
    assert all(parameter.grad is None for parameter in built.parameters())
    for now, was in zip(built.parameters(), teacher.module.parameters(), strict=True):
        assert torch.equal(now, was)


def test_one_temperature_holds_for_sampling_scoring_and_updating(make_recipe, random_models: Path) -> None:
    """E43, E44: with itself as teacher, what the three say of a token agrees at any temperature."""
    parts = build(make_recipe("rollouts.temperature=0.7", f"teacher.model={random_models}/student"))
    rollouts = parts.sampler.sample(parts.prompts[:2], seeds=[1, 2])
    scored = parts.scorer.score(rollouts)
    for one in scored:
        assert one.teacher_logp == pytest.approx(one.rollout.logp, abs=1e-4)
    stats = parts.updater.update(scored, step=1)
    assert stats.kl == pytest.approx(0, abs=1e-5)
    assert stats.gap.largest < 1e-4


def test_parts_are_what_the_recipe_says(make_recipe) -> None:
    parts = build(make_recipe("student.dtype=bfloat16", "teacher.dtype=float64", "seed=5"))
    assert parts.student.module.dtype == torch.bfloat16
    assert parts.scorer._model.module.dtype == torch.float64
    assert (parts.order.rows, parts.order.seed) == (7, 5)
    assert [prompt.row for prompt in parts.prompts] == list(range(7))
    assert parts.device == "cpu"


def test_the_exact_order_is_chosen_for_the_longest_prompt_and_its_response(make_recipe, monkeypatch) -> None:
    """Not for the response alone: the persistent kernel's order would be refused at the first sample."""
    asked: list[dict[str, object]] = []
    monkeypatch.setattr(made, "exact_model", lambda student, **how: asked.append(how) or student)
    recipe = make_recipe("machine.exact=true", "student.dtype=bfloat16", "rollouts.limit_tokens=8")
    longest = max(len(prompt.token_ids) for prompt in build(recipe).prompts)
    assert asked == [{"persistent": None, "sequence_tokens": longest + 8}]


def test_a_model_of_another_size_than_the_recipe_says_is_refused(make_recipe, load) -> None:
    parameters = load("teacher").parameters
    with pytest.raises(AskedWrongly, match=f"teacher has {parameters:,} parameters, the recipe says 1,777,088,000"):
        build(make_recipe("teacher.parameters=1777088000"))
    build(make_recipe(f"teacher.parameters={parameters}"))


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ('machine.engine="plain"', 'machine.engine = "plain"'),
        ("rollouts.top_k=20 objective.name=reverse_kl", "rollouts.top_p or top_k"),
        ('student.dtype="float32"', 'student.dtype = "float32"'),
        ("lora.rank=4", "lora"),
        ('machine.drafts="history"', 'machine.drafts = "history"'),
    ],
)
def test_what_can_not_be_exact_is_named(make_recipe, changed: str, named: str) -> None:
    with pytest.raises(AskedWrongly) as refused:
        make_recipe('student.dtype="bfloat16"', "machine.exact=true", *changed.split())
    assert f"machine.exact with {named}: exact are the engine's samples" in str(refused.value)


def test_without_the_kernels_gpu_an_exact_run_is_refused_before_it_begins(make_recipe) -> None:
    recipe = make_recipe('student.dtype="bfloat16"', "machine.exact=true", 'machine.device="cpu"')
    with pytest.raises(AskedWrongly, match=r"machine\.exact can't be had here: .*; set it to false"):
        build(recipe)
