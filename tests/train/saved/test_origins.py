"""Digests of what a run began from; what a resumed run makes of them is in test_resume.py."""

import shutil
from pathlib import Path

import pytest

from opd.models.load import model_digest
from opd.records.errors import AskedWrongly
from opd.records.files import digest, tree
from opd.train.saved import origins
from opd.train.saved.origins import Origins, check_same, origins_of

PLACES = {"student": "./s", "teacher": "./t"}


def test_every_file_has_its_digest_and_all_of_them_are_that_of_a_score(random_models: Path, tmp_path: Path) -> None:
    """Folders in folders too; the mark of a published checkpoint is left out, as in the digest of a score."""
    student = tmp_path / "student"
    shutil.copytree(random_models / "student", student)
    (student / "original").mkdir()
    (student / "original" / "params.json").write_text("{}")
    (student / ".complete").write_text("{}")
    found = origins_of(student, {None: random_models / "teacher"})
    assert found == Origins(student=tree(student), teacher=tree(random_models / "teacher"))
    assert digest(found.student) == model_digest(student)


def test_a_directory_that_is_both_is_read_once(random_models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A teacher of 7 GB takes seven seconds to hash; that it takes them twice would be seen by nobody."""
    read: list[Path] = []
    real = origins.sha256
    monkeypatch.setattr(origins, "sha256", lambda path: read.append(path) or real(path))
    found = origins_of(random_models / "teacher", {None: random_models / "teacher"})
    assert found.student == found.teacher
    assert sorted(read) == sorted(set(read))


def test_what_differs_is_said_of_both_at_once_and_only_of_files_that_are_read() -> None:
    """E59."""
    before = Origins(student={"a.safetensors": "1", "README.md": "1"}, teacher={"config.json": "1", "x.jinja": "2"})
    now = Origins(student={"a.safetensors": "2"}, teacher={"config.json": "1", "vocab.txt": "3"})
    with pytest.raises(AskedWrongly) as refusal:
        check_same(before, now, places=PLACES)
    assert str(refusal.value).startswith(
        "the student ./s has changed: a.safetensors has SHA-256 2, the run began with 1. "
        "the teacher ./t has changed: vocab.txt is new; x.jinja is gone. "
    )
    check_same(before, before.model_copy(update={"student": {"a.safetensors": "1"}}), places=PLACES)
