"""A run that was stopped goes on to the bits that it would have had; what differs from it is refused.

The tests here stop a run inside the process. tests/journeys/test_resume.py kills real ones.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from opd.models.load import model_digest
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import alone, read_json, read_lines, tree, write_json
from opd.records.metrics import RunSummary, StopCause
from opd.train.clock import Budget, BudgetSettings, Spent
from opd.train.parts import build
from opd.train.prompts.order import PromptOrder
from opd.train.recipe import Recipe
from opd.train.run import prepare, run
from opd.train.saved.checkpoint import Checkpoints
from opd.train.saved.resume import differences, find_start, finished
from opd.train.saved.state import States

TIMES = {"seconds", "peak_bytes"}
SUMMARY = ("stop", "steps", "rows_seen", "checkpoints", "best", "student", "teacher")


class Killed(BaseException):
    """Stands for a process that ends at once: nothing in the package catches it for good."""


def go(recipe: Recipe, out: Path, *, interrupt_at: int | None = None, kill_at: int | None = None) -> RunSummary:
    """A new run, or the rest of the one that is there; interrupted or killed after so many steps of this try."""
    start = find_start(recipe, out) if (out / "recipe.json").exists() else None
    made = 0

    def report(_: object) -> None:
        if made == kill_at:
            raise Killed

    def interrupted() -> bool:
        nonlocal made
        made += 1
        return made == interrupt_at

    return run(recipe, prepare(recipe, out, start=start), out, start=start, report=report, interrupted=interrupted)


def content(out: Path) -> dict[str, object]:
    """All that a run is judged by: checkpoints, rollouts, optimizer, metrics but what a clock says."""
    folders = [path for path in out.iterdir() if path.name.startswith("checkpoint-")]
    states = States(out).whole()
    return {
        "checkpoints": {folder.name: tree(folder) for folder in folders},
        "rollouts": tree(out / "rollouts"),
        "states": [(folder.name, tree(folder)["state.safetensors"]) for folder in states],
        "metrics": [
            {key: value for key, value in line.items() if key not in TIMES}
            for line in read_lines(out / "metrics.jsonl")
        ],
        "rest": {key: read_json(out / "run.json")[key] for key in SUMMARY},
    }


@pytest.fixture
def recipe(make_recipe) -> Recipe:
    """Ten steps of two of seven rows: an epoch ends within steps 4 and 11, and at 7 with step 7's last row."""
    return make_recipe("budget.steps=10", "save.every=2", "optimizer.warmup_steps=6", "optimizer.lr=1e-2")


@pytest.fixture
def whole(recipe: Recipe, tmp_path: Path) -> Path:
    """The run that nothing interrupted."""
    go(recipe, tmp_path / "whole")
    return tmp_path / "whole"


@pytest.mark.parametrize("step", [1, 3, 4, 7, 9])
def test_an_interrupted_run_goes_on_to_the_uninterrupted_result(
    recipe: Recipe, whole: Path, tmp_path: Path, step: int
) -> None:
    """E56, E58, E60, E66: rows, noise, rate and moments; the checkpoint of the interrupt itself is not kept."""
    out = tmp_path / "run"
    assert go(recipe, out, interrupt_at=step).stop is StopCause.INTERRUPTED
    summary = go(recipe, out)
    assert content(out) == content(whole)
    assert summary.resumed_from == (step,)


@pytest.mark.parametrize("step", [1, 2, 5, 8])
def test_a_killed_run_goes_on_to_the_uninterrupted_result(
    recipe: Recipe, whole: Path, tmp_path: Path, step: int
) -> None:
    out = tmp_path / "run"
    with pytest.raises(Killed):
        go(recipe, out, kill_at=step)
    summary = go(recipe, out)
    assert content(out) == content(whole)
    assert summary.resumed_from == (step - step % 2,)


def test_a_run_may_be_stopped_again_and_again(recipe: Recipe, whole: Path, tmp_path: Path) -> None:
    """E64: retention counts what earlier tries saved, and nothing piles up."""
    out = tmp_path / "run"
    for _ in range(9):
        assert go(recipe, out, interrupt_at=1).stop is StopCause.INTERRUPTED
        assert len(Checkpoints(out).complete()) <= 3
    summary = go(recipe, out)
    assert summary.resumed_from == tuple(range(1, 10))
    assert content(out) == content(whole)
    assert sorted(path.name for path in out.glob("run-*.json")) == [f"run-{n}.json" for n in range(1, 10)]


def kept_by_definition(out: Path, *, every: int, keep: int, keep_best: int) -> tuple[set[str], list[str]]:
    """Names of the folders that stay, and of the best, worked out from `metrics.jsonl` alone."""
    kl = [line["kl"] for line in read_lines(out / "metrics.jsonl")]
    saved = list(range(every, len(kl) + 1, every))
    means = {step: sum(map(Fraction, kl[step - every : step])) / every for step in saved}
    best = sorted(saved, key=lambda step: (means[step], -step))[:keep_best]
    ends = [] if saved[-1] == len(kl) else [len(kl)]
    staying = {*[*saved, *ends][-keep:], *best}
    return {f"checkpoint-{step}" for step in staying}, [f"checkpoint-{step}" for step in best]


@pytest.mark.patient
@pytest.mark.parametrize("tries", [[("interrupt", 3)], [("kill", 5)], [("kill", 2), ("interrupt", 5), ("kill", 3)]])
def test_the_best_that_are_kept_are_those_of_the_uninterrupted_run(make_recipe, tmp_path: Path, tries) -> None:
    """E64, H26: by the mean of kl since the checkpoint before; each says in its opd.json what it had."""
    recipe = make_recipe(
        "budget.steps=11",
        "save.every=2",
        "save.keep=1",
        "save.keep_best=2",
        "save.state_every=3",
        "optimizer.lr=1e-2",
    )
    go(recipe, tmp_path / "whole")
    staying, best = kept_by_definition(tmp_path / "whole", every=2, keep=1, keep_best=2)
    assert {path.name for path in (tmp_path / "whole").glob("checkpoint-*")} == staying
    assert not staying <= {"checkpoint-10", "checkpoint-11"}  # the newest alone would be others
    out = tmp_path / "run"
    for how, step in tries:
        if how == "interrupt":
            go(recipe, out, interrupt_at=step)
        else:
            with pytest.raises(Killed):
                go(recipe, out, kill_at=step)
    summary = go(recipe, out)
    assert list(summary.best) == best
    assert content(out) == content(tmp_path / "whole")
    for name in best:
        step = int(name.removeprefix("checkpoint-"))
        lines = list(read_lines(out / "metrics.jsonl"))[step - 2 : step]
        means = read_json(out / name / "opd.json")["means"]
        assert means["first_step"] == step - 1
        assert means["kl"] == pytest.approx(sum(line["kl"] for line in lines) / 2, rel=1e-12)


def test_a_run_that_stops_at_the_end_of_an_epoch_has_steps_left(make_recipe, tmp_path: Path) -> None:
    """E57: seven rows, seven a step, so that every step is an epoch; saved at 3, resumed to 6: three more."""
    recipe = make_recipe("budget.steps=6", "rollouts.prompts_per_step=7", "save.every=3")
    out = tmp_path / "run"
    go(recipe, out, interrupt_at=3)
    before = len(list(read_lines(out / "metrics.jsonl")))
    summary = go(recipe, out)
    assert (before, summary.steps, len(list(read_lines(out / "metrics.jsonl")))) == (3, 6, 6)


def test_states_may_be_rarer_than_checkpoints(make_recipe, tmp_path: Path) -> None:
    """Killed at 5 with the state of 3: checkpoints 4 and 5 are made again, and stay until then (E63)."""
    recipe = make_recipe("budget.steps=8", "save.every=1", "save.state_every=3", "save.keep=2")
    go(recipe, tmp_path / "whole")
    out = tmp_path / "run"
    with pytest.raises(Killed):
        go(recipe, out, kill_at=5)
    assert [path.name for path in States(out).whole()] == ["step-000003"]
    start = find_start(recipe, out)
    parts = prepare(recipe, out, start=start)
    seen: list[list[str]] = []
    run(recipe, parts, out, start=start, report=lambda _: seen.append([*names(out)]))
    assert seen[0] == ["checkpoint-4"]  # 3 went when 5 was saved, 5 when 4 was made anew
    assert content(out) == content(tmp_path / "whole")


def names(out: Path) -> list[str]:
    return [path.name for path in Checkpoints(out).complete()]


def test_a_torn_line_and_half_made_folders_are_cleared_away(recipe: Recipe, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(Killed):
        go(recipe, out, kill_at=5)
    with (out / "metrics.jsonl").open("a") as file:
        file.write('{"step": 6, "lo')
    (out / "checkpoint-6.partial").mkdir()
    (out / "again-checkpoint-4").mkdir()
    (out / "state" / "step-000006.partial").mkdir()
    (out / "rollouts" / "step-000006.parquet.partial").write_text("half")
    (out / "rollouts" / "step-000012.parquet").write_text("of no step that stands")
    go(recipe, out)
    assert content(out) == content(whole)
    assert not [path for path in out.rglob("*") if "partial" in path.name or "again" in path.name]


def test_a_line_that_was_not_written_before_the_kill_comes_from_the_state(
    recipe: Recipe, whole: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    go(recipe, out, interrupt_at=4)
    lines = (out / "metrics.jsonl").read_text().splitlines(keepends=True)
    (out / "metrics.jsonl").write_text("".join(lines[:3]))
    go(recipe, out)
    assert content(out) == content(whole)
    assert all(set(line["seconds"]) >= {"sample", "save", "total"} for line in read_lines(out / "metrics.jsonl"))


def test_a_run_that_was_killed_after_its_last_step_only_lacks_its_summary(
    recipe: Recipe, whole: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    shutil.copytree(whole, out)
    (out / "run.json").unlink()
    shutil.rmtree(out / "checkpoint-10")
    summary = go(recipe, out)
    assert (summary.steps, summary.stop) == (10, StopCause.STEPS)
    assert content(out) == content(whole)


def test_a_finished_run_is_left_as_it_is(recipe: Recipe, whole: Path, make_recipe) -> None:
    assert finished(recipe, whole) == RunSummary.model_validate_json((whole / "run.json").read_text())
    more = recipe.model_copy(update={"budget": BudgetSettings(steps=12)})
    assert finished(more, whole) is None


def test_a_finished_run_whose_last_checkpoint_is_damaged_is_not_called_finished(recipe: Recipe, whole: Path) -> None:
    """E68."""
    weights = whole / "checkpoint-10" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(AnswerIsNo, match=r"checkpoint-10 is damaged"):
        finished(recipe, whole)


def test_with_a_larger_budget_a_finished_run_becomes_the_longer_one(recipe: Recipe, whole: Path, tmp_path) -> None:
    longer = recipe.model_copy(update={"budget": BudgetSettings(steps=13)})
    go(longer, tmp_path / "longer")
    summary = go(longer, whole)
    assert summary.resumed_from == (10,)
    ours, theirs = content(whole), content(tmp_path / "longer")
    assert ours["metrics"] == theirs["metrics"]
    assert ours["states"] == theirs["states"]
    assert read_json(whole / "recipe.json")["budget"]["steps"] == 13
    assert read_json(whole / "recipe-1.json")["budget"]["steps"] == 10


def test_another_recipe_is_refused_with_every_difference(recipe: Recipe, whole: Path, make_recipe) -> None:
    """E59: keys with both values; nothing is changed."""
    before = tree(whole)
    other = make_recipe("budget.steps=9", "save.every=2", "optimizer.lr=3e-3", "optimizer.warmup_steps=6", "seed=5")
    with pytest.raises(AskedWrongly) as refusal:
        find_start(other, whole)
    for part in (
        "optimizer.lr = 0.003, the run has 0.01",
        "budget.steps = 9, the run has 10, which may grow and not shrink",
        "seed = 5, the run has 0",
    ):
        assert part in str(refusal.value)
    assert tree(whole) == before


def test_another_data_file_is_refused_with_both_digests(recipe: Recipe, tmp_path: Path) -> None:
    """E59: the recipe is the same and the file is not."""
    out = tmp_path / "run"
    go(recipe, out, interrupt_at=3)
    was = read_json(out / "run.json")["data"]
    with Path(recipe.data.path).open("a") as file:
        file.write(json.dumps({"problem": "Compute 1+1.", "answer": "2"}) + "\n")
    now = tree(Path(recipe.data.path).parent)[Path(recipe.data.path).name]
    before = tree(out)
    with pytest.raises(AskedWrongly, match=rf"has SHA-256 {now}, the run began with {was}"):
        find_start(recipe, out)
    assert tree(out) == before


def killed_before_its_first_state(recipe: Recipe, out: Path) -> None:
    with pytest.raises(Killed):
        go(recipe, out, kill_at=1)
    assert find_start(recipe, out).state is None


def test_other_data_are_refused_before_the_first_state_too(recipe: Recipe, tmp_path: Path) -> None:
    """E59: the steps that are made again would be of other rows than the first ones."""
    out = tmp_path / "run"
    killed_before_its_first_state(recipe, out)
    data = Path(recipe.data.path)
    data.write_text(data.read_text().replace("Compute 1+1.", "Compute 2+1."))
    before = tree(out)
    with pytest.raises(AskedWrongly, match=r"problems\.jsonl has SHA-256 \w+, the run began with \w+"):
        find_start(recipe, out)
    assert tree(out) == before


def test_other_models_are_refused_before_the_first_state_too(
    make_recipe, random_models: Path, tmp_path: Path
) -> None:
    shutil.copytree(random_models / "student", tmp_path / "student")
    recipe, out = make_recipe(f"student.model={tmp_path / 'student'}", "save.every=2"), tmp_path / "run"
    killed_before_its_first_state(recipe, out)
    change_a_weight(tmp_path / "student")
    with pytest.raises(AskedWrongly, match=r"the student .* has changed: model\.safetensors has SHA-256"):
        prepare(recipe, out, start=find_start(recipe, out))


def test_a_run_that_died_before_it_said_what_it_began_with_begins_anew(
    recipe: Recipe, whole: Path, tmp_path: Path
) -> None:
    """Between its first file and its second nothing had been made of data or models."""
    out = tmp_path / "run"
    out.mkdir()
    shutil.copyfile(whole / "recipe.json", out / "recipe.json")
    go(recipe, out)
    assert content(out) == content(whole)
    assert read_json(out / "began.json") == read_json(whole / "began.json")


@pytest.fixture
def stopped(make_recipe, random_models: Path, tmp_path: Path) -> Recipe:
    """The recipe of a run that was interrupted after two of its steps, on copies of the models."""
    for role in ("student", "teacher"):
        shutil.copytree(random_models / role, tmp_path / role)
    recipe = make_recipe(*(f"{role}.model={tmp_path / role}" for role in ("student", "teacher")))
    go(recipe, tmp_path / "run", interrupt_at=2)
    return recipe


def change_a_weight(folder: Path) -> str:
    tensors = load_file(folder / "model.safetensors")
    tensors["model.norm.weight"][0] += 1.0
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return f"model.safetensors has SHA-256 {tree(folder)['model.safetensors']}, the run began with"


def change_the_template(folder: Path) -> str:
    with (folder / "chat_template.jinja").open("a") as file:
        file.write(" ")
    return "chat_template.jinja has SHA-256"


def remove_a_file(folder: Path) -> str:
    (folder / "generation_config.json").unlink()
    return "generation_config.json is gone"


def add_a_file(folder: Path) -> str:
    (folder / "added_tokens.json").write_text("{}")
    return "added_tokens.json is new"


@pytest.mark.parametrize("role", ["student", "teacher"])
@pytest.mark.parametrize("change", [change_a_weight, change_the_template, remove_a_file, add_a_file])
def test_another_model_in_the_same_directory_is_refused_with_what_differs(
    stopped: Recipe, tmp_path: Path, role: str, change: Callable[[Path], str]
) -> None:
    """E59, of models: the recipe is the same, and the student or the teacher is not."""
    out = tmp_path / "run"
    before = tree(out)
    said = change(tmp_path / role)
    with pytest.raises(AskedWrongly, match=rf"the {role} {tmp_path / role} has changed: {said}"):
        go(stopped, out)
    assert tree(out) == before


def test_with_the_files_brought_back_the_run_goes_on(stopped: Recipe, tmp_path: Path, random_models: Path) -> None:
    change_a_weight(tmp_path / "teacher")
    with pytest.raises(AskedWrongly):
        go(stopped, tmp_path / "run")
    shutil.copy(random_models / "teacher" / "model.safetensors", tmp_path / "teacher")
    (tmp_path / "teacher" / "README.md").write_text("makes no other model")
    summary = go(stopped, tmp_path / "run")
    assert summary.steps == 3
    assert summary.student == model_digest(random_models / "student")


def test_a_state_that_names_no_models_is_gone_on_from(stopped: Recipe, tmp_path: Path) -> None:
    """Older versions did not write them."""
    (folder,) = States(tmp_path / "run").whole()
    values = read_json(folder / "state.json")
    del values["origins"]
    write_json(folder / "state.json", values)
    write_json(folder / ".complete", {"files": tree(folder)})
    change_a_weight(tmp_path / "teacher")
    assert go(stopped, tmp_path / "run").steps == 3


@pytest.mark.parametrize(
    ("sets", "refused"),
    [
        (["machine.threads=2", "machine.micro_batch_tokens=99"], []),
        (["budget.steps=11"], []),
        (["budget.reserve_seconds=1"], []),
        (
            ["data.repeats=allow"],
            [],
        ),  # a run of an older version may go on with rows that a new one has to be told of
        (
            ["budget.max_wall_seconds=50"],
            ["budget.max_wall_seconds = 50.0, the run has null, which may grow and not shrink"],
        ),
        (["budget.epochs=1"], ["budget.epochs = 1, the run has null, which may grow and not shrink"]),
        (["objective.clip=0.3"], ["objective.clip = 0.3, the run has 0.2"]),
        (["save.keep=9"], ["save.keep = 9, the run has 3"]),
        (["save.keep_best=1"], ["save.keep_best = 1, the run has 0"]),
    ],
)
def test_the_machine_may_differ_and_the_budget_may_grow(make_recipe, sets: list[str], refused: list[str]) -> None:
    assert differences(make_recipe("budget.steps=10"), make_recipe("budget.steps=10", *sets)) == refused


def test_a_limit_may_be_lifted(make_recipe) -> None:
    assert differences(make_recipe("budget.max_wall_seconds=9"), make_recipe()) == []


def test_a_folder_without_a_run_has_nothing_to_resume(recipe: Recipe, tmp_path: Path) -> None:
    for out in (tmp_path / "none", tmp_path):
        with pytest.raises(AskedWrongly, match=r"holds no run .* nothing to resume"):
            find_start(recipe, out)


def without(line: int) -> Callable[[list[str]], list[str]]:
    return lambda lines: [*lines[: line - 1], *lines[line:]]


def with_in(line: int, text: str) -> Callable[[list[str]], list[str]]:
    return lambda lines: [*lines[: line - 1], text, *lines[line:]]


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (without(2), "line 2 is not that of step 2; bring the file back"),
        (with_in(2, '{"step": 2, "los'), "line 2 is not JSON"),
        (with_in(2, '{"step": 2}'), "line 2: 'loss' is required"),
        (with_in(2, "[2]"), "line 2 is not a JSON object"),
        (lambda _: [], "lacks the line of step 1, and of all up to 4"),
        (lambda lines: lines[:2], "lacks the line of step 3, and of all up to 4"),
    ],
)
def test_a_damaged_or_missing_line_of_the_metrics_is_named_and_nothing_is_changed(
    recipe: Recipe, tmp_path: Path, damage: Callable[[list[str]], list[str]], fault: str
) -> None:
    out = tmp_path / "run"
    go(recipe, out, interrupt_at=4)
    path = out / "metrics.jsonl"
    path.write_text("".join(f"{line}\n" for line in damage(path.read_text().splitlines())))
    before = tree(out)
    with pytest.raises(AskedWrongly, match=f"metrics.jsonl,? {fault}"):
        find_start(recipe, out)
    assert tree(out) == before


def test_the_line_of_the_states_own_step_may_be_missing_or_torn(recipe: Recipe, whole: Path, tmp_path: Path) -> None:
    """A kill between the state and its line: the state has it."""
    out = tmp_path / "run"
    go(recipe, out, interrupt_at=4)
    path = out / "metrics.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("".join(f"{line}\n" for line in lines[:3]) + lines[3][:20])
    go(recipe, out)
    assert content(out) == content(whole)


def test_a_state_that_is_gone_is_not_taken_for_one_that_never_was(recipe: Recipe, whole: Path) -> None:
    shutil.rmtree(whole / "state")
    with pytest.raises(AnswerIsNo, match="made 10 steps, and its trainer state is gone"):
        find_start(recipe, whole)


def test_a_file_of_a_state_that_is_gone_is_named(recipe: Recipe, whole: Path) -> None:
    (whole / "state" / "step-000010" / "state.safetensors").unlink()
    with pytest.raises(AnswerIsNo, match=r"state/step-000010/state\.safetensors is gone\. .* newest checkpoint$"):
        find_start(recipe, whole)


def test_a_run_without_states_says_so_instead_of_beginning_anew(make_recipe, tmp_path: Path) -> None:
    recipe = make_recipe("save.state_every=0", "budget.steps=9")
    go(recipe, tmp_path / "run", interrupt_at=2)
    assert not (tmp_path / "run" / "state").exists()
    with pytest.raises(AskedWrongly, match=r"made 2 steps with save\.state_every = 0"):
        find_start(recipe, tmp_path / "run")


def test_two_processes_never_write_to_one_run(recipe: Recipe, whole: Path) -> None:
    with alone(whole), pytest.raises(AskedWrongly, match="another process is at work"), alone(whole):
        pass
    with alone(whole):
        pass


def test_a_run_that_has_gone_on_meanwhile_is_looked_at_again(recipe: Recipe, tmp_path: Path) -> None:
    out = tmp_path / "run"
    go(recipe, out, interrupt_at=2)
    start = find_start(recipe, out)
    parts = prepare(recipe, out, start=start)
    go(recipe, out, interrupt_at=2)
    with pytest.raises(AskedWrongly, match="has gone on since it was looked at"):
        run(recipe, parts, out, start=start)


def test_the_clock_counts_on_from_what_earlier_tries_used(make_recipe, tmp_path: Path) -> None:
    """Two steps of 10 s and 20 s of loading, then a kill; of 100 s the second try has 60 s left."""
    now = iter([0.0, 7.0, 7.0])
    budget = Budget(BudgetSettings(steps=9, max_wall_seconds=100.0), now=lambda: next(now))
    budget.resume(Spent(seconds=40.0, slowest_step_seconds=10.0, slowest_save_seconds=2.0))
    assert budget.seconds == 47.0
    assert budget.spent.slowest_step_seconds == 10.0


@pytest.mark.parametrize(("used", "goes_on"), [(81.0, True), (84.0, False)])
def test_a_resumed_run_knows_what_a_step_and_a_save_take(used: float, goes_on: bool) -> None:
    """1.2 × (10 s step + 2 × 2 s save) = 16.8 s have to fit into what is left of 100 s."""
    budget = Budget(BudgetSettings(steps=9, max_wall_seconds=100.0), now=lambda: 0.0)
    budget.resume(Spent(seconds=used, slowest_step_seconds=10.0, slowest_save_seconds=2.0))
    assert (budget.cause(3, last_step=9) is None) is goes_on


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("steps", [0, 1, 3, 4, 11])
def test_rows_seen_are_those_that_were_drawn(seed: int | None, steps: int) -> None:
    order = PromptOrder(rows=7, seed=seed)
    drawn = {draw.row for step in range(1, steps + 1) for draw in order.at(step, prompts_per_step=2)}
    assert order.seen(steps, prompts_per_step=2) == drawn


def test_a_run_that_is_out_of_time_when_it_is_taken_up_ends_with_its_checkpoint(make_recipe, tmp_path: Path) -> None:
    """The state of step 2 is there and a checkpoint of it is not: the last step is always saved (E65)."""
    recipe = make_recipe("budget.steps=9", "budget.max_wall_seconds=3600", "save.every=5", "save.state_every=2")
    out = tmp_path / "run"
    with pytest.raises(Killed):
        go(recipe, out, kill_at=3)
    assert names(out) == []
    start = find_start(recipe, out)
    assert start.state is not None
    late = replace(build(recipe), budget=Budget(recipe.budget, now=iter([0.0, *[3600.0] * 9]).__next__))
    summary = run(recipe, late, out, start=start)
    assert (summary.stop, summary.steps, names(out)) == (StopCause.WALL_CLOCK, 2, ["checkpoint-2"])
