"""The Harbor-compatible package of a task, rendered from its `task.toml`: the same task, the same bytes.

    task.toml  instruction.md  declaration.py  README.md
    environment/Dockerfile  environment/workspace/**      what the explorer starts from
    environment/fixed/manifest.json                       the fixed inputs, by digest, never their bytes
    tests/test.sh  tests/Dockerfile  tests/task.toml  tests/workspace/**    what judges, with its own copy of the base
    solution/run.sh  solution/solve.sh

The rendered task.toml says everything that the source says, and beside it what follows from it in Harbor's words; a
package that is rendered again from it comes out the same.
"""

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from opd import __version__
from opd.protocol.packages.catalogue import FILE
from opd.protocol.packages.declaration import declaration
from opd.protocol.packages.instruction import instruction
from opd.protocol.packages.templates import filled
from opd.protocol.patches.source import SourceFile, Tree, digest_of, write
from opd.protocol.patches.workspace import base_files
from opd.protocol.phases import WORKSPACE, input_places
from opd.records.errors import AskedWrongly
from opd.records.files import PARTIAL
from opd.records.tasks import Contract, DataInput, Task
from opd.records.toml import toml

BUILT_WORKSPACE = PurePosixPath("environment/workspace")
OWN_WORKSPACE = "workspace"
EXPLORER = "explorer"
_NOT_HANDED_IN = (".git", "checkpoints", "__pycache__")
_MEBIBYTE = 1 << 20


def build(task: Task, folder: Path, out: Path) -> str:
    """The digest of the package, which is written into the new folder `out`; `folder` is that of the task.

    Raises `AskedWrongly` where `out` exists. A crash leaves `out.partial` and no `out`.
    """
    if out.exists():
        raise AskedWrongly(f"{out} exists already and is never overwritten; name another folder")
    tree = render(task, base_tree(task, folder))
    partial = out.with_name(f"{out.name}{PARTIAL}")
    write(tree, partial)
    partial.replace(out)
    return digest_of(tree)


def base_tree(task: Task, folder: Path) -> Tree:
    """The tree that exploration starts from and a patch applies to: what lies in the folder, or else `opd`'s own.

    Raises `AskedWrongly` where the folder lacks it, or holds links or devices.
    """
    for brought in (folder / BUILT_WORKSPACE, folder / OWN_WORKSPACE):
        if brought.is_dir():
            return base_files(run_script=None, workspace=brought)
    if task.contract.workspace == "folder":
        raise AskedWrongly(f"{folder} has no {OWN_WORKSPACE}/, which the task says it brings; add it, with a run.sh")
    return base_files(run_script=task.contract.run)


def render(task: Task, base: Tree) -> Tree:
    """Every file of the package, in memory."""
    texts = {
        FILE: toml(in_harbors_words(task)),
        "instruction.md": instruction(task),
        "declaration.py": declaration(task),
        "README.md": _readme(task),
        "environment/Dockerfile": filled("environment.Dockerfile", _image_words()),
        "environment/fixed/manifest.json": json.dumps(manifest(task, base), indent=2) + "\n",
        "tests/Dockerfile": filled("tests.Dockerfile", _image_words()),
        f"tests/{FILE}": toml(in_harbors_words(task)),
        "tests/test.sh": filled("test.sh", {"metric": task.contract.final.metric}),
        "solution/solve.sh": filled("solve.sh", {}),
    }
    tree = {PurePosixPath(path): _file(text, path) for path, text in texts.items()}
    for path, file in base.items():
        tree[BUILT_WORKSPACE / path] = tree[PurePosixPath("tests/workspace") / path] = file
    if (run := base.get(PurePosixPath("run.sh"))) is None:
        raise AskedWrongly(f"the workspace of {task.name} has no run.sh, which formal training calls; add one")
    tree[PurePosixPath("solution/run.sh")] = run
    return dict(sorted(tree.items()))


def in_harbors_words(task: Task) -> dict[str, Any]:
    """The values of the rendered task.toml: those of the task, and what follows from its contract."""
    values: dict[str, Any] = task.model_dump(mode="json")
    metadata = values.pop("metadata")
    for table, follows in follows_from(task.contract).items():
        values[table] = values[table] | follows
    values["artifacts"] = [{"source": str(WORKSPACE), "exclude": list(_NOT_HANDED_IN)}]
    return {key: value for key, value in values.items() if value not in ({}, None)} | {"metadata": metadata}


def follows_from(contract: Contract) -> dict[str, dict[str, Any]]:
    """By table, the keys of Harbor's whose values the contract decides."""
    budgets, needs = contract.budgets, contract.needs
    judged = contract.artifacts.most * (budgets.validation_seconds + budgets.final_seconds)
    return {
        "agent": {"timeout_sec": budgets.explore_seconds, "user": EXPLORER},
        "verifier": {"timeout_sec": budgets.formal_seconds + judged, "environment_mode": "separate"},
        "environment": {
            "network_mode": "no-network",
            "workdir": str(WORKSPACE),
            "cpus": needs.cpus,
            "memory_mb": needs.memory_bytes // _MEBIBYTE,
            "storage_mb": needs.disk_bytes // _MEBIBYTE,
            "gpus": needs.gpus,
        },
    }


def manifest(task: Task, base: Tree) -> dict[str, Any]:
    """What is fixed, where it has to lie, and by which digest it is known."""
    contract = task.contract
    places = input_places(contract)
    inputs: dict[str, Any] = {}
    for role, one in contract.fixed_inputs.items():
        if isinstance(one, DataInput):
            known: Mapping[str, Any] = {"sha256": one.sha256, "given_sha256": one.given_sha256, "rows": one.rows}
        else:
            known = {"revision": one.revision, "files_sha256": one.files_sha256, "parameters": one.parameters}
        inputs[role] = {"source": one.source, "place": str(places[role]), **known}
    return {
        "task": task.name,
        "contract_sha256": contract.digest,
        "inputs": inputs,
        "workspace": {"made_by": f"opd {__version__}", "files": len(base), "tree_sha256": digest_of(base)},
    }


def _readme(task: Task) -> str:
    contract = task.contract
    mounts = "\n".join(
        f"| {role} | `{one['source']}` | `{one['place']}` |"
        for role, one in manifest(task, {})["inputs"].items()
    )  # fmt: skip
    words = {
        "name": task.name,
        "short_name": task.short_name,
        "description": task.task.description,
        "version": __version__,
        "mounts": mounts,
        "most": str(contract.artifacts.most),
        "metric": contract.final.metric,
    }
    return filled("README.md", words)


def _image_words() -> dict[str, str]:
    return {"version": __version__, "workspace": str(WORKSPACE), "explorer": EXPLORER}


def _file(text: str, path: str) -> SourceFile:
    return SourceFile(content=text.encode(), executable=path.endswith(".sh"))
