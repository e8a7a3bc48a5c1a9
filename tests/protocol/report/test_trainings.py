"""A matched control differs in one thing, at as many steps, and only where everything is known."""

import json

import pytest

from opd.protocol.report.sources import Fact, Sources
from opd.protocol.report.trainings import Training, differences, match, training_of

RECIPE = {
    "seed": 42,
    "data": {"shuffle": False, "path": "/inputs/train.jsonl"},
    "objective": {"name": "k1_policy_gradient", "clip": 0.2},
    "reward": None,
    "optimizer": {"lr": 1e-6},
    "budget": {"steps": 40},
    "machine": {"threads": 1},
}
PATCH = """diff --git a/run.sh b/run.sh
index 1..2 100755
--- a/run.sh
+++ b/run.sh
@@ -1,2 +1,2 @@
 set -e
-train --set data.shuffle=false
+train --set data.shuffle=true
"""
REMARK = PATCH.replace("shuffle=true", "shuffle=false # no reward = 1.0")
TABLE = PATCH.replace("+train --set data.shuffle=true", "+[reward]")
BOTH = PATCH.replace("shuffle=true", "shuffle=true --set reward.weight=1.0")
FURTHER = PATCH + "@@ -9,1 +9,1 @@\n-old\n+new\n"


def fact(value: object) -> Fact:
    return Fact(value=value, file="a.json", pointer="", sha256="0" * 64)


def training(*, steps: int = 40, tree: str = "base", patch: str | None = None, **changes: object) -> Training:
    recipe = json.loads(json.dumps(RECIPE))
    for key, value in changes.items():
        table, _, name = key.partition("__")
        if name:
            recipe[table][name] = value
        else:
            recipe[table] = value
    return Training(
        folder="/runs/x",
        recipe=fact(recipe),
        step=fact(steps),
        tree_sha256=fact(tree),
        patch=fact(patch) if patch else None,
    )


@pytest.mark.parametrize(
    ("changed", "keys"),
    [
        ({"data__shuffle": True}, ["data.shuffle"]),
        ({"reward": {"weight": 1.0}}, ["reward"]),
        ({"objective": {"name": "topk_forward_kl", "k": 16}}, ["objective"]),
        ({"objective__clip": 0.1}, ["objective.clip"]),
        ({"seed": 43}, ["seed"]),
        ({"budget__steps": 80, "machine__threads": 8, "data__path": "/elsewhere"}, []),
    ],
)
def test_recipes_differ_in_what_is_of_the_method(changed, keys):
    a, b = training().recipe, training(**changed).recipe
    assert a is not None
    assert b is not None
    assert [one.key for one in differences(a, b)] == keys


@pytest.mark.parametrize(
    ("other", "is_control"),
    [
        (training(data__shuffle=True), True),
        (training(reward={"weight": 1.0}), True),
        (training(tree="patched", patch=PATCH), True),
        (training(tree="patched", patch=PATCH, data__shuffle=True), True),
        (training(), False),
        (training(steps=12, data__shuffle=True), False),
        (training(data__shuffle=True, reward={"weight": 1.0}), False),
        (training(tree="patched", patch=PATCH, optimizer__lr=1e-5), False),
        (training(tree="patched", patch=PATCH, data__shuffle=True, reward={"weight": 1.0}), False),
        (training(tree="patched", patch=FURTHER, data__shuffle=True), False),
        (training(tree="patched", patch=REMARK, reward={"weight": 1.0}), False),
        (training(tree="patched", patch=TABLE, reward={"weight": 1.0}), True),
        (training(tree="patched", patch=BOTH, data__shuffle=True, reward={"weight": 1.0}), False),
        (training(seed=43), False),
        (training(seed=43, data__shuffle=True), False),
    ],
)
def test_one_thing_alone_at_equal_steps_makes_a_control(other, is_control):
    assert match(training(), other).is_control is is_control
    assert match(other, training()).is_control is is_control


def test_another_seed_alone_is_a_repetition():
    assert match(training(), training(seed=43)).is_repetition
    assert not match(training(), training(seed=43, tree="patched", patch=PATCH)).is_repetition


def test_a_source_that_differs_without_a_patch_that_says_how_is_one_unknown_change():
    assert match(training(), training(tree="patched")).names == ("the source",)


@pytest.mark.parametrize("missing", ["recipe", "step", "tree_sha256"])
def test_what_is_not_on_record_makes_no_control(missing):
    other = training(data__shuffle=True)
    less = Training(**{name: getattr(other, name) for name in Training.__slots__ if name != missing})
    found = match(training(), less)
    assert found.unknown
    assert not found.is_control


@pytest.mark.parametrize("checkpoint", ["/runs/../../../secret/checkpoint-40", "/inputs/student", "checkpoint-40"])
def test_a_checkpoint_named_so_that_it_leads_out_of_the_runs_tells_of_no_training(tmp_path, checkpoint):
    (tmp_path / "attempt/explore/attempt-001/runs").mkdir(parents=True)
    (tmp_path / "attempt/secret").mkdir()
    (tmp_path / "attempt/secret/recipe.json").write_text("{}")
    sources = Sources(tmp_path / "attempt", tmp_path)
    assert training_of(sources, "explore/attempt-001", fact({"number": 1, "checkpoint": checkpoint})) is None
