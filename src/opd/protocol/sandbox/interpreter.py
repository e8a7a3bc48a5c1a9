"""An interpreter with an install of opd: this one, or another that is asked where its things lie."""

import json
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import opd
from opd.protocol.supervision.asking import ask
from opd.records.errors import AskedWrongly

_LIMIT_SECONDS = 60.0
_QUESTION = """
import json, sys, sysconfig, opd
places = [sys.base_prefix, sys.prefix, sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
print(json.dumps({"places": places, "package": opd.__file__, "version": opd.__version__}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """A program that runs Python, and what has to be seen for it to run."""

    program: Path
    folders: tuple[Path, ...]  # itself and its packages, none within another
    package: Path  # where its opd is installed


def this_interpreter() -> Interpreter:
    """The one that runs this."""
    places = (sys.base_prefix, sys.prefix, sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    package = Path(opd.__file__).resolve().parent
    return Interpreter(program=Path(sys.executable), folders=_folders(places), package=package)


def interpreter_at(program: Path) -> Interpreter:
    """The one that this program is; raises `AskedWrongly` where it is none, or has no opd of this version."""
    try:
        answer = ask([str(program), "-I", "-c", _QUESTION], limit_seconds=_LIMIT_SECONDS, complaints=True)
    except OSError as error:
        raise AskedWrongly(f"{program} can't be started: {error.strerror}; name one with opd installed") from None
    last = answer.text.strip().rpartition("\n")[2] if answer else f"no answer in {_LIMIT_SECONDS:.0f} s"
    if answer is None or answer.code != 0:
        raise AskedWrongly(f"{program} has no opd to judge with: {last}; install opd {opd.__version__} there")
    try:
        said = json.loads(last)
    except ValueError:
        raise AskedWrongly(f"{program} did not say where its things lie: {last}; name a Python") from None
    if said["version"] != opd.__version__:
        raise AskedWrongly(f"{program} has opd {said['version']}, and this is {opd.__version__}; install the same")
    return Interpreter(
        program=program.absolute(), folders=_folders(said["places"]), package=Path(said["package"]).resolve().parent
    )


def _folders(places: Iterable[str]) -> tuple[Path, ...]:
    found: list[Path] = []
    for place in places:
        folder = Path(place).resolve()
        if folder.is_dir() and not any(folder.is_relative_to(above) for above in (*found, Path("/usr"))):
            found.append(folder)
    return tuple(found)
