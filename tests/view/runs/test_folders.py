"""Finding runs, and saying what has become of one, with other processes at work, killed, or on another host."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from opd.records.errors import AskedWrongly
from opd.records.files import alone, write_json
from opd.view.runs.folders import Folder, Kind, State, by_number, find, is_at_work, kind_of, opened, state_of

Held = Callable[[Path], AbstractContextManager[subprocess.Popen[str]]]
Make = Callable[..., Path]


def found(*roots: Path) -> list[tuple[str, Kind]]:
    return [(one.path.name, one.kind) for one in find(roots)]


def test_a_run_is_what_its_files_say(make_run: Make, make_score: Make, make_attempt: Make, tmp_path: Path) -> None:
    assert kind_of(make_run(tmp_path / "t")) is Kind.TRAIN
    assert kind_of(make_score(tmp_path / "s", [[1]])) is Kind.SCORE
    assert kind_of(make_attempt(tmp_path / "a")) is Kind.ATTEMPT
    (tmp_path / "s" / "score.json").unlink()
    assert kind_of(tmp_path / "s") is Kind.SCORE, "one that has only begun"
    assert kind_of(tmp_path) is None
    assert kind_of(tmp_path / "nothing") is None


def test_another_programs_protocol_file_makes_no_score(tmp_path: Path) -> None:
    write_json(tmp_path / "protocol.json", {"version": 3})
    assert kind_of(tmp_path) is None


def test_runs_are_found_below_and_in_training_runs_and_not_in_what_runs_are_made_of(
    make_run: Make, make_score: Make, make_attempt: Make, tmp_path: Path
) -> None:
    run = make_run(tmp_path / "runs" / "t")
    make_score(run / "scores" / "in-it", [[1]])
    attempt = make_attempt(tmp_path / "runs" / "deep" / "a")
    for hidden in (attempt / "explore" / "x", run / "checkpoint-12" / "x", run / "state" / "x"):
        make_run(hidden)
    for name in (".trash", "half.partial", "__pycache__"):
        make_run(tmp_path / "runs" / name / "x")
    assert found(tmp_path / "runs") == [("a", Kind.ATTEMPT), ("t", Kind.TRAIN), ("in-it", Kind.SCORE)]


def test_links_are_neither_followed_nor_taken_for_runs(make_run: Make, tmp_path: Path) -> None:
    outside = make_run(tmp_path / "outside" / "t")
    runs = tmp_path / "runs"
    make_run(runs / "own")
    (runs / "link").symlink_to(outside)
    (runs / "round").symlink_to(runs)
    make_run(tmp_path / "more" / "u")
    (runs / "to-many").symlink_to(tmp_path / "more")
    assert (runs / "link" / "recipe.json").is_file(), "the link leads to a run"
    assert kind_of(runs / "link") is None
    assert found(runs) == [("own", Kind.TRAIN)]


def test_a_run_whose_mark_is_a_link_is_none(tmp_path: Path, make_run: Make) -> None:
    outside = make_run(tmp_path / "outside")
    (tmp_path / "runs" / "x").mkdir(parents=True)
    (tmp_path / "runs" / "x" / "recipe.json").symlink_to(outside / "recipe.json")
    assert find([tmp_path / "runs"]) == ()


def test_each_run_is_found_once_however_often_its_place_is_named(make_run: Make, tmp_path: Path) -> None:
    run = make_run(tmp_path / "t")
    assert len(find([tmp_path, run, tmp_path / "t" / ".." / "t"])) == 1


def test_the_search_ends_at_its_depth(make_run: Make, tmp_path: Path) -> None:
    make_run(tmp_path / "1" / "2" / "3" / "t")
    assert find([tmp_path], deepest=3) == ()
    assert len(find([tmp_path], deepest=4)) == 1


def test_numbers_in_names_sort_as_numbers() -> None:
    names = ["step-100", "step-9", "step-10", "a", "step-9b", "²"]
    assert sorted(names, key=by_number) == ["a", "step-9", "step-9b", "step-10", "step-100", "²"]


def test_a_root_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match="nowhere is no folder"):
        find([tmp_path / "nowhere"])


def test_what_is_no_run_is_refused_with_what_is_there_instead(make_run: Make, tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "t")
    with pytest.raises(AskedWrongly, match="does not exist"):
        opened(tmp_path / "gone")
    with pytest.raises(AskedWrongly, match=r"below it are .*runs/t$"):
        opened(tmp_path)
    with pytest.raises(AskedWrongly, match=r"its folder .*t is one"):
        opened(run / "metrics.jsonl")
    assert opened(run).kind is Kind.TRAIN


def test_a_link_that_a_person_names_is_opened(make_run: Make, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(make_run(tmp_path / "t"))
    latest = Folder(path=tmp_path / "latest", kind=Kind.TRAIN)
    assert opened(tmp_path / "latest") == latest
    assert find([tmp_path / "latest"]) == (latest,)


def test_a_killed_run_is_left_and_never_said_to_run(make_run: Make, held: Held, tmp_path: Path) -> None:
    """H6, H7, H13: first while its process lives; then as a dead one that nobody has waited for; then gone."""
    folder = opened(make_run(tmp_path / "t", ended=False))
    with held(folder.path) as process:
        assert state_of(folder) is State.RUNNING
        os.kill(process.pid, signal.SIGKILL)
        while _letter(process.pid) != "Z":
            time.sleep(0.005)
        assert state_of(folder) is State.LEFT, "a zombie holds nothing"
    assert state_of(folder) is State.LEFT


def _letter(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("listed", [True, False])
def test_a_held_lock_is_seen_with_the_kernels_list_and_without(
    make_run: Make, held: Held, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: bool
) -> None:
    if not listed:
        monkeypatch.setattr("opd.view.runs.folders._LOCKS", tmp_path / "no-list")
    folder = opened(make_run(tmp_path / "t", ended=False))
    other = opened(make_run(tmp_path / "u", ended=False))
    with held(folder.path):
        assert (is_at_work(folder), is_at_work(other)) == (True, False)
    assert not is_at_work(folder)


@pytest.mark.parametrize(
    ("line", "running"),
    [
        ("1: FLOCK  ADVISORY  WRITE 7 {device}:{inode} 0 EOF", True),
        ("1: FLOCK  ADVISORY  READ  7 {device}:{inode} 0 EOF", False),
        ("1: POSIX  ADVISORY  WRITE 7 {device}:{inode} 0 EOF", False),
        ("1: -> FLOCK  ADVISORY  WRITE 7 {device}:{inode} 0 EOF", False),
        ("1: FLOCK  ADVISORY  WRITE 7 {device}:1{inode} 0 EOF", False),
        ("1: FLOCK  ADVISORY  WRITE 7 ff:fff:{inode} 0 EOF", False),
        ("", False),
    ],
)
def test_a_line_of_the_kernels_list_counts_when_it_is_of_this_folder_for_one_alone(
    make_run: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, running: bool
) -> None:
    """Of the same number on another device, the lock itself is asked for, and nobody has it."""
    folder = opened(make_run(tmp_path / "t", ended=False))
    status = folder.path.stat()
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    (tmp_path / "locks").write_text(line.format(device=device, inode=status.st_ino) + "\n")
    monkeypatch.setattr("opd.view.runs.folders._LOCKS", tmp_path / "locks")
    assert is_at_work(folder) is running


def test_who_looks_neither_takes_the_lock_nor_sees_another_who_looks(
    make_run: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = opened(make_run(tmp_path / "t", ended=False))
    monkeypatch.setattr("opd.view.runs.folders._LOCKS", tmp_path / "no-list")
    close, asked = os.close, []

    def while_open(descriptor: int) -> None:
        """In the midst of one look, another."""
        if not asked:
            asked.append(True)
            asked.append(is_at_work(folder))
        close(descriptor)

    monkeypatch.setattr(os, "close", while_open)
    assert not is_at_work(folder)
    monkeypatch.undo()
    assert asked == [True, False]
    with alone(folder.path):
        pass


@pytest.mark.parametrize(
    ("file", "values", "state"),
    [
        ("run.json", {"stop": "steps"}, State.FINISHED),
        ("run.json", {"stop": "wall_clock"}, State.FINISHED),
        ("run.json", {"stop": "interrupted"}, State.INTERRUPTED),
        ("failure.json", {"signal": None}, State.FAILED),
        ("failure.json", {"signal": "SIGTERM"}, State.INTERRUPTED),
        ("run.json", ["no object"], State.DAMAGED),
        ("run.json", {}, State.DAMAGED),
        ("failure.json", {}, State.DAMAGED),
        ("recipe.json", 3, State.DAMAGED),
        ("other.json", {}, State.LEFT),
    ],
)
def test_how_a_training_run_ended_is_read_from_its_last_file(
    make_run: Make, tmp_path: Path, file: str, values: Any, state: State
) -> None:
    run = make_run(tmp_path / "t", ended=False)
    write_json(run / file, values)
    assert state_of(Folder(path=run, kind=Kind.TRAIN)) is state


def test_a_score_is_running_left_or_finished(make_score: Make, held: Held, tmp_path: Path) -> None:
    folder = opened(make_score(tmp_path / "s", [[1]]))
    assert state_of(folder) is State.FINISHED
    (folder.path / "score.json").unlink()
    assert state_of(folder) is State.LEFT
    with held(folder.path):
        assert state_of(folder) is State.RUNNING


def test_an_attempt_is_waiting_left_finished_or_running(make_attempt: Make, held: Held, tmp_path: Path) -> None:
    folder = opened(make_attempt(tmp_path / "a", finals={60: 0.5}))
    assert state_of(folder) is State.WAITING
    with held(folder.path / "lease.lock"):
        assert state_of(folder) is State.RUNNING
    shutil.copytree(folder.path / "final" / "step-000060", folder.path / "final" / "step-000090.partial")
    assert state_of(folder) is State.LEFT, "begun, and nobody is at it"
    shutil.rmtree(folder.path / "final" / "step-000090.partial")
    (folder.path / "final" / "step-000060" / ".complete").unlink()
    assert state_of(folder) is State.LEFT, "in place, and never marked"
    assert state_of(opened(make_attempt(tmp_path / "b", report=True))) is State.FINISHED


@pytest.mark.parametrize(
    ("host", "seconds_ago", "running"), [("elsewhere", 1, True), ("elsewhere", 60, False), (None, 1, False)]
)
def test_an_attempt_on_another_host_runs_as_long_as_it_is_heard(
    make_attempt: Make, tmp_path: Path, host: str | None, seconds_ago: float, running: bool
) -> None:
    """Here, where the lock can be seen, a lease that nobody holds is a dead holder's."""
    attempt = make_attempt(tmp_path / "a")
    heard = {"realtime": time.time() - seconds_ago}
    write_json(attempt / "lease.json", {"host": host or os.uname().nodename, "heard": heard})
    assert is_at_work(opened(attempt)) is running


def test_a_folder_that_vanishes_is_passed_over(make_run: Make, tmp_path: Path) -> None:
    folder = opened(make_run(tmp_path / "t"))
    shutil.rmtree(folder.path)
    assert state_of(folder) is State.DAMAGED
    assert find([tmp_path]) == ()
