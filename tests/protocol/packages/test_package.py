"""The package that a task renders to: the same bytes every time, and no figure in it that task.toml doesn't say."""

import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path, PurePosixPath

import pytest

from opd.protocol.packages.catalogue import begin, find, names, read_task
from opd.protocol.packages.package import base_tree, build, render
from opd.protocol.patches.source import digest_of
from opd.records.errors import AskedWrongly
from opd.records.trees import entries, tree_digest

TASKS = Path(__file__).parents[3] / "src/opd/tasks"
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e-?\d+)?(?![\w])")


@pytest.fixture(scope="module", params=names())
def package(request, tmp_path_factory) -> Path:
    """The package of a task that ships; no test changes it."""
    folder = tmp_path_factory.mktemp("packages") / request.param
    build(*find(request.param), folder)
    return folder


def numbers_in(text: str) -> set[str]:
    return {found.replace(",", "") for found in NUMBER.findall(text)}


def test_the_same_task_renders_to_the_same_bytes_wherever_and_whenever(package, tmp_path):
    before = os.umask(0o077)
    try:
        digest = build(*find(package.name), tmp_path / "again")
    finally:
        os.umask(before)
    assert tree_digest(entries(tmp_path / "again")) == digest == tree_digest(entries(package))


def test_a_package_that_is_rendered_again_from_itself_comes_out_the_same(package):
    task = read_task(package)
    assert digest_of(render(task, base_tree(task, package))) == tree_digest(entries(package))
    assert task.contract == find(package.name)[0].contract


def test_harbor_s_keys_say_what_the_contract_comes_to(package):
    values = tomllib.loads((package / "task.toml").read_text(encoding="utf-8"))
    contract = find(package.name)[0].contract
    budgets, most = contract.budgets, contract.artifacts.most
    assert values["agent"] == {"timeout_sec": budgets.explore_seconds, "user": "explorer"}
    judged = most * budgets.validation_seconds + most * budgets.final_seconds
    assert values["verifier"] == {"timeout_sec": budgets.formal_seconds + judged, "environment_mode": "separate"}
    assert values["environment"]["network_mode"] == "no-network"
    assert values["environment"]["gpus"] == contract.needs.gpus
    assert values["environment"]["memory_mb"] * 1_048_576 == contract.needs.memory_bytes
    (artifact,) = values["artifacts"]
    assert artifact["source"] == "/workspace"
    assert "checkpoints" in artifact["exclude"]  # a checkpoint of the exploration is no result


def test_every_figure_that_the_explorer_is_told_is_one_of_the_contract(package):
    contract = find(package.name)[0].contract
    budgets, surface, data = contract.budgets, contract.surface, contract.data
    told = (package / "instruction.md").read_text(encoding="utf-8").replace(contract.brief.strip(), "")
    times = [budgets.explore_seconds, budgets.formal_seconds, budgets.reserve_seconds]
    times += [budgets.validation_seconds, budgets.final_seconds]
    sizes = [surface.largest_file_bytes, surface.largest_patch_bytes]
    must = {f"{value:g}" for value in times} | {str(value) for value in (*sizes, data.rows, contract.artifacts.most)}
    may = {f"{value / unit:g}" for value in times for unit in (60, 3_600)}
    may |= {str(value // unit) for value in sizes for unit in (1 << 10, 1 << 20)}
    for measure in (contract.proxy, contract.final):
        counts = (measure.questions, len(measure.seeds), measure.questions * len(measure.seeds), measure.limit_tokens)
        must |= {str(value) for value in counts} | {f"{measure.temperature:g}", f"{measure.top_p:g}"}
        must |= {str(measure.context_tokens)} if measure.context_tokens else set()
    for one in contract.references:
        must |= {f"{value:g}" for value in (one.stderr, one.cut_short) if value is not None}
        must |= {str(one.score)} | ({f"{one.correct}", f"{one.samples}"} if one.correct is not None else set())
        may |= numbers_in(one.name)
    may |= {"75", "20"}  # the exit code of a conflict; the steps of a probe, an example
    may |= numbers_in(contract.student.source + contract.teacher.source + (contract.student.revision or ""))
    found = numbers_in(told)
    assert must - found == set()
    assert found - must - may == set()


def test_every_rule_that_the_explorer_is_held_to_is_told(package):
    contract = find(package.name)[0].contract
    told = (package / "instruction.md").read_text(encoding="utf-8")
    words = [*contract.forbidden, *contract.surface.editable, *contract.surface.frozen, *contract.surface.suffixes]
    words += [contract.proxy.metric, contract.final.metric, "bash run.sh", contract.brief.strip()]
    words += ["STUDENT_MODEL", "TEACHER_MODEL", "TRAIN_DATA", "MAX_WALL_TIME_SECONDS", "DEADLINE_RESERVE_SECONDS"]
    words += [f"`{tool}" for tool in contract.tools] + ["checkpoints/checkpoint-NUMBER/"]
    assert [word for word in words if word not in told] == []
    assert "@@" not in told


def test_the_declaration_is_a_literal_that_says_what_the_task_says(package):
    tree = ast.parse((package / "declaration.py").read_text(encoding="utf-8"))
    _, assignment = tree.body
    assert isinstance(assignment, ast.Assign)
    declared = ast.literal_eval(assignment.value)
    said = tomllib.loads((package / "task.toml").read_text(encoding="utf-8"))["metadata"]["opd"]
    for name in ("teacher", "data", "surface", "budgets", "proxy", "final", "artifacts", "needs"):
        assert without_nulls(declared[name]) == said[name], name
    assert without_nulls(declared["start"]) == said["student"]
    assert declared["forbidden"] == said["forbidden"]
    assert [without_nulls(one) for one in declared["references"]] == said["references"]
    assert declared["phases"]["formal"]["seconds"] == said["budgets"]["formal_seconds"]


def without_nulls(value):
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


def test_the_explorer_and_the_judge_begin_with_the_same_tree_and_the_manifest_names_it(package):
    trees = [tree_digest(entries(package / place / "workspace")) for place in ("environment", "tests")]
    manifest = json.loads((package / "environment/fixed/manifest.json").read_text(encoding="utf-8"))
    assert trees == [manifest["workspace"]["tree_sha256"]] * 2
    contract = find(package.name)[0].contract
    assert manifest["inputs"]["data"]["sha256"] == contract.data.sha256
    assert manifest["inputs"]["student"]["files_sha256"] == contract.student.files_sha256
    assert (package / "environment/workspace/run.sh").read_text(encoding="utf-8") == contract.run


def test_nothing_that_judges_and_no_history_is_in_what_the_explorer_gets(package):
    """H33: answers were read from the history of a repository that was shipped with a task."""
    got = {
        path.relative_to(package / "environment/workspace") for path in (package / "environment/workspace").rglob("*")
    }
    assert PurePosixPath("src/opd/train/loop.py") in got
    assert not [path for path in got if ".git" in path.parts]
    assert not [path for path in got if {"evaluate", "tasks", "protocol"} & set(path.parts)]
    assert not list((package / "environment").rglob("*.safetensors"))
    held = "\n".join(path.read_text(encoding="utf-8") for path in package.rglob("*") if path.is_file())
    assert "Compute 97-5+3-7-5." not in held  # the first question of the embedded final


def test_scripts_are_bash_and_the_oracle_puts_the_shipped_recipe_in_place(package, tmp_path):
    for name in ("tests/test.sh", "solution/run.sh", "solution/solve.sh", "environment/workspace/run.sh"):
        assert (package / name).stat().st_mode & 0o777 == 0o755
        subprocess.run(["bash", "-n", package / name], check=True)
    (tmp_path / "run.sh").write_text("exit 1\n", encoding="utf-8")
    given = os.environ | {"OPD_WORKSPACE": str(tmp_path)}
    subprocess.run(["bash", package / "solution/solve.sh"], env=given, check=True)
    assert (tmp_path / "run.sh").read_text(encoding="utf-8") == find(package.name)[0].contract.run


def harbor_s_own_digest(folder: Path) -> str:
    """Harbor's rule: names and bytes of known files, whatever their modes and whatever else there is."""
    known = [folder / "task.toml", folder / "instruction.md", folder / "README.md"]
    known += [
        path for part in ("environment", "tests", "solution") for path in (folder / part).rglob("*") if path.is_file()
    ]
    outer = hashlib.sha256()
    for path in sorted(known):
        outer.update(f"{path.relative_to(folder)}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return outer.hexdigest()


def test_mode_empty_folder_root_file_and_link_each_change_the_digest(package, tmp_path):
    """H51: a changed task kept its digest."""

    def change_mode(folder: Path) -> None:
        (folder / "tests/test.sh").chmod(0o644)

    def add_empty_folder(folder: Path) -> None:
        (folder / "environment/empty").mkdir()

    def add_root_file(folder: Path) -> None:
        (folder / "more.py").write_text("X = 1\n", encoding="utf-8")

    def change_root_file(folder: Path) -> None:
        (folder / "declaration.py").write_text("TASK = {}\n", encoding="utf-8")

    def add_link(folder: Path) -> None:
        (folder / "link").symlink_to("README.md")

    seen = {tree_digest(entries(package))}
    changes = [change_mode, add_empty_folder, add_root_file, change_root_file, add_link]
    for change in changes:
        copy = tmp_path / change.__name__
        shutil.copytree(package, copy)
        change(copy)
        assert harbor_s_own_digest(copy) == harbor_s_own_digest(package)  # which is the fault
        seen.add(tree_digest(entries(copy)))
    assert len(seen) == 1 + len(changes)


def test_a_task_with_a_workspace_of_its_own_ships_that(tmp_path):
    folder = begin("acme/own", like=TASKS / "arith_tiny", out=tmp_path / "own")
    text = (folder / "task.toml").read_text(encoding="utf-8").replace('workspace = "opd"', 'workspace = "folder"')
    text = re.sub(r"\nrun = '''.*?'''\n", "\n", text, flags=re.DOTALL)
    (folder / "task.toml").write_text(text, encoding="utf-8")
    with pytest.raises((AskedWrongly, OSError)):
        build(*find(folder), tmp_path / "none")
    assert not (tmp_path / "none").exists()
    (folder / "workspace").mkdir()
    (folder / "workspace/train.py").write_text("print('training')\n", encoding="utf-8")
    with pytest.raises(AskedWrongly, match=r"run\.sh"):
        build(*find(folder), tmp_path / "none")
    (folder / "workspace/run.sh").write_text("exec python train.py\n", encoding="utf-8")
    digest = build(*find(folder), tmp_path / "package")
    task = read_task(tmp_path / "package")
    assert digest_of(render(task, base_tree(task, tmp_path / "package"))) == digest
    assert {path.name for path in (tmp_path / "package/environment/workspace").iterdir()} == {"train.py", "run.sh"}
    begin("acme/copy", like=folder, out=tmp_path / "copy")
    assert (tmp_path / "copy/workspace/train.py").is_file()


def test_a_folder_that_is_there_is_never_overwritten(tmp_path):
    (tmp_path / "there").mkdir()
    with pytest.raises(AskedWrongly, match="never overwritten"):
        build(*find("arith_tiny"), tmp_path / "there")


def test_harbor_s_own_linter_finds_nothing_by_any_of_its_rules(package):
    harbor = shutil.which("harbor")
    if harbor is None:
        pytest.skip(f"harbor is not installed; it needs Python 3.12, and this is {sys.version.split()[0]}")
    without = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")} | {
        "HARBOR_TELEMETRY": "0"
    }
    words = [harbor, "lint", "--select", "ALL", "--json"]
    found = subprocess.run([*words, package], env=without, capture_output=True, text=True, check=False)
    assert json.loads(found.stdout) == [], found.stderr
