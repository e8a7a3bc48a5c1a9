"""Checkpoints of a run: whole or not there, the newest by number, an older one kept until a newer is whole."""

import errno
import json
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from opd.models.load import LanguageModel, find_model
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import is_complete
from opd.train.saved.checkpoint import Checkpoints
from opd.train.saved.retention import Retention


@dataclass
class Module:
    """A module that knows how to save, watches the folder while it does, and can find the disk full."""

    real: Any
    run: Path
    full: bool = False
    complete_while_saving: list[list[str]] = field(default_factory=list)

    def save_pretrained(self, folder: Path, **options: Any) -> None:
        self.complete_while_saving.append(names(self.run))
        if self.full:
            (folder / "model.safetensors").write_bytes(b"half of it")
            raise OSError(errno.ENOSPC, "No space left on device")
        self.real.save_pretrained(folder, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def names(run: Path) -> list[str]:
    return [path.name for path in Checkpoints(run).complete()]


@pytest.fixture
def student(load, tmp_path: Path) -> LanguageModel:
    real = load(dtype="float32")
    return replace(real, module=Module(real=real.module, run=tmp_path))


def save(run: Path, student: LanguageModel, *steps: int, keep: int = 3) -> list[Path]:
    checkpoints = Checkpoints(run, Retention(keep=keep))
    return [checkpoints.save(student, step=step, recipe_digest="d1gest") for step in steps]


def test_a_checkpoint_is_a_whole_model_directory_that_says_where_it_came_from(
    tmp_path: Path, student: LanguageModel
) -> None:
    (folder,) = save(tmp_path, student, 20)
    assert folder == tmp_path / "checkpoint-20"
    assert is_complete(folder)
    assert find_model(str(folder)) == folder
    assert json.loads((folder / "opd.json").read_text()) == {"step": 20, "recipe": "d1gest", "means": None}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-20"]


def test_the_newest_are_kept_by_number_and_not_by_name(tmp_path: Path, student: LanguageModel) -> None:
    """H26: as text, 100 comes before 9."""
    save(tmp_path, student, 9, 10, 100, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-10", "checkpoint-100"]
    assert names(tmp_path) == ["checkpoint-10", "checkpoint-100"]


def test_an_older_one_is_there_until_the_newer_is_whole(tmp_path: Path, student: LanguageModel) -> None:
    """E63: seen from inside the saving of each."""
    save(tmp_path, student, 1, 2, 3, keep=1)
    assert student.module.complete_while_saving == [[], ["checkpoint-1"], ["checkpoint-2"]]
    assert names(tmp_path) == ["checkpoint-3"]


def test_a_save_that_fails_leaves_the_older_ones_and_names_the_newest(tmp_path: Path, student: LanguageModel) -> None:
    """E63, E67: the disk is full in the middle of the weights."""
    kept = save(tmp_path, student, 9, 10)
    student.module.full = True
    with pytest.raises(
        AnswerIsNo, match=r"checkpoint-100 could not be saved \(.*No space left.*\); checkpoint-10 is"
    ):
        save(tmp_path, student, 100, keep=1)
    assert sorted(tmp_path.iterdir()) == sorted(kept)
    assert all(is_complete(folder) for folder in kept)


def test_a_first_save_that_fails_says_that_there_is_none(tmp_path: Path, student: LanguageModel) -> None:
    student.module.full = True
    with pytest.raises(AnswerIsNo, match="no checkpoint was written before it"):
        save(tmp_path, student, 5)
    assert list(tmp_path.iterdir()) == []


def test_after_a_failure_the_same_step_can_be_saved(tmp_path: Path, student: LanguageModel) -> None:
    """E67."""
    student.module.full = True
    with pytest.raises(AnswerIsNo):
        save(tmp_path, student, 5)
    student.module.full = False
    assert is_complete(save(tmp_path, student, 5)[0])


def test_what_a_crash_left_is_no_checkpoint(tmp_path: Path, student: LanguageModel) -> None:
    """E63, H24: neither counted, nor read, nor in the way of the same step."""
    save(tmp_path, student, 20)
    shutil.copytree(tmp_path / "checkpoint-20", tmp_path / "checkpoint-40.partial")
    shutil.copytree(tmp_path / "checkpoint-20", tmp_path / "checkpoint-60")
    (tmp_path / "checkpoint-60" / ".complete").unlink()
    shutil.copytree(tmp_path / "checkpoint-20", tmp_path / "checkpoint-80")
    (tmp_path / "checkpoint-80" / "model.safetensors").unlink()
    assert names(tmp_path) == ["checkpoint-20"]
    save(tmp_path, student, 40)
    assert names(tmp_path) == ["checkpoint-20", "checkpoint-40"]
    assert not (tmp_path / "checkpoint-40.partial").exists()


def test_what_others_put_into_the_folder_is_left_alone(tmp_path: Path, student: LanguageModel) -> None:
    """E64: only whole checkpoints are counted toward `keep`, and only they are removed."""
    for name in ("checkpoint-best", "my-checkpoint-7", "checkpoint-7-copy", "checkpoint-", "rollouts"):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".complete").write_text('{"files": {}}')
    (tmp_path / "checkpoint-8").write_text("a file")
    strangers = set(tmp_path.iterdir())
    save(tmp_path, student, 1, 2, 3, keep=1)
    assert set(tmp_path.iterdir()) == strangers | {tmp_path / "checkpoint-3"}


def test_retention_counts_what_an_earlier_process_saved(tmp_path: Path, student: LanguageModel) -> None:
    """E64: every `save` here begins with a new object."""
    for step in range(1, 7):
        save(tmp_path, student, step, keep=3)
    assert names(tmp_path) == ["checkpoint-4", "checkpoint-5", "checkpoint-6"]


def test_a_checkpoint_is_never_written_over(tmp_path: Path, student: LanguageModel) -> None:
    save(tmp_path, student, 5)
    before = (tmp_path / "checkpoint-5" / ".complete").read_bytes()
    with pytest.raises(AskedWrongly, match="checkpoint-5 exists already and is never overwritten"):
        save(tmp_path, student, 5)
    assert (tmp_path / "checkpoint-5" / ".complete").read_bytes() == before
