"""Does a directory load as the model that it should be? Asked of what everybody loads with, and of one forward pass.

Tensors that are missing would be random numbers, and unexpected ones would not be used: both look like a model. So do
a configuration that names another rotary base, or weights of which one is infinite.
"""

import errno
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from opd.models.load import check_model_directory, load_as_stored, load_skeleton, load_tokenizer
from opd.models.machine import describe
from opd.models.weights import parameters_in
from opd.records.checkpoints import Loaded
from opd.records.errors import AskedWrongly
from opd.records.failures import errno_of

PROBE = "Let x = 12 + 34. Then 5x = 230, and the answer is 230."

# A file that isn't there is the directory's fault, like none; any other number is the machine's.
_OF_THE_DIRECTORY = {None, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP}
# what a library writes about itself, or how weights are stored; neither changes what the model computes
_NOT_OF_THE_MODEL = {"_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version", "use_cache"}


def validate(folder: Path, *, like: Path | None = None) -> Loaded:
    """What a directory is as a model, with all that is wrong; on the CPU, in the dtype that it is stored in.

    `like` is a model of the same shape, such as the one that training began with: configurations and parameters are
    compared. Raises `AskedWrongly` for a folder that isn't there or a `like` that is no model, and `OSError` or
    `MemoryError` where the machine fails: neither is the directory's fault.
    """
    for place in (folder, like):
        if place is not None and not place.is_dir():
            raise AskedWrongly(f"{place} is not a directory; name a model directory")
    skeleton = None if like is None else load_skeleton(like, dtype="float32")
    began = time.monotonic()
    try:
        check_model_directory(folder)
        tokenizer = load_tokenizer(folder)
        module, unfit = load_as_stored(folder)
    except AskedWrongly as error:
        if errno_of(error) not in _OF_THE_DIRECTORY:
            raise OSError(errno_of(error), f"{folder} could not be read: {error}") from error
        return _no_model([str(error)], began)
    expected = parameters_in(folder) if skeleton is None else _parameters(skeleton)
    faults = [f"{len(names)} tensors are {kind}, {names[0]} first" for kind, names in unfit.items()]
    if skeleton is not None:
        faults += _other_configuration(module.config, skeleton.config)
    return _examined(module, tokenizer, expected=expected, faults=faults, began=began)


def _examined(module: Any, tokenizer: Any, *, expected: int, faults: list[str], began: float) -> Loaded:
    """The record of a model that was loaded; `faults` are those that loading has shown."""
    parameters, infinite = _parameters(module), _infinite(module)
    rows = int(module.get_output_embeddings().weight.shape[0])
    ids = tokenizer.encode(PROBE, add_special_tokens=False)
    again = tokenizer.encode(tokenizer.decode(ids), add_special_tokens=False)
    fits = bool(ids) and max(ids) < rows
    logits_TV = _logits(module, ids) if fits else None
    questions = (
        (parameters != expected, f"it has {parameters:,} parameters, not {expected:,}"),
        (infinite > 0, f"{infinite:,} parameters are infinite or no number"),
        (
            not ids or ids != again,
            f"the tokenizer does not read its own text back: {len(ids)} ids, then {len(again)}",
        ),
        (not fits, f"the tokenizer's ids go to {max(ids, default=0):,}, and the model has {rows:,} rows"),
    )
    faults = [*faults, *(says for broken, says in questions if broken)]
    if logits_TV is not None:
        faults += _wrong_logits(logits_TV, rows)
    return Loaded(
        parameters=parameters,
        expected_parameters=expected,
        dtype=str(module.dtype).removeprefix("torch."),
        vocabulary=None if logits_TV is None else logits_TV.shape[-1],
        infinite_parameters=infinite,
        finite_logits=None if logits_TV is None else bool(torch.isfinite(logits_TV).all()),
        tokens=len(ids),
        seconds=round(time.monotonic() - began, 3),
        machine=describe("cpu"),
        faults=tuple(faults),
    )


def _parameters(module: Any) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _infinite(module: Any) -> int:
    """How many parameters are infinite or no number; in pieces, which need little memory beside the model."""
    return sum(
        piece.numel() - int(torch.isfinite(piece).sum())
        for parameter in module.parameters()
        for piece in parameter.detach().reshape(-1).split(1 << 24)
    )


def _other_configuration(own: Any, its: Any) -> Iterator[str]:
    """Where two configurations differ, defaults and older spellings resolved, in what a model computes."""
    mine, others = own.to_dict(), its.to_dict()
    for key in sorted((mine.keys() | others.keys()) - _NOT_OF_THE_MODEL):
        here, there = mine.get(key), others.get(key)
        if here != there:
            yield f"config.json: {key} is {here!r:.80}, where the model that it should be has {there!r:.80}"


@torch.no_grad()
def _logits(module: Any, ids: list[int]) -> torch.Tensor:
    logits_TV: torch.Tensor = module(input_ids=torch.tensor([ids])).logits[0]
    return logits_TV


def _wrong_logits(logits_TV: torch.Tensor, rows: int) -> Iterator[str]:
    if logits_TV.shape[-1] != rows:
        yield f"a forward pass gives {logits_TV.shape[-1]:,} logits a token, where the model has {rows:,} rows"
    if infinite := logits_TV.numel() - int(torch.isfinite(logits_TV).sum()):
        yield f"{infinite:,} logits of a forward pass are infinite or no number"


def _no_model(faults: list[str], began: float) -> Loaded:
    return Loaded(
        parameters=None,
        expected_parameters=None,
        dtype=None,
        vocabulary=None,
        infinite_parameters=None,
        finite_logits=None,
        tokens=None,
        seconds=round(time.monotonic() - began, 3),
        machine=describe("cpu"),
        faults=tuple(faults),
    )
