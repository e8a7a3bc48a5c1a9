"""A model → a complete directory that plain `AutoModelForCausalLM.from_pretrained` loads."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from huggingface_hub import split_torch_state_dict_into_shards

from opd.models.adapters import has_adapters, plain_weights
from opd.models.load import LanguageModel, check_model_directory, own_tensors
from opd.models.stored import INDEX, write_tensors
from opd.records.checkpoints import TOKENIZER_FILES
from opd.records.errors import AnswerIsNo
from opd.records.files import read_json, write_json

# The tokenizer and the generation settings are copied, not written anew: transformers would put its own version's
# class in the place of the one that the directory names, which programs with another version can't load.
_AS_THEY_WERE = (*TOKENIZER_FILES, "generation_config.json")
LARGEST_FILE = "50GB"  # of weights, unless one tensor is larger


def export(model: LanguageModel, folder: Path) -> None:
    """The folder holds configuration, weights in the dtype that the model runs in, and the tokenizer's own files.

    With adapters the weights are float32 or wider, and the configuration says so; see `plain_weights`. Of a model
    whose tensors are `gathered` one is in memory at a time, and the files are the same.

    Raises `AnswerIsNo` with the cause when the disk does not take it. The caller publishes the folder.
    """
    from safetensors import SafetensorError

    try:
        if model.gathered is None:
            _write(model, folder)
        else:
            _write_gathered(model, folder, model.gathered)
        (folder / "generation_config.json").unlink(missing_ok=True)  # the model's own, if it has one, is copied
        for path in model.path.iterdir():
            if path.is_file() and any(map(path.match, _AS_THEY_WERE)):
                shutil.copyfile(path, folder / path.name)
        for path in folder.iterdir():
            path.chmod(0o644)  # safetensors writes for its owner alone; an evaluator may be someone else
        check_model_directory(folder)
    except (OSError, SafetensorError) as error:
        raise AnswerIsNo(f"{folder.name} could not be written: {error}") from error


def _write(model: LanguageModel, folder: Path) -> None:
    plain = plain_weights(model.module) if has_adapters(model.module) else None
    model.module.save_pretrained(folder, state_dict=plain, max_shard_size=LARGEST_FILE)
    if plain is not None:
        _say_dtype(folder / "config.json", plain)


def _write_gathered(model: LanguageModel, folder: Path, gathered: Callable[[str], torch.Tensor]) -> None:
    """What `save_pretrained` writes, a tensor at a time."""
    module = model.module
    module.config.dtype = str(module.dtype).removeprefix("torch.")
    module.config.architectures = [type(module).__name__]
    module.config.save_pretrained(folder)
    names = sorted(own_tensors(module), key=_natural)  # as transformers shares them out among files
    kinds = {name: _kind(module.get_parameter_or_buffer(name), module.dtype) for name in names}
    files = split_torch_state_dict_into_shards(
        kinds, filename_pattern="model{suffix}.safetensors", max_shard_size=LARGEST_FILE
    )
    for file, inside in files.filename_to_tensors.items():
        write_tensors(folder / file, {name: kinds[name] for name in inside}, gathered)
    if files.is_sharded:
        counts = {"total_parameters": model.parameters, **files.metadata}
        index = {"metadata": counts, "weight_map": files.tensor_to_filename}
        (folder / INDEX).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _natural(name: str) -> list[tuple[int, int, str]]:
    """By which names are sorted: layer 2 comes before layer 10."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in name.split(".")]


def _kind(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The tensor without memory, in the dtype that the model computes in."""
    return torch.empty(tensor.shape, dtype=dtype if tensor.is_floating_point() else tensor.dtype, device="meta")


def _say_dtype(config: Path, weights: Mapping[str, torch.Tensor]) -> None:
    """The configuration names the dtype of the weights, not that of the model that they were made from."""
    (dtype,) = {str(tensor.dtype).removeprefix("torch.") for tensor in weights.values() if tensor.is_floating_point()}
    values = read_json(config)
    write_json(config, values | {name: dtype for name in ("dtype", "torch_dtype") if name in values})
