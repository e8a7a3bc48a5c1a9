"""A record that is sealed in one go, beside the tries of stages: the base tree, a measurement, a ruling."""

from collections.abc import Mapping
from pathlib import Path

import opd
from opd.protocol.clock import Stopwatch, now
from opd.records.receipts import Head, Receipt, seal


def seal_record(
    folder: Path,
    *,
    kind: str,
    outcome: str,
    because: str | None = None,
    made_from: Mapping[str, str],
    events: Head,
    watch: Stopwatch | None = None,
) -> Receipt:
    """The receipt of a folder that was begun and is filled; `watch` has run since its beginning, None: just now."""
    ended = now()
    return seal(
        folder,
        Receipt(
            kind=kind,
            outcome=outcome,
            because=because,
            began_utc=(watch.began if watch else ended).utc,
            ended_utc=ended.utc,
            active_seconds=round(watch.active_seconds, 3) if watch else 0.0,
            opd_version=opd.__version__,
            made_from=dict(made_from),
            events=events,
            files=(),
        ),
    )
