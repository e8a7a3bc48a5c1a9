"""What looks whole is whole: under a failing disk, a failing block, a kill, and a torn line."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opd.records import files
from opd.records.errors import AskedWrongly

OBJECTS = st.dictionaries(
    st.text(max_size=5),
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    max_size=4,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# --- digests --------------------------------------------------------------------------------------------


def test_a_files_digest_is_sha256_of_its_bytes(tmp_path):
    """The two examples of FIPS 180-2 that everybody knows."""
    (tmp_path / "abc").write_bytes(b"abc")
    (tmp_path / "empty").write_bytes(b"")
    assert files.sha256(tmp_path / "abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert files.sha256(tmp_path / "empty") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_canonical_json_has_one_form_for_equal_values():
    assert files.canonical_json({"b": [1, 2.5, None, True], "a": "né"}) == '{"a":"né","b":[1,2.5,null,true]}'
    assert files.digest({"b": 1, "a": 2}) == hashlib.sha256(b'{"a":2,"b":1}').hexdigest()


@pytest.mark.parametrize("undefined", [float("nan"), float("inf"), -float("inf")])
def test_an_undefined_number_has_no_digest_and_is_not_written(tmp_path, undefined):
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.digest({"loss": undefined})
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.write_json(tmp_path / "score.json", {"loss": undefined})
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.append_lines(tmp_path / "metrics.jsonl", [{"loss": 1.0}, {"loss": undefined}])
    assert names(tmp_path) == []


def test_a_tree_has_a_digest_for_every_file_below_and_none_for_its_mark(tmp_path):
    for name, content in {"a": "1", "b/c.txt": "2", "b/d/e": "3", ".complete": "{}"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "empty").mkdir()
    expected = {"a": "1", "b/c.txt": "2", "b/d/e": "3"}
    assert files.tree(tmp_path) == {
        name: hashlib.sha256(text.encode()).hexdigest() for name, text in expected.items()
    }


# --- one file -------------------------------------------------------------------------------------------


def test_a_file_is_written_into_folders_that_are_not_there_yet(tmp_path):
    files.write_json(tmp_path / "a/b/score.json", {"mean": 0.5, "model": "né"})
    assert (tmp_path / "a/b/score.json").read_text(encoding="utf-8") == '{\n  "mean": 0.5,\n  "model": "né"\n}\n'
    assert files.read_json(tmp_path / "a/b/score.json") == {"mean": 0.5, "model": "né"}


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, full_disk):
    path = tmp_path / "score.json"
    files.write_text(path, "old")
    with full_disk(100), pytest.raises(OSError, match="too large"):
        files.write_text(path, "new" * 100)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["score.json"]


def test_a_text_that_can_not_be_encoded_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "story.txt"
    files.write_text(path, "old")
    with pytest.raises(UnicodeEncodeError):
        files.write_text(path, "new \ud800")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["story.txt"]


def test_what_can_not_be_read_as_json_is_named(tmp_path):
    with pytest.raises(AskedWrongly, match=r"none\.json does not exist$"):
        files.read_json(tmp_path / "none.json")
    (tmp_path / "torn.json").write_text('{"mean": 0.')
    with pytest.raises(AskedWrongly, match=r"torn\.json is not JSON: .*line 1"):
        files.read_json(tmp_path / "torn.json")
    (tmp_path / "bytes.json").write_bytes(b'"\xff"')
    with pytest.raises(AskedWrongly, match=r"bytes\.json is not JSON"):
        files.read_json(tmp_path / "bytes.json")


# --- lines ----------------------------------------------------------------------------------------------


@settings(max_examples=30)  # each flushes to the disk
@given(st.lists(st.lists(OBJECTS, max_size=3), max_size=4))
def test_lines_come_back_as_they_were_appended(tmp_path_factory, batches):
    path = tmp_path_factory.mktemp("lines") / "samples.jsonl"
    path.touch()
    for batch in batches:
        files.append_lines(path, batch)
    expected = [value for batch in batches for value in batch]
    assert list(files.read_lines(path)) == expected
    assert path.read_bytes().count(b"\n") == len(expected)


def test_a_torn_line_is_cut_off_and_the_file_goes_on(tmp_path):
    """What a crash in the middle of a write leaves: here in the middle of a letter."""
    path = tmp_path / "samples.jsonl"
    files.append_lines(path, [{"n": 1}, {"n": 2}])
    with path.open("ab") as file:
        file.write('{"text": "é'.encode()[:-1])
    files.drop_torn_line(path)
    files.append_lines(path, [{"n": 3}])
    assert list(files.read_lines(path)) == [{"n": 1}, {"n": 2}, {"n": 3}]


@settings(max_examples=30)
@given(st.data())
def test_wherever_a_write_is_torn_the_whole_lines_before_it_stay(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("torn") / "samples.jsonl"
    path.touch()
    files.append_lines(path, data.draw(st.lists(OBJECTS, max_size=4)))
    written = path.read_bytes()
    torn = written[: data.draw(st.integers(0, len(written)))]
    path.write_bytes(torn)
    files.drop_torn_line(path)
    assert path.read_bytes() == b"".join(line + b"\n" for line in torn.split(b"\n")[:-1])


def test_where_there_is_no_file_no_line_is_torn(tmp_path):
    files.drop_torn_line(tmp_path / "none.jsonl")
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("line", "fault"),
    [('{"n": 2', "is not JSON"), ("[2]", r"is not a JSON object: \[2\]"), ("nothing", "is not JSON")],
)
def test_a_damaged_line_is_named_by_its_number(tmp_path, line, fault):
    path = tmp_path / "samples.jsonl"
    path.write_text(f'{{"n": 1}}\n\n{line}\n{{"n": 4}}\n')
    lines = files.read_lines(path)
    assert next(lines) == {"n": 1}
    with pytest.raises(AskedWrongly, match=rf"samples\.jsonl, line 3 {fault}"):
        next(lines)


def test_lines_that_are_not_there_or_not_text_are_named(tmp_path):
    with pytest.raises(AskedWrongly, match=r"none\.jsonl does not exist$"):
        list(files.read_lines(tmp_path / "none.jsonl"))
    with pytest.raises(AskedWrongly, match="is not a JSON Lines file"):
        list(files.read_lines(tmp_path))


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b'{"a": "\xff"}', r"is not UTF-8: .*can't decode byte 0xff"),
        (b'{"a": ["\\ud83d"]}', r"holds half of a character \('\\ud83d'\); mend it"),
        (b'{"a\\uDE00": 1}', r"holds half of a character \('\\ude00'\)"),
    ],
)
def test_a_line_that_is_no_text_is_named_by_its_number(tmp_path, line, fault):
    """Half of a character can be read from JSON and written to no file: it is told apart from a whole one."""
    with pytest.raises(UnicodeEncodeError):
        files.write_text(tmp_path / "copy", json.loads('"\\ud83d"'))
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": "\\ud83d\\ude00"}\n' + line + b"\n")
    lines = files.read_lines(path, whole_text=True)
    assert next(lines) == {"a": "\N{GRINNING FACE}"}
    with pytest.raises(AskedWrongly, match=rf"rows\.jsonl, line 2 {fault}"):
        next(lines)


def test_only_a_last_line_without_its_end_is_passed_over_as_torn(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"n": 1}\n{"n": 2}\n{"n"')
    assert list(files.read_lines(path, torn_end=True)) == [{"n": 1}, {"n": 2}]
    path.write_text('{"n": 1}\n{"n"\n{"n": 3}\n')
    with pytest.raises(AskedWrongly, match=r"metrics\.jsonl, line 2 is not JSON"):
        list(files.read_lines(path, torn_end=True))


def test_a_full_disk_says_which_file_or_folder_it_was(tmp_path, full_disk):
    """E67: the system names a file where it is opened, and not where it is written."""
    with full_disk(100):
        with (tmp_path / "plain").open("wb", buffering=0) as file:
            file.write(b"x" * 100)
            with pytest.raises(OSError, match="large") as plain:
                file.write(b"x")
        assert plain.value.filename is None
        with pytest.raises(OSError, match=rf"'{tmp_path}/text'"):
            files.write_text(tmp_path / "text", "x" * 101)
        with pytest.raises(OSError, match=rf"'{tmp_path}/lines.jsonl'"):
            files.append_lines(tmp_path / "lines.jsonl", [{"a": "x" * 101}])
        with pytest.raises(OSError, match=rf"'{tmp_path}/folder'"), files.publish(tmp_path / "folder") as partial:
            (partial / "weights").write_bytes(b"x" * 101)


def test_a_folder_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """E67: every file and the mark, then the name, then the folder that the name stands in."""
    events = []
    sync, rename = os.fsync, Path.replace

    def synced(descriptor):
        events.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        sync(descriptor)

    def renamed(path, target):
        events.append((path, target))
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    with files.publish(tmp_path / "folder") as partial:
        (partial / "deep").mkdir()
        for name in ("config.json", "deep/weights"):
            (partial / name).write_text("1")
    named = events.index((partial, tmp_path / "folder"))
    mark = partial / ".complete.partial"
    assert {partial / "config.json", partial / "deep", partial / "deep/weights", mark} <= set(events[:named])
    assert events.index(mark) > events.index(partial / "deep/weights")  # what marks it as whole is written last
    assert events[named + 1] == tmp_path


# --- folders --------------------------------------------------------------------------------------------


def fill(folder):
    (folder / "config.json").write_text("{}")
    (folder / "deep").mkdir()
    (folder / "deep/weights").write_bytes(b"\x00\x01")


def fail_halfway(path, failure):
    with files.publish(path) as folder:
        fill(folder)
        raise failure


def test_a_published_folder_lists_every_file_with_its_digest(tmp_path):
    with files.publish(tmp_path / "runs/checkpoint-20") as folder:
        fill(folder)
        assert names(tmp_path / "runs") == ["checkpoint-20.partial"]
    assert names(tmp_path / "runs") == ["checkpoint-20"]
    published = tmp_path / "runs/checkpoint-20"
    assert json.loads((published / ".complete").read_text()) == {
        "files": {
            "config.json": hashlib.sha256(b"{}").hexdigest(),
            "deep/weights": hashlib.sha256(b"\x00\x01").hexdigest(),
        }
    }
    assert files.is_complete(published)


def test_a_folder_is_complete_only_while_every_file_of_its_mark_is_there(tmp_path):
    with files.publish(tmp_path / "checkpoint-20") as folder:
        fill(folder)
    (tmp_path / "checkpoint-20/deep/weights").unlink()
    assert not files.is_complete(tmp_path / "checkpoint-20")


def test_a_folder_without_a_mark_or_no_folder_is_not_complete(tmp_path):
    fill(tmp_path)
    assert not files.is_complete(tmp_path)
    assert not files.is_complete(tmp_path / "none")


@pytest.mark.parametrize("failure", [OSError("no space left"), KeyboardInterrupt()])
def test_a_block_that_fails_leaves_nothing_and_its_error_comes_through(tmp_path, failure):
    """E63: what stood before stays, whole, when the next save fails in the middle."""
    with files.publish(tmp_path / "checkpoint-20") as folder:
        fill(folder)
    with pytest.raises(type(failure)):
        fail_halfway(tmp_path / "checkpoint-40", failure)
    assert names(tmp_path) == ["checkpoint-20"]
    assert files.is_complete(tmp_path / "checkpoint-20")


def test_a_full_disk_while_the_mark_is_written_leaves_nothing(tmp_path, full_disk):
    with (
        full_disk(64),
        pytest.raises(OSError, match="too large"),
        files.publish(tmp_path / "checkpoint-20") as folder,
    ):
        fill(folder)
    assert names(tmp_path) == []


@pytest.mark.parametrize("existing", ["folder", "file"])
def test_what_exists_is_never_overwritten(tmp_path, existing):
    path = tmp_path / "checkpoint-20"
    path.mkdir() if existing == "folder" else path.write_text("mine")
    with pytest.raises(AskedWrongly, match="exists already and is never overwritten"), files.publish(path):
        pytest.fail("the block ran")
    assert names(tmp_path) == ["checkpoint-20"]


def test_what_an_earlier_crash_left_is_no_part_of_the_next_folder(tmp_path):
    (tmp_path / "checkpoint-20.partial").mkdir()
    (tmp_path / "checkpoint-20.partial/old").write_text("old")
    with files.publish(tmp_path / "checkpoint-20") as folder:
        fill(folder)
    assert names(tmp_path) == ["checkpoint-20"]
    assert names(tmp_path / "checkpoint-20") == [".complete", "config.json", "deep"]


KILLED = """
import sys, time
from pathlib import Path
from opd.records import files

with files.publish(Path(sys.argv[1])) as folder:
    (folder / "config.json").write_text("{}")
    print("filling", flush=True)
    time.sleep(60)
"""


def test_a_process_killed_in_the_middle_leaves_nothing_under_the_name(tmp_path):
    """H24, E63: kill -9 while the folder is being filled."""
    path = tmp_path / "checkpoint-20"
    with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "filling\n"  # the bad condition exists: the folder is half-filled
        assert names(tmp_path) == ["checkpoint-20.partial"]
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert names(tmp_path) == ["checkpoint-20.partial"]
    assert not files.is_complete(path)
    assert not files.is_complete(tmp_path / "checkpoint-20.partial")
    with files.publish(path) as folder:
        fill(folder)
    assert files.is_complete(path)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[1]", b"null", b'"text"', b'{"a": ' + b"9" * 5_000 + b"}", b"[" * 100_000, b'{"a": "\xff"}'],
    ids=["nothing", "torn", "list", "null", "text", "endless number", "endless lists", "no UTF-8"],
)
def test_of_a_strangers_bytes_only_an_object_is_taken(data: bytes) -> None:
    assert files.object_in(data) is None
    assert files.object_in(b'{"a": {}}\n') == {"a": {}}


def test_the_folder_that_is_there_is_the_nearest_above_and_no_file(tmp_path):
    (tmp_path / "file").write_text("x")
    assert files.existing_parent(tmp_path) == tmp_path
    assert files.existing_parent(tmp_path / "a" / "b") == tmp_path
    assert files.existing_parent(tmp_path / "file") == tmp_path


def test_a_relative_folder_has_the_working_folder_above_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert files.existing_parent(Path("runs/new")).samefile(tmp_path)
