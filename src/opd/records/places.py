"""Where things are: `opd:` names what ships in the package, and anything else is a path.

opd:arith_tiny/student      the folder src/opd/tasks/arith_tiny/student of the install
recipes/arith_tiny.toml     a path, relative to the working directory
"""

from pathlib import Path

import opd
from opd.records.errors import AskedWrongly

SHIPPED = "opd:"
PACKAGE = Path(opd.__file__).parent


def locate(reference: str) -> Path:
    """The path that a reference stands for, whether or not there is anything.

    Raises `AskedWrongly` for an `opd:` reference to something that this install does not ship.
    """
    if not reference.startswith(SHIPPED):
        return Path(reference).expanduser()
    path = PACKAGE / "tasks" / reference.removeprefix(SHIPPED)
    if not path.exists():
        tasks = ", ".join(sorted(file.parent.name for file in (PACKAGE / "tasks").glob("*/__init__.py")))
        raise AskedWrongly(f"{reference} is not part of this install; embedded tasks: {tasks}")
    return path


def recipe_path(name: str) -> Path:
    """The file of a recipe: a path as it is, or the name of one that ships with the package."""
    if name.endswith((".toml", ".json")):
        return Path(name).expanduser()
    shipped = shipped_recipes()
    if name not in shipped:
        raise AskedWrongly(f"no recipe {name!r}: give a .toml file, or one of {', '.join(sorted(shipped))}")
    return shipped[name]


def shipped_recipes() -> dict[str, Path]:
    """The recipes that ship, by name. In a wheel they lie in the package, in a checkout beside `src`."""
    packaged = PACKAGE / "recipes"
    folder = packaged if packaged.is_dir() else PACKAGE.parents[1] / "recipes"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}
