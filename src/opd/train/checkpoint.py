"""Checkpoints: each a complete model directory, published whole or not at all.

DIR/checkpoint-20/      config.json, model.safetensors, tokenizer…, opd.json, .complete
DIR/checkpoint-40/      an older one is removed only after a newer one is complete (faults E63)
"""

import re
import shutil
from pathlib import Path

from opd.models.export import export
from opd.models.load import LanguageModel
from opd.records.errors import AnswerIsNo
from opd.records.files import is_complete, publish, write_json

_NAME = re.compile(r"checkpoint-(\d+)")


class Checkpoints:
    """The checkpoints of a run's folder."""

    def __init__(self, run: Path, *, keep: int) -> None:
        self._run = run
        self._keep = keep

    def complete(self) -> list[Path]:
        """The published ones, by step: numbers, not names, decide (faults H26)."""
        found = [(int(match[1]), path) for path in self._run.iterdir() if (match := _NAME.fullmatch(path.name))]
        return [path for _, path in sorted(found) if is_complete(path)]

    def save(self, student: LanguageModel, *, step: int, recipe_digest: str) -> Path:
        """The folder of the new checkpoint; those beyond the newest `keep` are gone.

        Raises `AnswerIsNo` when it could not be written, naming the newest that is whole.
        """
        folder = self._run / f"checkpoint-{step}"
        try:
            with publish(folder) as partial:
                export(student, partial)
                write_json(partial / "opd.json", {"step": step, "recipe": recipe_digest})
        except (OSError, AnswerIsNo) as error:
            whole = self.complete()
            left = f"{whole[-1].name} is whole" if whole else "no checkpoint was written before it"
            raise AnswerIsNo(f"{folder} could not be saved ({error}); {left}") from error
        for old in self.complete()[: -self._keep]:
            shutil.rmtree(old)
        return folder
