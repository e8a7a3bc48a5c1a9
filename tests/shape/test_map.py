"""The maps of the house for newcomers, against the folders that there are."""

import re
from pathlib import Path

import pytest

import opd.protocol

HOUSE = Path(__file__).parents[2]
ROOMS = sorted(path.parent for path in (HOUSE / "src/opd").glob("*/__init__.py"))


def folders(room: Path) -> list[str]:
    return sorted(f"{path.parent.name}/" for path in room.glob("*/__init__.py"))


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_contributing_names_every_room_and_its_folders(room: Path) -> None:
    text = (HOUSE / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = re.search(rf"^  {room.name}/ .*(?:\n {{4,}}.*)*", text, re.MULTILINE)  # what belongs to it stands deeper
    assert found
    inside = [] if room.name == "tasks" else folders(room)  # each folder of that room is a task
    assert [name for name in inside if name not in found.group()] == []


def test_the_readme_names_every_room() -> None:
    picture = (HOUSE / "README.md").read_text(encoding="utf-8").split("src/opd/   ", 1)[1].split("```", 1)[0]
    assert {word for word in picture.split() if word.endswith("/")} == {f"{room.name}/" for room in ROOMS}


def test_the_protocols_own_picture_names_each_of_its_folders() -> None:
    lines = (opd.protocol.__doc__ or "").splitlines()[2:]
    assert sorted(line.split()[0] for line in lines) == folders(HOUSE / "src/opd/protocol")
