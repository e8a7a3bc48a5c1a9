"""Where an interpreter's things lie, with a real second one."""

import sys
import venv
from pathlib import Path

import pytest

import opd
from opd.protocol.sandbox.interpreter import interpreter_at, this_interpreter
from opd.records.errors import AskedWrongly


def another(folder: Path, *, path: str) -> Path:
    """A new environment's python, with this on its path."""
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "opd.pth").write_text(f"{path}\n")
    return folder / "bin" / "python"


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_this_one_asked_as_another_says_the_same() -> None:
    assert interpreter_at(Path(sys.executable)) == this_interpreter()


def test_another_ones_environment_and_package_are_its_own(tmp_path: Path) -> None:
    source = Path(opd.__file__).resolve().parent.parent
    found = interpreter_at(another(tmp_path / "env", path=str(source)))
    assert found.program == tmp_path / "env" / "bin" / "python"
    assert (tmp_path / "env").resolve() in found.folders
    assert found.package == source / "opd"


def test_one_without_opd_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match="has no opd to judge with: ModuleNotFoundError"):
        interpreter_at(another(tmp_path / "env", path=""))


def test_one_with_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "opd").mkdir()
    (tmp_path / "opd" / "__init__.py").write_text('__version__ = "0.0.1"\n')
    with pytest.raises(AskedWrongly, match=r"has opd 0\.0\.1, and this is"):
        interpreter_at(another(tmp_path / "env", path=str(tmp_path)))


def test_what_is_no_interpreter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match="can't be started"):
        interpreter_at(tmp_path / "missing")
    with pytest.raises(AskedWrongly, match="has no opd to judge with"):
        interpreter_at(script(tmp_path / "python", "echo nonsense >&2; exit 3"))
    with pytest.raises(AskedWrongly, match="did not say where its things lie: well"):
        interpreter_at(script(tmp_path / "python", "echo well"))
