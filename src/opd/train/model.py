"""A model that a recipe names, and how it is loaded."""

from pathlib import Path
from typing import Literal

from pydantic import PositiveInt

from opd.models.load import LanguageModel, load_model
from opd.records.errors import AskedWrongly
from opd.records.settings import Settings

Dtype = Literal["float32", "bfloat16", "float64"]


class ModelSettings(Settings):
    """A model and the precision that it runs in."""

    model: str
    """`opd:<task>/<name>`, a directory, or `owner/name` on the hub."""
    revision: str | None = None
    """Commit on the hub, or its beginning."""
    dtype: Dtype = "float32"
    """What it computes in. The student's master weights are never narrower than float32."""
    parameters: PositiveInt | None = None
    """How many it must have; lets the memory be planned before the model is there."""


def load(settings: ModelSettings, path: Path, device: str) -> LanguageModel:
    """The model of this directory, as `of_size` has it."""
    return of_size(settings, load_model(path, dtype=settings.dtype, device=device))


def of_size(settings: ModelSettings, model: LanguageModel) -> LanguageModel:
    """The model, which has as many parameters as the settings say; else `AskedWrongly`."""
    if settings.parameters is not None and model.parameters != settings.parameters:
        raise AskedWrongly(
            f"{settings.model} has {model.parameters:,} parameters, the recipe says {settings.parameters:,}"
        )
    return model
