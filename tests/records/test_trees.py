import hashlib
import os
from pathlib import Path

import pytest

from opd.records.trees import Kind, differing, entries, meant, tree_digest, written


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "a" / "empty").mkdir(parents=True)
    (root / "a" / "one.txt").write_bytes(b"one\n")
    (root / "b.sh").write_bytes(b"#!/bin/sh\n")
    (root / "b.sh").chmod(0o755)
    (root / "link").symlink_to("a/one.txt")
    return root


def test_every_name_is_an_entry_with_the_digest_that_hashlib_gives(folder: Path) -> None:
    found = {entry.path: entry for entry in entries(folder)}
    assert list(found) == ["a", "a/empty", "a/one.txt", "b.sh", "link"]
    assert found["a/one.txt"].sha256 == hashlib.sha256(b"one\n").hexdigest()
    assert found["a/one.txt"].bytes == 4
    assert found["b.sh"].mode == 0o755
    assert (found["link"].kind, found["link"].sha256) == (Kind.LINK, hashlib.sha256(b"a/one.txt").hexdigest())
    assert found["a/empty"].kind is Kind.FOLDER


def _mode(root: Path) -> None:
    (root / "a" / "one.txt").chmod(0o600)


def _empty_folder(root: Path) -> None:
    (root / "c").mkdir()


def _root_file(root: Path) -> None:
    (root / "declaration.py").write_text("x = 1\n")


def _link_elsewhere(root: Path) -> None:
    (root / "link").unlink()
    (root / "link").symlink_to("b.sh")


def _same_size(root: Path) -> None:
    (root / "a" / "one.txt").write_bytes(b"two\n")


def _link_for_file(root: Path) -> None:
    (root / "b.sh").unlink()
    (root / "b.sh").symlink_to("a/one.txt")


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (_mode, "a/one.txt"),
        (_empty_folder, "c"),
        (_root_file, "declaration.py"),
        (_link_elsewhere, "link"),
        (_same_size, "a/one.txt"),
        (_link_for_file, "b.sh"),
    ],
)
def test_the_digest_tells_modes_links_empty_folders_and_bytes(folder: Path, change: object, path: str) -> None:
    """faults H51."""
    before = entries(folder)
    assert callable(change)
    change(folder)
    after = entries(folder)
    assert tree_digest(before) != tree_digest(after)
    assert differing(before, after) == (path,)


def test_the_digest_does_not_know_times_or_order(folder: Path) -> None:
    before = entries(folder)
    os.utime(folder / "b.sh", (1, 1))
    assert tree_digest(reversed(entries(folder))) == tree_digest(before)


def test_a_name_that_is_not_utf8_and_one_that_spells_it_are_two(tmp_path: Path) -> None:
    names = [b"\xff", rb"\xff", "é".encode()]
    assert len({written(Path(os.fsdecode(name))) for name in names}) == 3
    assert [meant(written(Path(os.fsdecode(name)))) for name in names] == [Path(os.fsdecode(name)) for name in names]
    (tmp_path / os.fsdecode(names[0])).write_bytes(b"x")
    (tmp_path / os.fsdecode(names[1])).write_bytes(b"x")
    assert [entry.path for entry in entries(tmp_path)] == [r"\\xff", r"\xff"]
    assert len(tree_digest(entries(tmp_path))) == 64


def test_what_is_left_out_is_left_out_with_all_below(folder: Path) -> None:
    assert [entry.path for entry in entries(folder, leave_out=("a",))] == ["b.sh", "link"]
    assert "a/one.txt" not in {entry.path for entry in entries(folder, names=("one.txt",))}


def test_a_fifo_is_an_entry_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (only,) = entries(tmp_path)
    assert only.kind is Kind.OTHER
