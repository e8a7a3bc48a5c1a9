"""A file of generations that can't be read: what nobody graded is drawn anew, and what was graded stays."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.generation_table import read_generations


def cut_in_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def a_token_changed(path: Path) -> None:
    """One bit in the page of the tokens; all that the file says of itself is whole."""
    tokens = next(
        column
        for column in map(pq.ParquetFile(path).metadata.row_group(0).column, range(7))
        if column.path_in_schema.startswith("token_ids")
    )
    content = bytearray(path.read_bytes())
    content[tokens.data_page_offset + tokens.total_compressed_size - 1] ^= 1
    path.write_bytes(content)


def another_table(path: Path) -> None:
    pq.write_table(pa.table({"question": ["q0"]}), path)


DAMAGES = pytest.mark.parametrize("damage", [cut_in_half, a_token_changed, another_table])


@pytest.fixture
def whole(sums: Any, tmp_path: Path) -> Path:
    sums.evaluated(sums.half_right(), tmp_path / "whole")
    return tmp_path / "whole"


def killed_while_grading(sums: Any, out: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tokens of the second group stand, and none of them is graded; its file is the answer."""
    from opd.evaluate.standing import Standing

    settle = Standing.settle

    def dying(self: Standing, path: Path) -> Any:
        if path.name != "000000-000.parquet":
            raise KeyboardInterrupt
        return settle(self, path)

    with monkeypatch.context() as patched:
        patched.setattr(Standing, "settle", dying)
        with pytest.raises(KeyboardInterrupt):
            sums.evaluated(sums.half_right(), out)
    assert len((out / "samples.jsonl").read_text().splitlines()) == 4
    return out / "generations" / "000002-000.parquet"


@DAMAGES
def test_a_damaged_file_of_which_nothing_was_graded_is_named_and_drawn_anew(
    sums: Any, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Any
) -> None:
    out, said = tmp_path / "out", []
    path = killed_while_grading(sums, out, monkeypatch)
    before = path.read_bytes()
    damage(path)
    damaged = path.read_bytes()
    again = sums.half_right()
    sums.evaluated(again, out, say=said.append)
    assert (out / "samples.jsonl").read_bytes() == (whole / "samples.jsonl").read_bytes()
    assert again.calls == [[2, 3], [4, 5]]
    assert read_generations(path) == read_generations(whole / "generations" / path.name)
    assert path.read_bytes() != damaged != before
    assert path.with_name("000002-000.parquet.damaged").read_bytes() == damaged
    (line,) = said
    assert line.startswith(str(path))
    assert line.endswith("it is 000002-000.parquet.damaged now, and they are drawn anew")


@DAMAGES
def test_a_damaged_file_whose_samples_were_graded_is_refused_and_left(sums: Any, tmp_path: Path, damage: Any) -> None:
    out, answers = tmp_path / "out", iter([False, True])
    with pytest.raises(AnswerIsNo, match="4 samples graded"):
        sums.evaluated(sums.half_right(), out, interrupted=lambda: next(answers))
    path = out / "generations" / "000000-000.parquet"
    damage(path)
    before = {one: one.read_bytes() for one in out.rglob("*") if one.is_file()}
    with pytest.raises(AskedWrongly, match=r"000000-000\.parquet .* 4 samples that were graded .* bring it back"):
        sums.evaluated(sums.half_right(), out)
    assert {one: one.read_bytes() for one in out.rglob("*") if one.is_file()} == before
    path.unlink()  # the other way that the message names
    score = sums.evaluated(sums.half_right(), out)
    assert (score.correct, score.samples) == (6, 12)
