"""Files of tensors, written one by one and read by rows: byte for byte what safetensors writes and reads."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from opd.models.stored import Stored, write_tensors
from opd.records.errors import AskedWrongly

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
OTHERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def some(*dtypes: torch.dtype) -> dict[str, torch.Tensor]:
    """Tensors of each dtype: a matrix, numbers in a row, one number, and none at all; one lies across."""
    torch.manual_seed(0)
    shapes = ((7, 5), (3,), (), (0, 4))
    tensors = {
        f"{letter}.{dtype}.{place}": (100 * torch.rand(shape)).to(dtype)
        for letter in "ba"
        for dtype in dtypes
        for place, shape in enumerate(shapes)
    }
    first = next(iter(tensors))
    return tensors | {first: tensors[first].t()}


def kinds_of(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: torch.empty(one.shape, dtype=one.dtype, device="meta") for name, one in tensors.items()}


@pytest.mark.parametrize("dtypes", [*((dtype,) for dtype in (*FLOATS, *OTHERS)), (*FLOATS, *OTHERS)], ids=str)
def test_a_file_written_tensor_by_tensor_is_the_one_that_safetensors_writes(
    tmp_path: Path, dtypes: tuple[torch.dtype, ...]
) -> None:
    tensors = some(*dtypes)
    asked: list[str] = []

    def tensor(name: str) -> torch.Tensor:
        asked.append(name)
        return tensors[name]

    write_tensors(tmp_path / "ours", kinds_of(tensors), tensor)
    save_file(
        {name: one.contiguous() for name, one in tensors.items()}, tmp_path / "theirs", metadata={"format": "pt"}
    )
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert sorted(asked) == sorted(tensors)


def test_a_tensor_that_is_not_what_the_header_says_is_refused(tmp_path: Path) -> None:
    tensors = some(torch.float32)
    with pytest.raises(ValueError, match=r"a\.torch\.float32\.0 is torch\.float64 \[7, 5\], the header says"):
        write_tensors(tmp_path / "ours", kinds_of(tensors), lambda one: tensors[one].double())


@pytest.mark.parametrize("rows", [slice(0, 3), slice(2, 7), slice(6, 7), slice(7, 7), slice(0, 7)])
def test_rows_are_those_of_the_tensor(tmp_path: Path, rows: slice) -> None:
    tensors = {"a": torch.randn(7, 5), "b": torch.randn(7).bfloat16()}
    save_file(tensors, tmp_path / "model.safetensors")
    stored = Stored(tmp_path)
    assert stored.shapes == {name: one.shape for name, one in tensors.items()}
    for name, one in tensors.items():
        assert torch.equal(stored.rows(name, rows), one[rows])
        assert torch.equal(stored.tensor(name), one)
    assert (stored.place(["c", "b", "a"]), stored.place(["c"])) == ("b", None)


def test_a_directory_without_an_index_of_its_files_is_refused(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(2)}, tmp_path / "model-00001-of-00002.safetensors")
    with pytest.raises(AskedWrongly, match=r"neither model\.safetensors nor model\.safetensors\.index\.json"):
        Stored(tmp_path)


def test_files_are_those_that_the_index_names(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        save_file({f"t{number}": torch.full((2,), number)}, tmp_path / f"model-0000{number}-of-00002.safetensors")
    weights = {f"t{number}": f"model-0000{number}-of-00002.safetensors" for number in (1, 2)}
    (tmp_path / "model.safetensors.index.json").write_text(f'{{"weight_map": {weights}}}'.replace("'", '"'))
    stored = Stored(tmp_path)
    assert stored.shapes.keys() == weights.keys()
    assert stored.tensor("t2").tolist() == [2, 2]
    assert load_file(tmp_path / "model-00003-of-00002.safetensors").keys() == {"t3"}
