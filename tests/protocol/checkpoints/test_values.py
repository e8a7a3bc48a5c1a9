"""Values by their bits, against torch's own casts and a slow count."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from opd.protocol.checkpoints.safetensors import Stored, read_header
from opd.protocol.checkpoints.values import NEAR, _cast, look

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
LONG = 70_001  # more than a chunk, and not a multiple of one


@pytest.fixture
def stored(tmp_path: Path) -> Any:
    """`stored(tensor)`: the tensor in a file that torch's library wrote, open."""
    opened: list[int] = []

    def write(tensor: torch.Tensor) -> Stored:
        path = tmp_path / f"{len(opened)}.safetensors"
        save_file({"x": tensor}, path)
        opened.append(os.open(path, os.O_RDONLY))
        return Stored(tensor=read_header(opened[-1])[0], file=path.name, descriptor=opened[-1])

    yield write
    for descriptor in opened:
        os.close(descriptor)


def random(seed: int, *, size: int = LONG, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)) * scale


def every_kind_of_number() -> torch.Tensor:
    """Float32 of all magnitudes, zeros, subnormals, and halves between two bfloat16."""
    bits = torch.randint(-(1 << 31), (1 << 31) - 1, (LONG,), generator=torch.Generator().manual_seed(5))
    numbers = bits.to(torch.int32).view(torch.float32)
    halves = torch.tensor([0x3F808000, 0x3F818000, 0x00008000, 0x00000001, 0, -(1 << 31)], dtype=torch.int32)
    return torch.cat([numbers[torch.isfinite(numbers)], halves.view(torch.float32)])


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_a_cast_is_torchs_cast(dtype: str) -> None:
    numbers = every_kind_of_number()
    with np.errstate(over="ignore"):
        ours = torch.from_numpy(np.asarray(_cast(numbers.numpy(), dtype)))
    theirs = numbers.to(DTYPES[dtype]).float()
    assert torch.equal(ours.float(), theirs)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_that_are_infinite_or_no_number_are_counted(stored: Any, dtype: str) -> None:
    tensor = random(1).to(DTYPES[dtype])
    start = stored(tensor)
    tensor = tensor.clone()
    tensor[3], tensor[65_536], tensor[-1] = float("nan"), float("inf"), -float("inf")
    tensor[9] = torch.finfo(DTYPES[dtype]).max
    assert look(stored(tensor), start, []).infinite == 3
    assert look(start, start, []).infinite == 0


@pytest.mark.parametrize("mine", DTYPES)
@pytest.mark.parametrize("its", DTYPES)
def test_a_value_that_was_cast_is_the_same_value_and_one_bit_more_is_another(
    stored: Any, mine: str, its: str
) -> None:
    start = random(2).to(DTYPES[its])
    copy = start.to(DTYPES[mine])
    found = look(stored(copy), stored(start), [])
    assert found.start.equal == LONG
    step = 0.51 * start.float().abs() / (128 if "BF16" in {mine, its} else 1024)  # more than half of a last place
    moved = (copy.float() + 4 * step).to(DTYPES[mine])
    assert bool(moved.ne(copy).any())
    equal = look(stored(moved), stored(start), []).start.equal
    there, back = start.to(moved.dtype) == moved, moved.to(start.dtype) == start
    assert equal == int((there | back).sum()) < LONG / 10


def test_counts_and_distances_are_those_of_their_definitions(stored: Any) -> None:
    start, teacher = random(3), random(3) + random(4, scale=0.1)
    teacher[::7] = start[::7]
    mine = start + random(6, scale=0.05)
    mine[5_000:60_000] = teacher[5_000:60_000] + 0.2 * (start - teacher)[5_000:60_000]
    mine[60_000:66_000] = teacher[60_000:66_000]
    found = look(stored(mine), stored(start), [stored(teacher), None])
    beside = found.others[0]
    assert beside is not None
    assert found.others[1] is None
    distinct = start != teacher
    near = (mine - teacher).abs() <= NEAR * (start - teacher).abs()
    assert beside.equal == int((mine == teacher).sum())
    assert beside.distinct == int(distinct.sum())
    assert beside.taken == int((distinct & (near | (mine == teacher))).sum())
    assert beside.taken > 40_000
    for ours, theirs in (
        (found.start.squared_distance, mine - start),
        (beside.squared_distance, mine - teacher),
        (beside.squared_start_distance, start - teacher),
    ):
        assert ours == pytest.approx(float((theirs.double() ** 2).sum()), rel=1e-4)


def test_the_digest_is_of_the_bytes(stored: Any, tmp_path: Path) -> None:
    import hashlib

    tensor = random(8).bfloat16()
    one = stored(tensor)
    expected = hashlib.sha256(tensor.view(torch.int16).numpy().tobytes()).hexdigest()
    assert look(one, one, []).sha256 == expected


def test_numbers_that_are_no_floats_are_compared_by_their_bytes(stored: Any) -> None:
    start = torch.arange(LONG)
    mine = start.clone()
    mine[7] += 1
    found = look(stored(mine), stored(start), [stored(mine)])
    assert found.start.equal == LONG - 1
    assert found.others[0] is not None
    assert (found.others[0].equal, found.others[0].distinct, found.others[0].taken) == (LONG, 1, 1)
    assert found.infinite == 0


def test_a_difference_that_overflows_is_an_infinite_distance_and_no_warning(stored: Any) -> None:
    start = torch.full((10,), 3e38)
    assert look(stored(-start), stored(start), []).start.squared_distance == float("inf")
