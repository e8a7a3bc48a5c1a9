"""Views: what is refused, and where targets lie with and without mounts."""

import sys
from pathlib import Path, PurePosixPath

import pytest

import opd
from opd.protocol.sandbox import view as seen
from opd.protocol.sandbox.view import Mount, View, own_code, python_mounts
from opd.records.errors import AskedWrongly

P = PurePosixPath


def view_of(*mounts: Mount, **settings: object) -> View:
    values = {"folder": P("/workspace"), "environment": {}} | settings
    return View(mounts=mounts, **values)


def test_without_mounts_a_target_lies_below_the_source_of_the_nearest_mount_above_it(tmp_path: Path) -> None:
    for name in ("work", "frozen"):
        (tmp_path / name).mkdir()
    view = view_of(
        Mount(source=tmp_path / "work", target=P("/workspace"), writable=True),
        Mount(source=tmp_path / "frozen", target=P("/workspace/frozen")),
        Mount(source=None, target=P("/home/explorer")),
    )
    assert view.unmoved(P("/workspace/run.sh")) == str(tmp_path / "work" / "run.sh")
    assert view.unmoved(P("/workspace/frozen/a/b")) == str(tmp_path / "frozen" / "a" / "b")
    assert view.unmoved(P("/home/explorer")) == str(view.scratch / "home-explorer")
    assert view.unmoved(P("/usr/bin/git")) == "/usr/bin/git"


def test_values_name_targets_and_each_rung_puts_the_right_path_in_their_place(tmp_path: Path) -> None:
    view = view_of(
        Mount(source=tmp_path, target=P("/inputs/student")),
        environment={"STUDENT_MODEL": P("/inputs/student"), "PATH": (P("/inputs/student/bin"), "/usr/bin"), "N": "1"},
    )
    assert seen.environment(view, moved=True) == {
        "STUDENT_MODEL": "/inputs/student",
        "PATH": "/inputs/student/bin:/usr/bin",
        "N": "1",
    }
    assert seen.environment(view, moved=False) == {
        "STUDENT_MODEL": str(tmp_path),
        "PATH": f"{tmp_path}/bin:/usr/bin",
        "N": "1",
    }
    assert seen.words(["cat", P("/inputs/student/x")], view=view, moved=False) == ["cat", f"{tmp_path}/x"]


def test_each_view_has_empty_folders_of_its_own(tmp_path: Path) -> None:
    mount = Mount(source=None, target=P("/tmp"))
    assert view_of(mount).empty_folders != view_of(mount).empty_folders


def test_a_mount_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match=r"mount on /inputs: .*missing does not exist"):
        view_of(Mount(source=tmp_path / "missing", target=P("/inputs")))
    with pytest.raises(AskedWrongly, match="absolute"):
        view_of(Mount(source=tmp_path, target=P("inputs")))


def test_the_interpreter_is_mounted_and_this_package_hidden() -> None:
    sources = [mount.source for mount in python_mounts() if mount.source is not None]
    assert all(not mount.writable for mount in python_mounts())
    usr = Path("/usr")
    for place in (sys.executable, sys.prefix, opd.__path__[0] if "site-packages" in opd.__path__[0] else sys.prefix):
        assert any(Path(place).resolve().is_relative_to(source) for source in (*sources, usr))
    assert own_code() == (Path(opd.__file__).resolve().parent,)
