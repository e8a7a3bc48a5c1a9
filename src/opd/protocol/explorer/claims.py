"""What the run folder beside a checkpoint says of the training that made it: claims of the explorer, kept as such.

runs/shuffle/                    opd's own run folder, where the explorer trains with it
  recipe.json metrics.jsonl …    small files, copied into the measurement's folder
  checkpoint-40/                 what is measured
    opd.json

Nothing is decided by it. It is read as a stranger's folder is: no link is followed, and nothing large is taken.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import NonNegativeFloat, NonNegativeInt

from opd.protocol.checkpoints.strangers import Folder, Strange, opened
from opd.protocol.explorer.taking import below
from opd.protocol.words import one_line
from opd.records.files import object_in
from opd.records.settings import Settings

FOLDER = "training"
LARGEST_BYTES = 4 << 20  # of one file: ten thousand steps of metrics
_RECIPE, _METRICS, _RUN, _CHECKPOINT = "recipe.json", "metrics.jsonl", "run.json", "opd.json"
_OF_THE_RUN = (_RECIPE, _METRICS, _RUN, "began.json")
_NUMBER = re.compile(r"[0-9]{1,12}$")


class Training(Settings):
    """How the checkpoint came about, as its run folder says it. What it doesn't say is null."""

    folder: str
    """As the explorer names it."""
    step: NonNegativeInt | None
    """Of the checkpoint: by its own record, else the number at the end of its name."""
    last_step: NonNegativeInt | None
    """Of the training, when this was copied."""
    asked_steps: NonNegativeInt | None
    seed: int | None
    seconds: NonNegativeFloat | None
    """Of all steps up to this one."""
    rows_seen: NonNegativeInt | None
    """Up to this step."""
    stop: str | None
    """Why it ended; null while it goes on, and where it was killed."""
    recipe_sha256: str | None
    """Of the bytes of its recipe."""
    files: dict[str, str]
    """What was copied, by name, with its SHA-256."""
    left_out: dict[str, str]
    """What was not, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The record, and the files that it names."""

    training: Training
    files: Mapping[str, bytes] = field(repr=False)


def claims(root: Path, inside: PurePosixPath, *, named: PurePosixPath) -> Claims | None:
    """What lies beside the checkpoint `inside` of `root`, which the explorer calls `named`.

    None where there is neither a recipe nor a line of metrics: it can't be told what made it.
    """
    files: dict[str, bytes] = {}
    left_out: dict[str, str] = {}
    for place, names in ((inside.parent, _OF_THE_RUN), (inside, (_CHECKPOINT,))):
        try:
            with opened(root) as top, below(top, place) as folder:
                _read(folder, names, files, left_out)
        except (Strange, OSError) as error:
            left_out |= {name: _why(error) for name in names if name not in files}
    if not files.keys() & {_RECIPE, _METRICS}:
        return None
    return Claims(training=_training(files, left_out, named), files=files)


def _read(folder: Folder, names: tuple[str, ...], files: dict[str, bytes], left_out: dict[str, str]) -> None:
    for name in names:
        try:
            files[name] = folder.read(name, largest=LARGEST_BYTES)
        except FileNotFoundError:
            continue
        except (Strange, OSError) as error:
            left_out[name] = _why(error)


def _why(error: Exception) -> str:
    return one_line(error.says if isinstance(error, Strange) else str(error), most=200)


def _training(files: Mapping[str, bytes], left_out: dict[str, str], named: PurePosixPath) -> Training:
    recipe, run, own = (object_in(files.get(name, b"")) or {} for name in (_RECIPE, _RUN, _CHECKPOINT))
    found = _NUMBER.search(named.name)
    step = _whole(own.get("step"))
    step = int(found.group()) if step is None and found else step
    steps = [one for one in _lines(files.get(_METRICS, b"")) if _whole(one.get("step")) is not None]
    mine = [one for one in steps if step is None or one["step"] <= step]
    seconds = [_number(_part(one, "seconds").get("total")) for one in mine]
    known = [one for one in seconds if one is not None]
    stop = run.get("stop")
    return Training(
        folder=one_line(str(named.parent), most=1_000),
        step=step,
        last_step=steps[-1]["step"] if steps else None,
        asked_steps=_whole(_part(recipe, "budget").get("steps")),
        seed=_whole(recipe.get("seed")),
        seconds=round(sum(known), 3) if mine and len(known) == len(mine) else None,
        rows_seen=_whole(mine[-1].get("rows_seen")) if mine else None,
        stop=one_line(stop, most=100) if isinstance(stop, str) else None,
        recipe_sha256=hashlib.sha256(files[_RECIPE]).hexdigest() if _RECIPE in files else None,
        files={name: hashlib.sha256(held).hexdigest() for name, held in sorted(files.items())},
        left_out=left_out,
    )


def _lines(held: bytes) -> Iterator[dict[str, Any]]:
    """The objects of JSON Lines; what is none, such as a last line that is just being written, is passed over."""
    for line in held.split(b"\n"):
        if value := object_in(line):
            yield value


def _part(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = value.get(key)
    return part if isinstance(part, dict) else {}


def _whole(value: object) -> int | None:
    """A number of steps, rows or a seed; anything else that a stranger may write there is None."""
    return value if type(value) is int and 0 <= value < 1 << 63 else None


def _number(value: object) -> float | None:
    return float(value) if type(value) in {int, float} and 0 <= value < 1e9 else None  # type: ignore[operator,arg-type]  # just seen
