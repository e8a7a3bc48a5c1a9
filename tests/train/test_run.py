"""A recipe and a folder become a run: what is checked first, what stands in the folder, and what it repeats."""

import json
import shutil
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from opd.models.load import find_model, model_digest
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import is_complete, read_json, read_lines, tree
from opd.records.metrics import RunSummary
from opd.records.settings import read
from opd.train.recipe import Recipe
from opd.train.run import check_free, prepare, run
from opd.train.saved.resume import find_start


def go(recipe: Recipe, out: Path) -> RunSummary:
    return run(recipe, prepare(recipe, out), out, report=lambda _: None, interrupted=lambda: False)


def test_a_run_leaves_all_that_it_was_and_came_to(make_recipe, tmp_path: Path) -> None:
    out = tmp_path / "runs" / "first"
    recipe = make_recipe("save.every=2")
    summary = go(recipe, out)
    assert sorted(path.name for path in out.iterdir()) == [
        "began.json",
        "checkpoint-2",
        "checkpoint-3",
        "metrics.jsonl",
        "recipe.json",
        "rollouts",
        "run.json",
        "state",
    ]
    assert read(RunSummary, out / "run.json") == summary
    assert read(Recipe, out / "recipe.json") == recipe
    assert summary.data == tree(tmp_path)["problems.jsonl"]
    # as a score of either names it, so that the two can be told to be of one model
    assert summary.student == model_digest(find_model(recipe.student.model))
    assert summary.teacher == model_digest(find_model(recipe.teacher.model))
    assert sorted(path.name for path in (out / "rollouts").iterdir()) == [
        "step-000001.parquet",
        "step-000002.parquet",
        "step-000003.parquet",
        "tokenizer.json",
    ]


def test_each_checkpoint_is_a_model_that_anyone_can_load(make_recipe, tmp_path: Path) -> None:
    out = tmp_path / "run"
    recipe = make_recipe()
    go(recipe, out)
    checkpoint = out / "checkpoint-3"
    assert is_complete(checkpoint)
    assert find_model(str(checkpoint)) == checkpoint
    lines = list(read_lines(out / "metrics.jsonl"))
    means = read_json(checkpoint / "opd.json").pop("means")
    assert read_json(checkpoint / "opd.json") == {"step": 3, "recipe": recipe.digest, "means": means}
    assert (means["first_step"], means["reward"]) == (1, None)
    for name in ("kl", "loss"):
        assert means[name] == pytest.approx(sum(line[name] for line in lines) / 3, rel=1e-12)
    model = AutoModelForCausalLM.from_pretrained(checkpoint, local_files_only=True)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint, local_files_only=True)
    assert model.config.vocab_size == 320
    assert tokenizer.chat_template


def test_the_resolved_recipe_makes_the_same_run(make_recipe, tmp_path: Path) -> None:
    go(make_recipe("optimizer.lr=2e-3"), tmp_path / "a")
    go(read(Recipe, tmp_path / "a" / "recipe.json"), tmp_path / "b")
    for folder in ("checkpoint-3", "rollouts"):
        assert tree(tmp_path / "a" / folder) == tree(tmp_path / "b" / folder)
    losses = [[line["loss"] for line in read_lines(tmp_path / name / "metrics.jsonl")] for name in ("a", "b")]
    assert losses[0] == losses[1]


def test_a_run_never_writes_over_another(make_recipe, tmp_path: Path) -> None:
    out = tmp_path / "run"
    recipe = make_recipe()
    go(recipe, out)
    before = tree(out)
    with pytest.raises(AskedWrongly, match="exists and is not empty; a run never writes over another"):
        prepare(recipe, out)
    assert tree(out) == before


def test_a_new_or_empty_folder_is_free_and_a_file_is_not(tmp_path: Path) -> None:
    check_free(tmp_path / "not" / "there" / "yet")
    (tmp_path / "empty").mkdir()
    check_free(tmp_path / "empty")
    (tmp_path / "file").write_text("")
    with pytest.raises(AskedWrongly, match=r"not a folder|exists and is not empty"):
        check_free(tmp_path / "file")


def test_a_run_in_a_folder_that_can_not_be_written_does_not_go_on(make_recipe, tmp_path: Path, monkeypatch) -> None:
    out = tmp_path / "run"
    recipe = make_recipe("budget.steps=2")
    go(recipe, out)
    longer = recipe.changed(["budget.steps=3"])
    monkeypatch.setattr("os.access", lambda *_: False)  # as on a mount that is read-only, which root can't have here
    with pytest.raises(AskedWrongly, match="can't be written to"):
        prepare(longer, out, start=find_start(longer, out))


def test_a_machine_that_lacks_something_is_told_all_of_it_and_nothing_is_created(make_recipe, tmp_path: Path) -> None:
    recipe = make_recipe(f"student.model={tmp_path}/none", f"teacher.model={tmp_path}/none")
    with pytest.raises(AskedWrongly) as refusal:
        prepare(recipe, tmp_path / "run")
    assert str(refusal.value).splitlines() == [
        "the recipe is fine, but this machine lacks what it needs:",
        f"  - student: model '{tmp_path}/none': no such directory; name a model directory, or owner/name on the hub",
        f"  - teacher: model '{tmp_path}/none': no such directory; name a model directory, or owner/name on the hub",
    ]
    assert not (tmp_path / "run").exists()


def test_a_run_that_fails_has_no_summary(make_recipe, load, tmp_path: Path) -> None:
    """`run.json` is written last; without it the run did not end. Here the student has no finite weights."""
    broken = load(dtype="float32")
    folder = tmp_path / "broken"
    shutil.copytree(broken.path, folder)
    broken.module.get_decoder().norm.weight.data.fill_(float("inf"))
    broken.module.save_pretrained(folder)
    recipe = make_recipe(f"teacher.model={folder}")
    with pytest.raises((AnswerIsNo, FloatingPointError), match="nothing was updated"):
        go(recipe, tmp_path / "run")
    assert json.loads((tmp_path / "run" / "recipe.json").read_text()) == recipe.resolved()
    assert not (tmp_path / "run" / "run.json").exists()
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
