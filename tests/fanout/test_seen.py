"""What is said of a file that another machine wrote, by what is here at one look."""

import hashlib
import shutil
from pathlib import Path

import pytest

from opd.evaluate.fanout import publish
from opd.fanout.seen import unlike

DIGEST = hashlib.sha256(b"whole").hexdigest()


def test_a_file_is_there_missing_other_or_can_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file"
    assert unlike(path, DIGEST) == f"{path} can't be read here (No such file or directory)"
    path.parent.mkdir()
    assert unlike(path, DIGEST) == f"{path} is not there"
    path.write_bytes(b"who")
    assert unlike(path, DIGEST) == f"{path} has another content here"
    path.write_bytes(b"whole")
    assert unlike(path, DIGEST) is None
    path.unlink()
    path.mkdir()
    assert "can't be read here (Is a directory)" in str(unlike(path, DIGEST))


def test_a_file_gets_its_name_when_it_is_seen_and_an_error_of_the_disk_is_a_reason(tmp_path: Path) -> None:
    out = tmp_path / "out"
    written, path = out / "x.parquet.0a.partial", out / "x.parquet"
    answer = {"path": str(written), "sha256": DIGEST}
    out.mkdir()
    assert "is not there, where a worker wrote it" in str(publish(path, answer))
    written.write_bytes(b"whole")
    path.mkdir()
    assert str(publish(path, answer)).endswith("can't be given its name here (Is a directory)")
    path.rmdir()
    assert publish(path, answer) is None
    assert path.read_bytes() == b"whole"
    shutil.rmtree(out)
    assert "can't be read here (No such file or directory)" in str(publish(path, answer))
    assert not out.exists()


@pytest.mark.parametrize("name", ["metrics.jsonl", "score.json"])
def test_names_of_other_files_do_not_count(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.partial").write_bytes(b"whole")
    assert unlike(tmp_path / name, DIGEST) == f"{tmp_path / name} is not there"
