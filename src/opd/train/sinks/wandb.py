"""Weights & Biases, as its own environment says: WANDB_MODE, WANDB_ENTITY, WANDB_BASE_URL and the rest hold.

What it keeps on this disk lies in `sinks/wandb/` of the run's folder; with WANDB_MODE=offline that is all of it, and
`wandb sync` sends it later.
"""

import os
from collections.abc import Mapping
from typing import ClassVar

import wandb

from opd.train.sink import Shown


class WeightsAndBiases:
    """One W&B run for all tries of a run, by the number that its folder keeps."""

    takes_back: ClassVar[bool] = False

    def __init__(self, run: Shown) -> None:
        self._run = wandb.init(
            project=run.project,
            name=run.name,
            id=run.id,
            resume="allow",
            dir=run.out / "sinks",
            config=run.recipe,
            allow_val_change=True,  # a budget may have grown since
            # the machine's load is measured at the run, not at its follower, whose output isn't of interest
            settings=wandb.Settings(console="off", x_stats_pid=os.getppid()),
        )

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """The numbers are handed to W&B's own process."""
        self._run.log(dict(values), step=step)

    def flush(self) -> None:
        """Nothing: W&B sends by itself."""

    def close(self, *, whole: bool) -> None:
        """All is sent, or on the disk where it is offline; W&B shows a run that broke as failed."""
        self._run.finish(exit_code=0 if whole else 1)


SINK = WeightsAndBiases
