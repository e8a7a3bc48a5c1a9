import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from opd.protocol.attempts.taming import DEEPEST, tame
from opd.records.trees import entries


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """Gone afterwards, whatever came of the test: pytest's own removal doesn't get to the end of such a tree."""
    yield tmp_path
    subprocess.run(["/bin/rm", "-rf", "--", tmp_path], check=True)


def test_a_tree_deeper_than_any_path_is_cut_and_the_rest_can_be_listed(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("kept")
    dig = "import os\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\n"
    subprocess.run([sys.executable, "-c", dig], cwd=tmp_path, check=True)
    with pytest.raises((OSError, RecursionError)):
        entries(tmp_path)
    (removed,) = tame(tmp_path)
    assert removed == "/".join(["d"] * (DEEPEST + 1))
    found = entries(tmp_path)
    assert len(found) == DEEPEST + 1
    assert found[-1].path == "kept.txt"


def test_long_names_are_cut_before_a_path_is_too_long(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(7):
        folder /= "x" * 250
        folder.mkdir()
    (folder / ("y" * 250)).write_text("too long")
    assert [len(path) for path in tame(tmp_path)] == [7 * 251 + 250]
    assert len(entries(tmp_path)) == 7


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_its_maker_closed_is_opened(tmp_path: Path) -> None:
    (tmp_path / "closed" / "inner").mkdir(parents=True)
    (tmp_path / "closed" / "file").write_text("x")
    (tmp_path / "closed" / "file").chmod(0)
    (tmp_path / "closed").chmod(0)
    tame(tmp_path)
    assert len(entries(tmp_path)) == 3


def test_closed_folders_and_files_get_their_owners_bits_and_links_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed").chmod(0)
    (tmp_path / "file").write_text("x")
    (tmp_path / "file").chmod(0o044)
    outside = tmp_path.parent / "outside"
    outside.mkdir()
    outside.chmod(0o500)
    (tmp_path / "link").symlink_to(outside)
    assert tame(tmp_path) == ()
    assert (tmp_path / "closed").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o444
    assert outside.stat().st_mode & 0o777 == 0o500
