"""Objectives are found by the names of their files."""

from pathlib import Path

import pytest
import torch

from opd.records.errors import AskedWrongly
from opd.train import objective, objectives
from opd.train.objective import StudentView


def test_the_names_are_those_of_the_files() -> None:
    folder = Path(objectives.__file__).parent
    assert objective.names() == sorted(path.stem for path in folder.glob("[!_]*.py"))
    assert {"k1_policy_gradient", "k2"} <= set(objective.names())


@pytest.mark.parametrize("name", ["k3", "K2", "../k2", ""])
def test_an_unknown_name_is_answered_with_those_there_are(name: str) -> None:
    with pytest.raises(AskedWrongly, match=f"no objective '{name}'; there are: {', '.join(objective.names())}"):
        objective.find(name)


def test_the_ratio_is_of_now_to_before() -> None:
    view = StudentView(logp_N=torch.tensor([0.5, 0.2]).log(), old_logp_N=torch.tensor([0.25, 0.4]).log())
    assert view.ratio_N.tolist() == pytest.approx([2.0, 0.5])
