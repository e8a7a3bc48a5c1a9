"""Where a verb's work is done, as it is typed: `--on ray`, `--on ray:8`."""

import re

from opd.records.errors import AskedWrongly

_ON_RAY = re.compile(r"ray(?::([1-9]\d{0,4}))?", re.ASCII)


def workers_on_ray(on: str) -> int | None:
    """How many workers are asked for; None: one for each device. Raises `AskedWrongly` for another place."""
    found = _ON_RAY.fullmatch(on)
    if found is None:
        raise AskedWrongly(f"--on {on!r}: write ray, or ray:8 for so many workers; without --on it is done here")
    return int(found[1]) if found[1] else None
