"""Which form a task's folder has, and what it says."""

from pathlib import Path

from opd.protocol.packages import folders
from opd.protocol.packages.catalogue import FILE, read_toml
from opd.protocol.packages.explain import bench, harbor, task
from opd.protocol.packages.explain.explanation import Explanation, section
from opd.records.fields import value_in
from opd.records.settings import validated
from opd.records.tasks import Task
from opd.records.trees import entries, tree_digest

LARGEST_FOLDER_BYTES = 1 << 30  # what is larger is explained without a digest
_MADE_BY_PYTHON = ("__pycache__",)


def explain(folder: Path) -> Explanation:
    """What the task in a folder says: one of ours, one of the AI4AI-Bench layout, or any of Harbor's.

    Nothing of it is run or imported. Raises `AskedWrongly` for a folder without a task.toml that can be read.
    """
    values = read_toml(folder)
    if value_in(values, "metadata.opd") is not None:
        explained = task.explain(validated(Task, values, source=str(folder / FILE)))
    elif bench.is_bench(values, folder):
        explained = bench.explain(values, folder)
    else:
        explained = harbor.explain(values, folder)
    about = section("folder", [("path", str(folder)), ("digest", digest(folder)), *folders.faults(folder)])
    return explained.model_copy(update={"sections": (*explained.sections, about)})


def digest(folder: Path) -> str:
    """Over every name, kind, mode, link and byte of a folder; or why there is none."""
    size = folders.size_bytes(folder)
    if size is None or size > LARGEST_FOLDER_BYTES:
        return f"none: the folder has more than {LARGEST_FOLDER_BYTES:,} bytes, or {folders.MOST_NAMES:,} names"
    return tree_digest(entries(folder, names=_MADE_BY_PYTHON))
