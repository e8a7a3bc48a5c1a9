"""trackio, as its own environment says: TRACKIO_DIR, TRACKIO_SPACE_ID and the rest hold.

It knows a run by its name alone, and two folders may have the same, so the run's number stands behind it.
"""

from collections.abc import Mapping
from typing import ClassVar

import trackio

from opd.train.sink import Shown


class Trackio:
    """One trackio run for all tries of a run."""

    takes_back: ClassVar[bool] = False

    def __init__(self, run: Shown) -> None:
        self._run = trackio.init(project=run.project, name=f"{run.name}-{run.id}", resume="allow", config=run.recipe)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """The numbers are in trackio's queue."""
        self._run.log(dict(values), step=step)

    def flush(self) -> None:
        """Nothing: trackio writes twice a second."""

    def close(self, *, whole: bool) -> None:  # noqa: ARG002  # trackio has no word for it
        """All is written."""
        trackio.finish()


SINK = Trackio
