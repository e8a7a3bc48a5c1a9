"""Which grader this is: its name and the digest of everything that it consists of.

house:3f2a…               this room's source and the versions of the libraries that it reads with
reference:91c0…           the same with the folder `reference`, and sympy's version
my_graders:lenient:77b1…  the source of the module my_graders
"""

import hashlib
import importlib.util
import re
from importlib.metadata import version
from pathlib import Path

from opd.records.errors import AskedWrongly
from opd.records.files import digest, sha256

HOUSE = "house"
REFERENCE = "reference"
_READERS = ("math-verify", "latex2sympy2_extended", "sympy", "mpmath")  # their versions are part of the identity
_SPEC = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def check_name(grader: str | None) -> str:
    """The name of a grader, "house" for None. Raises `AskedWrongly` for what can't be one."""
    if grader is None or grader in {HOUSE, REFERENCE}:
        return grader or HOUSE
    if not _SPEC.fullmatch(grader):
        raise AskedWrongly(f"grader = {grader!r}: write it as {HOUSE}, {REFERENCE} or module:function")
    return grader


def identity(grader: str | None = None) -> str:
    """Which grader this is, for the protocol of a score: its name and the SHA-256 of everything it consists of.

    Raises `AskedWrongly` for a module that there is not.
    """
    name = check_name(grader)
    if name not in {HOUSE, REFERENCE}:
        return f"{name}:{_module_digest(name)}"
    room = Path(__file__).parent
    files = [*room.glob("*.py"), *((room / REFERENCE).glob("*.py") if name == REFERENCE else ())]
    sources = {path.relative_to(room).as_posix(): sha256(path) for path in sorted(files)}
    return f"{name}:{digest({'sources': sources, 'versions': {library: version(library) for library in _READERS}})}"


def _module_digest(grader: str) -> str:
    module = grader.partition(":")[0]
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        raise AskedWrongly(f"grader = {grader!r}: there is no module {module!r} on the path of this Python")
    if not spec.has_location:
        raise AskedWrongly(f"grader = {grader!r}: {module!r} is part of Python itself and has no file to be known by")
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()
