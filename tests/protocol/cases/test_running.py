"""A matrix, run here and on a Ray cluster, through a worker that is killed: the same checkpoints and samples."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from opd.cli.main import run
from opd.fanout.calls import Call
from opd.fanout.here import Here
from opd.protocol.cases.matrix import Unit, read_matrix
from opd.protocol.cases.running import Place, UnitReceipt, run_units
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import tree

SMALL = """
[cases.small]
recipe = "arith_tiny"
set = ["budget.steps=3", "rollouts.prompts_per_step=4", "save.state_every=1"]
seeds = [0, 1]
"""
WRONG = '\n[cases.wrong]\nrecipe = "no_such_recipe"\n'
NOBODY = '\n[cases.nobody]\ntask = "arith_tiny"\nagent = "no-candidate --because nothing"\n'


def units_of(text: str, tmp_path: Path) -> tuple[Unit, ...]:
    (tmp_path / "matrix.toml").write_text(text)
    return read_matrix(tmp_path / "matrix.toml").units()


def done(units: tuple[Unit, ...], out: Path, place: Place | None = None, **told: Any) -> dict[str, UnitReceipt]:
    return run_units(units, out, place or Place(), **({"say": print, "interrupted": lambda: False} | told))


def weights(out: Path) -> dict[str, str]:
    """The digests of all tensors of the newest checkpoint of each training."""
    return {
        f"{unit.name}/{name}": sha
        for unit in sorted(out.iterdir())
        for name, sha in tree(unit / "run/checkpoint-3").items()
        if name.endswith(".safetensors")
    }


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The matrix, run here."""
    place: Path = tmp_path_factory.mktemp("local")
    done(units_of(SMALL, place), place / "out")
    return place / "out"


@pytest.mark.patient
def test_what_is_done_is_not_done_again_and_what_was_changed_is_named(
    local: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    units = units_of(SMALL, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in local.rglob("*")}
    said: list[str] = []
    receipts = done(units, local, say=said.append)
    assert said == ["2 of 2 cases are done already"]
    assert {path: path.stat().st_mtime_ns for path in local.rglob("*")} == before
    assert receipts["small__seed-0"].said.startswith("3 steps")
    place = local / "small__seed-1/run/run.json"
    text = place.read_text()
    place.write_text(text.replace('"steps": 3', '"steps": 4'))
    with pytest.raises(AnswerIsNo, match=r"run\.json is not what receipt\.json names"):
        done(units, local)
    place.write_text(text)
    other = SMALL.replace("steps=3", "steps=2")
    with pytest.raises(AskedWrongly, match="'small__seed-0' that was asked otherwise"):
        done(units_of(other, tmp_path), local)
    assert len(weights(local)) == 2
    assert len(set(weights(local).values())) == 2, "two seeds are two trainings"


@pytest.mark.patient
def test_a_case_that_fails_twice_is_named_and_the_others_are_done(tmp_path: Path) -> None:
    """And an attempt that came to no score is done: that is its result."""
    (tmp_path / "matrix.toml").write_text(WRONG + NOBODY)
    out = tmp_path / "out"
    words = [sys.executable, "-m", "opd", "cases", "run", str(tmp_path / "matrix.toml"), "--out", str(out)]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stderr
    assert "1 of 2 cases failed: wrong failed: AskedWrongly: opd train ended with 2" in ended.stderr
    assert "no recipe 'no_such_recipe'" in ended.stderr
    assert (out / "wrong/log.txt").read_text().count("$ opd train") == 1  # it would be wrong every time
    assert not (out / "wrong/receipt.json").exists()
    assert "no_candidate" in json.loads((out / "nobody/receipt.json").read_text())["said"]
    assert run(["cases", str(out / "nobody"), "--json"]) == 0


def test_here_a_call_that_failed_waits_for_the_others_and_has_one_more_try() -> None:
    made: list[str] = []

    def do(values: Any) -> Any:
        made.append(values)
        if values == "never":
            raise AskedWrongly("no such thing")
        if values == "bad" or (values == "once" and made.count("once") == 1):
            raise OSError(f"no {values}")
        return values.upper()

    said: list[str] = []
    calls = [Call(name=name, values=name) for name in ("once", "bad", "never", "good")]
    outcomes = list(Here(do, say=said.append).work(calls))
    assert made == ["once", "bad", "never", "good", "once", "bad"]
    assert [(one.call.name, one.answer, one.error) for one in outcomes] == [
        ("never", None, "AskedWrongly: no such thing"),
        ("good", "GOOD", None),
        ("once", "ONCE", None),
        ("bad", None, "OSError: no bad"),
    ]
    assert said == [
        "once failed and is tried again: OSError: no once",
        "bad failed and is tried again: OSError: no bad",
    ]


@pytest.mark.patient
def test_a_program_that_works_on_a_case_ends_with_the_command_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "matrix.toml").write_text(SMALL.replace("steps=3", "steps=5000"))
    words = ["cases", "run", str(tmp_path / "matrix.toml"), "--out", str(tmp_path / "out")]
    command = subprocess.Popen([sys.executable, "-m", "opd", *words], stderr=subprocess.DEVNULL)
    children = Path(f"/proc/{command.pid}/task/{command.pid}/children")
    while not (tmp_path / "out/small__seed-0/run/recipe.json").is_file():
        assert command.poll() is None, "it ended before it could be killed"
        time.sleep(0.05)
    (child,) = map(int, children.read_text().split())
    command.kill()
    command.wait()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child}").exists():
        assert time.monotonic() < deadline, "the training outlived it"
        time.sleep(0.05)


@pytest.mark.patient
@pytest.mark.filterwarnings("ignore::FutureWarning:ray.*", "ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_on_ray_a_worker_that_is_killed_takes_its_training_with_it_and_another_goes_on_with_it(
    local: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.fanout.clusters import await_end, below, environment, started, workers_now

    units, out, said = units_of(SMALL, tmp_path), tmp_path / "out", []
    killed: list[int] = []

    def kill_one() -> bool:
        """Asked each second: once a training has a state, its worker gets SIGKILL."""
        begun = [pid for pid in workers_now() if below(pid)]
        if not killed and begun and list(out.glob("*/run/state/step-*")):
            killed.extend([begun[0], *below(begun[0])])
            os.kill(begun[0], signal.SIGKILL)
            await_end(killed[1:2], seconds=10)  # the training that it had started
        return False

    with started() as joining, environment(joining):
        capsys.readouterr()
        receipts = done(units, out, Place(on_ray=True, workers=2), say=said.append, interrupted=kill_one)
    assert killed
    assert capsys.readouterr().out == "", "Ray has said something of its own, where results are expected"
    assert any("was lost (small__seed-" in line for line in said), said
    assert weights(out) == weights(local)
    assert set(receipts) == {"small__seed-0", "small__seed-1"}
    assert {json.loads((out / name / "asked.json").read_text())["name"] for name in receipts} == set(receipts)
