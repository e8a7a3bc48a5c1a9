"""A model → a complete directory that plain `AutoModelForCausalLM.from_pretrained` loads."""

import shutil
from pathlib import Path

from opd.models.load import LanguageModel, check_model_directory
from opd.records.errors import AnswerIsNo


def export(model: LanguageModel, folder: Path) -> None:
    """The folder holds configuration, weights in the dtype that the model runs in, and tokenizer.

    Raises `AnswerIsNo` with the cause when the disk does not take it. The caller publishes the folder.
    """
    from safetensors import SafetensorError

    try:
        model.module.save_pretrained(folder)
        model.tokenizer.save_pretrained(folder)
        if (generation := model.path / "generation_config.json").is_file():
            shutil.copyfile(generation, folder / generation.name)
        for path in folder.iterdir():
            path.chmod(0o644)  # safetensors writes for its owner alone; an evaluator may be someone else
        check_model_directory(folder)
    except (OSError, SafetensorError) as error:
        raise AnswerIsNo(f"{folder.name} could not be written: {error}") from error
