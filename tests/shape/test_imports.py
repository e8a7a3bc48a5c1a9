"""The rooms' doors open one way, and the watchman at the doors is awake."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

LINT_IMPORTS = "from importlinter.cli import lint_imports_command; lint_imports_command()"
PLANTS = {
    "train": "import opd.evaluate",
    "evaluate": "import opd.train",
    "records": "import opd.grading",
    "view": "from opd import models",
    "protocol": "import torch",
}


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """import-linter's verdict on the package `opd` in a folder that also holds the pyproject.toml."""
    return subprocess.run(
        [sys.executable, "-c", LINT_IMPORTS, "--no-logo", "--no-cache"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(root, tmp_path) -> Path:
    """The package's modules and the contracts in a folder of their own, so that they can be spoilt."""
    shutil.copytree(root / "src/opd", tmp_path / "opd", ignore=lambda _, names: _other_files(names))
    shutil.copy(root / "pyproject.toml", tmp_path)
    return tmp_path


def _other_files(names: list[str]) -> list[str]:
    return [name for name in names if name == "__pycache__" or (Path(name).suffix not in {"", ".py"})]


def test_the_import_contracts_hold(copy):
    verdict = lint(copy)
    assert verdict.returncode == 0, verdict.stdout + verdict.stderr
    assert re.search(r"Contracts: [1-9]\d* kept, 0 broken", verdict.stdout)


def test_planted_imports_are_caught_each_by_its_contract(copy):
    for room, line in PLANTS.items():
        (copy / "opd" / room / "planted.py").write_text(f"{line}\n")
    verdict = lint(copy)
    caught = re.sub(r"\s+", " ", verdict.stdout)
    assert verdict.returncode == 1, verdict.stdout + verdict.stderr
    assert "opd.train.planted -> opd.evaluate" in caught
    assert "opd.evaluate.planted -> opd.train" in caught
    assert "opd.records.planted -> opd.grading" in caught
    assert "opd.view.planted -> opd.models" in caught
    assert "opd.protocol.planted -> torch" in caught


def test_every_room_stands_in_the_contract_of_layers(root):
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(one["layers"] for one in settings["contracts"] if one["type"] == "layers")
    placed = {room.strip() for layer in layers for room in layer.split("|")}
    package = root / "src/opd"
    rooms = {f"opd.{path.stem}" for path in package.iterdir() if (path / "__init__.py").is_file()}
    loose = {f"opd.{path.stem}" for path in package.glob("*.py")} - {"opd.__init__", "opd.__main__"}
    assert rooms | loose == placed
