"""A model → a complete directory that plain `AutoModelForCausalLM.from_pretrained` loads."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import torch

from opd.models.adapters import has_adapters, plain_weights
from opd.models.load import LanguageModel, check_model_directory
from opd.records.checkpoints import TOKENIZER_FILES
from opd.records.errors import AnswerIsNo
from opd.records.files import read_json, write_json

# The tokenizer and the generation settings are copied, not written anew: transformers would put its own version's
# class in the place of the one that the directory names, which programs with another version can't load.
_AS_THEY_WERE = (*TOKENIZER_FILES, "generation_config.json")


def export(model: LanguageModel, folder: Path) -> None:
    """The folder holds configuration, weights in the dtype that the model runs in, and the tokenizer's own files.

    With adapters the weights are float32 or wider, and the configuration says so; see `plain_weights`.

    Raises `AnswerIsNo` with the cause when the disk does not take it. The caller publishes the folder.
    """
    from safetensors import SafetensorError

    try:
        plain = plain_weights(model.module) if has_adapters(model.module) else None
        model.module.save_pretrained(folder, state_dict=plain)
        if plain is not None:
            _say_dtype(folder / "config.json", plain)
        (folder / "generation_config.json").unlink(missing_ok=True)  # the model's own, if it has one, is copied
        for path in model.path.iterdir():
            if path.is_file() and any(map(path.match, _AS_THEY_WERE)):
                shutil.copyfile(path, folder / path.name)
        for path in folder.iterdir():
            path.chmod(0o644)  # safetensors writes for its owner alone; an evaluator may be someone else
        check_model_directory(folder)
    except (OSError, SafetensorError) as error:
        raise AnswerIsNo(f"{folder.name} could not be written: {error}") from error


def _say_dtype(config: Path, weights: Mapping[str, torch.Tensor]) -> None:
    """The configuration names the dtype of the weights, not that of the model that they were made from."""
    (dtype,) = {str(tensor.dtype).removeprefix("torch.") for tensor in weights.values() if tensor.is_floating_point()}
    values = read_json(config)
    write_json(config, values | {name: dtype for name in ("dtype", "torch_dtype") if name in values})
