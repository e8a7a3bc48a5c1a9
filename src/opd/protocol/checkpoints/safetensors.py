"""Safetensors files, as strictly as they can be read: headers first, and no value before all of them fit.

    8 bytes   N, little-endian
    N bytes   {"name": {"dtype": "BF16", "shape": [312, 96], "data_offsets": [0, 59904]}, …}
    the rest  the tensors, end to end: no gap, no overlap, nothing after the last (faults H25)

A folder has one `model.safetensors`, or an index that says in which shard each tensor lies.
"""

import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from opd.protocol.checkpoints.strangers import Folder, Strange, parse_object, read_exactly, read_into
from opd.records.checkpoints import Rule

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
LARGEST_HEADER = 100_000_000  # the format's own limit
LARGEST_INDEX = 16 << 20
MOST_DIMENSIONS = 8
ITEM_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
    "I32": 4, "U32": 4, "F32": 4, "I64": 8, "U64": 8, "F64": 8, "C64": 8,
}  # fmt: skip

_LENGTH_BYTES = 8
_METADATA = "__metadata__"
_KEYS = {"dtype", "shape", "data_offsets"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One tensor, as a header has it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int  # of its first byte in the file

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """How many bytes they take."""
        return self.elements * ITEM_BYTES[self.dtype]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A tensor, and an open file to read its values from."""

    tensor: Tensor
    file: str
    descriptor: int

    def read_into(self, room: memoryview, first: int) -> None:
        """The room is full of the tensor's bytes, from its number `first` on; `Strange` when the file is shorter."""
        item = ITEM_BYTES[self.tensor.dtype]
        read_into(room, self.descriptor, offset=self.tensor.offset + first * item)


@contextmanager
def open_weights(folder: Folder, *, largest_header: int = LARGEST_HEADER) -> Iterator[dict[str, Stored]]:
    """All tensors of a folder by name, with their files open; `Strange`, naming the file, when they are not whole."""
    names = [name for name in folder.names(most=1 << 16) if name.endswith(".safetensors")]
    shards = _shards(folder, names)
    found: dict[str, Stored] = {}
    with ExitStack() as files:
        for name in names:
            try:
                descriptor = files.enter_context(folder.file(name))
                tensors = read_header(descriptor, largest=largest_header)
            except Strange as error:
                raise Strange(error.rule, f"{name}: {error.says}") from error
            for tensor in tensors:
                if tensor.name in found:
                    raise Strange(Rule.INDEX, f"{tensor.name} lies in {found[tensor.name].file} and in {name}")
                found[tensor.name] = Stored(tensor=tensor, file=name, descriptor=descriptor)
        _check_map(shards, found)
        yield found


def read_header(descriptor: int, *, largest: int = LARGEST_HEADER) -> tuple[Tensor, ...]:
    """The tensors of a file, in the order in which they lie; `Strange` when the file is not whole."""
    size = os.fstat(descriptor).st_size
    if size < _LENGTH_BYTES:
        raise Strange(Rule.HEADER, f"{size} bytes; a safetensors file begins with {_LENGTH_BYTES} for a length")
    length = int.from_bytes(read_exactly(descriptor, offset=0, size=_LENGTH_BYTES), "little")
    data = size - _LENGTH_BYTES - length
    if length > largest or data < 0:
        limit = min(largest, size - _LENGTH_BYTES)
        raise Strange(Rule.HEADER, f"its header should have {length:,} bytes, where at most {limit:,} can be")
    text = read_exactly(descriptor, offset=_LENGTH_BYTES, size=length)
    if not text.startswith(b"{"):
        raise Strange(Rule.HEADER, "its header is no JSON object")
    header = parse_object(text)
    _check_metadata(header.pop(_METADATA, {}))
    start = _LENGTH_BYTES + length
    tensors = [_tensor(name, entry, start) for name, entry in header.items()]
    tensors.sort(key=lambda tensor: (tensor.offset, tensor.size))
    _check_coverage(tensors, start=start, size=size)
    return tuple(tensors)


def _tensor(name: str, entry: Any, start: int) -> Tensor:
    if not isinstance(entry, dict) or entry.keys() != _KEYS:
        raise Strange(Rule.HEADER, f"{name}: its entry has not the keys {', '.join(sorted(_KEYS))}")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
        raise Strange(Rule.DTYPE, f"{name}: dtype {str(dtype)[:40]!r} is none of {', '.join(ITEM_BYTES)}")
    if not _sizes(shape) or len(shape) > MOST_DIMENSIONS:
        raise Strange(Rule.HEADER, f"{name}: its shape is no list of at most {MOST_DIMENSIONS} sizes")
    if not _sizes(offsets) or len(offsets) != 2:  # where it begins and ends
        raise Strange(Rule.HEADER, f"{name}: its data_offsets are no two sizes")
    tensor = Tensor(name=name, dtype=dtype, shape=tuple(shape), offset=start + offsets[0])
    if offsets[1] - offsets[0] != tensor.size:
        raise Strange(
            Rule.COVERAGE,
            f"{name}: {offsets[1] - offsets[0]:,} bytes for {shape} of {dtype}, which takes {tensor.size:,}",
        )
    return tensor


def _sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(size) is int and 0 <= size < 1 << 63 for size in value)


def _check_metadata(value: Any) -> None:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise Strange(Rule.HEADER, f"{_METADATA} is no object of texts")


def _check_coverage(tensors: list[Tensor], *, start: int, size: int) -> None:
    if not tensors:
        raise Strange(Rule.HEADER, "it holds no tensor")
    end = start
    for tensor in tensors:
        if tensor.offset != end:
            what = "overlaps what lies before it" if tensor.offset < end else "leaves a gap before it"
            raise Strange(Rule.COVERAGE, f"{tensor.name} {what}: it begins at byte {tensor.offset:,}, not {end:,}")
        end += tensor.size
    if end != size:
        raise Strange(Rule.COVERAGE, f"{size:,} bytes; its header says {end:,}")


def _shards(folder: Folder, names: list[str]) -> Mapping[str, str] | None:
    """The file of each tensor by the index; None where one file holds them all."""
    try:
        index = folder.object(INDEX, largest=LARGEST_INDEX)
    except FileNotFoundError:
        if names != [WEIGHTS]:
            says = f"without {INDEX} the weights are {WEIGHTS}; found: {_some(names)}"
            raise Strange(Rule.INDEX, says) from None
        return None
    except Strange as error:
        raise Strange(error.rule, f"{INDEX}: {error.says}") from error
    shards = index.get("weight_map")
    if not isinstance(shards, dict) or not all(isinstance(file, str) for file in shards.values()):
        raise Strange(Rule.INDEX, f"{INDEX}: it has no weight_map from tensors to files")
    named = set(shards.values())
    if outside := sorted(file for file in named if "/" in file or file in {".", ".."}):
        raise Strange(Rule.INDEX, f"{INDEX}: {outside[0][:80]!r} leads out of the folder")
    if named != set(names):
        lacking, extra = sorted(named - set(names)), sorted(set(names) - named)
        says = f"lacks {_some(lacking)}" if lacking else f"does not name {_some(extra)}"
        raise Strange(Rule.INDEX, f"{INDEX}: {'the folder ' if lacking else 'it '}{says}")
    if WEIGHTS in named:  # which a loader takes alone, and looks at no index
        raise Strange(Rule.INDEX, f"{INDEX}: with an index no shard may be called {WEIGHTS}")
    return shards


def _check_map(shards: Mapping[str, str] | None, found: Mapping[str, Stored]) -> None:
    if shards is None:
        return
    here = {name: stored.file for name, stored in found.items()}
    wrong = Counter(shards.items()) - Counter(here.items()) or Counter(here.items()) - Counter(shards.items())
    if wrong:
        name = min(wrong)[0]
        says = f"the index says {shards.get(name)}, it lies in {here.get(name)}"
        raise Strange(Rule.INDEX, f"{INDEX}: {name[:80]}: {says}")


def _some(names: list[str]) -> str:
    return ", ".join(name[:80] for name in names[:3]) + (" …" if len(names) > 3 else "") or "nothing"
