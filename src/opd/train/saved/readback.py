"""What was written, read back: the weights of an exported directory against those of the model in memory."""

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors import safe_open

from opd.models.adapters import plain_weights
from opd.models.load import LanguageModel, own_tensors
from opd.models.stored import Stored
from opd.records.errors import AnswerIsNo


def check_readback(model: LanguageModel, folder: Path) -> None:
    """Nothing, when the directory's tensors have the names, shapes, dtypes and bits of the model's.

    A tied weight stands in the file once. An architecture whose files name its weights otherwise than its module
    does (experts that are fused in memory) is loaded as a whole and compared then.

    Raises `AnswerIsNo` that names the tensor.
    """
    if model.gathered is not None:
        _check_gathered(model, folder, model.gathered)
        return
    expected = plain_weights(model.module)
    found: set[str] = set()
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            names = list(file.keys())
            if not expected.keys() >= set(names):
                _compare_loaded(model, folder, expected)
                return
            for name in names:
                _compare(name, file.get_tensor(name), expected[name], folder)
            found.update(names)
    _check_all_there(expected, found, folder)


def _check_gathered(model: LanguageModel, folder: Path, gathered: Callable[[str], torch.Tensor]) -> None:
    found = Stored(folder)
    for name in own_tensors(model.module):
        if name not in found.shapes:
            raise AnswerIsNo(f"{folder.name} lacks {name}, which the model has")
        _compare(name, found.tensor(name), gathered(name), folder)


def _check_all_there(expected: Mapping[str, torch.Tensor], found: set[str], folder: Path) -> None:
    stored = {_place(expected[name]) for name in found}
    for name, tensor in expected.items():
        if name not in found and _place(tensor) not in stored:
            raise AnswerIsNo(f"{folder.name} lacks {name}, which the model has")


def _compare_loaded(model: LanguageModel, folder: Path, expected: Mapping[str, torch.Tensor]) -> None:
    loaded = type(model.module).from_pretrained(folder, dtype="auto", local_files_only=True).state_dict()
    if loaded.keys() != expected.keys():
        raise AnswerIsNo(f"{folder.name} does not hold {min(loaded.keys() ^ expected.keys())} as the model does")
    for name, tensor in expected.items():
        _compare(name, loaded[name], tensor, folder)


def _compare(name: str, read: torch.Tensor, held: torch.Tensor, folder: Path) -> None:
    if (read.shape, read.dtype) != (held.shape, held.dtype):
        raise AnswerIsNo(
            f"{folder.name} has {name} as {read.dtype} {list(read.shape)}, the model as {held.dtype} "
            f"{list(held.shape)}"
        )
    # as bytes, so that a NaN equals itself and -0.0 is not 0.0
    if not torch.equal(_bytes(read), _bytes(held.detach().cpu())):
        raise AnswerIsNo(f"{folder.name}: {name} was read back with other values than were written")


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def _place(tensor: torch.Tensor) -> tuple[int, torch.Size]:
    return tensor.data_ptr(), tensor.shape
