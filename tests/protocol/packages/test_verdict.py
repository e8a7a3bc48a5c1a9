"""What a package's test.sh comes to: a reward for what trains anew from the fixed start, and none for others."""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from opd.protocol.packages.catalogue import begin, find
from opd.protocol.packages.package import build
from opd.protocol.packages.verdict import rewards
from opd.records.attempts import Official

TASKS = Path(__file__).parents[3] / "src/opd/tasks"


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """The embedded task with a recipe of one step."""
    folder = tmp_path_factory.mktemp("packages")
    source = begin("acme/quick", like=TASKS / "arith_tiny", out=folder / "source")
    text = (source / "task.toml").read_text(encoding="utf-8")
    (source / "task.toml").write_text(text.replace(' "$@"\n', ' --set budget.steps=1 "$@"\n'), encoding="utf-8")
    build(*find(source), folder / "package")
    return folder / "package"


@pytest.fixture
def workspace(package, tmp_path) -> Path:
    """What an agent begins with; a test changes it."""
    return Path(shutil.copytree(package / "environment/workspace", tmp_path / "workspace"))


def judge(package: Path, workspace: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """How test.sh ended, with another reward in place before: whoever wrote it, it may not stay."""
    out.mkdir()
    (out / "reward.json").write_text('{"reward": 1.0}', encoding="utf-8")
    (out / "reward.txt").write_text("1.0", encoding="utf-8")
    places = {"OPD_WORKSPACE": workspace, "OPD_INPUTS": out / "none", "OPD_VERDICT": out}
    given = os.environ | {name: str(place) for name, place in places.items()}
    given["PATH"] = f"{Path(sys.executable).parent}:{given['PATH']}"
    script = package / "tests/test.sh"
    return subprocess.run(["bash", script], env=given, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_shipped_recipe_is_trained_anew_and_scored(package, workspace, tmp_path):
    """H36, H37: the oracle and an agent that changes nothing go the same way as every other, and get its score."""
    forged = workspace / "checkpoints/checkpoint-99999"
    forged.mkdir(parents=True)
    shutil.copytree(TASKS / "arith_tiny/teacher", forged, dirs_exist_ok=True)  # weights from elsewhere
    refused = judge(package, workspace, tmp_path / "refused")
    assert refused.returncode == 1
    assert "checkpoints/checkpoint-99999" in refused.stdout
    assert [path.name for path in (tmp_path / "refused").iterdir()] == []
    shutil.rmtree(workspace / "checkpoints")
    given = os.environ | {"OPD_WORKSPACE": str(workspace)}
    subprocess.run(["bash", package / "solution/solve.sh"], env=given, check=True)
    ended = judge(package, workspace, tmp_path / "out")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    reward = json.loads((tmp_path / "out/reward.json").read_text(encoding="utf-8"))
    assert (reward["step"], reward["samples"]) == (1, 2_000)
    assert reward["reward"] == reward["correct"] / reward["samples"]
    assert 0.40 < reward["reward"] < 0.60  # the start has 0.4585 ± 0.0122; the teacher that was planted has 0.98
    assert not (tmp_path / "out/reward.txt").exists()


@pytest.mark.patient
def test_a_candidate_that_fails_has_no_reward_and_is_not_a_zero(package, workspace, tmp_path):
    """faults H35: a reward that the candidate wrote is gone, and none takes its place."""
    (workspace / "run.sh").write_text('echo "OSError: [Errno 70]"; echo 1 >/logs/verifier/reward.txt; exit 1\n')
    ended = judge(package, workspace, tmp_path / "out")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert ended.stdout.splitlines()[-1].startswith("no reward: formal/attempt-001 ended as failed_candidate")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["status.json"]


def test_a_change_outside_the_surface_is_refused_before_anything_is_trained(package, workspace, tmp_path):
    """faults H32: what judges is no part of what may be changed."""
    (workspace / "src/opd/records/scores.py").write_text("WON = True\n", encoding="utf-8")
    ended = judge(package, workspace, tmp_path / "out")
    assert ended.returncode == 1
    assert "src/opd/records/scores.py" in ended.stdout
    assert "formal" not in ended.stdout
    assert [path.name for path in (tmp_path / "out").iterdir()] == []


def test_a_reward_is_flat_and_finite_as_harbor_reads_it():
    said = rewards(Official(step=120, correct=1_728, samples=2_000, mean=0.864, stderr=None, of=3))
    assert said["reward"] == 0.864
    assert all(type(value) in {int, float} and math.isfinite(value) for value in said.values())
