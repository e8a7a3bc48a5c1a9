"""Every token of an evaluation, in a file that is whole or not there."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.records.errors import AskedWrongly
from opd.records.generation_table import (
    Damaged,
    Generation,
    Making,
    generations_path,
    read_generations,
    read_keys,
    write_generations,
)
from opd.records.rollouts import StopReason

MAKING = Making(machine={"device": "cpu", "dtype": "float32"}, seconds=1.5)
IDS = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=20).map(tuple)
LOGPS = st.floats(max_value=0, width=32, allow_nan=False)


@st.composite
def generations(draw: st.DrawFn) -> Generation:
    ids = draw(IDS)
    return Generation(
        question=draw(st.text(st.characters(codec="utf-8"))),
        sample=draw(st.integers(0, 31)),
        seed=draw(st.integers(0, 2**63 - 1)),
        stop=draw(st.sampled_from(StopReason)),
        prompt_ids=draw(IDS),
        token_ids=ids,
        logp=tuple(draw(st.lists(LOGPS, min_size=len(ids), max_size=len(ids)))),
    )


ONE = Generation(
    question="q", sample=3, seed=7, stop=StopReason.EOS, prompt_ids=(1, 2), token_ids=(5, 6), logp=(-0.5, -0.25)
)


@given(written=st.lists(generations(), min_size=1, max_size=4))
def test_what_is_written_is_read_again(tmp_path_factory: pytest.TempPathFactory, written: list[Generation]) -> None:
    path = tmp_path_factory.mktemp("table") / "x.parquet"
    write_generations(path, written, MAKING)
    assert read_generations(path) == written
    assert read_keys(path) == ([(one.question, one.sample) for one in written], MAKING)


def test_a_file_is_named_by_its_first_generation(tmp_path: Path) -> None:
    assert generations_path(tmp_path, row=12, sample=3) == tmp_path / "generations/000012-003.parquet"


def test_the_folder_of_a_file_adds_no_column(tmp_path: Path) -> None:
    """A folder `lr=1e-6` reads like a partition of a larger table."""
    path = generations_path(tmp_path / "lr=1e-6", row=0, sample=0)
    path.parent.mkdir(parents=True)
    write_generations(path, [ONE], MAKING)
    assert read_generations(path) == [ONE]


def test_a_folder_that_has_vanished_is_not_made_anew(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_generations(generations_path(tmp_path / "gone", row=0, sample=0), [ONE], MAKING)
    assert list(tmp_path.iterdir()) == []


def test_tokens_are_compressed(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    ids = tuple(range(1000)) * 20
    write_generations(path, [Generation(**(fields(ONE) | {"token_ids": ids, "logp": (0.0,) * len(ids)}))], MAKING)
    codecs = {
        pq.ParquetFile(path).metadata.row_group(0).column(column).compression
        for column in range(pq.ParquetFile(path).metadata.num_columns)
    }
    assert codecs == {"ZSTD"}
    assert path.stat().st_size < 20_000  # of 160,000 bytes


def test_a_full_disk_leaves_no_file(tmp_path: Path, full_disk: Callable[[int], AbstractContextManager[None]]) -> None:
    path = generations_path(tmp_path, row=0, sample=0)
    path.parent.mkdir()
    with full_disk(100), pytest.raises(OSError, match="File too large"):
        write_generations(path, [ONE], MAKING)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("read", [read_generations, read_keys])
def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path, read: Callable[[Path], object]) -> None:
    path = tmp_path / "x.parquet"
    write_generations(path, [ONE], MAKING)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(AskedWrongly, match=r"x\.parquet can't be read .*take it away"):
        read(path)


def test_no_flipped_bit_becomes_another_token(tmp_path: Path) -> None:
    """A bit of every third byte in turn: it is refused, or it changes nothing (padding, statistics)."""
    path = tmp_path / "x.parquet"
    write_generations(path, [ONE, replace(ONE, sample=1)], MAKING)
    whole, keys, drawn = path.read_bytes(), read_keys(path), read_generations(path)
    refused = 0
    places = range(0, len(whole), 3)
    for place in places:
        content = bytearray(whole)
        content[place] ^= 1 << place % 8
        path.write_bytes(content)
        try:
            found, tokens = read_keys(path), read_generations(path)
        except Damaged:
            refused += 1
            continue
        assert (found[0], tokens) == (keys[0], drawn), f"byte {place}"
    assert refused > len(places) / 2


def test_another_table_is_no_table_of_generations(tmp_path: Path) -> None:
    import pyarrow as pa

    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"question": ["q"], "sample": [1]}), path)
    with pytest.raises(AskedWrongly, match="no table of generations"):
        read_keys(path)
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(AskedWrongly, match="no table of generations"):
        read_keys(path)


def fields(one: Generation) -> dict[str, object]:
    return {name: getattr(one, name) for name in Generation.__dataclass_fields__}
