"""The table over cases: counts, medians and pairs by hand, and that nothing is said of what does not hold."""

import os
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opd.protocol.attempts.attempt import Attempt
from opd.protocol.cases import table as module
from opd.protocol.cases.table import table
from opd.records.attempts import Explored, Replayed
from opd.records.cases import CaseTable, Standing
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.view.cases.text import terminal

Make = Callable[..., Any]


LOW, MIDDLE = [2] * 60, [3] * 60  # of four samples; the start has 0.4585, the recipe 0.8935
HIGH = [4] * 45 + [3] * 15


@pytest.fixture
def unpaired(monkeypatch: pytest.MonkeyPatch) -> None:
    """No program is started: the test is about something else."""

    def refuses(*_: object) -> None:
        raise AnswerIsNo("nobody asked")

    monkeypatch.setattr(module, "comparisons", refuses)


@pytest.fixture
def runs(new_case: Make, score: Callable[..., None]) -> Path:
    """Three cases: one with two scores and one that ended without, one with a score, one with none."""
    score(new_case("twice"), MIDDLE, LOW)
    score(new_case("twice", 2), HIGH)
    new_case("twice", 3).explore(Explored.NO_CANDIDATE)
    score(new_case("once"), MIDDLE)
    failed = new_case("never")
    failed.explore()
    failed.formal(Replayed.FAILED_CANDIDATE)
    return Path(failed.folder.parent)


@pytest.mark.usefixtures("unpaired")
def test_counts_best_and_median_are_those_by_hand(runs: Path) -> None:
    (task,) = table([runs]).tasks
    assert [row.case for row in task.cases] == [
        "command__arith_tiny__twice__none", "command__arith_tiny__once__none", "command__arith_tiny__never__none",
    ]  # fmt: skip
    twice, once, never = (row.tally for row in task.cases)
    assert (twice.attempts, twice.best, twice.median) == (3, 0.9375, (0.75 + 0.9375) / 2)
    assert twice.standings[Standing.COMPLETED] == 2
    assert twice.standings[Standing.TERMINAL] == 1
    assert task.cases[0].best_attempt == "command__arith_tiny__twice__none__2"
    assert (once.attempts, once.best, once.median) == (1, 0.75, 0.75)
    assert (never.attempts, never.best, never.median) == (1, None, None)
    assert [one.name for one in task.references] == ["fixed start", "shipped recipe, unmodified, step 120"]
    assert [one.above for one in (twice, once, never)] == [(2, 1), (1, 0), (0, 0)]
    assert task.all.attempts == 5
    assert task.all.above == (3, 1)
    assert task.all.median == 0.75
    assert sum(task.all.standings.values()) == 5
    assert [row.standing for row in task.attempts] == ["completed", "completed", "terminal", "completed", "terminal"]


@pytest.mark.usefixtures("unpaired")
def test_a_missing_score_is_no_zero(runs: Path) -> None:
    """With zeros in their places the median would be another."""
    (task,) = table([runs]).tasks
    twice = task.cases[0]
    scores = [row.result.mean if row.result else None for row in task.attempts if row.case == twice.case]
    assert scores == [0.75, 0.9375, None]
    with_zeros = statistics.median(score or 0.0 for score in scores)
    assert with_zeros != twice.tally.median == statistics.median(score for score in scores if score is not None)
    assert all(row.above == (None, None) for row in task.attempts if row.result is None)
    assert {row.because for row in task.attempts if row.result is None} == {
        "nothing was submitted: the exploration ended by no_candidate",
        "formal/attempt-001 ended as failed_candidate",
    }


def test_the_leading_case_is_paired_with_the_others_by_question(runs: Path) -> None:
    """By hand: differences of the best attempts' finals, question by question."""
    (task,) = table([runs]).tasks
    (pair,) = task.pairs
    assert (pair.case, pair.against) == (task.cases[1].case, task.cases[0].case)
    d = [(b - a) / 4 for a, b in zip(HIGH, MIDDLE, strict=True)]
    assert pair.comparison.difference == pytest.approx(statistics.fmean(d))
    assert pair.comparison.stderr == pytest.approx(statistics.stdev(d) / len(d) ** 0.5)
    assert pair.comparison.distinguishable is True
    assert task.unpaired is None


def test_several_pairs_share_what_chance_may_do(new_case: Make, score: Callable[..., None]) -> None:
    """By Holm's rule on the two p values: the smaller counts twice, the larger is at least that."""
    for model, hits in (("a", HIGH), ("b", [4] * 30 + [3] * 30), ("c", [3] * 20 + [4] * 35 + [3] * 5)):
        score(new_case(model), hits)
        last = new_case
    (task,) = table([last("d").folder.parent]).tasks
    plain = [max(pair.comparison.p or 0.0, pair.comparison.p_permutation or 0.0) for pair in task.pairs]
    held = [pair.comparison.p_holm for pair in task.pairs]
    small, large = sorted(range(2), key=plain.__getitem__)
    assert held[small] == pytest.approx(min(1.0, 2 * plain[small]))
    assert held[large] == pytest.approx(max(held[small] or 0.0, plain[large]))


@pytest.mark.usefixtures("unpaired")
def test_what_does_not_hold_is_named_and_no_table_is_made(runs: Path) -> None:
    victim = runs / "command__arith_tiny__once__none" / "final" / "step-000010" / "outcome.json"
    assert isinstance(table([runs]), CaseTable)
    victim.chmod(0o644)
    victim.write_text(victim.read_text().replace('"mean": 0.75', '"mean": 0.95'))
    with pytest.raises(AnswerIsNo, match="1 of 5 attempts do not hold") as refused:
        table([runs])
    assert "command__arith_tiny__once__none: " in str(refused.value)
    assert "twice" not in str(refused.value)
    others = [path for path in runs.iterdir() if path != victim.parents[2] and not path.name.endswith("-inputs")]
    assert isinstance(table(others), CaseTable), "who leaves it out on purpose says so by naming the others"


def test_one_attempt_counts_once(new_case: Make, score: Callable[..., None], tmp_path: Path) -> None:
    lab = new_case("a")
    score(lab, MIDDLE)
    shutil.copytree(lab.folder, tmp_path / "again", symlinks=True)
    with pytest.raises(AskedWrongly, match="is a copy of"):
        table([lab.folder, tmp_path / "again"])
    (tmp_path / "link").symlink_to(lab.folder)
    (task,) = table([lab.folder, tmp_path / "link", lab.folder.parent]).tasks
    assert task.all.attempts == 1, "the same folder under several names is one"


def test_a_folder_without_attempts_is_asked_wrongly(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(AskedWrongly, match="is no attempt, and there is none below it"):
            table([path])


@pytest.mark.usefixtures("unpaired")
def test_two_attempts_of_one_name_are_told_apart_by_their_folders(
    new_case: Make, score: Callable[..., None], tmp_path: Path
) -> None:
    for whose, hits in (("alice", MIDDLE), ("bob", HIGH)):
        score(lab := new_case("same"), hits)
        shutil.move(lab.folder, tmp_path / whose / lab.folder.name)
        shutil.rmtree(lab.folder.parent)
    name = lab.folder.name
    made = table([tmp_path / "alice", tmp_path / "bob"])
    (task,) = made.tasks
    (case,) = task.cases
    assert (case.tally.attempts, case.tally.best, case.best_attempt) == (2, 0.9375, name)
    assert case.best_folder == str(tmp_path / "bob" / name)
    best = task.best(case)
    assert best is not None
    assert best.result is not None
    assert best.result.mean == 0.9375
    assert len({task.called(row) for row in task.attempts}) == 2
    assert f"{name}  0.9375" in terminal(made)


@pytest.mark.usefixtures("unpaired")
def test_attempts_are_found_at_any_depth_and_a_training_is_passed_over_and_said(
    new_case: Make, score: Callable[..., None], tmp_path: Path
) -> None:
    score(lab := new_case("a"), MIDDLE)
    shutil.copytree(lab.folder, tmp_path / "demo" / "attempts" / "a", symlinks=True)
    trainings = [tmp_path / "demo" / "train", tmp_path / "demo" / "attempts" / "train"]
    for training in trainings:
        training.mkdir()
        (training / "run.json").write_text('{"recipe": "4", "stop": "steps", "steps": 120}')
        (training / "began.json").write_text("{}")
        with pytest.raises(AskedWrongly, match=r"is no attempt: its run\.json is of something else"):
            table([training])
        with pytest.raises(AskedWrongly, match=r"is no attempt: its run\.json is of something else"):
            Attempt(training)
    made = table([tmp_path])
    assert [row.folder for row in made.tasks[0].attempts] == [str(tmp_path / "demo" / "attempts" / "a")]
    assert sorted(made.passed_over) == sorted(map(str, trainings))
    assert terminal(made).count("Passed over, as no attempt: ") == 1


@pytest.mark.parametrize("gone", ["run.json", "events.jsonl", "task.lock.json"])
def test_an_attempt_that_lost_a_file_is_not_passed_over(runs: Path, gone: str) -> None:
    (runs / "command__arith_tiny__once__none" / gone).unlink()
    with pytest.raises(AnswerIsNo, match="once"):
        table([runs])


def test_two_versions_of_a_task_are_two_tasks(new_case: Make, score: Callable[..., None]) -> None:
    score(new_case("a"), MIDDLE)
    other = new_case("b", final_seconds=77.0)
    score(other, HIGH)
    tasks = table([other.folder.parent]).tasks
    assert [one.task for one in tasks] == ["arith_tiny", "arith_tiny"]
    assert len({one.task_sha256 for one in tasks}) == 2
    assert [len(one.cases) for one in tasks] == [1, 1]
    assert all(one.unpaired == "fewer than two cases have a score" for one in tasks)
    assert all(one.notes[0].startswith("1 other version of this task: ") for one in tasks)
    assert not any("other version" in note for note in table([other.folder]).tasks[0].notes)


def test_scores_of_other_protocols_are_not_paired_and_it_is_said_why(
    new_case: Make, score: Callable[..., None]
) -> None:
    score(new_case("a"), MIDDLE)
    other = new_case("b")
    score(other, HIGH, grader="another")
    (task,) = table([other.folder.parent]).tasks
    assert task.pairs == ()
    assert "different protocols" in (task.unpaired or "")


def test_no_more_are_paired_than_have_a_letter_and_the_rest_is_said(
    new_case: Make, score: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 1)
    for model, hits in (("a", LOW), ("b", MIDDLE), ("c", HIGH)):
        lab = new_case(model)
        score(lab, hits)
    (task,) = table([lab.folder.parent]).tasks
    assert [(pair.case[-7:], pair.against[-7:]) for pair in task.pairs] == [("b__none", "c__none")]
    assert "1 further cases were not compared with the leading one: 1 are at most." in task.notes


@pytest.mark.usefixtures("unpaired")
def test_the_notes_say_what_was_chosen_among(runs: Path, new_case: Make, score: Callable[..., None]) -> None:
    (task,) = table([runs]).tasks
    assert any("the best of up to 2 finals of one training" in note for note in task.notes)
    assert any("several attempts is chosen among them" in note for note in task.notes)
    assert any("It is no test" in note for note in task.notes)
    single = new_case("single")
    score(single, MIDDLE)
    notes = " ".join(table([single.folder]).tasks[0].notes)
    assert "finals of one training" not in notes
    assert "chosen among" not in notes
    assert "same install" not in notes


@pytest.mark.usefixtures("unpaired")
def test_a_patch_from_outside_and_another_judge_are_said(new_case: Make, score: Callable[..., None]) -> None:
    score(new_case("a"), MIDDLE)
    other = new_case("b", install="9" * 64)
    other.submit()
    (task,) = table([other.folder.parent]).tasks
    assert [row.from_outside for row in task.attempts] == [False, True]
    assert "not from the attempt's own exploration: command__arith_tiny__b__none." in task.notes[-1]
    assert any("Not all attempts were judged by the same install" in note for note in task.notes)


@pytest.mark.usefixtures("unpaired")
def test_where_less_is_better_the_least_leads(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same attempts with the measure's direction turned around, as far as the table asks it."""
    held = module.found([runs], module.now()).attempts
    contract = held[0].attempt.task.contract
    turned = contract.model_copy(update={"final": contract.final.model_copy(update={"direction": "minimize"})})
    task = held[0].attempt.task
    metadata = task.metadata.model_copy(update={"opd": turned})
    for one in held:
        one.attempt.__dict__["task"] = task.model_copy(update={"metadata": metadata})
    made = module._task_table(sorted(held, key=lambda one: os.fspath(one.folder)))
    assert not made.higher_is_better
    assert made.all.best == 0.75
    assert [row.tally.best for row in made.cases] == [0.75, 0.75, None]
    assert made.all.above == (0, 2)
