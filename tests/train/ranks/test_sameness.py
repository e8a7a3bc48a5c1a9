"""Ranks that were called differently, or run other code, are refused on every rank before a model is loaded."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.train.ranks.commands import called

import opd
from opd.records.places import recipe_path

NEW = ("arith_tiny", "--set", "budget.steps=1", "--quiet")


@pytest.mark.patient
@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        (NEW, (*NEW, "--resume"), "rank 1 has resumed --resume, rank 0 a new run"),
        ((*NEW, "--rehearse"), NEW, "rank 1 has rehearsal not asked, rank 0 --rehearse"),
        (NEW, (*NEW, "--set", "seed=9"), "rank 1 has recipe "),
    ],
)
def test_ranks_that_are_called_differently_are_refused_on_each_and_the_words_are_named(
    tmp_path: Path, first: tuple[str, ...], second: tuple[str, ...], named: str
) -> None:
    (status, said), (other_status, other_said) = called(tmp_path / "run", first, second)
    assert (status, other_status) == (2, 2)
    assert f"the ranks don't begin from the same things: {named}" in said
    assert "Traceback" not in said + other_said
    assert "opd:" not in other_said  # rank 0 has said it
    assert not (tmp_path / "run").exists()


@pytest.mark.patient
def test_a_finished_run_that_one_rank_resumes_and_the_other_begins_is_left_as_it_was(tmp_path: Path) -> None:
    out = tmp_path / "run"
    subprocess.run([sys.executable, "-m", "opd", "train", *NEW, "--out", str(out)], check=True)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    (status, said), (other_status, other_said) = called(out, (*NEW, "--resume"), NEW)
    assert (status, other_status) == (2, 2)
    assert "Traceback" not in said + other_said
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


@pytest.mark.patient
def test_ranks_with_other_sources_of_the_same_version_are_refused(tmp_path: Path) -> None:
    """One more line in one file of rank 1's copy."""
    source = tmp_path / "source"
    shutil.copytree(Path(opd.__file__).parent, source / "opd", ignore=shutil.ignore_patterns("__pycache__"))
    with (source / "opd" / "train" / "tally.py").open("a", encoding="utf-8") as file:
        file.write("\n# another\n")
    words = (str(recipe_path("arith_tiny")), *NEW[1:])
    (status, said), (other_status, _) = called(tmp_path / "run", words, words, source=source)
    assert (status, other_status) == (2, 2)
    assert f"rank 1 has opd {opd.__version__} (" in said
    assert "by the same install" in said
