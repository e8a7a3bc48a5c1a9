"""What a matrix file means, and what is wrong with one that can't be used."""

from pathlib import Path

import pytest

from opd.protocol.cases.matrix import read_matrix
from opd.records.errors import AskedWrongly

GOOD = """
[cases.low]
recipe = "arith_tiny"
set = ["optimizer.lr=1e-4"]
seeds = [0, 7]
benchmarks = ["arith_tiny"]

[cases.plain]
recipe = "mine.toml"

[cases.codex]
task = "arith_tiny"
agent = "bash explorer.sh"
attempts = 3
"""


def test_a_case_has_a_unit_for_each_seed_or_attempt_in_the_order_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(GOOD)
    units = read_matrix(tmp_path / "m.toml").units()
    assert [one.name for one in units] == [
        "low__seed-0",
        "low__seed-7",
        "plain",
        "codex",
        "codex__2",
        "codex__3",
    ]
    assert [one.case.seeds for one in units[:3]] == [(0,), (7,), ()]
    assert [one.attempt for one in units[3:]] == [1, 2, 3]
    assert len({one.digest for one in units}) == len(units)


def test_more_seeds_and_attempts_leave_the_units_that_were_there_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(GOOD)
    (tmp_path / "more.toml").write_text(GOOD.replace("[0, 7]", "[7, 1, 0]").replace("attempts = 3", "attempts = 5"))
    before = {one.name: one.digest for one in read_matrix(tmp_path / "m.toml").units()}
    after = {one.name: one.digest for one in read_matrix(tmp_path / "more.toml").units()}
    assert set(after) - set(before) == {"low__seed-1", "codex__4", "codex__5"}
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "'cases' is required"),
        ("cases = {}", "there is no case in it"),
        ("[cases.a]\n", "a recipe, or a task, and not both"),
        ('[cases.a]\nrecipe = "x"\ntask = "y"\nagent = "z"', "a recipe, or a task, and not both"),
        ('[cases.a]\nrecipe = "x"\nattempts = 2', "attempts is not of a case with a recipe"),
        ('[cases.a]\ntask = "x"\nagent = "y"\nseeds = [1]', "seeds is not of a case with a task"),
        ('[cases.a]\ntask = "x"', "needs an agent"),
        ('[cases.a]\nrecipe = "x"\nseeds = [1, 1]', "one is there twice"),
        ('[cases.a]\nrecipe = "x"\nseeds = [-1]', "seeds"),
        ('[cases.a]\nrecipe = "x"\nsed = [1]', "did you mean 'seeds'"),
        ('[cases.a__b]\nrecipe = "x"', "can't name a case"),
        ('[cases."../a"]\nrecipe = "x"', "can't name a case"),
        ("[cases.a]\nrecipe = 3", "recipe = 3"),
        ("[cases", "is not TOML"),
    ],
)
def test_what_is_wrong_is_named(text: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(text)
    with pytest.raises(AskedWrongly) as error:
        read_matrix(tmp_path / "m.toml")
    assert fault in str(error.value)
