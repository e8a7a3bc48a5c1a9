from pathlib import Path

import pytest

from opd.protocol.explorer import remains
from opd.protocol.explorer.remains import close
from opd.records.files import read_lines


@pytest.mark.parametrize(
    "name", ["a.safetensors", "model.BIN", "x.h5", "shard.bin-00001-of-00002", "w.onnx", "p.pickle"]
)
def test_weights_of_any_format_end_with_the_exploration(tmp_path: Path, name: str) -> None:
    runs = tmp_path / "runs"
    (runs / "one").mkdir(parents=True)
    (runs / "one" / name).write_bytes(b"few")
    (runs / "one" / "notes.md").write_text("kept")
    close(runs, tmp_path / "runs.jsonl")
    assert [path.name for path in (runs / "one").iterdir()] == ["notes.md"]
    kept = {line["path"]: line["kept"] for line in read_lines(tmp_path / "runs.jsonl")}
    assert (kept[f"one/{name}"], kept["one/notes.md"]) == (False, True)


def test_what_is_large_goes_whatever_it_is_called_and_so_does_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remains, "KEPT_BYTES", 10)
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "large.txt").write_bytes(b"." * 11)
    (runs / "fits.txt").write_bytes(b"." * 10)
    (runs / "link").symlink_to(tmp_path)
    close(runs, tmp_path / "runs.jsonl")
    assert [path.name for path in runs.iterdir()] == ["fits.txt"]
    digests = {line["path"]: line["sha256"] for line in read_lines(tmp_path / "runs.jsonl") if line["kind"] == "file"}
    assert len(digests["large.txt"]) == 64  # gone, and known again where it turns up


def test_runs_that_leave_no_file_are_gone_with_their_folders(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    (runs / "deep" / "er").mkdir(parents=True)
    (runs / "deep" / "model.safetensors").write_bytes(b"w")
    close(runs, tmp_path / "runs.jsonl")
    assert not runs.exists()
