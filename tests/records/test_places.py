"""References: what ships, and what is a path."""

from pathlib import Path

import pytest

import opd
from opd.records.errors import AskedWrongly
from opd.records.places import locate, recipe_path, shipped_recipes

PACKAGE = Path(opd.__file__).parent


def test_a_reference_to_the_package_is_a_path_inside_it():
    assert locate("opd:arith_tiny/problems.py") == PACKAGE / "tasks/arith_tiny/problems.py"


def test_anything_else_is_a_path_whether_or_not_there_is_anything(monkeypatch):
    monkeypatch.setenv("HOME", "/somewhere")
    assert locate("models/none") == Path("models/none")
    assert locate("~/models/none") == Path("/somewhere/models/none")
    assert recipe_path("~/none.toml") == Path("/somewhere/none.toml")
    assert recipe_path("runs/1/recipe.json") == Path("runs/1/recipe.json")


def test_what_does_not_ship_is_refused_with_the_tasks_that_do():
    with pytest.raises(AskedWrongly, match="opd:arith_huge/student is not part of this install") as caught:
        locate("opd:arith_huge/student")
    assert str(caught.value).endswith("; embedded tasks: arith_gap, arith_tiny")


def test_what_an_interpreter_left_among_the_tasks_is_none(tmp_path, monkeypatch):
    for name in ("__pycache__/__init__.cpython-311.pyc", "sums/__init__.py", "__init__.py"):
        (tmp_path / "tasks" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tasks" / name).touch()
    monkeypatch.setattr("opd.records.places.PACKAGE", tmp_path)
    with pytest.raises(AskedWrongly, match=r"embedded tasks: sums$"):
        locate("opd:none")


def test_a_recipe_goes_by_the_name_of_its_file():
    for name, path in shipped_recipes().items():
        assert recipe_path(name) == path
        assert path.name == f"{name}.toml"
        assert path.is_file()
    with pytest.raises(AskedWrongly, match=r"no recipe 'arith': give a \.toml file, or one of "):
        recipe_path("arith")
