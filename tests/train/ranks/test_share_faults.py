"""What a run does whose ranks have shares, and write them, when its folder is taken away or has no room."""

import resource
from pathlib import Path

import pytest
from tests.train.ranks.processes import together
from tests.train.ranks.test_faults import WIDE, removed

from opd.records.errors import AnswerIsNo
from opd.train.ranks.joining import joined
from opd.train.recipe import Recipe
from opd.train.run import prepare, run

pytestmark = pytest.mark.patient

BETWEEN_BYTES = 200_000  # more than a fourth of a state, less than a checkpoint


@pytest.mark.parametrize("shard", ["optimizer", "full"])
def test_a_folder_that_vanishes_before_the_shares_are_written_is_not_made_anew(
    make_recipe, tmp_path: Path, shard: str
) -> None:
    recipe = make_recipe(*WIDE, "budget.steps=50", "save.every=2", f"machine.shard={shard}")
    found = together(2, removed, recipe, tmp_path / "run")
    assert [kind for kind, _ in found] == ["NotWritten", "AnswerIsNo"]
    assert {message for _, message in found} == {found[0][1]}
    assert f"{tmp_path / 'run'} has gone since the step before" in found[0][1]
    assert not (tmp_path / "run").exists()


def without_room(recipe: Recipe, out: Path) -> str:
    """What ended this rank; a share of a state fits on rank 0's disk, and a checkpoint does not."""
    try:
        with joined(device="cpu") as ranks:
            parts = prepare(recipe, out, ranks=ranks)
            if ranks.writes:
                resource.setrlimit(resource.RLIMIT_FSIZE, (BETWEEN_BYTES, BETWEEN_BYTES))
            run(recipe, parts, out)
    except AnswerIsNo as error:
        return str(error)
    return ""


def test_a_checkpoint_that_can_not_be_written_leaves_no_state_beside_it(make_recipe, tmp_path: Path) -> None:
    """The shares of a state are there before it, and would take the room that is lacking."""
    out = tmp_path / "run"
    recipe = make_recipe(*WIDE, "machine.shard=full", "budget.steps=2", "save.every=1")
    (said,) = set(together(4, without_room, recipe, out))
    assert "checkpoint-1 could not be saved" in said
    assert list((out / "state").iterdir()) == []
    assert not list(out.glob("checkpoint-*"))
