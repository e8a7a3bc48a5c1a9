"""What tests/conftest.py promises, seen from outside: pytest runs on planted tests beside a copy of it.

Three runs in one checkout, and every test below reads what they printed:

    bare        nothing recorded, no ../shared, a torch that sees no device
    recording   the same with --golden
    full        some values moved, ../shared is there, torch sees a device
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.journey  # pytest is started anew, several times

PLANTED = """
import os, sys, warnings
import pytest

MOVED = "MOVED" in os.environ

@pytest.mark.parametrize(("case", "old", "new"), [
    ("kept", {"curve": [1.0, 2.0], "n": 3}, {"curve": [1.0, 2.0000001], "n": 3}),
    ("float", {"curve": [1.0, 2.0], "n": 3}, {"curve": [1.0, 2.001], "n": 3}),
    ("integer", 1000000, 1000001),
    ("boolean", 1, True),
    ("kind", 1, 1.0),
    ("length", [1], [1, 1]),
    ("key", {"a": 1}, {"b": 1}),
    ("null", None, 0),
])
def test_golden(golden, case, old, new): golden(case, new if MOVED else old)

def test_undefined(golden): golden("undefined", float("nan"))
def test_shared(shared): assert (shared / "cases").is_dir()
@pytest.mark.parametrize("case", ["shipped", "shared"])
def test_either(request, case): assert case == "shipped" or request.getfixturevalue("shared").is_dir()
@pytest.mark.gpu
def test_kernel(): pass
def test_warning(): warnings.warn("so")
def test_surroundings():
    assert os.environ["OMP_NUM_THREADS"] == "1"
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert MOVED or "torch" not in sys.modules
"""
TORCH = "class cuda:\n    is_available = staticmethod(lambda: {})\n"


def run(checkout: Path, *arguments: str, **environment: str) -> str:
    """What pytest prints, a line for each test with its outcome among it."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "7", "COLUMNS": "300"} | environment
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def checkout(root, tmp_path_factory) -> Path:
    """A checkout with the settings of pytest, the conftest.py and planted tests."""
    checkout = tmp_path_factory.mktemp("house") / "checkout"
    (checkout / "tests/journeys").mkdir(parents=True)
    shutil.copy(root / "tests/conftest.py", checkout / "tests")
    shutil.copy(root / "pyproject.toml", checkout)
    (checkout / "tests/test_planted.py").write_text(PLANTED)
    (checkout / "tests/journeys/test_walk.py").write_text("def test_walk(): pass\n")
    (checkout / "torch.py").write_text(TORCH.format(False))
    return checkout


@pytest.fixture(scope="module")
def bare(checkout) -> str:
    return run(checkout)


@pytest.fixture(scope="module")
def recording(checkout, bare) -> str:
    return run(checkout, "--golden")


@pytest.fixture(scope="module")
def full(checkout, recording) -> str:
    (checkout.parent / "shared/cases").mkdir(parents=True)
    (checkout / "torch.py").write_text(TORCH.format(True))
    return run(checkout, MOVED="yes")


def test_a_value_that_was_never_recorded_fails_with_the_command_that_records_it(bare):
    assert "kept.json is not recorded yet: ./dev golden tests/test_planted.py::test_golden[kept-" in bare


def test_the_flag_records_values_with_the_command_that_made_them_and_runs_nothing_else(recording, checkout):
    assert "1 failed, 8 passed, 7 deselected" in recording
    record = json.loads((checkout / "tests/golden/kept.json").read_text())
    assert record["made_by"].startswith("./dev golden tests/test_planted.py::test_golden[kept-")
    assert record["value"] == {"curve": [1.0, 2.0], "n": 3}


def test_an_undefined_number_is_not_recorded(recording, checkout):
    assert "FAILED tests/test_planted.py::test_undefined" in recording
    assert not (checkout / "tests/golden/undefined.json").exists()


def test_a_float_may_move_by_less_than_the_tolerance(full):
    assert "PASSED tests/test_planted.py::test_golden[kept-" in full


def test_what_differs_is_named_by_its_place_with_both_values(full):
    assert "FAILED tests/test_planted.py::test_golden[float-" in full
    assert "value.curve[1]: recorded 2.0, now 2.001" in full


@pytest.mark.parametrize("case", ["integer", "boolean", "kind", "length", "key", "null"])
def test_what_is_not_a_float_is_compared_exactly(full, case):
    assert f"FAILED tests/test_planted.py::test_golden[{case}-" in full


def test_a_test_that_reads_shared_is_skipped_by_name_where_there_is_none(bare, full):
    assert "test_shared reads ../shared" in bare
    assert "PASSED tests/test_planted.py::test_shared" in full


def test_a_test_that_reads_shared_in_some_cases_is_skipped_in_those_alone(bare, full):
    assert "PASSED tests/test_planted.py::test_either[shipped]" in bare
    assert "this reads ../shared" in bare
    assert "PASSED tests/test_planted.py::test_either[shared]" in full


def test_a_gpu_test_is_skipped_with_its_reason_where_torch_sees_none(bare, full):
    assert "test_kernel needs a CUDA device" in bare
    assert "PASSED tests/test_planted.py::test_kernel" in full


def test_tests_have_one_thread_and_no_network_and_torch_only_if_they_ask(checkout):
    assert "1 passed" in run(checkout, "-k", "surroundings")


def test_a_warning_is_an_error(bare):
    assert "FAILED tests/test_planted.py::test_warning - UserWarning: so" in bare


def test_journeys_are_marked_by_where_they_stand(checkout):
    walk = run(checkout, "-m", "journey")
    assert "PASSED tests/journeys/test_walk.py::test_walk" in walk
    assert "1 passed, 15 deselected" in walk
