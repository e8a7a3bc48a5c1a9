"""What is written down of the source at a measurement, beside a real workspace that may mean harm."""

import os
from pathlib import Path, PurePosixPath

import pytest

from opd.protocol.explorer import snapshot as module
from opd.protocol.explorer.snapshot import LARGEST_CHANGED_BYTES, Snapshot, snapshot
from opd.protocol.patches.patch import apply, derive
from opd.protocol.patches.source import SourceFile, digest_of, write
from opd.records.tasks import Surface

BASE = {
    PurePosixPath("run.sh"): SourceFile(content=b"exit 0\n", executable=True),
    PurePosixPath("src/loss.py"): SourceFile(content=b"CLAMP = 10\n"),
    PurePosixPath("src/gone.py"): SourceFile(content=b"x = 1\n"),
}
SURFACE = Surface(editable=("run.sh", "src/**"))
OUTPUTS = (PurePosixPath("src/checkpoints"),)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    write(BASE, tmp_path / "workspace")
    return tmp_path / "workspace"


def look(workspace: Path) -> Snapshot:
    return snapshot(workspace, BASE, surface=SURFACE, outputs=OUTPUTS)


def test_an_unchanged_workspace_has_the_digest_of_the_base_and_no_patch(workspace: Path) -> None:
    stood = look(workspace).workspace
    assert (stood.tree_sha256, stood.changed_paths, stood.passed_over) == (digest_of(BASE), (), 0)
    assert (stood.patch, stood.patch_sha256, stood.patch_bytes, stood.missing) == (None, None, 0, None)


def test_a_changed_one_has_the_digest_and_the_patch_that_its_submission_would_have(workspace: Path) -> None:
    (workspace / "src" / "loss.py").write_text("CLAMP = 5\n")
    (workspace / "src" / "new.py").write_text("y = 2\n")
    (workspace / "src" / "gone.py").unlink()
    (workspace / "run.sh").chmod(0o644)
    (workspace / "src" / "checkpoints").mkdir()
    (workspace / "src" / "checkpoints" / "weights.py").write_text("outputs are no source\n")
    taken = look(workspace)
    submitted = derive(workspace, BASE, outputs=OUTPUTS)
    assert submitted.refusals == ()
    assert taken.patch == submitted.patch
    assert taken.workspace.tree_sha256 == digest_of(apply(submitted.patch, BASE))
    assert taken.workspace.changed_paths == ("run.sh", "src/gone.py", "src/loss.py", "src/new.py")
    assert (taken.workspace.patch, taken.workspace.patch_bytes) == ("workspace.patch", len(taken.patch))


def test_what_may_not_be_handed_in_changes_neither_and_is_counted(workspace: Path) -> None:
    before = look(workspace)
    (workspace / "notes.txt").write_text("outside of the surface\n")
    (workspace / "src" / "train.log").write_text("an ending that is not taken\n")
    os.mkfifo(workspace / "src" / "pipe.py")
    after = look(workspace)
    assert after.workspace == before.workspace.model_copy(update={"passed_over": 3})


def test_nothing_is_followed(workspace: Path, tmp_path: Path) -> None:
    """faults H34: by a link in place of a file, and by one in place of a folder, nobody gets out."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "loss.py").write_text("SECRET = 1\n")
    (workspace / "src" / "leak.py").symlink_to(tmp_path / "outside" / "loss.py")
    (workspace / "src" / "deep").symlink_to(tmp_path / "outside")
    assert "SECRET" in (workspace / "src" / "deep" / "loss.py").read_text(), "who follows gets there"
    taken = look(workspace)
    assert b"SECRET" not in taken.patch
    assert taken.workspace.changed_paths == ()
    assert taken.workspace.passed_over == 2


def test_a_large_change_keeps_its_digest_and_paths_and_has_no_patch(workspace: Path) -> None:
    half = LARGEST_CHANGED_BYTES // 2 + 1
    for name in ("a.py", "b.py"):
        (workspace / "src" / name).write_bytes(b"#" * half)
    taken = look(workspace)
    stood = taken.workspace
    assert stood.changed_paths == ("src/a.py", "src/b.py")
    assert (stood.patch, stood.patch_sha256, taken.patch) == (None, None, b"")
    assert f"{2 * half:,} bytes of files differ" in (stood.missing or "")
    new = {PurePosixPath(f"src/{name}"): SourceFile(content=b"#" * half) for name in ("a.py", "b.py")}
    assert stood.tree_sha256 == digest_of(BASE | new)


def test_a_long_patch_is_not_kept_and_its_digest_is(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST_PATCH_BYTES", 10)
    (workspace / "run.sh").write_text("exit 1\n")
    taken = look(workspace)
    assert taken.patch == b""
    assert taken.workspace.patch is None
    assert taken.workspace.patch_sha256 is not None
    assert taken.workspace.missing == f"the patch has {taken.workspace.patch_bytes:,} bytes, and 10 are kept"
