"""What an explorer gets to work on runs, and holds nothing to peek at."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

import opd
from opd.protocol.patches.source import SourceFile, Tree, digest_of, write
from opd.protocol.patches.workspace import base_files, lay_out
from opd.records.errors import AskedWrongly
from opd.records.places import locate
from opd.records.trees import entries, tree_digest

RUN = "#!/usr/bin/env bash\nexec python -m opd train recipes/arith_tiny.toml --out checkpoints\n"


@pytest.fixture(scope="module")
def base() -> Tree:
    """The tree of the package's own tasks."""
    return base_files(run_script=RUN)


@pytest.fixture(scope="module")
def laid_out(base: Tree, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That tree as a workspace; not to be changed."""
    folder = tmp_path_factory.mktemp("laid_out") / "workspace"
    lay_out(base, folder)
    return folder


def git(folder: Path, *arguments: str) -> str:
    settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    ended = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, env=os.environ | settings, check=True
    )
    return ended.stdout.decode()


def test_the_tree_holds_the_rooms_that_train_the_recipes_and_the_script(base):
    assert base[PurePosixPath("run.sh")] == SourceFile(content=RUN.encode(), executable=True)
    package = Path(opd.__file__).parent
    loop = PurePosixPath("src/opd/train/loop.py")
    assert base[loop].content == (package / "train/loop.py").read_bytes()
    rooms = {path.parts[2] for path in base if path.parts[:2] == ("src", "opd") and len(path.parts) > 3}
    assert rooms == {"cli", "grading", "models", "records", "train", "view"}
    assert {"arith_tiny.toml", "opd_math_1p5b.toml"} <= {path.name for path in base if path.parts[0] == "recipes"}
    assert {path.parts[0] for path in base} == {"src", "recipes", "run.sh"}
    assert not [
        path for path in base if path.suffix in {".pyc", ".jsonl", ".safetensors"} or "__pycache__" in path.parts
    ]


def test_no_question_that_is_judged_by_is_in_the_tree(base):
    everything = b"".join(file.content for file in base.values()).decode()
    for name in ("final", "proxy"):
        lines = locate(f"opd:arith_tiny/{name}.jsonl").read_text(encoding="utf-8").splitlines()
        problems = [json.loads(line)["problem"] for line in lines]
        assert len(problems) == 500
        assert not [problem for problem in problems if problem in everything]


def test_a_wheel_and_a_checkout_give_the_same_tree(base, tmp_path):
    """In a wheel, the recipes lie in the package."""
    package = Path(opd.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__", "*.safetensors", "recipes")
    shutil.copytree(package, tmp_path / "site/opd", ignore=ignored)
    checkout = package.parents[1] / "recipes"
    shutil.copytree(checkout if checkout.is_dir() else package / "recipes", tmp_path / "site/opd/recipes")
    program = (
        "import opd, sys; from opd.protocol.patches.source import digest_of; "
        "from opd.protocol.patches.workspace import base_files; "
        "print(opd.__file__, digest_of(base_files(run_script=sys.argv[1])))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, RUN],
        env=os.environ | {"PYTHONPATH": str(tmp_path / "site"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert ended.stdout.split() == [str(tmp_path / "site/opd/__init__.py"), digest_of(base)]


@pytest.mark.patient
def test_opd_train_runs_from_the_tree_alone(base, tmp_path):
    """With the rooms of the install out of sight: `src` of the workspace comes first, and is all there is of opd."""
    write(base, tmp_path / "workspace")
    sets = {
        "student.model": locate("opd:arith_tiny/student"),
        "teacher.model": locate("opd:arith_tiny/teacher"),
        "data.path": locate("opd:arith_tiny/train.jsonl"),
        "budget.steps": 2,
        "save.every": 2,
        "optimizer.warmup_steps": 0,
        "rollouts.prompts_per_step": 2,
        "rollouts.per_prompt": 2,
        "rollouts.limit_tokens": 8,
    }
    words = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    ended = subprocess.run(
        [sys.executable, "-m", "opd", "train", "recipes/arith_tiny.toml", "--out", "checkpoints", *words],
        cwd=tmp_path / "workspace",
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "PYTHONPATH": "src",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "workspace/checkpoints/checkpoint-2/model.safetensors").is_file()
    assert str(tmp_path / "workspace/src") in module_file(tmp_path / "workspace"), "it was this tree's opd that ran"


def test_a_verb_whose_room_is_not_in_the_tree_says_so_in_a_line(base, tmp_path):
    write(base, tmp_path / "workspace")
    ended = subprocess.run(
        [sys.executable, "-m", "opd", "score", "scores"],
        cwd=tmp_path / "workspace",
        env={"PATH": os.environ["PATH"], "PYTHONPATH": "src", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("opd: this copy has no opd.evaluate")
    assert ended.stderr.count("\n") == 1


def module_file(workspace: Path) -> str:
    program = "import opd.train.loop; print(opd.train.loop.__file__)"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=workspace,
        env={"PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        check=True,
    )
    return str(workspace / ended.stdout.strip())


def test_a_laid_out_workspace_is_the_tree(base, laid_out):
    assert tree_digest(entries(laid_out, leave_out=[".git"])) == digest_of(base)


def test_there_is_one_commit_and_nothing_behind_it(laid_out):
    assert git(laid_out, "rev-list", "--all", "--count") == "1\n"
    assert git(laid_out, "fsck", "--unreachable", "--full", "--strict") == ""
    assert git(laid_out, "log", "-1", "--format=%P|%D|%an|%at|%s") == "|HEAD -> main|opd|0|Base\n"
    assert git(laid_out, "status", "--porcelain", "--ignored") == ""
    for nothing in (["remote"], ["stash", "list"], ["tag"], ["reflog"], ["for-each-ref", "refs/notes"]):
        assert git(laid_out, *nothing) == ""
    left = {path.relative_to(laid_out / ".git").parts[0] for path in (laid_out / ".git").rglob("*") if path.is_file()}
    assert left == {"HEAD", "config", "index", "objects", "refs"}
    inside = git(laid_out, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)").split()
    paths = git(laid_out, "ls-tree", "-r", "-t", "HEAD").splitlines()
    assert len(inside) == 1 + 1 + len({line.split()[2] for line in paths}), "no object beyond commit, root and tree"
    assert not (laid_out / ".git/objects/info/alternates").exists()


def test_the_same_tree_is_the_same_commit_anywhere(base, laid_out, tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2020-01-01T00:00:00Z")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "init.defaultBranch")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "other")
    assert lay_out(base, tmp_path / "again") == git(laid_out, "rev-parse", "main").strip()
    other = {**base, PurePosixPath("run.sh"): SourceFile(content=RUN.encode())}
    assert lay_out(other, tmp_path / "other") != git(laid_out, "rev-parse", "main").strip()


def test_an_explorer_can_commit_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lay_out({PurePosixPath("run.sh"): SourceFile(content=b"true\n")}, Path("workspace"))
    (tmp_path / "workspace/new.py").write_text("new = 1\n")
    git(tmp_path / "workspace", "add", "-A")
    git(tmp_path / "workspace", "commit", "--quiet", "-m", "mine")
    assert git(tmp_path / "workspace", "show", "--stat", "--format=%an").startswith("explorer\n")


def test_a_task_brings_a_folder_of_its_own(tmp_path):
    folder = tmp_path / "workspace"
    (folder / "inner").mkdir(parents=True)
    (folder / "run.sh").write_text("true\n")
    (folder / "inner/train.py").write_text("pass\n")
    assert set(base_files(run_script=None, workspace=folder)) == {
        PurePosixPath("run.sh"),
        PurePosixPath("inner/train.py"),
    }
    assert base_files(run_script=RUN, workspace=folder)[PurePosixPath("run.sh")].content == RUN.encode()
    (folder / "run.sh").unlink()
    with pytest.raises(AskedWrongly, match=r"run\.sh"):
        base_files(run_script=None, workspace=folder)


def test_a_task_whose_folder_has_a_link_is_refused(tmp_path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/run.sh").write_text("true\n")
    (tmp_path / "workspace/data").symlink_to("/etc")
    with pytest.raises(AskedWrongly, match="symbolic link"):
        base_files(run_script=None, workspace=tmp_path / "workspace")
