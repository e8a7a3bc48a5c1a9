"""The tensors of a model's directory, some rows at a time; and files of tensors that are written one by one.

    8 bytes    length of the header
    header     {"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},…}, then spaces
    tensors    end to end, in the header's order: by dtype, and then by name

Both ways no more than one tensor is in memory. What is written is byte for byte what safetensors writes.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from safetensors import safe_open

from opd.models.weights import index_names, tensors
from opd.records.errors import AskedWrongly

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
_ALIGNED = 8  # bytes
_NAMES = {  # in safetensors' own order, from which a file begins with the last
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int32: "I32",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.int64: "I64",
}
_ORDER = list(_NAMES)


class Stored:
    """The tensors of a directory, as transformers finds them: in `model.safetensors`, or where its index says.

    Raises `AskedWrongly` when there is neither, or when a file is damaged.
    """

    def __init__(self, folder: Path) -> None:
        found = {file: tensors(file) for file in _files(folder)}
        self._files = {name: file for file, entries in found.items() for name in entries}
        self.shapes = {
            name: torch.Size(entry["shape"]) for entries in found.values() for name, entry in entries.items()
        }

    def place(self, names: Sequence[str]) -> str | None:
        """The first of these names that is stored."""
        return next((name for name in names if name in self.shapes), None)

    def tensor(self, name: str) -> torch.Tensor:
        """All of it, on the CPU, as it is stored."""
        with safe_open(self._files[name], framework="pt") as file:
            found: torch.Tensor = file.get_tensor(name)
        return found

    def rows(self, name: str, rows: slice) -> torch.Tensor:
        """These rows of it; no other is read."""
        if rows.start == rows.stop:  # of more ranks than rows; not every version of safetensors gives none
            return self.tensor(name)[rows]
        with safe_open(self._files[name], framework="pt") as file:
            found: torch.Tensor = file.get_slice(name)[rows]
        return found


def write_tensors(path: Path, kinds: Mapping[str, torch.Tensor], tensor: Callable[[str], torch.Tensor]) -> None:
    """The file holds what `tensor` gives for each name, asked for one after the other.

    `kinds` are without memory, of the same shapes and dtypes.
    """
    names = sorted(kinds, key=lambda name: (-_ORDER.index(kinds[name].dtype), name))
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in names:
        kind = kinds[name]
        begin, end = end, end + math.prod(kind.shape) * kind.itemsize
        entries[name] = {"dtype": _NAMES[kind.dtype], "shape": list(kind.shape), "data_offsets": [begin, end]}
    header = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    header += b" " * (-len(header) % _ALIGNED)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for name in names:
            one = tensor(name)
            if (one.shape, one.dtype) != (kinds[name].shape, kinds[name].dtype):
                raise ValueError(f"{name} is {one.dtype} {list(one.shape)}, the header says {kinds[name].dtype}")
            file.write(one.contiguous().reshape(-1).view(torch.uint8).numpy().data)


def _files(folder: Path) -> list[Path]:
    if (folder / WHOLE).is_file():
        return [folder / WHOLE]
    if not (folder / INDEX).is_file():
        raise AskedWrongly(
            f"{folder} has neither {WHOLE} nor {INDEX}, which says in which files its tensors are; fetch it again"
        )
    return [folder / name for name in sorted(index_names(folder / INDEX))]
