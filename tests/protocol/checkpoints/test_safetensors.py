"""Safetensors files and folders of them: what is whole, and every way of not being."""

import json
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError, safe_open

from opd.protocol.checkpoints.safetensors import INDEX, LARGEST_HEADER, open_weights, read_header
from opd.protocol.checkpoints.strangers import Strange, opened
from opd.records.checkpoints import Rule
from opd.records.places import locate

A = ("F32", [2, 3], bytes(range(24)))
B = ("BF16", [4], b"fourfour")
C = ("I64", [], b"a scalar")
NOTHING = ("F16", [0, 7], b"")


def header(path: Path, **options: Any) -> Any:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return read_header(descriptor, **options)
    finally:
        os.close(descriptor)


def fault(path: Path, **options: Any) -> Strange:
    with pytest.raises(Strange) as caught:
        header(path, **options)
    return caught.value


def with_header(value: object, data: bytes) -> bytes:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(**changes: object) -> bytes:
    one = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changes
    return with_header({"a": one}, b"8 bytes!")


def test_tensors_are_found_where_the_format_puts_them(tmp_path: Path, files: Callable[..., bytes]) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(files({"a": A, "nothing": NOTHING, "b": B, "c": C}))
    found = {tensor.name: tensor for tensor in header(path)}
    content = path.read_bytes()
    for name, (dtype, shape, data) in {"a": A, "nothing": NOTHING, "b": B, "c": C}.items():
        tensor = found[name]
        assert (tensor.dtype, list(tensor.shape), tensor.size) == (dtype, shape, len(data))
        assert content[tensor.offset : tensor.offset + tensor.size] == data


def test_a_file_of_the_library_reads_as_the_library_reads_it() -> None:
    path = locate("opd:arith_tiny/student") / "model.safetensors"
    found = {tensor.name: tensor for tensor in header(path)}
    content = path.read_bytes()
    with safe_open(path, framework="pt") as file:
        assert set(file.keys()) == found.keys()
        for name, tensor in found.items():
            values = file.get_tensor(name)
            assert tuple(values.shape) == tensor.shape
            raw = bytes(values.contiguous().view(-1).view(dtype=values.dtype).untyped_storage())
            assert raw == content[tensor.offset : tensor.offset + tensor.size]


WHOLE = entry()


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        pytest.param(b"", Rule.HEADER, id="empty"),
        pytest.param(b"seven b", Rule.HEADER, id="too short for a length"),
        pytest.param(WHOLE[:-1], Rule.COVERAGE, id="a byte cut off"),
        pytest.param(WHOLE[:20], Rule.HEADER, id="cut within the header"),
        pytest.param(WHOLE + b"!", Rule.COVERAGE, id="a byte too many"),
        pytest.param(struct.pack("<Q", 1 << 63) + WHOLE[8:], Rule.HEADER, id="a header of exabytes"),
        pytest.param(with_header(b"[]", b""), Rule.HEADER, id="a list"),
        pytest.param(with_header(b" {}", b""), Rule.HEADER, id="a blank first"),
        pytest.param(with_header({}, b""), Rule.HEADER, id="no tensor"),
        pytest.param(with_header(b'{"a": ', b""), Rule.JSON, id="broken JSON"),
        pytest.param(with_header(b"{\xff}", b""), Rule.JSON, id="not UTF-8"),
        pytest.param(with_header(b'{"a":' + b"[" * 100_000, b""), Rule.JSON, id="lists in lists"),
        pytest.param(with_header(b'{"a":' + b"9" * 5_000 + b"}", b""), Rule.JSON, id="a number of 5,000 digits"),
        pytest.param(with_header(b'{"a":1,"a":1}', b""), Rule.JSON, id="a name twice"),
        pytest.param(with_header({"__metadata__": {"format": 1}, "a": {}}, b""), Rule.HEADER, id="odd metadata"),
        pytest.param(with_header({"a": 1}, b""), Rule.HEADER, id="no entry"),
        pytest.param(entry(more=1), Rule.HEADER, id="a key too many"),
        pytest.param(entry(dtype="F128"), Rule.DTYPE, id="no dtype of the format"),
        pytest.param(entry(dtype=["F32"]), Rule.DTYPE, id="a list for a dtype"),
        pytest.param(entry(shape=[-2]), Rule.HEADER, id="a negative size"),
        pytest.param(entry(shape=[2.0]), Rule.HEADER, id="a broken size"),
        pytest.param(entry(shape=[True, 2]), Rule.HEADER, id="a truth for a size"),
        pytest.param(entry(shape=[1] * 9 + [2]), Rule.HEADER, id="ten dimensions"),
        pytest.param(entry(shape=[1 << 40, 1 << 40]), Rule.COVERAGE, id="an enormous shape"),
        pytest.param(entry(shape=[3]), Rule.COVERAGE, id="fewer bytes than the shape takes"),
        pytest.param(entry(data_offsets=[8, 0]), Rule.COVERAGE, id="an end before its beginning"),
        pytest.param(entry(data_offsets=[0]), Rule.HEADER, id="one offset"),
        pytest.param(entry(data_offsets=[4, 12]), Rule.COVERAGE, id="a gap at the beginning"),
    ],
)
def test_a_file_that_is_not_whole_is_refused_by_the_rule_that_it_breaks(
    tmp_path: Path, content: bytes, rule: Rule
) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(WHOLE)
    assert len(header(path)) == 1, "what is spoilt is whole before"
    path.write_bytes(content)
    assert fault(path).rule is rule


@pytest.mark.parametrize(
    ("second", "says"), [((4, 12), "overlaps"), ((0, 8), "overlaps"), ((12, 20), "leaves a gap"), ((8, 16), None)]
)
def test_tensors_lie_end_to_end(tmp_path: Path, second: tuple[int, int], says: str | None) -> None:
    entries = {
        "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "b": {"dtype": "F32", "shape": [2], "data_offsets": list(second)},
    }
    path = tmp_path / "x.safetensors"
    path.write_bytes(with_header(entries, bytes(second[1])))
    if says is None:
        assert [tensor.name for tensor in header(path)] == ["a", "b"]
    else:
        assert says in fault(path).says
        with pytest.raises(SafetensorError):
            safe_open(path, framework="np").__enter__()


def test_a_header_beyond_its_limit_is_not_even_read(tmp_path: Path) -> None:
    """A sparse file that says and holds a header of 5 GB: a moment, and none of it in memory."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", 5_000_000_000))
    os.truncate(path, 5_000_000_100)
    began = time.monotonic()
    assert f"{LARGEST_HEADER:,}" in fault(path).says
    assert time.monotonic() - began < 1
    path.write_bytes(
        with_header(json.dumps({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode(), b"8 bytes!")
    )
    assert fault(path, largest=10).rule is Rule.HEADER


# a folder's files, with the index's map


def folder(tmp_path: Path, contents: dict[str, bytes], shards: object = None) -> Path:
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    if shards is not None:
        (tmp_path / INDEX).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": shards}))
    return tmp_path


def folder_fault(path: Path) -> Strange:
    with pytest.raises(Strange) as caught, opened(path) as place, open_weights(place):
        pass
    return caught.value


def test_shards_are_one_set_of_tensors(tmp_path: Path, files: Callable[..., bytes]) -> None:
    contents = {"1.safetensors": files({"a": A, "b": B}), "2.safetensors": files({"c": C})}
    path = folder(tmp_path, contents, {"a": "1.safetensors", "b": "1.safetensors", "c": "2.safetensors"})
    with opened(path) as place, open_weights(place) as found:
        assert {name: stored.file for name, stored in found.items()} == {
            "a": "1.safetensors",
            "b": "1.safetensors",
            "c": "2.safetensors",
        }
        room = bytearray(8)
        found["a"].read_into(memoryview(room), 3)
        assert room == A[2][12:20]


@pytest.mark.parametrize(
    ("shards", "says"),
    [
        ({"a": "1.safetensors", "c": "2.safetensors"}, "b: the index says None"),
        ({"a": "1.safetensors", "b": "2.safetensors", "c": "2.safetensors"}, "b: the index says 2.safetensors"),
        ({"a": "1.safetensors", "b": "1.safetensors"}, "does not name 2.safetensors"),
        (dict.fromkeys("abc", "1.safetensors"), "does not name 2.safetensors"),
        (dict.fromkeys("abc", "1.safetensors") | {"d": "3.safetensors"}, "lacks 3.safetensors"),
        (dict.fromkeys("abc", "../1.safetensors"), "leads out"),
        (dict.fromkeys("abc", "/etc/passwd"), "leads out"),
        (["a"], "no weight_map"),
        ({"a": 1}, "no weight_map"),
    ],
)
def test_an_index_that_does_not_fit_is_refused(
    tmp_path: Path, files: Callable[..., bytes], shards: object, says: str
) -> None:
    contents = {"1.safetensors": files({"a": A, "b": B}), "2.safetensors": files({"c": C})}
    error = folder_fault(folder(tmp_path, contents, shards))
    assert error.rule is Rule.INDEX
    assert says in error.says


def test_without_an_index_there_is_one_file_of_the_usual_name(tmp_path: Path, files: Callable[..., bytes]) -> None:
    whole = files({"a": A})
    assert "nothing" in folder_fault(tmp_path).says
    assert "other.safetensors" in folder_fault(folder(tmp_path, {"other.safetensors": whole})).says
    folder(tmp_path, {"model.safetensors": whole})
    assert "model.safetensors, other.safetensors" in folder_fault(tmp_path).says
    (tmp_path / "other.safetensors").unlink()
    with opened(tmp_path) as place, open_weights(place) as found:
        assert list(found) == ["a"]


def test_one_name_in_two_shards_and_a_shard_that_a_loader_takes_alone_are_refused(
    tmp_path: Path, files: Callable[..., bytes]
) -> None:
    contents = {"1.safetensors": files({"a": A}), "2.safetensors": files({"a": A, "b": B})}
    path = folder(tmp_path, contents, {"a": "1.safetensors", "b": "2.safetensors"})
    assert "a lies in 1.safetensors and in 2.safetensors" in folder_fault(path).says
    (path / "2.safetensors").rename(path / "model.safetensors")
    folder(path, {}, {"a": "1.safetensors", "b": "model.safetensors"})
    assert "no shard may be called" in folder_fault(path).says
