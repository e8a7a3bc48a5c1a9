"""`./dev` sets up once, goes on after an interruption, and touches nothing when all is there.

The interpreter is a double: a script that makes such another one where `-m venv` is told to, writes down each call
of pip, stands for the tools, fails on the call whose words stand in the file `fail`, and leaves everything else to
real Python.
"""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

DOUBLE = """#!/usr/bin/env bash
aside={aside}
fail_if_told() {{
  if [ -f "$aside/fail" ] && [[ "$*" == *"$(cat "$aside/fail")"* ]]; then echo "ERROR: no room left"; exit 1; fi
}}
case "$1 ${{2:-}}" in
  "-m venv") target="${{@: -1}}"; mkdir -p "$target/bin"; cp "$0" "$target/bin/python"; echo venv >>"$aside/calls" ;;
  "-m pip") echo "$*" >>"$aside/calls"; echo "WARNING: Location '/nowhere' is ignored" >&2; fail_if_told "$@" ;;
  "-m pytest") shift 2; fail_if_told "$@"; echo "pytest $*"; echo "1 passed in 0.01s"; exit "${{PYTEST_CODE:-0}}" ;;
  "-m ruff" | "-m mypy" | *importlinter*) echo "has nothing to say"; fail_if_told "$@" ;;
  *) exec {python} "$@" ;;
esac
"""

pytestmark = pytest.mark.journey


class House:
    """A checkout with the script and what it reads, and aside a double for an interpreter with its notes."""

    def __init__(self, around: Path, root: Path) -> None:
        self.folder, self.aside = around / "house", around / "aside"
        self.folder.mkdir()
        self.aside.mkdir()
        for name in ("dev", "pyproject.toml", "constraints.txt"):
            shutil.copy(root / name, self.folder)
        self.python = self.program("python-double", DOUBLE.format(aside=self.aside, python=sys.executable))

    def program(self, name: str, text: str) -> Path:
        path = self.aside / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def dev(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments, **environment)
        out, err = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        environment = os.environ | {"PYTHON": str(self.python), "TMPDIR": str(self.aside)} | environment
        command = ["bash", str(self.folder / "dev"), *arguments]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def tools(self) -> Path:
        """A folder for PATH that holds what the script itself calls, and no interpreter."""
        folder = self.aside / "tools"
        folder.mkdir()
        for tool in ("bash", "cat", "cp", "dirname", "mkdir", "mktemp", "rm", "tail"):
            (folder / tool).symlink_to(str(shutil.which(tool)))
        return folder

    def calls(self) -> list[str]:
        """What was done to set up since the last time of asking, in a word each."""
        path = self.aside / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return ["libraries" if "--editable" in line else "torch" if "pip" in line else line for line in lines]


@pytest.fixture
def house(root, tmp_path) -> House:
    return House(tmp_path, root)


def test_alone_it_lists_its_verbs_and_sets_nothing_up(house):
    answer = house.dev()
    assert answer.returncode == 0
    assert all(
        f"\n  {verb} " in answer.stdout for verb in ["demo", "test", "check", "fix", "bench", "golden", "docs"]
    )
    assert not (house.folder / ".venv").exists()


def test_an_unknown_verb_is_asked_wrongly(house):
    answer = house.dev("polish")
    assert answer.returncode == 2
    assert "no verb 'polish'" in answer.stderr
    assert not (house.folder / ".venv").exists()


def test_the_first_call_sets_up_with_a_line_a_stage_and_the_second_touches_nothing(house):
    first = house.dev("test")
    assert house.calls() == ["venv", "torch", "libraries"]
    assert [line.split("  ")[1] for line in first.stderr.splitlines() if line.startswith("  ")] == [
        "environment",
        "torch",
        "libraries and tools",
    ]
    assert "WARNING" not in first.stderr + first.stdout
    assert house.dev("test").stderr == ""
    assert house.calls() == []


def test_after_an_interrupted_set_up_the_next_call_goes_on(house):
    (house.aside / "fail").write_text("--editable")
    broken = house.dev("test")
    assert broken.returncode == 1
    assert "ERROR: no room left" in broken.stderr
    log = Path(broken.stderr.partition("all of it in ")[2].partition(". Call")[0])
    assert log.parent == house.folder / ".venv"
    assert "ERROR: no room left" in log.read_text()
    assert "passed" not in broken.stdout
    assert house.calls() == ["venv", "torch", "libraries"]

    (house.aside / "fail").unlink()
    assert house.dev("test").returncode == 0
    assert house.calls() == ["torch", "libraries"]  # pip finds torch in place; the environment is kept
    assert house.dev("test").returncode == 0
    assert house.calls() == []


@pytest.mark.skipif(shutil.which("flock") is None, reason="without flock, two first calls at once are not kept apart")
def test_two_first_calls_at_once_set_up_once(house):
    both = [house.start("test"), house.start("test")]
    assert all("1 passed" in process.communicate()[0] for process in both)
    assert house.calls() == ["venv", "torch", "libraries"]


@pytest.mark.parametrize(
    ("file", "old", "new", "calls"),
    [
        ("constraints.txt", "torch==", "torch===", ["torch", "libraries"]),
        ("pyproject.toml", '"click>=', '"click>', ["torch", "libraries"]),
        ("pyproject.toml", "line-length = ", "line-length = 1", []),  # settings of a tool install nothing
    ],
)
def test_a_change_of_what_is_to_be_installed_installs_again(house, file, old, new, calls):
    house.dev("test")
    house.calls()
    path = house.folder / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    assert house.dev("test").returncode == 0
    assert house.calls() == calls


def test_a_checkout_that_was_moved_is_set_up_again(house):
    house.dev("test")
    house.calls()
    house.folder = house.folder.rename(house.folder.with_name("palace"))
    house.dev("test")
    assert house.calls() == ["torch", "libraries"]


def test_an_environment_whose_interpreter_is_gone_is_made_anew(house):
    house.dev("test")
    house.calls()
    (house.folder / ".venv/bin/python").write_text("#!/nowhere/python\n")
    assert house.dev("test").returncode == 0
    assert house.calls() == ["venv", "torch", "libraries"]


def test_another_interpreter_that_was_asked_for_makes_the_environment_anew(house):
    house.dev("test")
    house.calls()
    text = house.python.read_text().replace("  *) exec", '  *base_prefix*) echo "another" ;;\n  *) exec')
    other = str(house.program("another-double", text))
    assert house.dev("test", PYTHON=other).returncode == 0
    assert house.calls() == ["venv", "torch", "libraries"]
    assert house.dev("test", PYTHON=other).stderr == ""
    without_any = house.dev("test", PYTHON="", PATH=str(house.tools()))  # no wish: what is there will do
    assert without_any.stderr == ""


def test_an_interpreter_that_is_too_old_or_absent_is_named_with_what_to_do(house):
    old = house.program("old", '#!/bin/sh\ncase "$2" in *platform*) echo 3.9.2;; *) exit 1;; esac\n')
    answer = house.dev("test", PYTHON=str(old))
    assert answer.returncode == 2
    assert f"needs Python 3.11 or newer with its venv module; tried {old} (3.9.2)" in answer.stderr
    assert "python3-venv" in answer.stderr
    assert "/no/such (absent)" in house.dev("test", PYTHON="/no/such").stderr
    assert house.calls() == []


def test_without_a_wish_the_first_interpreter_that_fits_is_taken(house):
    tools = house.tools()
    house.program("tools/python3", "#!/bin/sh\nexit 127\n")  # a shim that starts nothing
    shutil.copy(house.python, tools / "python3.12")
    answer = house.dev("test", PATH=str(tools), PYTHON="")
    assert answer.returncode == 0, answer.stderr
    assert house.calls() == ["venv", "torch", "libraries"]


def test_slow_tests_wait_for_the_flag_and_pytest_has_the_last_word(house):
    usual = house.dev("test", "-k", "a or b")
    assert usual.stdout.splitlines() == ["pytest -m not slow -k a or b", "1 passed in 0.01s"]
    assert house.dev("test").stdout.startswith("pytest -m not slow --numprocesses 3 ")
    assert house.dev("test", "--slow").stdout.startswith("pytest --numprocesses 3 ")
    assert house.dev("test", "tests/x.py", "--slow").stdout.splitlines()[0] == "pytest tests/x.py"
    assert house.dev("test", PYTEST_CODE="3").returncode == 3


def test_a_check_runs_to_its_end_and_names_what_failed(house):
    passed = house.dev("check")
    assert (passed.returncode, passed.stdout) == (0, "")
    assert "nothing to say" not in passed.stderr

    (house.aside / "fail").write_text("mypy")
    failed = house.dev("check")
    assert failed.returncode == 1
    assert "has nothing to say\nERROR: no room left" in failed.stderr
    assert [line.split("  ")[1] for line in failed.stderr.splitlines() if line.startswith("  ")] == [
        "format",
        "lint",
        "types",
        "imports",
        "fast tests",
    ]
    assert failed.stderr.splitlines()[-1] == "dev: not yet: types"


def test_benchmarks_are_listed_by_what_they_say_and_run_by_name(house):
    (house.folder / "benchmarks").mkdir()
    (house.folder / "benchmarks/bench_door.py").write_text(
        '"""Openings a second."""\nimport sys\nprint(sys.argv[1:])\n'
    )
    assert house.dev("bench").stdout.split(maxsplit=1) == ["bench_door", "Openings a second.\n"]
    assert house.dev("bench", "door", "--n", "3").stdout == "['--n', '3']\n"
    unknown = house.dev("bench", "window")
    assert unknown.returncode == 2
    assert "no benchmark 'window'" in unknown.stderr


def test_nothing_is_left_in_the_temporary_folder(house):
    house.dev()
    house.dev("test")
    house.dev("polish")
    assert list(house.aside.glob("opd-dev.*")) == []
