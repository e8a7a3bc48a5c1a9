"""`opd load`: what it prints and writes, and what it answers."""

import json
import shutil
from pathlib import Path

import pytest

from opd.cli.main import run
from opd.records.checkpoints import Loaded

STUDENT = "opd:arith_tiny/student"


@pytest.fixture
def copy(random_models: Path, tmp_path: Path) -> Path:
    """A model directory to spoil."""
    folder = tmp_path / "model"
    shutil.copytree(random_models / "student", folder)
    return folder


def test_a_whole_model_answers_yes_in_one_line(
    copy: Path, random_models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["load", str(copy), "--like", str(random_models / "teacher")]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert "float32; finite logits of 320 ids" in line


def test_as_json_and_as_a_file_it_is_the_same_record(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "said" / "loaded.json"
    assert run(["load", str(copy), "--json", "--out", str(out)]) == 0
    printed = Loaded.model_validate_json(capsys.readouterr().out)
    assert Loaded.model_validate_json(out.read_text()) == printed
    assert printed.valid
    assert run(["load", str(copy), "--out", str(out)]) == 2
    assert "never overwritten" in capsys.readouterr().err


def test_a_model_that_is_none_answers_no_and_its_record_is_there_all_the_same(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copy / "model.safetensors").write_bytes(b"no weights")
    assert run(["load", str(copy), "--json", "--out", str(tmp_path / "loaded.json")]) == 1
    told = capsys.readouterr()
    assert json.loads(told.out)["parameters"] is None
    assert "is not what it should be" in told.err
    assert not Loaded.model_validate_json((tmp_path / "loaded.json").read_text()).valid


def test_a_directory_that_is_not_there_was_asked_for_wrongly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["load", str(tmp_path / "nowhere"), "--out", str(tmp_path / "loaded.json")]) == 2
    assert "is not a directory" in capsys.readouterr().err
    assert not (tmp_path / "loaded.json").exists()
