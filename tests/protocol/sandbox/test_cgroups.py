"""Control groups: where a group may be made on machines of both versions, and a real one where one may be."""

import os
import subprocess
from pathlib import Path

import pytest

from opd.protocol.sandbox import cgroups
from opd.protocol.sandbox.cgroups import Tree, _tree
from opd.protocol.sandbox.ladder import new_mark
from opd.protocol.sandbox.view import Limits
from opd.protocol.supervision import processes


@pytest.mark.parametrize(
    ("mount", "paths", "version", "own"),
    [
        pytest.param(
            "33 24 0:28 / /sys/fs/cgroup/pids rw,relatime shared:9 - cgroup cgroup rw,pids",
            {"pids": "/user.slice", "": "/x"},
            1,
            "/sys/fs/cgroup/pids/user.slice",
            id="a tree of version 1",
        ),
        pytest.param(
            "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate",
            {"": "/user.slice/user-1000.slice/session-3.scope"},
            2,
            "/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope",
            id="version 2 alone",
        ),
        pytest.param(
            "30 24 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw",
            {"": "/docker/abc/inner"},
            2,
            "/sys/fs/cgroup/inner",
            id="a container that sees its part of the tree",
        ),
        pytest.param(
            "30 24 0:26 /../.. /sys/fs/cgroup ro - cgroup2 cgroup2 rw",
            {"": "/"},
            2,
            "/sys/fs/cgroup",
            id="a path that doesn't lie in what is mounted",
        ),
        pytest.param("29 1 0:25 / /proc rw - proc proc rw", {"": "/"}, None, "", id="another file system"),
        pytest.param(
            "33 24 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu",
            {"cpu": "/"},
            None,
            "",
            id="another controller",
        ),
    ],
)
def test_this_process_is_found_in_each_hierarchy(
    mount: str, paths: dict[str, str], version: int | None, own: str
) -> None:
    tree = _tree(mount, paths)
    if version is None:
        assert tree is None
    else:
        assert tree is not None
        assert (tree.version, str(tree.own)) == (version, own)


def test_in_version_2_a_group_may_be_made_below_this_process_beside_it_or_above() -> None:
    tree = Tree(version=2, controllers=frozenset(), top=Path("/cg"), own=Path("/cg/a/b"))
    assert tree.places() == [Path("/cg/a/b"), Path("/cg/a"), Path("/cg")]
    assert Tree(version=1, controllers=frozenset(), top=Path("/cg"), own=Path("/cg/a")).places() == [Path("/cg/a")]


def version_2(monkeypatch: pytest.MonkeyPatch, top: Path, *, hands_on: tuple[str, ...]) -> None:
    """A hierarchy of plain folders, where a new group gets the files of the controllers that its parent hands on."""
    (top / "user" / "session").mkdir(parents=True)
    tree = Tree(version=2, controllers=frozenset({"pids", "memory"}), top=top, own=top / "user" / "session")
    monkeypatch.setattr(cgroups, "trees", lambda: [tree])
    make = Path.mkdir

    def made(folder: Path, *arguments: int, **settings: bool) -> None:
        make(folder, *arguments, **settings)
        if folder.name.startswith("opd-") and folder.parent.name in hands_on:
            for name in ("pids.max", "memory.max", "memory.swap.max"):
                (folder / name).write_text("max")

    def removed(folder: Path) -> None:  # in a real one, its files go with it
        for file in folder.iterdir():
            file.unlink()
        os.rmdir(folder)  # noqa: PTH106 the method is this one

    monkeypatch.setattr(Path, "mkdir", made)
    monkeypatch.setattr(Path, "rmdir", removed)


def test_the_nearest_place_that_hands_its_controllers_on_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version_2(monkeypatch, tmp_path / "cg", hands_on=("user", "cg"))
    group = cgroups.make("m", Limits(processes=7, memory_bytes=4096))
    assert group is not None
    assert group.folders == (tmp_path / "cg" / "user" / "opd-m",)
    assert group.held == {"processes": "control group, pids.max", "memory_bytes": "control group, memory.max"}
    texts = {name: (group.folders[0] / name).read_text() for name in ("pids.max", "memory.max", "memory.swap.max")}
    assert texts == {"pids.max": "7", "memory.max": "4096", "memory.swap.max": "0"}
    assert not (tmp_path / "cg" / "user" / "session" / "opd-m").exists()


def test_a_group_without_controllers_still_tells_who_belongs_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version_2(monkeypatch, tmp_path / "cg", hands_on=())
    group = cgroups.make("m", Limits(processes=7, memory_bytes=4096))
    assert group is not None
    assert group.folders == (tmp_path / "cg" / "user" / "session" / "opd-m",)
    assert group.held == {}
    assert [path.name for path in (tmp_path / "cg").rglob("opd-m")] == ["opd-m"]
    found = cgroups.find("m")
    assert found is not None
    assert found.folders == group.folders


def test_where_none_may_be_made_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Tree(version=2, controllers=frozenset(), top=tmp_path / "cg", own=tmp_path / "cg" / "a")
    monkeypatch.setattr(cgroups, "trees", lambda: [gone])
    assert cgroups.make("m", Limits(processes=7)) is None
    assert cgroups.find("m") is None
    monkeypatch.setattr(cgroups, "trees", list)
    assert cgroups.make("m", Limits()) is None


def test_a_group_that_can_be_made_and_not_joined_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version_2(monkeypatch, tmp_path / "cg", hands_on=("cg",))

    def refuse(file: Path, text: str) -> None:
        if file.name == "cgroup.procs":
            raise PermissionError(13, "Permission denied", str(file))
        file.write_bytes(text.encode())

    monkeypatch.setattr(Path, "write_text", refuse)
    assert cgroups.join("m", Limits(processes=7), os.getpid()) is None
    assert list((tmp_path / "cg").rglob("opd-m")) == []


def test_a_real_group_holds_who_is_put_into_it_and_all_they_start() -> None:
    mark = new_mark()
    group = cgroups.make(mark, Limits(processes=10, memory_bytes=64 << 20))
    if group is None:
        pytest.skip("nobody may make a control group here")
    program = subprocess.Popen(["sh", "-c", "read go; sleep 60 & wait"], stdin=subprocess.PIPE)
    assert program.stdin is not None
    try:
        group.add(program.pid)
        program.stdin.write(b"\n")
        program.stdin.flush()
        while len(group.members()) < 2:
            pass
        assert set(group.members()) == {program.pid, *processes.descendants(program.pid)}
        found = cgroups.find(mark)
        assert found is not None
        assert set(found.folders) == set(group.folders)
        assert group.memory_kills() == 0
        if group.kill():
            assert program.wait(timeout=10) == -9
        assert processes.end(lambda: processes.lives_of(group.members())) == ()
    finally:
        program.kill()
        program.wait()
        program.stdin.close()
        group.remove()
    assert cgroups.find(mark) is None
