"""A tree in memory is the folder that it becomes."""

import os
from pathlib import PurePosixPath

import pytest

from opd.protocol.patches.source import SourceFile, digest_of, entries_of, write
from opd.records.errors import AskedWrongly
from opd.records.trees import entries, tree_digest

TREE = {
    PurePosixPath("run.sh"): SourceFile(content=b"true\n", executable=True),
    PurePosixPath("src/opd/a.py"): SourceFile(content=b"a = 1\n"),
    PurePosixPath("src/b.py"): SourceFile(content=b""),
    PurePosixPath(os.fsdecode(b"src/caf\xe9/back\\slash\n")): SourceFile(content=b"\0\xff"),
}


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_entries_and_the_digest_are_those_of_the_folder_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        write(TREE, tmp_path / "folder")
    finally:
        os.umask(before)
    assert entries_of(TREE) == tuple(sorted(entries(tmp_path / "folder"), key=lambda entry: entry.path))
    assert digest_of(TREE) == tree_digest(entries(tmp_path / "folder"))


def test_the_order_of_the_files_is_no_part_of_the_digest():
    assert digest_of(dict(reversed(TREE.items()))) == digest_of(TREE)


@pytest.mark.parametrize(
    "other",
    [
        {**TREE, PurePosixPath("run.sh"): SourceFile(content=b"true\n")},
        {**TREE, PurePosixPath("src/b.py"): SourceFile(content=b"\n")},
        {**TREE, PurePosixPath("src/c.py"): SourceFile(content=b"")},
        {path: file for path, file in TREE.items() if path.name != "b.py"},
    ],
)
def test_a_mode_a_byte_or_a_name_is_another_digest(other):
    assert digest_of(other) != digest_of(TREE)


def test_nothing_is_written_over(tmp_path):
    (tmp_path / "there").write_text("mine")
    with pytest.raises(AskedWrongly, match="not empty"):
        write(TREE, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
