"""Is a folder fit to be shared, asked of file systems that are read-only, full, gone or another's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from opd.fanout.comparing import refuse_other_install, shared
from opd.fanout.remote import folder_fault
from opd.records.errors import AnswerIsNo
from opd.records.install import install

ASK = """
import json, sys
from pathlib import Path
from opd.fanout.remote import folder_fault
print(json.dumps(folder_fault(Path(sys.argv[1]), name="mark.partial", content=b"known")))
"""


def fault_after(folder: Path, mounting: str) -> str | None:
    """What is said of a folder in which the mark was put, in a mount namespace of its own where this was mounted."""
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("needs a mount namespace, which this user can't make")
    (folder / "mark.partial").write_bytes(b"known")
    script = f'set -e; cd {folder}; {mounting}; exec "$@"'
    ask = ["unshare", "--mount", "sh", "-c", script, "sh", sys.executable, "-c", ASK, str(folder)]
    said = subprocess.run(ask, capture_output=True, text=True, check=True)
    answer = json.loads(said.stdout)
    assert answer is None or isinstance(answer, str)
    return answer


@pytest.mark.parametrize(
    ("mounting", "fault"),
    [
        ("true", None),
        ("mount --bind . .; mount -o remount,ro,bind {folder}", "it is read-only there (EROFS)"),
        (
            "mount -t tmpfs -o size=64k none {folder}; printf known > {folder}/mark.partial",
            "it is full (ENOSPC)",
        ),
        ("mount -t tmpfs none {folder}", "it is not there, or it is another folder"),
        ("mount -t tmpfs none {folder}; printf other > {folder}/mark.partial", "it is another folder"),
    ],
)
def test_what_is_wrong_with_a_folder_is_told_apart(mounting: str, fault: str | None, tmp_path: Path) -> None:
    found = fault_after(tmp_path, mounting.format(folder=tmp_path))
    assert (found is None) == (fault is None), found
    assert found is None or fault is None or found.startswith(fault)
    assert [path.name for path in tmp_path.iterdir()] == ["mark.partial"]


def test_a_folder_is_known_by_a_file_that_goes_again_and_nobody_reads(tmp_path: Path) -> None:
    with shared(tmp_path) as known:
        assert [path.name for path in tmp_path.iterdir()] == [known.name]
        assert known.name.endswith(".partial")
        assert folder_fault(tmp_path, name=known.name, content=known.content) is None
        assert folder_fault(tmp_path, name=known.name, content=b"other") is not None
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(AnswerIsNo, match=r"gone can't be used here: No such file"), shared(tmp_path / "gone"):
        raise AssertionError("it is not there")


def test_installs_that_differ_anywhere_are_refused_with_both() -> None:
    here = install()
    refuse_other_install(dict(here), here, where="worker 0")
    for name in here:
        with pytest.raises(AnswerIsNo, match=rf"worker 0 has another install: {name} 9 there and .* here"):
            refuse_other_install(here | {name: "9"}, here, where="worker 0")
    with pytest.raises(AnswerIsNo, match=r"opd none there"):
        refuse_other_install({"opd": "none"}, here, where="worker 0")
