"""Checkpoints: each a complete model directory, published whole or not at all.

DIR/checkpoint-20/      config.json, model.safetensors, tokenizer…, opd.json, .complete
DIR/checkpoint-40/      an older one is removed only after a newer one is complete (faults E63)

Before one is published, its weights are read back from the disk and compared with the model's, bit by bit.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from opd.models.export import export
from opd.models.load import LanguageModel
from opd.records.errors import AnswerIsNo
from opd.records.failures import NotWritten, in_words
from opd.records.files import discard, is_complete, publish, read_json, tree, write_json
from opd.train.saved.readback import check_readback
from opd.train.saved.retention import Means, Retention
from opd.train.saved.retries import PAUSES_SECONDS, retried

_NAME = re.compile(r"checkpoint-(\d+)")
_AGAIN = "again-"
_NEWEST = Retention(keep=1)


class Checkpoints:
    """The checkpoints of a run's folder.

    `retention` says which stay when another one is saved. Steps that are no multiple of its `every` were the end of
    an earlier try: they go with the next save, so that a resumed run keeps what an uninterrupted one would. With
    `resumed`, what an earlier try left at or beyond a step is replaced when that step is saved.
    """

    def __init__(
        self,
        run: Path,
        retention: Retention = _NEWEST,
        *,
        resumed: bool = False,
        pauses_seconds: Sequence[float] = PAUSES_SECONDS,
    ) -> None:
        self._run = run
        self._retention = retention
        self._resumed = resumed
        self._pauses_seconds = pauses_seconds

    def complete(self) -> list[Path]:
        """The published ones, by step: numbers, not names, decide (faults H26)."""
        return list(self._by_step().values())

    def newest(self) -> Path | None:
        """The one of the greatest step, or None."""
        return next(reversed(self.complete()), None)

    def best(self, means: Mapping[int, Means]) -> list[Path]:
        """Those that stay for being the best by these means, best first."""
        found = self._by_step()
        return [found[step] for step in self._retention.best(found, means=means)]

    def check(self, step: int) -> Path:
        """The folder of a step's checkpoint, when every file of it is what was published.

        Raises `AnswerIsNo` when it is not there or is damaged.
        """
        folder = self._folder(step)
        if step not in self._by_step():
            raise AnswerIsNo(f"{folder} is not there, or not whole: the run's last checkpoint is lost")
        if tree(folder) != read_json(folder / ".complete")["files"]:
            raise AnswerIsNo(f"{folder} is damaged: its files are not those that its .complete names")
        return folder

    def save(
        self, student: LanguageModel, *, step: int, recipe_digest: str, means: Mapping[int, Means] | None = None
    ) -> Path:
        """The folder of the new checkpoint; those that need not be kept are gone.

        `means` are those of this step and the ones before, by which the best are told. Raises `AnswerIsNo` when it
        could not be written, naming the newest that is whole.
        """
        means = means or {}
        own = means[step].resolved() if step in means else None
        folder = self._folder(step)
        again = self._resumed and folder.exists()
        fresh = folder.with_name(f"{_AGAIN}{folder.name}") if again else folder

        def write() -> None:
            with publish(fresh) as partial:
                export(student, partial)
                check_readback(student, partial)
                write_json(partial / "opd.json", {"step": step, "recipe": recipe_digest, "means": own})

        try:
            retried(write, pauses_seconds=self._pauses_seconds)
        except (OSError, AnswerIsNo) as error:
            raise self._failed(folder, error) from error
        if again:
            _replace(folder, fresh)
        self._retire(step, means)
        return folder

    def tidy(self) -> None:
        """What a crash left half-done in replacing a checkpoint is done or gone."""
        for fresh in self._run.glob(f"{_AGAIN}checkpoint-*"):
            folder = fresh.with_name(fresh.name.removeprefix(_AGAIN))
            if is_complete(fresh) and not folder.exists():
                fresh.replace(folder)
            else:
                discard(fresh)

    def _folder(self, step: int) -> Path:
        return self._run / f"checkpoint-{step}"

    def _by_step(self) -> dict[int, Path]:
        found = [(int(match[1]), path) for path in self._run.iterdir() if (match := _NAME.fullmatch(path.name))]
        return {step: path for step, path in sorted(found) if is_complete(path)}

    def _retire(self, newest: int, means: Mapping[int, Means]) -> None:
        """Removes what need not be kept, now that the checkpoint of step `newest` is whole."""
        found = self._by_step()
        staying = self._retention.staying(found, newest=newest, means=means)
        for step, folder in found.items():
            left_over = step > newest and not self._resumed  # not ours to judge
            if step not in staying and not left_over:
                discard(folder)

    def _failed(self, folder: Path, error: Exception) -> NotWritten:
        newest = self.newest()
        left = f"{newest.name} is whole" if newest else "no checkpoint was written before it"
        return NotWritten(f"{folder} could not be saved ({in_words(error)}); {left}", path=folder)


def _replace(folder: Path, fresh: Path) -> None:
    """The fresh one stands under the folder's name. Where both are equal, the one that is there simply stays."""
    if is_complete(folder) and tree(folder) == tree(fresh):
        discard(fresh)
        return
    discard(folder)
    fresh.replace(folder)
