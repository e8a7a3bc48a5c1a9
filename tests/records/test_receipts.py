import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import COMPLETE, sha256
from opd.records.receipts import (
    RECEIPT,
    Head,
    Receipt,
    begin,
    faults,
    finish_sealing,
    is_sealed,
    partial_of,
    seal,
    sealed,
)


def receipt(**changes: object) -> Receipt:
    values = {
        "kind": "formal",
        "outcome": "completed",
        "because": None,
        "began_utc": "2026-01-31T12:00:00.000Z",
        "ended_utc": "2026-01-31T12:01:00.000Z",
        "active_seconds": 60.0,
        "opd_version": "0",
        "made_from": {"patch": "0" * 64},
        "events": Head(seq=0, sha256="0" * 64),
        "files": (),
    }
    return Receipt.model_validate(values | changes)


def make(folder: Path) -> None:
    partial = begin(folder)
    (partial / "deep").mkdir()
    (partial / "deep" / "run.sh").write_text("exit 0\n")
    (partial / "deep" / "run.sh").chmod(0o755)
    (partial / "outcome.json").write_text("{}\n")
    seal(folder, receipt())


def test_a_name_of_any_bytes_is_sealed_too(tmp_path: Path) -> None:
    folder = tmp_path / "attempt-001"
    (begin(folder) / os.fsdecode(b"\xff\\x41")).write_text("strange")
    seal(folder, receipt())
    assert faults(folder) == ()


def test_a_sealed_folder_says_its_files_and_its_mark_fits(tmp_path: Path) -> None:
    folder = tmp_path / "attempt-001"
    make(folder)
    assert not partial_of(folder).exists()
    assert [entry.path for entry in sealed(folder).files] == ["deep", "deep/run.sh", "outcome.json"]
    assert json.loads((folder / COMPLETE).read_text()) == {
        "kind": "formal",
        "receipt_sha256": sha256(folder / RECEIPT),
    }
    assert faults(folder) == ()
    assert (folder / "deep" / "run.sh").stat().st_mode & 0o777 == 0o555


@pytest.mark.parametrize("mark", ["", "{}", '{"kind": "formal", "receipt_sha256": "0"}', "not json"])
def test_a_mark_that_does_not_fit_is_not_believed(tmp_path: Path, mark: str) -> None:
    folder = tmp_path / "attempt-001"
    make(folder)
    (folder / COMPLETE).write_text(mark)
    assert not is_sealed(folder)
    assert faults(folder)
    with pytest.raises(AnswerIsNo, match="is not sealed"):
        sealed(folder)


def test_a_receipt_of_another_kind_under_the_same_mark_is_not_believed(tmp_path: Path) -> None:
    folder = tmp_path / "attempt-001"
    make(folder)
    (folder / RECEIPT).write_text((folder / RECEIPT).read_text().replace('"completed"', '"failed_candidate"'))
    assert not is_sealed(folder)


def test_every_change_of_a_sealed_folder_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "attempt-001"
    make(folder)
    (folder / "deep" / "run.sh").chmod(0o755)
    (folder / "deep" / "run.sh").write_text("exit 1\n")
    (folder / "late.json").write_text("{}")
    (folder / "outcome.json").unlink()
    assert [line.split(": ")[0] for line in faults(folder)] == [
        "attempt-001/deep/run.sh", "attempt-001/late.json", "attempt-001/outcome.json",
    ]  # fmt: skip
    assert "is gone" in faults(folder)[2]


def test_a_folder_is_never_begun_twice_nor_put_over_another(tmp_path: Path) -> None:
    """faults H14, H17."""
    folder = tmp_path / "attempt-001"
    begin(folder)
    with pytest.raises(AskedWrongly, match="was begun already"):
        begin(folder)
    folder.mkdir()
    (folder / "kept").write_text("evidence")
    with pytest.raises(AskedWrongly, match="never overwritten"):
        seal(folder, receipt())
    assert (folder / "kept").read_text() == "evidence"
    assert partial_of(folder).is_dir()
    with pytest.raises(AskedWrongly, match="the next try has the next number"):
        begin(folder)


def test_even_an_empty_folder_under_the_name_is_not_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "attempt-001"
    begin(folder)
    folder.mkdir()
    with pytest.raises(AskedWrongly, match="never overwritten"):
        seal(folder, receipt())


_KILLED = """
import os, sys
from pathlib import Path
from opd.records import receipts
sys.path.insert(0, {here!r})
from test_receipts import receipt
folder, at = Path(sys.argv[1]), int(sys.argv[2])
partial = receipts.begin(folder)
(partial / "outcome.json").write_text("{{}}")
calls = 0
def dies(name):
    real = getattr(receipts, name)
    def wrapped(*arguments):
        global calls
        calls += 1
        if calls == at:
            os.kill(os.getpid(), 9)
        return real(*arguments)
    setattr(receipts, name, wrapped)
for name in ("_protect", "entries", "_sync", "write_json", "_rename_to_new", "finish_sealing"):
    if name != "entries":
        dies(name)
receipts.seal(folder, receipt())
print("sealed", calls)
"""


def test_killed_at_any_moment_it_is_begun_or_unmarked_or_sealed_and_can_be_finished(tmp_path: Path) -> None:
    """Acceptance: kill -9 at every edge of the commit; a reader never takes half for whole."""
    seen = set()
    program = _KILLED.format(here=str(Path(__file__).parent))
    for at in range(1, 20):
        folder = tmp_path / f"attempt-{at:03d}"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        ended = subprocess.run(
            [sys.executable, "-c", program, folder, str(at)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode == 0:
            break
        assert ended.returncode == -9, ended.stderr
        if not folder.exists():
            seen.add("begun")
            assert (partial_of(folder) / "outcome.json").exists()
            seal(folder, receipt())
        elif not is_sealed(folder):
            seen.add("unmarked")
            finish_sealing(folder)
        assert faults(folder) == ()
    else:
        pytest.fail("it never got to its end")
    assert seen == {"begun", "unmarked"}
