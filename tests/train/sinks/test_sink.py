"""What can be asked for, and what is refused before anything is loaded."""

import importlib.util
import sys
import tomllib
from pathlib import Path

import pytest

from opd.records.errors import AskedWrongly
from opd.train.ahead.plan import make_plan
from opd.train.run import prepare
from opd.train.saved.resume import differences
from opd.train.sink import SinkSettings, lacking, names, numbers


def test_every_number_of_a_line_has_a_name_that_says_where_it_stood(bare) -> None:
    assert dict(numbers(bare.line(3))) == bare.written(3)
    assert dict(numbers({"step": 1, "objective": {"step": 2.0}})) == {"objective/step": 2.0}


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ('["tensorbord"]', "no sink 'tensorbord'; there are: tensorboard, trackio, wandb"),
        ('["wandb", "wandb"]', "a sink is named twice; once is enough"),
    ],
)
def test_sinks_that_are_unknown_or_named_twice_are_refused(make_recipe, to: str, message: str) -> None:
    with pytest.raises(AskedWrongly) as refusal:
        make_recipe(f"sinks.to={to}")
    assert message in str(refusal.value)


def test_a_sink_that_is_not_installed_is_refused_before_anything_is_loaded(
    make_recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside everything else that is missing, so that no model was opened; `opd plan` says it too."""
    monkeypatch.setitem(sys.modules, "wandb", None)  # Python's own way to say that it can't be imported
    line = "sinks: wandb is not installed; pip install 'opd[wandb]', or leave it out of sinks.to"
    recipe = make_recipe('sinks.to=["wandb"]', f"teacher.model={tmp_path}/none")
    with pytest.raises(AskedWrongly) as refusal:
        prepare(recipe, tmp_path / "run")
    assert f"  - {line}" in str(refusal.value).splitlines()
    assert "teacher: model" in str(refusal.value)
    assert refusal.value.exit_code == 2
    assert not (tmp_path / "run").exists()
    assert line in make_plan(recipe, out=tmp_path).lacks
    assert line not in make_plan(make_recipe(), out=tmp_path).lacks


def test_a_folder_that_has_the_name_of_a_sink_is_not_taken_for_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every W&B run leaves one; Python would import it."""
    (tmp_path / "wandb").mkdir()
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert importlib.util.find_spec("wandb") is not None
    assert len(lacking(SinkSettings(to=("wandb",)))) == 1


def test_a_sink_is_named_as_its_package_and_as_the_extra_that_brings_it() -> None:
    house = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    extras = house["project"]["optional-dependencies"]
    assert names() == ["tensorboard", "trackio", "wandb"]
    for name in names():
        assert [one.partition(">")[0] for one in extras[name]] == [name]


def test_a_resumed_run_may_be_shown_elsewhere(make_recipe) -> None:
    assert differences(make_recipe(), make_recipe('sinks.to=["trackio"]', "sinks.project=other")) == []
    assert differences(make_recipe(), make_recipe("seed=3")) != []
