"""What says, in a file of its own beside the receipts, how far something is: the control files of a harness.

Such a file is written by a program that was still at work, and never again. Here it is only found; what it says is
held against the receipt by `checks/contradictions.py`.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from opd.protocol.audit.evidence import File, Held
from opd.protocol.audit.reading import Folder
from opd.records.attempts import Stage

KEYS = frozenset(
    {"status", "state", "attempt_status", "run_status", "job_status", "phase_status", "formal_result", "phases"}
)
_LARGEST_BYTES = 1 << 20  # a control file is small
_LARGEST_TEXT = 1 << 12  # bytes; one of text is smaller still
_TEXT = frozenset({".txt", ".yaml", ".yml"})
_LINE = re.compile(r"""(?P<indent>[ ]*)(?:- )?["']?(?P<key>[\w-]+)["']?[ ]*[:=](?:[ \t]+|$)(?P<said>.*)""")
_MOST_FILES = 20_000  # that are looked into
_OWN = frozenset({"outcome.json", "receipt.json", "isolation.json", "opened.json", "retry-order.json"})


def states(folders: Mapping[str, Folder]) -> Iterator[Held[dict[str, Any]]]:
    """The small files of explorations and formal tries that say something by a key of `KEYS`; not the protocol's."""
    looked = 0
    for name, folder in folders.items():
        if not name.startswith((f"{Stage.EXPLORE}/", f"{Stage.FORMAL}/")):
            continue
        for file in folder.files():
            path = folder.relative(file)
            if not _may_say(path, file.bytes):
                continue
            looked += 1
            if looked > _MOST_FILES:
                folder.leave_out(
                    path, f"more than {_MOST_FILES:,} files that may say so; this and later ones were not looked into"
                )
                return
            value = folder.object(file) if path.endswith(".json") else _text(folder, file)
            if value is not None and KEYS & value.value.keys():
                yield value


def _may_say(path: str, size: int) -> bool:
    if path in _OWN or path.startswith("proxy/"):
        return False
    suffix = PurePosixPath(path).suffix
    return (suffix == ".json" and size <= _LARGEST_BYTES) or (suffix in _TEXT and size <= _LARGEST_TEXT)


def _text(folder: Folder, file: File) -> Held[dict[str, Any]] | None:
    path = PurePosixPath(folder.relative(file))
    return folder.parsed(str(path), lambda data: said(data.decode("utf-8", "replace"), path))


def said(text: str, path: PurePosixPath) -> dict[str, Any]:
    """The keys and words of lines as `status: running`, one inside the other as they are indented.

    A single word is what the file's own name says of it. A text with other lines is prose, and says nothing here.
    """
    lines = [line.rstrip() for line in text.split("\n")]
    lines = [line for line in lines if line.strip() and not line.lstrip().startswith(("#", "---", "..."))]
    if path.stem.lower() in KEYS and len(lines) == 1 and _LINE.match(lines[0]) is None:
        return {path.stem.lower(): lines[0].strip()}
    found: dict[str, Any] = {}
    inside: list[tuple[int, dict[str, Any]]] = [(-1, found)]
    for line in lines:
        one = _LINE.match(line)
        if one is None:
            if path.suffix == ".txt":
                return {}
            continue
        while len(inside) > 1 and len(one["indent"]) <= inside[-1][0]:
            inside.pop()
        word = one["said"].partition(" #")[0].strip().strip("\"'")
        deeper: dict[str, Any] = {}
        inside[-1][1][one["key"]] = word or deeper
        if not word:
            inside.append((len(one["indent"]), deeper))
    return found
