"""What is on the disk is read without being led out of the workspace, and without waiting for anybody."""

import os
import socket
import threading
from pathlib import Path, PurePosixPath

import pytest

from opd.protocol.patches import collection
from opd.protocol.patches.collection import collect
from opd.protocol.patches.refusals import Rule
from opd.protocol.patches.source import SourceFile

SECRET = b"gold answers"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that is not the explorer's, with a file in it."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "final.jsonl").write_bytes(SECRET)
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with one file."""
    folder = tmp_path / "workspace"
    (folder / "src").mkdir(parents=True)
    (folder / "src/a.py").write_bytes(b"a = 1\n")
    return folder


def refused(folder: Path) -> dict[str, Rule]:
    collected = collect(folder, base={})
    assert SECRET not in b"".join(file.content for file in collected.files.values())
    assert all(one.sentence and one.remedy for one in collected.refusals)
    return {one.path: one.rule for one in collected.refusals}


def test_files_come_with_their_bytes_and_whether_they_can_be_run(workspace):
    (workspace / "run.sh").write_bytes(b"true\n")
    (workspace / "run.sh").chmod(0o711)
    (workspace / os.fsdecode(b"\xff")).write_bytes(b"")
    collected = collect(workspace, base={})
    assert collected.refusals == ()
    assert collected.files == {
        PurePosixPath("src/a.py"): SourceFile(content=b"a = 1\n"),
        PurePosixPath("run.sh"): SourceFile(content=b"true\n", executable=True),
        PurePosixPath(os.fsdecode(b"\xff")): SourceFile(content=b""),
    }


def test_no_link_is_followed_at_any_component(workspace, outside):
    (workspace / "file").symlink_to(outside / "final.jsonl")
    (workspace / "folder").symlink_to(outside)
    (workspace / "src/hop").symlink_to("/proc/self")
    (workspace / "up").symlink_to("..")
    (workspace / "gone").symlink_to("nowhere")
    assert (workspace / "folder/final.jsonl").read_bytes() == SECRET, "who follows links gets there"
    assert refused(workspace) == dict.fromkeys(["file", "folder", "src/hop", "up", "gone"], Rule.LINK)


def test_a_second_name_of_a_file_from_outside_is_refused(workspace, outside):
    os.link(outside / "final.jsonl", workspace / "src/mine.py")
    assert (workspace / "src/mine.py").read_bytes() == SECRET
    assert refused(workspace) == {"src/mine.py": Rule.HARD_LINK}


def test_what_is_no_file_is_refused_at_once(workspace):
    os.mkfifo(workspace / "src/pipe.py")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(workspace / "socket"))
        assert refused(workspace) == {"src/pipe.py": Rule.SPECIAL, "socket": Rule.SPECIAL}


def test_empty_folders_are_said_and_filled_ones_are_not(workspace):
    (workspace / "src/empty/inner").mkdir(parents=True)
    assert refused(workspace) == {"src/empty/inner": Rule.EMPTY_FOLDER}


def test_only_the_workspaces_own_repository_is_passed_over(workspace):
    for place in (".git", "src/.git", "clone/.GIT"):
        (workspace / place).mkdir(parents=True)
        (workspace / place / "config").write_bytes(b"")
    assert refused(workspace) == {"src/.git": Rule.REPOSITORY, "clone/.GIT": Rule.REPOSITORY}
    assert [str(path) for path in collect(workspace, base={}).files] == ["src/a.py"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_can_not_be_read_is_said(workspace):
    (workspace / "src/a.py").chmod(0)
    assert refused(workspace) == {"src/a.py": Rule.READABLE}


def test_a_large_file_is_not_read(workspace):
    with (workspace / "weights").open("wb") as file:
        file.truncate(1 << 40)  # a hole: nobody has such memory
    assert refused(workspace) == {"weights": Rule.FILE_SIZE}


def test_many_changes_end_the_walk(workspace, monkeypatch):
    monkeypatch.setattr(collection, "MOST_CHANGED_BYTES", 100)
    for number in range(30):
        (workspace / f"{number:02}").write_bytes(b"1234567890")
    assert refused(workspace) == {"10": Rule.BOUNDED}


def test_many_names_end_the_walk(workspace, monkeypatch):
    monkeypatch.setattr(collection, "MOST_NAMES", 20)
    for number in range(30):
        (workspace / f"{number:02}").write_bytes(b"")
    assert list(refused(workspace).values()) == [Rule.BOUNDED]


def test_deep_folders_end_the_walk(workspace):
    workspace.joinpath(*["deep"] * (collection.MOST_DEPTH + 1)).mkdir(parents=True)
    assert list(refused(workspace).values()) == [Rule.BOUNDED]


def test_a_file_that_is_written_while_it_is_read_is_refused(workspace, monkeypatch):
    look, looks = os.fstat, []
    os.utime(workspace / "src/a.py", (1, 1))  # an old file, so that a coarse clock shows the write too

    def write_before_the_second_look(descriptor):
        looks.append(descriptor)
        if len(looks) == 2:
            with (workspace / "src/a.py").open("r+b") as file:
                file.write(b"b")  # the length stays
        return look(descriptor)

    monkeypatch.setattr(collection.os, "fstat", write_before_the_second_look)
    assert refused(workspace) == {"src/a.py": Rule.STEADY}


@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "gone"])
def test_what_is_swapped_after_it_was_listed_leads_nowhere(workspace, outside, monkeypatch, kind):
    """Between the look at a name and its opening, which an attacker has to hit."""
    target = workspace / "src/a.py"
    look = os.stat

    def swap(*arguments, **named):
        status = look(*arguments, **named)
        if arguments[0] == "a.py":
            target.unlink()
            if kind == "link":
                target.symlink_to(outside / "final.jsonl")
            elif kind == "fifo":
                os.mkfifo(target)
            elif kind == "folder":
                target.mkdir()
        return status

    monkeypatch.setattr(collection.os, "stat", swap)
    assert refused(workspace) == {"src/a.py": Rule.STEADY}


def test_a_folder_that_becomes_a_link_leads_nowhere(workspace, outside, monkeypatch):
    look = os.stat

    def swap(*arguments, **named):
        status = look(*arguments, **named)
        if arguments[0] == "src":
            (workspace / "src").rename(workspace / "moved")
            (workspace / "src").symlink_to(outside)
        return status

    monkeypatch.setattr(collection.os, "stat", swap)
    assert refused(workspace) == {"src": Rule.STEADY}


def test_a_workspace_that_changes_all_the_time_is_read_without_a_leak_and_without_a_hang(workspace, outside):
    """For a second, another thread swaps a file, a folder and links to the outside under the same names."""
    stop = threading.Event()

    def swap() -> None:
        place, spare = workspace / "swap", workspace / "spare"
        while not stop.is_set():
            place.mkdir()
            (place / "final.jsonl").write_bytes(b"mine")
            place.rename(spare)
            place.symlink_to(outside)
            (spare / "final.jsonl").unlink()
            (spare / "final.jsonl").symlink_to(outside / "final.jsonl")
            place.unlink()
            (spare / "final.jsonl").unlink()
            spare.rmdir()

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        found = set()
        for _ in range(300):
            found |= set(refused(workspace).values())
    finally:
        stop.set()
        thread.join()
    assert found <= {Rule.LINK, Rule.STEADY, Rule.EMPTY_FOLDER, Rule.HARD_LINK}
    assert Rule.LINK in found or Rule.STEADY in found, "the swaps were never met"
