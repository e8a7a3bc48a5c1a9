"""What is taken of the explorer's own run folder: small files, as they are, and a few figures that they claim."""

import hashlib
import json
import os
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from opd.protocol.explorer import claims as module
from opd.protocol.explorer.claims import Claims, Training, claims

RECIPE = {"seed": 42, "budget": {"steps": 110}, "data": {"shuffle": True}}


def metrics(steps: int) -> str:
    """Lines of `opd train`: a step takes two seconds, and sees two rows."""
    lines = [{"step": step, "rows_seen": 2 * step, "seconds": {"total": 2.0}} for step in range(1, steps + 1)]
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A training of 110 steps that is at step 63, with a checkpoint of step 55."""
    checkpoint = tmp_path / "runs" / "shuffle" / "checkpoint-55"
    checkpoint.mkdir(parents=True)
    (checkpoint / "opd.json").write_text(json.dumps({"step": 55}))
    (checkpoint / "model.safetensors").write_bytes(b"weights")
    (checkpoint.parent / "recipe.json").write_text(json.dumps(RECIPE))
    (checkpoint.parent / "metrics.jsonl").write_text(metrics(63) + '{"step": 64, "rows_')
    return tmp_path / "runs"


def taken(runs: Path, inside: str = "shuffle/checkpoint-55") -> Claims:
    found = claims(runs, PurePosixPath(inside), named=PurePosixPath("/runs") / inside)
    assert found is not None
    return found


def test_a_training_that_goes_on_is_told_up_to_its_checkpoint(runs: Path) -> None:
    found = taken(runs)
    recipe = (runs / "shuffle" / "recipe.json").read_bytes()
    assert found.training == Training(
        folder="/runs/shuffle", step=55, last_step=63, asked_steps=110, seed=42, seconds=110.0, rows_seen=110,
        stop=None, recipe_sha256=hashlib.sha256(recipe).hexdigest(),
        files={name: hashlib.sha256(held).hexdigest() for name, held in found.files.items()}, left_out={},
    )  # fmt: skip
    assert set(found.files) == {"recipe.json", "metrics.jsonl", "opd.json"}
    assert found.files["recipe.json"] == recipe


def test_one_that_ended_says_why(runs: Path) -> None:
    (runs / "shuffle" / "run.json").write_text(json.dumps({"stop": "wall_clock\x1b[2J"}))
    assert taken(runs).training.stop == "wall_clock [2J", "and moves nobody's cursor"


@pytest.mark.parametrize("seconds", [-1.0, 1e12, "2", None])
def test_times_that_none_can_have_are_not_added(runs: Path, seconds: object) -> None:
    (runs / "shuffle" / "metrics.jsonl").write_text(json.dumps({"step": 1, "seconds": {"total": seconds}}) + "\n")
    (runs / "shuffle" / "run.json").write_text(json.dumps({"stop": 7}))
    said = taken(runs).training
    assert (said.last_step, said.seconds, said.stop) == (1, None, None)


def test_what_nobody_wrote_down_can_not_be_told(runs: Path) -> None:
    """A copy of the start, or a checkpoint of another trainer: there is no record beside it."""
    bare = runs / "start"
    bare.mkdir()
    (bare / "opd.json").write_text("{}")
    assert claims(runs, PurePosixPath("start"), named=PurePosixPath("/runs/start")) is None
    assert claims(runs, PurePosixPath("nothing/at-all"), named=PurePosixPath("/runs/nothing/at-all")) is None


def test_the_number_of_a_checkpoint_is_in_its_name_where_its_own_record_does_not_say(runs: Path) -> None:
    (runs / "shuffle" / "checkpoint-55" / "opd.json").unlink()
    assert taken(runs).training.step == 55


@pytest.mark.parametrize("name", ["recipe.json", "metrics.jsonl", "run.json"])
def test_no_link_is_followed(runs: Path, tmp_path: Path, name: str) -> None:
    """faults H34: what a link names is outside, and stays there."""
    (tmp_path / "secret").write_text('{"seed": 7}\n')
    (runs / "shuffle" / name).unlink(missing_ok=True)
    (runs / "shuffle" / name).symlink_to(tmp_path / "secret")
    assert "seed" in (runs / "shuffle" / name).read_text(), "who follows gets there"
    found = taken(runs)
    assert name not in found.files
    assert "symbolic link" in found.training.left_out[name]


def test_a_pipe_in_place_of_a_file_holds_nobody_up(runs: Path) -> None:
    os.mkfifo(runs / "shuffle" / "run.json")
    assert "no file" in taken(runs).training.left_out["run.json"]


def test_a_folder_that_is_a_link_is_none(runs: Path, tmp_path: Path) -> None:
    (runs / "shuffle").rename(tmp_path / "elsewhere")
    (runs / "shuffle").symlink_to(tmp_path / "elsewhere")
    assert (runs / "shuffle" / "recipe.json").exists(), "who follows gets there"
    assert claims(runs, PurePosixPath("shuffle/checkpoint-55"), named=PurePosixPath("/runs/shuffle/x")) is None


def test_what_is_large_is_left_out_and_said(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST_BYTES", 1_000)
    found = taken(runs)
    assert "at most 1,000 are read" in found.training.left_out["metrics.jsonl"]
    assert (found.training.seconds, found.training.last_step, found.training.seed) == (None, None, 42)


@pytest.mark.parametrize(
    "recipe",
    [
        b"\xff", b"[" * 100_000, b"[]", b"null", b'{"seed": "x", "budget": 3}', b'{"seed": true}', b'{"seed": -1}',
        b'{"seed": 1e400, "budget": {"steps": [1]}}', b'{"seed": ' + b"9" * 30 + b"}",
    ],
)  # fmt: skip
def test_files_that_mean_harm_say_nothing_and_break_nothing(runs: Path, recipe: bytes) -> None:
    (runs / "shuffle" / "recipe.json").write_bytes(recipe)
    (runs / "shuffle" / "checkpoint-55" / "opd.json").write_bytes(recipe)
    lines: list[Any] = [
        {"step": 1, "seconds": {"total": -1}}, {"step": 2, "seconds": None}, {"step": "3"}, {"step": 1e99}, [], 7
    ]  # fmt: skip
    (runs / "shuffle" / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\nNaN\n")
    said = taken(runs).training
    assert (said.seed, said.asked_steps, said.seconds, said.step, said.last_step) == (None, None, None, 55, 2)
