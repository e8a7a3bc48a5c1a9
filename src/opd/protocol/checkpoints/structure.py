"""Is a checkpoint what it says? Looked into before anything of it is loaded, and without a tensor library.

    names, kinds, sizes  →  small files  →  headers  →  names and shapes of tensors  →  values, streamed once

Each stage is come to only when the one before it found no fault, so that a strange file costs a look at its header
and no more. What the folder's maker did is a `Fault`; a machine that fails while reading raises `OSError`.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from math import isfinite, sqrt
from pathlib import Path

from opd.protocol.checkpoints.safetensors import Stored, open_weights
from opd.protocol.checkpoints.small_files import (
    CONFIGURATION,
    LARGEST_CONFIGURATION,
    MOST_ENTRIES,
    entry_faults,
    file_sha256,
    marked,
    small_file_faults,
)
from opd.protocol.checkpoints.strangers import Folder, Strange, opened
from opd.protocol.checkpoints.values import FLOATS, Beside, Seen, look
from opd.records.checkpoints import Comparison, Fault, Rule, Structure
from opd.records.errors import AskedWrongly
from opd.records.files import COMPLETE
from opd.records.tasks import ArtifactRule

READERS = 4  # tensors looked at together: one alone is slower than a disk
FEWEST_DISTINCT = 1000  # of fewer parameters, most may come to lie near the teacher's by chance
WEIGHT_DTYPES = ("F32", "F16", "BF16")
MOST_FAULTS = 50

_START = "start"
_HEAD, _EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"
_HEADER_BYTES, _HEADER_BYTES_A_TENSOR = 1 << 20, 4096  # far above what any writer needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A model that the checkpoint must not be."""

    role: str  # teacher …
    folder: Path
    digest: str | None = None  # of its folder, as it was locked; copied into the record


def check(
    folder: Path, rule: ArtifactRule, *, start: Input, others: Sequence[Input] = (), readers: int = READERS
) -> Structure:
    """What the folder is, with every rule that it breaks.

    `start` is the model that training began with: its names, shapes, configuration and tokenizer are the measure.
    `others` are inputs that it must not be either, such as the teacher. Raises `AskedWrongly` when one of these is
    not whole, and `OSError` when the machine can't read.
    """
    with ExitStack() as stack:
        inputs = _open_inputs(stack, start, others)
        try:
            return _checked(stack.enter_context(opened(folder)), rule, inputs, readers)
        except Strange as error:
            return _rejected([Fault(rule=error.rule, path="", says=error.says)])
        except FileNotFoundError as error:
            return _rejected([Fault(rule=Rule.CHANGED, path="", says=f"{error.filename} went while it was read")])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inputs:
    """What a checkpoint is held against, open."""

    all: tuple[Input, ...]  # the start first
    start: Folder
    start_weights: Mapping[str, Stored]
    others_weights: tuple[Mapping[str, Stored], ...]
    tied: bool  # the start's head is its embedding


def _open_inputs(stack: ExitStack, start: Input, others: Sequence[Input]) -> _Inputs:
    folders, weights = [], []
    for one in (start, *others):
        try:
            folders.append(stack.enter_context(opened(one.folder, follows=True)))
            weights.append(stack.enter_context(open_weights(folders[-1])))
            configuration = folders[0].object(CONFIGURATION, largest=LARGEST_CONFIGURATION)
        except (Strange, FileNotFoundError) as error:  # no fault of the checkpoint
            raise AskedWrongly(
                f"{one.folder}, the {one.role}: {error}; give the {one.role} as it was locked"
            ) from error
    return _Inputs(
        all=(start, *others),
        start=folders[0],
        start_weights=weights[0],
        others_weights=tuple(weights[1:]),
        tied=bool(configuration.get("tie_word_embeddings")),
    )


def _checked(mine: Folder, rule: ArtifactRule, inputs: _Inputs, readers: int) -> Structure:
    faults = tuple(entry_faults(mine, rule)) or tuple(small_file_faults(mine, inputs.start, rule))
    if faults:
        return _rejected(faults)
    largest = _HEADER_BYTES + _HEADER_BYTES_A_TENSOR * len(inputs.start_weights)
    with open_weights(mine, largest_header=largest) as weights:
        pairs = _paired(weights, inputs.start_weights, tied=inputs.tied)
        states = {stored.file: _state(stored) for stored in weights.values()}
        digests = marked(mine) or {}
        with ThreadPoolExecutor(readers) as pool:
            names = sorted(pairs, key=lambda name: -pairs[name][0].tensor.size)  # the longest first
            looks = pool.map(lambda name: _look(name, *pairs[name], inputs.others_weights), names)
            files = pool.map(lambda name: file_sha256(mine, name), digests)
            seen = dict(zip(names, looks, strict=True))
            found = dict(zip(digests, files, strict=True))
        _check_unchanged(states, weights)
        _check_mark(digests, found)
        size = sum(mine.status(name).st_size for name in mine.names(most=MOST_ENTRIES))
        return _structure(weights, seen, inputs, size=size)


def _structure(weights: Mapping[str, Stored], seen: Mapping[str, Seen], inputs: _Inputs, *, size: int) -> Structure:
    counted = [stored.tensor for name, stored in weights.items() if not (inputs.tied and name == _HEAD)]
    dtypes = Counter[str]()
    for tensor in counted:
        dtypes[tensor.dtype] += tensor.elements
    elements = {name: weights[name].tensor.elements for name in seen}
    start, *others = inputs.all
    compared = [_comparison(start, elements, {name: one.start for name, one in seen.items()}, start=True)]
    for place, one in enumerate(others):
        beside = {name: looked.others[place] for name, looked in seen.items()}
        compared.append(_comparison(one, elements, beside, start=False))
    return Structure(
        bytes=size,
        tensors=len(weights),
        parameters=sum(tensor.elements for tensor in counted),
        dtypes=dict(sorted(dtypes.items())),
        tensor_sha256=_tensor_sha256(weights, seen),
        compared=tuple(compared),
        faults=tuple(_value_faults(weights, seen, compared, tied=inputs.tied)),
    )


def _value_faults(
    weights: Mapping[str, Stored], seen: Mapping[str, Seen], compared: Sequence[Comparison], *, tied: bool
) -> Iterator[Fault]:
    if infinite := {name: one.infinite for name, one in seen.items() if one.infinite}:
        name = min(infinite)
        says = f"{sum(infinite.values()):,} values are infinite or no number, the first in {name}"
        yield Fault(rule=Rule.FINITE, path=weights[name].file, says=says)
    if tied and _HEAD in seen and seen[_HEAD].sha256 != seen[_EMBEDDING].sha256:
        says = f"{_HEAD} is not {_EMBEDDING}, to which the configuration ties it"
        yield Fault(rule=Rule.NAMES, path=weights[_HEAD].file, says=says)
    for one in compared:
        everything = one.tensors == len(seen) and one.equal_tensors == one.tensors
        if one.input == _START and everything:
            yield Fault(rule=Rule.START, path="", says="every tensor is the start's: nothing was trained")
        elif everything:
            yield Fault(rule=Rule.COPY, path="", says=f"every tensor is the {one.input}'s; train the start instead")
        elif one.distinct_parameters >= FEWEST_DISTINCT and 2 * one.taken_parameters > one.distinct_parameters:
            says = (
                f"of {one.distinct_parameters:,} parameters in which the {one.input} differs from the start, "
                f"{one.taken_parameters:,} are the {one.input}'s or next to it; train the start instead"
            )
            yield Fault(rule=Rule.COPY, path="", says=says)


def _comparison(
    one: Input, elements: Mapping[str, int], beside: Mapping[str, Beside | None], *, start: bool
) -> Comparison:
    there = {name: found for name, found in beside.items() if found is not None}
    return Comparison(
        input=_START if start else one.role,
        input_sha256=one.digest,
        tensors=len(there),
        equal_tensors=sum(found.equal == elements[name] for name, found in there.items()),
        parameters=sum(elements[name] for name in there),
        equal_parameters=sum(found.equal for found in there.values()),
        distance=_root(found.squared_distance for found in there.values()),
        start_distance=None if start else _root(found.squared_start_distance for found in there.values()),
        distinct_parameters=sum(found.distinct for found in there.values()),
        taken_parameters=sum(found.taken for found in there.values()),
    )


def _paired(
    weights: Mapping[str, Stored], start: Mapping[str, Stored], *, tied: bool
) -> dict[str, tuple[Stored, Stored]]:
    """Each tensor with the start's of its name; `Strange` when names, shapes or dtypes are others.

    A head that is tied to the embedding may be stored or not, and stands beside the embedding where it is.
    """
    free = {_HEAD} if tied else set()
    if lacking := sorted(start.keys() - weights.keys() - free):
        raise Strange(Rule.NAMES, f"{len(lacking)} tensors of the start are not there, {lacking[0]} first")
    if extra := sorted(weights.keys() - start.keys() - free):
        raise Strange(Rule.NAMES, f"{len(extra)} tensors are not the start's, {extra[0][:80]} first")
    pairs = {name: (mine, start.get(name) or start[_EMBEDDING]) for name, mine in weights.items()}
    for name, (mine, its) in pairs.items():
        if mine.tensor.shape != its.tensor.shape:
            says = f"{name} is {list(mine.tensor.shape)}, the start's {list(its.tensor.shape)}"
            raise Strange(Rule.SHAPE, f"{mine.file}: {says}")
        if mine.tensor.dtype != its.tensor.dtype and not {mine.tensor.dtype, its.tensor.dtype} <= set(FLOATS):
            raise Strange(Rule.DTYPE, f"{mine.file}: {name} is {mine.tensor.dtype}, the start's {its.tensor.dtype}")
        if mine.tensor.dtype not in (*WEIGHT_DTYPES, its.tensor.dtype):
            raise Strange(
                Rule.DTYPE, f"{mine.file}: {name} is {mine.tensor.dtype}; export {', '.join(WEIGHT_DTYPES)}"
            )
    return pairs


def _look(name: str, mine: Stored, start: Stored, others: Sequence[Mapping[str, Stored]]) -> Seen:
    shape = mine.tensor.shape
    found = [weights.get(name) for weights in others]
    return look(mine, start, [one if one and one.tensor.shape == shape else None for one in found])


def _check_unchanged(states: Mapping[str, tuple[int, ...]], weights: Mapping[str, Stored]) -> None:
    for stored in weights.values():
        if _state(stored) != states[stored.file]:
            raise Strange(Rule.CHANGED, f"{stored.file}: somebody wrote to it while it was read")


def _check_mark(digests: Mapping[str, str], found: Mapping[str, str]) -> None:
    for name, digest in digests.items():
        if found[name] != digest:
            raise Strange(Rule.MARK, f"{name}: it is not what {COMPLETE} says; the checkpoint is damaged")


def _state(stored: Stored) -> tuple[int, ...]:
    status = os.fstat(stored.descriptor)
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _tensor_sha256(weights: Mapping[str, Stored], seen: Mapping[str, Seen]) -> str:
    outer = hashlib.sha256()
    for name in sorted(weights):
        tensor = weights[name].tensor
        shape = ",".join(map(str, tensor.shape))
        outer.update(f"{name}\0{tensor.dtype}\0{shape}\0{seen[name].sha256}\n".encode())
    return outer.hexdigest()


def _root(squares: Iterator[float]) -> float | None:
    total = sum(squares)
    return sqrt(total) if isfinite(total) else None


def _rejected(faults: Sequence[Fault]) -> Structure:
    return Structure(
        bytes=None,
        tensors=None,
        parameters=None,
        dtypes={},
        tensor_sha256=None,
        compared=(),
        faults=tuple(faults[:MOST_FAULTS]),
    )
