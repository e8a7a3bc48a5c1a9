"""Which code drew and counted: a score names it, as it names its data and its graders.

It stands under `code` in the score's machine, beside the versions of the libraries: samples of an earlier version
are still good to go on with, and a comparison says that they are of another one.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from opd.records.files import digest, sha256

CODE = "code"
_ROOMS = ("evaluate", "models")  # what is asked, drawn and counted; the graders have identities of their own
_JOINED = " + "


@cache
def code_digest() -> str:
    """SHA-256 over the sources of the rooms `evaluate` and `models`, as they are when it is first asked for."""
    package = Path(__file__).parent.parent
    files = sorted(path for room in _ROOMS for path in (package / room).rglob("*.py"))
    return digest({path.relative_to(package).as_posix(): sha256(path) for path in files})


def counted_here(machine: Mapping[str, str]) -> dict[str, str]:
    """The machine that drew, with the code that counts now where that is another one: `3f2a… + 91c0…`."""
    drew = machine.get(CODE, "not known").split(_JOINED)
    return {**machine, CODE: _JOINED.join(dict.fromkeys([*drew, code_digest()]))}


def shortened(codes: str) -> str:
    """The digests for a person to tell apart: their first 12 digits."""
    return _JOINED.join(code[:12] for code in codes.split(_JOINED))
