"""The headers of safetensors files: is a file whole, and how many parameters does it hold? Nothing is loaded.

A file is 8 bytes with the length of its header, the header as JSON, and the tensors, one behind the other.
"""

import json
import math
from pathlib import Path
from typing import Any

from opd.records.errors import AskedWrongly
from opd.records.files import read_json


def check_weights(folder: Path) -> None:
    """Nothing, when the folder's weights are safetensors and all there; else `AskedWrongly` (faults H25)."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise AskedWrongly(f"{folder} has no *.safetensors; other weight formats can run code and are not read")
    index = folder / "model.safetensors.index.json"
    named = index_names(index) if index.is_file() else set()
    if missing := named - {file.name for file in files}:
        raise AskedWrongly(f"{folder} lacks {', '.join(sorted(missing))}, which its index names; fetch it again")
    for file in files:
        tensors(file)


def parameters_in(folder: Path) -> int:
    """Number of parameters in the folder's weights; what is tied is stored once."""
    shapes = [entry["shape"] for file in folder.glob("*.safetensors") for entry in tensors(file).values()]
    return sum(math.prod(shape) for shape in shapes)


def tensors(file: Path) -> dict[str, dict[str, Any]]:
    """By name, each tensor's dtype, shape and place; `AskedWrongly` when the file is not whole."""
    found = file.stat().st_size
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        text = stream.read(length) if length < found else b""  # text for a length is an enormous one
    try:
        header = json.loads(text)
        header.pop("__metadata__", None)
        ends = [_end(entry) for entry in header.values()]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        header, ends = {}, []
    expected = 8 + length + max(ends, default=0)
    if not ends or expected != found:
        raise AskedWrongly(f"{file} is damaged: {found} bytes, its header says {expected}; fetch it again")
    return dict(header)


def index_names(index: Path) -> set[str]:
    """The files that an index names; `AskedWrongly` when it is none."""
    value = read_json(index)
    names = value.get("weight_map") if isinstance(value, dict) else None
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise AskedWrongly(f"{index} has no weight_map from tensors to files; fetch it again")
    return set(names.values())


def _end(entry: dict[str, Any]) -> int:
    _, end = entry["data_offsets"]
    if not isinstance(end, int) or not all(isinstance(size, int) for size in entry["shape"]):
        raise TypeError("offsets and sizes are whole numbers")
    return end
