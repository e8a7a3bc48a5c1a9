"""Which checkpoints of a formal run count: those with the greatest numbers, of this run alone (faults H24, H26).

    checkpoints/checkpoint-9/       9 < 10 < 100: numbers decide, not names and not times
    checkpoints/checkpoint-10/
    checkpoints/checkpoint-100/
    checkpoints/checkpoint-101.partial/     never finished, and passed over with its reason

One that counts and turns out to be invalid is not replaced by an earlier one.
"""

import re
import stat
from collections import defaultdict
from pathlib import Path, PurePosixPath

from opd.protocol.checkpoints.strangers import Folder, Strange, opened
from opd.records.checkpoints import Found, Numbered
from opd.records.files import COMPLETE, PARTIAL, digest
from opd.records.trees import Kind, entries, tree_digest, written

MOST_ENTRIES = 10_000
MOST_PASSED_OVER = 100
LARGEST_STEP = 10**12

_NUMBER = re.compile(r"[0-9]+", re.ASCII)
_OPDS_RECORD = "opd.json"  # in every checkpoint of `opd train`, which marks it as its last act


def find(folder: Path, *, pattern: str = "checkpoints/checkpoint-*", most: int = 3) -> Found:
    """The checkpoints under a folder that count, and what else there has such a name.

    `pattern` is relative, with one star at its end, which stands for the number.
    """
    place = PurePosixPath(pattern)
    prefix = place.name.removesuffix("*")
    try:
        return _found(folder, place.parent, prefix, most)
    except Strange as error:
        return Found(checkpoints=(), passed_over={str(place.parent): error.says})


def sha256_of(folder: Path) -> str:
    """A checkpoint's digest: as in `Score.model_digest`; where it holds more than files, over its entries.

    No link of a stranger is followed.
    """
    found = entries(folder)
    if any(entry.kind is not Kind.FILE for entry in found):
        return tree_digest(found)
    return digest({entry.path: entry.sha256 for entry in found if entry.path != COMPLETE})


def _found(folder: Path, parent: PurePosixPath, prefix: str, most: int) -> Found:
    for above in reversed(parent.parents):
        with opened(folder / above):  # a link on the way leads out
            pass
    by_step: dict[int, list[str]] = defaultdict(list)
    passed_over: dict[str, str] = {}
    with opened(folder / parent) as place:
        for name in place.names(most=MOST_ENTRIES):
            if not name.startswith(prefix):
                continue  # logs and the like, which a run keeps beside its checkpoints
            step = _step(name, prefix)
            reason = step if isinstance(step, str) else _not_whole(place, name)
            if reason is not None:
                passed_over[name] = reason
            else:
                assert isinstance(step, int), "a name without a reason against it has a number"
                by_step[step].append(name)
    for step, names in list(by_step.items()):
        if len(names) > 1:
            passed_over |= dict.fromkeys(names, f"the number {step} is there {len(names)} times; which is it?")
            del by_step[step]
    counted = sorted(by_step)[-most:]
    passed_over |= {
        by_step[step][0]: f"not among the {most} with the greatest numbers" for step in by_step if step not in counted
    }
    return Found(
        checkpoints=tuple(Numbered(step=step, folder=str(parent / by_step[step][0])) for step in counted),
        passed_over=_named(passed_over, parent),
    )


def _step(name: str, prefix: str) -> int | str:
    """The number in a checkpoint's name, or why it isn't one."""
    number = name.removeprefix(prefix)
    if name.endswith(PARTIAL):
        return "it was never finished"
    if _NUMBER.fullmatch(number) is None:
        return f"{number[:40]!r} is no number"
    if len(number) > len(str(LARGEST_STEP)) or int(number) > LARGEST_STEP:
        return f"its number is greater than {LARGEST_STEP:,}"
    return int(number)


def _not_whole(place: Folder, name: str) -> str | None:
    mode = place.status(name).st_mode
    if stat.S_ISLNK(mode):
        return "it is a link"
    if not stat.S_ISDIR(mode):
        return "it is no folder"
    inside = place.path / name
    if (inside / _OPDS_RECORD).exists() and not (inside / COMPLETE).exists():
        return f"it was never finished: {_OPDS_RECORD} is there, {COMPLETE} is not"
    return None


def _named(passed_over: dict[str, str], parent: PurePosixPath) -> dict[str, str]:
    """By path, in order; a stranger may leave thousands, of which the first are named and the rest counted."""
    names = sorted(passed_over)
    named = {written(Path(parent / name)): passed_over[name] for name in names[:MOST_PASSED_OVER]}
    if left := len(names) - len(named):
        named["…"] = f"{left:,} more"
    return named
