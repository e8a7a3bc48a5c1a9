"""Folders that a stranger filled: what is read of them, and what leads elsewhere or holds nobody up."""

import os
import time
from pathlib import Path

import pytest

from opd.protocol.checkpoints.strangers import Strange, opened, parse_object, read_exactly
from opd.records.checkpoints import Rule


def refused(folder: Path, name: str, *, largest: int = 100) -> Rule:
    with pytest.raises(Strange) as caught, opened(folder) as place:
        place.read(name, largest=largest)
    return caught.value.rule


def test_a_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"twelve bytes")
    with opened(tmp_path) as place:
        assert place.read("x", largest=12) == b"twelve bytes"
    assert refused(tmp_path, "x", largest=11) is Rule.SIZE


def test_no_link_is_followed_but_in_a_folder_of_our_own(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("{}")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "x").symlink_to("../secret")
    assert refused(folder, "x") is Rule.LINK
    with opened(folder, follows=True) as place:
        assert place.object("x", largest=10) == {}
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(Strange), opened(tmp_path / "link"):
        pass
    with opened(tmp_path / "link", follows=True) as place:
        assert place.names(most=1) == ["x"]


def test_what_is_no_file_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    began = time.monotonic()
    assert [refused(tmp_path, name) for name in ("fifo", "folder")] == [Rule.SPECIAL, Rule.SPECIAL]
    assert time.monotonic() - began < 1


def test_a_file_that_is_not_there_is_no_strange_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), opened(tmp_path) as place:
        place.read("x", largest=1)


def test_a_folder_that_is_moved_away_and_replaced_by_a_link_is_the_one_that_was_opened(tmp_path: Path) -> None:
    """What is checked is what was opened, however names change meanwhile."""
    folder, other = tmp_path / "folder", tmp_path / "other"
    for place, text in ((folder, "ours"), (other, "another's")):
        place.mkdir()
        (place / "x").write_text(text)
    with opened(folder) as place:
        folder.rename(tmp_path / "moved")
        folder.symlink_to(other)
        assert (folder / "x").read_text() == "another's", "by its name, another is read now"
        assert place.read("x", largest=100) == b"ours"


def test_a_file_that_became_shorter_is_said_to_have(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"1234")
    with opened(tmp_path) as place, place.file("x") as descriptor:
        assert read_exactly(descriptor, offset=1, size=3) == b"234"
        with pytest.raises(Strange, match="shorter"):
            read_exactly(descriptor, offset=1, size=4)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"1", b'{"a":1,"a":1}', b"{" * 100_000, b"\xff", b'{"a":' + b"[" * 99_999]
)
def test_what_is_no_object_is_refused(text: bytes) -> None:
    with pytest.raises(Strange) as caught:
        parse_object(text)
    assert caught.value.rule is Rule.JSON
    assert len(caught.value.says) < 200
