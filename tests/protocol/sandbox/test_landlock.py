"""What Landlock grants for a view, and what it then holds back."""

from pathlib import Path, PurePosixPath

import pytest

from opd.protocol.sandbox import landlock
from opd.protocol.sandbox.landlock import grants
from opd.protocol.sandbox.view import Mount, View
from opd.records.errors import AskedWrongly

P = PurePosixPath


def granted(*mounts: Mount, below: Path, hidden: tuple[Path, ...] = ()) -> dict[str, str]:
    view = View(mounts=mounts, folder=P("/"), environment={}, hidden=hidden)
    return {
        str(Path(path).relative_to(below)): right for path, right in grants(view) if Path(path).is_relative_to(below)
    }


def test_around_what_is_hidden_everything_else_is_granted(tmp_path: Path) -> None:
    for name in ("a/x", "a/b/y", "a/b/secret/z", "c"):
        (tmp_path / "shown" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "shown" / name).write_text("")
    shown = Mount(source=tmp_path / "shown", target=P("/shown"))
    assert granted(shown, below=tmp_path) == {"shown": "read"}
    assert granted(shown, below=tmp_path, hidden=(tmp_path / "shown/a/b/secret",)) == {
        "shown": "list",
        "shown/c": "read",
        "shown/a": "list",
        "shown/a/x": "read",
        "shown/a/b": "list",
        "shown/a/b/y": "read",
    }
    assert granted(shown, below=tmp_path, hidden=(tmp_path / "shown",)) == {}


def test_a_link_in_a_shown_folder_grants_nothing_beyond_it(tmp_path: Path) -> None:
    (tmp_path / "shown" / "secret").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "shown" / "link").symlink_to(tmp_path / "other")
    shown = Mount(source=tmp_path / "shown", target=P("/shown"))
    assert granted(shown, below=tmp_path, hidden=(tmp_path / "shown/secret",)) == {"shown": "list"}


def test_what_landlock_can_not_grant_is_refused_rather_than_granted_too_widely(tmp_path: Path) -> None:
    (tmp_path / "work" / "frozen").mkdir(parents=True)
    work = Mount(source=tmp_path / "work", target=P("/workspace"), writable=True)
    frozen = Mount(source=tmp_path / "work" / "frozen", target=P("/frozen"))
    assert granted(work, below=tmp_path) == {"work": "write"}
    with pytest.raises(AskedWrongly, match=r"work/frozen is not to be changed and lies in .*work"):
        granted(work, frozen, below=tmp_path)
    with pytest.raises(AskedWrongly, match=r"work/frozen"):
        granted(work, below=tmp_path, hidden=(tmp_path / "work" / "frozen",))


def test_a_gpu_is_granted_what_cuda_needs_unless_that_would_open_the_kernels_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = tmp_path / "core_pattern"
    monkeypatch.setattr(landlock, "_SETTING", setting)  # not there: as where nobody may write to it
    view = View(mounts=(), folder=P("/"), environment={}, gpu=True)
    assert ("/proc", "change") in set(grants(view))
    assert ("/proc", "change") not in set(grants(View(mounts=(), folder=P("/"), environment={})))
    setting.touch()
    with pytest.raises(
        AskedWrongly, match=r"a GPU under landlock needs writing to /proc, which would open .*core_patt"
    ):
        list(grants(view))
