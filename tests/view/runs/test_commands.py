"""`opd runs`, `opd plot` and `opd top`, as a person or a program calls them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from opd.cli.plot import plot
from opd.cli.runs import runs
from opd.cli.top import top
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import write_json
from opd.view.runs.folders import find

Held = Callable[[Path], AbstractContextManager[subprocess.Popen[str]]]
Make = Callable[..., Path]


def call(verb: click.Command, *arguments: object, answer: str | None = None) -> Result:
    return CliRunner().invoke(verb, [str(argument) for argument in arguments], input=answer)


def refused(result: Result) -> str:
    assert isinstance(result.exception, AskedWrongly), result.output
    return str(result.exception)


def everything(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*"))


def aged(path: Path) -> Path:
    """Nothing in it was written to for an hour."""
    for file in path.rglob("*"):
        os.utime(file, (time.time() - 3600,) * 2)
    return path


def test_runs_are_listed_for_people_and_for_programs(make_run: Make, make_score: Make, tmp_path: Path) -> None:
    run = make_run(tmp_path / "t")
    make_score(tmp_path / "s", [[1, 0], [1, 1]], model=run / "checkpoint-12")
    listed = call(runs, "ls", tmp_path)
    assert listed.exit_code == 0
    header, *lines = listed.stdout.splitlines()
    assert header.split()[:4] == ["run", "kind", "state", "steps"]
    assert [line.split()[0] for line in lines] == [str(tmp_path / "s"), str(run)]
    assert "0.750 ± 0.250" in lines[1]
    values = json.loads(call(runs, "ls", "--json", tmp_path).stdout)
    assert [one["mean"] for one in values] == [0.75, 0.75]


def test_no_runs_are_an_empty_list_and_no_error(tmp_path: Path) -> None:
    assert json.loads(call(runs, "ls", "--json", tmp_path).stdout) == []
    assert call(runs, "ls", tmp_path).stdout == ""
    assert "no folder" in refused(call(runs, "ls", tmp_path / "nowhere"))


def test_without_a_path_the_runs_are_those_of_this_place(
    make_run: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path / "runs" / "t")
    monkeypatch.chdir(tmp_path)
    assert [one["path"] for one in json.loads(call(runs, "ls", "--json").stdout)] == ["runs/t"]


def test_one_run_is_shown_and_two_are_told_apart(make_run: Make, tmp_path: Path) -> None:
    a, b = make_run(tmp_path / "a"), make_run(tmp_path / "b", lr=1e-3)
    shown = call(runs, "show", a).stdout
    assert "ended by steps after step 12 of 12" in shown
    assert 'objective.name = "k1_policy_gradient"' in shown
    assert json.loads(call(runs, "show", a, "--json").stdout)["recipe"]["optimizer.lr"] == 6e-4
    assert json.loads(call(runs, "diff", a, b, "--json").stdout) == [
        {"part": "recipe", "key": "optimizer.lr", "a": 6e-4, "b": 1e-3}
    ]
    assert "0.0006" in call(runs, "diff", a, b).stdout
    assert "differ in nothing" in call(runs, "diff", a, a).stdout


def test_a_removed_run_is_gone_and_nothing_else_is(make_run: Make, tmp_path: Path) -> None:
    keep = make_run(tmp_path / "keep")
    before = everything(keep)
    gone = make_run(tmp_path / "gone")
    done = call(runs, "rm", gone, answer="y\n")
    assert done.exit_code == 0, done.output
    assert "ended by steps" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["keep"]
    assert everything(keep) == before


def test_without_a_yes_nothing_is_removed(make_run: Make, tmp_path: Path) -> None:
    run = make_run(tmp_path / "t")
    before = everything(run)
    for answer in ("n\n", "", "\n"):
        assert call(runs, "rm", run, answer=answer).exit_code == 1
    assert everything(run) == before


def test_what_a_run_links_to_is_not_removed_with_it_and_a_link_is_no_run(make_run: Make, tmp_path: Path) -> None:
    """H34: the run holds links out of itself, to a folder and to a file."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text("kept")
    run = make_run(tmp_path / "t")
    (run / "folder").symlink_to(outside)
    (run / "file").symlink_to(outside / "kept.txt")
    (tmp_path / "latest").symlink_to(run)
    assert "is a link; name the run that it leads to" in refused(call(runs, "rm", "--yes", tmp_path / "latest"))
    assert run.is_dir()
    assert call(runs, "rm", "--yes", run).exit_code == 0
    assert not run.exists()
    assert (outside / "kept.txt").read_text() == "kept"


def test_a_run_at_which_somebody_is_at_work_is_not_removed(make_run: Make, held: Held, tmp_path: Path) -> None:
    """Finished or not: a resumed run has its run.json for a moment longer."""
    for name, ended in (("a", False), ("b", True)):
        run = aged(make_run(tmp_path / name, ended=ended))
        before = everything(run)
        with held(run):
            assert "somebody is at work" in refused(call(runs, "rm", "--yes", run))
        assert everything(run) == before
        assert call(runs, "rm", "--yes", run).exit_code == 0


def test_of_several_runs_none_is_removed_when_one_is_refused(
    make_run: Make, make_attempt: Make, tmp_path: Path
) -> None:
    """H15: all is checked before anything is done."""
    run, attempt = make_run(tmp_path / "t"), make_attempt(tmp_path / "a")
    before = everything(tmp_path)
    assert "evidence" in refused(call(runs, "rm", "--yes", run, attempt))
    assert everything(tmp_path) == before
    assert call(runs, "rm", "--yes", "--attempt", run, attempt).exit_code == 0
    assert everything(tmp_path) == []


def test_an_attempt_at_work_is_not_removed_even_when_it_is_asked_for(
    make_attempt: Make, held: Held, tmp_path: Path
) -> None:
    attempt = make_attempt(tmp_path / "a")
    with held(attempt / "lease.lock"):
        assert "somebody is at work" in refused(call(runs, "rm", "--yes", "--attempt", attempt))
    assert attempt.is_dir()


def test_a_run_that_wrote_just_now_and_never_ended_may_be_on_another_host(make_run: Make, tmp_path: Path) -> None:
    run = make_run(tmp_path / "t", ended=False)
    assert "may be on another host" in refused(call(runs, "rm", "--yes", run))
    aged(run)
    assert call(runs, "rm", "--yes", run).exit_code == 0


def test_a_folder_that_is_no_run_is_never_removed(make_run: Make, tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "t")
    assert "is no run" in refused(call(runs, "rm", "--yes", tmp_path / "runs"))
    assert "is no run" in refused(call(runs, "rm", "--yes", tmp_path / "runs" / "t" / "checkpoint-12"))
    assert len(find([tmp_path])) == 1


def test_a_removal_that_was_stopped_leaves_no_run_behind(
    make_run: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run has lost its name when its first file goes."""
    run = make_run(tmp_path / "t")

    def stopped(path: Path) -> None:
        assert not run.exists()
        raise KeyboardInterrupt

    monkeypatch.setattr("opd.cli.runs.shutil.rmtree", stopped)
    assert call(runs, "rm", "--yes", run).exit_code != 0
    assert find([tmp_path]) == ()
    assert [path.name.startswith(".t.removed-") for path in tmp_path.iterdir()] == [True]


def test_what_lies_in_a_run_is_named_before_it_goes_with_it(make_run: Make, make_score: Make, tmp_path: Path) -> None:
    run = make_run(tmp_path / "t")
    make_score(run / "scores" / "inside", [[1]])
    assert "with 1 more in it" in call(runs, "rm", run, answer="n\n").stderr


def test_a_run_and_one_that_lies_in_it_are_removed_together(make_run: Make, make_score: Make, tmp_path: Path) -> None:
    run = make_run(tmp_path / "t")
    inside = make_score(run / "scores" / "inside", [[1]])
    assert call(runs, "rm", "--yes", run, inside).exit_code == 0
    assert everything(tmp_path) == []


def test_a_run_is_removed_by_whichever_of_its_names(make_run: Make, tmp_path: Path) -> None:
    run = make_run(tmp_path / "t")
    (run / "scores").mkdir()
    assert call(runs, "rm", "--yes", run / "scores" / "..").exit_code == 0
    assert everything(tmp_path) == []


def test_a_picture_is_written_with_its_data(make_run: Make, tmp_path: Path) -> None:
    make_run(tmp_path / "t", steps=3)
    done = call(plot, "curve", tmp_path, "--metric", "kl", "--out", tmp_path / "new" / "x.svg")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "new" / "x.svg").read_text().startswith("<svg")
    assert (tmp_path / "new" / "x.csv").read_text().startswith("run,step,kl,kl_moving_mean\nt,1,")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--out", "x.gif"], "its ending says what to write"),
        (["--out", "x.svg", "--width", "99"], "in inches"),
        (["--out", "x.svg", "--metric", "nothing"], "no metric 'nothing'"),
    ],
)
def test_a_picture_that_cannot_be_is_refused_and_nothing_is_written(
    make_run: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    make_run(tmp_path / "t", steps=3)
    monkeypatch.chdir(tmp_path)
    assert said in refused(call(plot, "curve", "t", *arguments))
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


# A shell that starts programs in the background has them ignore Ctrl-C; here it is a person's.
FOLLOW = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from opd.cli.top import top
top.main(sys.argv[1:], prog_name="opd top")
"""


@contextmanager
def following(*paths: Path) -> "Iterator[subprocess.Popen[str]]":
    """`opd top` on pipes; it is ended in any case."""
    command = [sys.executable, "-c", FOLLOW, *map(str, paths)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_on_a_pipe_runs_are_followed_until_all_have_ended(make_run: Make, held: Held, tmp_path: Path) -> None:
    done, going = make_run(tmp_path / "done"), make_run(tmp_path / "going", ended=False, steps=3)
    with held(going), following(tmp_path) as process:
        assert process.stdout is not None
        first, second = process.stdout.readline(), process.stdout.readline()
        write_json(going / "run.json", json.loads((done / "run.json").read_text()))
        said, wrong = process.communicate(timeout=60)
    assert (process.returncode, wrong) == (0, "")
    assert first.split()[1:] == ["finished", "steps", "12/12", *first.split()[4:]]
    assert second.split()[1] == "running"
    assert [line.split()[:2] for line in said.splitlines()] == [[str(going), "finished"]]
    assert "\x1b" not in first + second + said


def test_ctrl_c_is_the_usual_end_of_following(make_run: Make, held: Held, tmp_path: Path) -> None:
    going = make_run(tmp_path / "going", ended=False, steps=3)
    with held(going), following(tmp_path) as process:
        assert process.stdout is not None
        assert "running" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, wrong = process.communicate(timeout=60)
    assert (process.returncode, wrong) == (0, "")


def test_nothing_to_follow_is_said(tmp_path: Path) -> None:
    assert call(top, tmp_path).stderr == "no runs here\n"
    assert "no folder" in refused(call(top, tmp_path / "nowhere"))


def test_a_run_is_shown_with_the_score_that_the_list_has(
    make_run: Make, make_score: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = make_run(tmp_path / "runs" / "sweep" / "first")
    make_score(tmp_path / "runs" / "scores" / "first", [[1, 0], [1, 1]], model=run / "checkpoint-12")
    (listed,) = (one for one in json.loads(call(runs, "ls", "--json").stdout) if one["kind"] == "train")
    shown = json.loads(call(runs, "show", "runs/sweep/first", "--json").stdout)
    assert (shown["mean"], shown["scored"]) == (0.75, "checkpoint-12 on arith_tiny")
    assert {**shown, "path": None} == {**listed, "path": None}
    assert "0.750 ± 0.250, checkpoint-12 on arith_tiny" in call(runs, "show", run).stdout


def test_a_run_elsewhere_has_the_scores_that_lie_near_it(make_run: Make, make_score: Make, tmp_path: Path) -> None:
    run = make_run(tmp_path / "elsewhere" / "first")
    make_score(run / "scores" / "final", [[1, 0], [1, 1]], model=run / "checkpoint-12")
    assert json.loads(call(runs, "show", run, "--json").stdout)["mean"] == 0.75


@pytest.mark.parametrize(("answer", "said"), [("n\n", "nothing was removed"), ("", "no answer; --yes")])
def test_without_a_yes_nothing_is_removed_and_that_is_said(
    make_run: Make, tmp_path: Path, answer: str, said: str
) -> None:
    run = make_run(tmp_path / "t")
    result = call(runs, "rm", run, answer=answer)
    assert isinstance(result.exception, AnswerIsNo)
    assert "nothing was removed" in str(result.exception)
    assert said in str(result.exception)
    assert (run / "run.json").is_file()


def test_top_says_each_run_once_as_json(make_run: Make, held: Held, tmp_path: Path) -> None:
    ended, running = make_run(tmp_path / "a"), make_run(tmp_path / "b", ended=False)
    with held(running):
        said = call(top, tmp_path, "--json")
    found = {one["path"]: one for one in map(json.loads, said.stdout.splitlines())}
    assert {path: one["state"] for path, one in found.items()} == {str(ended): "finished", str(running): "running"}
    assert found[str(running)]["tokens_per_second"] > 0
    assert found[str(ended)]["tokens_per_second"] is None
    assert 0 < found[str(ended)]["kl"] < 1
    assert call(top, tmp_path / "a" / "checkpoint-6", "--json").stdout == ""
