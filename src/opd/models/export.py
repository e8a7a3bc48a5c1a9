"""A model → a complete directory that plain `AutoModelForCausalLM.from_pretrained` loads."""

import shutil
from pathlib import Path

from opd.models.adapters import has_adapters, plain_weights
from opd.models.load import LanguageModel, check_model_directory
from opd.records.errors import AnswerIsNo

# The tokenizer and the generation settings are copied, not written anew: transformers would put its own version's
# class in the place of the one that the directory names, which programs with another version can't load.
_AS_THEY_WERE = (
    "tokenizer*",
    "vocab*",
    "merges*",
    "tekken.json",
    "added_tokens.json",
    "special_tokens_map.json",
    "*.jinja",
    "generation_config.json",
)


def export(model: LanguageModel, folder: Path) -> None:
    """The folder holds configuration, weights in the dtype that the model runs in, and the tokenizer's own files.

    Raises `AnswerIsNo` with the cause when the disk does not take it. The caller publishes the folder.
    """
    from safetensors import SafetensorError

    try:
        plain = plain_weights(model.module) if has_adapters(model.module) else None
        model.module.save_pretrained(folder, state_dict=plain)
        (folder / "generation_config.json").unlink(missing_ok=True)  # the model's own, if it has one, is copied
        for path in model.path.iterdir():
            if path.is_file() and any(map(path.match, _AS_THEY_WERE)):
                shutil.copyfile(path, folder / path.name)
        for path in folder.iterdir():
            path.chmod(0o644)  # safetensors writes for its owner alone; an evaluator may be someone else
        check_model_directory(folder)
    except (OSError, SafetensorError) as error:
        raise AnswerIsNo(f"{folder.name} could not be written: {error}") from error
