"""What a reader has no right to is named, and is never shown as if there were nothing."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.view.rights import bound_by_modes

import opd
from opd.cli.runs import runs
from opd.records.errors import AskedWrongly
from opd.view.runs.folders import Closed, Folder, Kind, State, find, kind_of, opened
from opd.view.runs.summaries import summary
from opd.view.terminal.top import Watch

Make = Callable[..., Path]


@pytest.fixture
def close() -> Iterator[Callable[[Path], Path]]:
    """`close(path)` takes away every right; it is given back after the test."""
    modes: dict[Path, int] = {}

    def closing(path: Path) -> Path:
        modes[path] = path.stat().st_mode
        path.chmod(0)
        return path

    with bound_by_modes():
        yield closing
    for path, mode in modes.items():
        path.chmod(mode)


def test_a_closed_folder_is_told_of_and_hides_no_other(
    make_run: Make, close: Callable[[Path], Path], tmp_path: Path
) -> None:
    open_one, closed_one = make_run(tmp_path / "a"), close(make_run(tmp_path / "b"))
    told: list[Closed] = []
    assert [one.path for one in find([tmp_path], closed=told.append)] == [open_one]
    assert told == [Closed(path=closed_one, why="Permission denied")]
    listed = CliRunner().invoke(runs, ["ls", str(tmp_path), "--json"])
    assert [one["path"] for one in json.loads(listed.stdout)] == [str(open_one)]
    assert listed.stderr == f"{closed_one} can't be looked into: Permission denied\n"


def test_a_folder_whose_names_alone_are_closed_is_still_a_run(
    make_run: Make, close: Callable[[Path], Path], tmp_path: Path
) -> None:
    run = close(make_run(tmp_path / "a"))
    run.chmod(0o100)  # its files can be opened by name
    told: list[Closed] = []
    assert find([tmp_path], closed=told.append) == (Folder(path=run, kind=Kind.TRAIN),)
    assert [one.path for one in told] == [run]


def test_who_names_a_closed_folder_is_told_why(make_run: Make, close: Callable[[Path], Path], tmp_path: Path) -> None:
    run = close(make_run(tmp_path / "a"))
    assert kind_of(run) is None
    with pytest.raises(AskedWrongly, match="a can't be looked into: Permission denied"):
        opened(run)


@pytest.mark.parametrize("name", ["recipe.json", "metrics.jsonl", "run.json"])
def test_a_closed_file_of_a_training_run_is_damage_that_is_named(
    make_run: Make, close: Callable[[Path], Path], tmp_path: Path, name: str
) -> None:
    run = make_run(tmp_path / "a")
    close(run / name)
    said = summary(opened(run))
    assert (said.state, said.step) == (State.DAMAGED, None)
    assert said.trouble is not None
    assert said.trouble.startswith(f"{run / name} can't be read: ")
    assert "Permission denied" in said.trouble
    shown = CliRunner().invoke(runs, ["show", str(run)])
    assert (shown.exit_code, f"can't be read    {run / name}" in shown.stdout) == (0, True)
    watch = Watch([tmp_path])
    assert [one.run.trouble for one in watch.look()] == [said.trouble]


def test_a_finished_score_with_closed_samples_says_so(
    make_score: Make, close: Callable[[Path], Path], tmp_path: Path
) -> None:
    score = make_score(tmp_path / "s", [[1, 0], [1, 1]])
    assert summary(opened(score)).trouble is None
    close(score / "samples.jsonl")
    said = summary(opened(score))
    assert (said.state, said.mean) == (State.FINISHED, 0.75)
    assert said.trouble == f"{score / 'samples.jsonl'} can't be read: Permission denied"


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("recipe.json", "{cut", "recipe.json is not JSON"),
        ("recipe.json", '{"budget": 3}', "a file of it does not hold what it should"),
        ("run.json", '{"stop": "steps"}', "run.json: "),
    ],
)
def test_damage_is_said_in_words_and_by_no_name_of_a_class(
    make_run: Make, tmp_path: Path, file: str, text: str, said: str
) -> None:
    run = make_run(tmp_path / "a")
    (run / file).unlink()
    (run / file).write_text(text)
    trouble = summary(opened(run)).trouble
    assert trouble is not None
    assert said in trouble
    assert "Error" not in trouble
    assert "AskedWrongly" not in trouble


def test_the_state_of_an_object_is_the_state_that_it_shows(make_run: Make, tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    (run / "recipe.json").unlink()
    (run / "recipe.json").write_text("{cut")  # run.json still says that it finished
    one = opd.open(run)
    assert one.state is one.summary.state is State.DAMAGED
    assert "damaged" in repr(one)
