"""Where things are: `opd:` names what ships in the package, and anything else is a path.

opd:arith_tiny/student      the folder src/opd/tasks/arith_tiny/student of the install
recipes/arith_tiny.toml     a path, relative to the working directory
"""

from pathlib import Path

import opd
from opd.records.errors import AskedWrongly

SHIPPED = "opd:"
_PACKAGE = Path(opd.__file__).parent


def locate(reference: str) -> Path:
    """The path that a reference stands for, whether or not there is anything.

    Raises `AskedWrongly` for an `opd:` reference to something that this install does not ship.
    """
    if not reference.startswith(SHIPPED):
        return Path(reference).expanduser()
    path = _PACKAGE / "tasks" / reference.removeprefix(SHIPPED)
    if not path.exists():
        tasks = ", ".join(sorted(folder.name for folder in (_PACKAGE / "tasks").iterdir() if folder.is_dir()))
        raise AskedWrongly(f"{reference} is not part of this install; embedded tasks: {tasks}")
    return path


def recipe_path(name: str) -> Path:
    """The file of a recipe: a path as it is, or the name of one that ships with the package."""
    if name.endswith((".toml", ".json")):
        return Path(name).expanduser()
    shipped = {path.stem: path for path in _recipes().glob("*.toml")}
    if name not in shipped:
        raise AskedWrongly(f"no recipe {name!r}: give a .toml file, or one of {', '.join(sorted(shipped))}")
    return shipped[name]


def _recipes() -> Path:
    """In a wheel the recipes lie in the package; in a checkout beside `src`."""
    packaged = _PACKAGE / "recipes"
    return packaged if packaged.is_dir() else _PACKAGE.parents[1] / "recipes"
