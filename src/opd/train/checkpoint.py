"""Checkpoints: each a complete model directory, published whole or not at all.

DIR/checkpoint-20/      config.json, model.safetensors, tokenizer…, opd.json, .complete
DIR/checkpoint-40/      an older one is removed only after a newer one is complete (faults E63)

Before one is published, its weights are read back from the disk and compared with the model's, bit by bit.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from opd.models.export import export
from opd.models.load import LanguageModel
from opd.records.errors import AnswerIsNo
from opd.records.failures import errno_name, errno_of
from opd.records.files import discard, is_complete, publish, read_json, tree, write_json
from opd.train.readback import check_readback
from opd.train.retries import PAUSES_SECONDS, retried

_NAME = re.compile(r"checkpoint-(\d+)")
_AGAIN = "again-"


class Checkpoints:
    """The checkpoints of a run's folder.

    `keep` newest stay, and the multiples of `keep_every`. Steps that are no multiple of `every` were the end of an
    earlier try: they go with the next save, so that a resumed run keeps what an uninterrupted one would. With
    `resumed`, what an earlier try left at or beyond a step is replaced when that step is saved.
    """

    def __init__(
        self,
        run: Path,
        *,
        keep: int,
        keep_every: int | None = None,
        every: int = 1,
        resumed: bool = False,
        pauses_seconds: Sequence[float] = PAUSES_SECONDS,
    ) -> None:
        self._run = run
        self._keep = keep
        self._keep_every = keep_every
        self._every = every
        self._resumed = resumed
        self._pauses_seconds = pauses_seconds

    def complete(self) -> list[Path]:
        """The published ones, by step: numbers, not names, decide (faults H26)."""
        return list(self._by_step().values())

    def newest(self) -> Path | None:
        """The one of the greatest step, or None."""
        return next(reversed(self.complete()), None)

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

    def save(self, student: LanguageModel, *, step: int, recipe_digest: str) -> Path:
        """The folder of the new checkpoint; those that need not be kept are gone.

        Raises `AnswerIsNo` when it could not be written, naming the newest that is whole.
        """
        folder = self._folder(step)
        again = self._resumed and folder.exists()
        fresh = folder.with_name(f"{_AGAIN}{folder.name}") if again else folder

        def write() -> None:
            with publish(fresh) as partial:
                export(student, partial)
                check_readback(student, partial)
                write_json(partial / "opd.json", {"step": step, "recipe": recipe_digest})

        try:
            retried(write, pauses_seconds=self._pauses_seconds)
        except (OSError, AnswerIsNo) as error:
            raise self._failed(folder, error) from error
        if again:
            _replace(folder, fresh)
        self._retire(step)
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

    def _retire(self, newest: int) -> None:
        """Removes what need not be kept, now that the checkpoint of step `newest` is whole."""
        found = self._by_step()
        regular = [step for step in found if step <= newest and (step % self._every == 0 or step == newest)]
        kept = set(regular[-self._keep :])
        for step, folder in found.items():
            left_over = step > newest and not self._resumed  # not ours to judge
            milestone = self._keep_every is not None and step % self._keep_every == 0 and step <= newest
            if step not in kept and not milestone and not left_over:
                discard(folder)

    def _failed(self, folder: Path, error: Exception) -> AnswerIsNo:
        newest = self.newest()
        left = f"{newest.name} is whole" if newest else "no checkpoint was written before it"
        number = errno_of(error)
        which = "" if number is None else f"errno {number}, {errno_name(number)}: "
        return AnswerIsNo(f"{folder} could not be saved ({which}{error}); {left}")


def _replace(folder: Path, fresh: Path) -> None:
    """The fresh one stands under the folder's name. Where both are equal, the one that is there simply stays."""
    if is_complete(folder) and tree(folder) == tree(fresh):
        discard(fresh)
        return
    discard(folder)
    fresh.replace(folder)
