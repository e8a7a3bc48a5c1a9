"""How much of a rollout is learned from: rollouts that the limit cut short, and those that began to repeat.

At the reference recipe's limit about 60 % of the rollouts are cut short, so most trained tokens belong to
unfinished answers, many of them loops. What is done about it is a setting; the shares are in every line of the
metrics whatever it is.
"""

from typing import Annotated, Literal

from pydantic import Field

from opd.records.repetition import repetition_onset
from opd.records.rollouts import Rollout
from opd.records.settings import Settings


class CreditSettings(Settings):
    """Which tokens move the student, and how much."""

    cut_short: Literal["train", "mask", "down_weight"] = "train"
    """Rollouts that the limit ended: like any other, not at all, or with `weight`."""
    weight: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Of each token of a rollout that was cut short, with `down_weight`."""
    stop_at_repetition: bool = False
    """Tokens from the first repeated block on are not trained."""

    def weights(self, rollout: Rollout) -> tuple[float, ...]:
        """One for each response token; 0 for a token that is not trained."""
        whole = {"train": 1.0, "mask": 0.0, "down_weight": self.weight}[self.cut_short]
        of_all = whole if rollout.stop.cut_short else 1.0
        onset = repetition_onset(rollout.token_ids) if self.stop_at_repetition else None
        trained = len(rollout.token_ids) if onset is None else onset
        return (of_all,) * trained + (0.0,) * (len(rollout.token_ids) - trained)
