"""A checkpoint is taken from the explorer's own folder or not at all (faults H34)."""

import os
from pathlib import Path, PurePosixPath

import pytest

from opd.protocol.explorer.taking import take_over
from opd.records.errors import AnswerIsNo


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The explorer's folder, with a checkpoint in it, and links to one that is outside."""
    outside = tmp_path / "outside" / "checkpoint"
    inside = tmp_path / "root" / "run" / "checkpoint"
    for folder in (outside, inside):
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_text(folder.parent.name)
    (tmp_path / "root" / "link").symlink_to(outside)
    (tmp_path / "root" / "middle").symlink_to(tmp_path / "outside")
    (inside.parent / "file").write_text("x")
    return tmp_path / "root"


def test_what_lies_inside_is_copied(root: Path, tmp_path: Path) -> None:
    take_over(root, PurePosixPath("run/checkpoint"), tmp_path / "taken", largest_bytes=100)
    assert (tmp_path / "taken" / "model.safetensors").read_text() == "run"


@pytest.mark.parametrize("place", ["link", "middle/checkpoint", "../outside/checkpoint", "run/file", "nothing"])
def test_what_a_link_leads_to_is_not_though_it_is_there(root: Path, tmp_path: Path, place: str) -> None:
    if place not in {"nothing", "run/file"}:
        assert (root / place / "model.safetensors").exists(), "who follows gets there"
    with pytest.raises(AnswerIsNo, match="can't be taken as a checkpoint"):
        take_over(root, PurePosixPath(place), tmp_path / "taken", largest_bytes=100)
    assert not (tmp_path / "taken").exists()


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_what_is_no_file_in_it_is_refused_and_nobody_waits(root: Path, tmp_path: Path, kind: str) -> None:
    place = root / "run" / "checkpoint" / "strange"
    makers = {
        "link": lambda: place.symlink_to("/etc/passwd"),
        "fifo": lambda: os.mkfifo(place),
        "folder": place.mkdir,
    }
    makers[kind]()
    with pytest.raises(AnswerIsNo, match="can't be taken as a checkpoint"):
        take_over(root, PurePosixPath("run/checkpoint"), tmp_path / "taken", largest_bytes=100)
    assert not (tmp_path / "taken").exists()


def test_more_than_may_be_taken_is_not(root: Path, tmp_path: Path) -> None:
    with pytest.raises(AnswerIsNo, match="holds more than 2 bytes"):
        take_over(root, PurePosixPath("run/checkpoint"), tmp_path / "taken", largest_bytes=2)
