"""Which tasks there are: those that ship, by name, and any folder with a `task.toml`."""

import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import opd
from opd.protocol.packages.folders import read_text
from opd.protocol.patches.source import write
from opd.protocol.patches.workspace import base_files
from opd.records.errors import AskedWrongly
from opd.records.files import PARTIAL, write_text
from opd.records.settings import validated
from opd.records.tasks import NAME, Task

FILE = "task.toml"
_NAMED = re.compile(r"^(\[task\]\n(?:(?!\[).*\n)*?name\s*=\s*)(\"[^\"]*\"|'[^']*')", re.MULTILINE)
_SHIPPED = Path(opd.__file__).parent / "tasks"


def names() -> tuple[str, ...]:
    """The tasks that ship."""
    return tuple(sorted(path.parent.name for path in _SHIPPED.glob(f"*/{FILE}")))


def find(name: str | Path) -> tuple[Task, Path]:
    """The task of that name, or in that folder, and the folder; a name that ships comes before a folder of that name.

    Raises `AskedWrongly` where there is none, or where what it says breaks a rule.
    """
    folder = place(name)
    return read_task(folder), folder


def place(name: str | Path) -> Path:
    """The folder of a task that ships, or the folder that is named; `AskedWrongly` where there is none."""
    if str(name) in names():
        return _SHIPPED / name
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise AskedWrongly(f"no task {str(name)!r}: give a folder with a {FILE}, or one of {', '.join(names())}")
    return folder


def read_task(folder: Path) -> Task:
    """The task that a folder holds."""
    return validated(Task, read_toml(folder), source=str(folder / FILE))


def read_toml(folder: Path) -> dict[str, Any]:
    """The values of a folder's `task.toml`, whatever they are."""
    text = read_text(folder, FILE)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise AskedWrongly(f"{folder / FILE} is not TOML: {error}") from error


def begin(name: str, *, like: Path, out: Path) -> Path:
    """The folder `out`, new, with the task of the folder `like` under another name; its comments stay.

    Raises `AskedWrongly` for a name that no task can have, and where `out` exists.
    """
    if NAME.fullmatch(name) is None:
        raise AskedWrongly(f"{name!r}: write the name as organisation/name, of letters, digits, dots, _ and -")
    if out.exists():
        raise AskedWrongly(f"{out} exists already and is never overwritten; name another folder with --out")
    task = read_task(like)
    text, count = _NAMED.subn(rf'\g<1>"{name}"', read_text(like, FILE), count=1)
    brought = like / "workspace"
    if count != 1 or _named(text) != name:
        raise AskedWrongly(
            f"{like / FILE}: [task] has no name = {task.name!r} on a line of its own to put another for"
        )
    partial = out.with_name(f"{out.name}{PARTIAL}")
    shutil.rmtree(partial, ignore_errors=True)
    if task.contract.workspace == "folder":
        write(base_files(run_script=None, workspace=brought), partial / brought.name)
    write_text(partial / FILE, text)
    partial.replace(out)
    return out


def _named(text: str) -> str | None:
    table = tomllib.loads(text).get("task")
    return str(table.get("name")) if isinstance(table, dict) else None
