"""Files of strangers: what they wrap is found, what can't be read is said, and nothing of them is run or followed."""

import gzip
import io
import json
import os
import pickle
import random
import sqlite3
import subprocess
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest
from tests.protocol.contamination.conftest import TEXTS

from opd.protocol.contamination import outside
from opd.protocol.contamination.carriers import Limits
from opd.protocol.contamination.containers import CONTAINERS, pack, parquet, sqlite, tarred, zipped
from opd.protocol.contamination.matching import WHOLE
from opd.protocol.contamination.needles import Needles, Question
from opd.protocol.contamination.scan import Scan, Source, scan


@pytest.fixture(scope="module")
def needles(questions: list[Question]) -> Needles:
    return Needles(questions)


def look(content: bytes, needles: Needles, **limits: float) -> Scan:
    return scan([Source(name="it", content=content)], needles, Limits(**limits))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CONTAINERS)
def test_each_kind_of_file_is_opened(name: str, needles: Needles) -> None:
    content = CONTAINERS[name](f"notes\n{TEXTS[2]}\nmore notes".encode())
    found = look(content, needles)
    assert {hit.question for hit in found.hits if hit.form in WHOLE} == {2}
    assert found.unread == []


def test_a_real_repository_is_read_without_git(tmp_path: Path, needles: Needles) -> None:
    """Its objects, first loose and then packed with deltas; and its hooks and its configuration are never run."""
    ran = tmp_path / "ran"
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "gc.auto=0"]

    def do(*words: str) -> None:
        subprocess.run([*git, *words], check=True, capture_output=True)

    do("init", "-q")
    base = "".join(f"line {number} of the notes, {number * 7919 % 1000}\n" for number in range(400))
    for text in (base, base[:5_000] + TEXTS[0] + "\n" + base[5_000:], base):
        (tmp_path / "notes.md").write_text(text, encoding="utf-8")
        do("add", "notes.md")
        do("commit", "-q", "-m", "notes")
    config = tmp_path / ".git/config"
    config.write_text(config.read_text() + f"[core]\n\tfsmonitor = touch {ran}\n", encoding="utf-8")

    def found() -> set[str]:
        files = sorted(path for path in (tmp_path / ".git").rglob("*") if path.is_file())
        hits = scan([Source(name=str(path), path=path) for path in files], needles).hits
        return {Path(hit.source).parent.name for hit in hits if hit.question == 0 and hit.form in WHOLE}

    assert len(found()) == 1
    config.write_text(config.read_text().replace(f"\tfsmonitor = touch {ran}\n", ""), encoding="utf-8")
    do("repack", "-a", "-d", "-q", "-f")
    do("prune-packed")
    assert found() == {"pack"}
    assert not ran.exists()


def test_what_a_delta_adds_is_read(needles: Needles) -> None:
    found = look(pack(TEXTS[1].encode()), needles)
    assert [hit.inside for hit in found.hits] == [("object 1",)]


def test_rows_that_only_a_databases_log_holds_are_read(tmp_path: Path, needles: Needles) -> None:
    path = tmp_path / "memory.db"
    writer = sqlite3.connect(path)
    writer.executescript("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; PRAGMA page_size = 512;")
    writer.execute("CREATE TABLE note (text)")
    writer.execute("INSERT INTO note VALUES (?)", (TEXTS[0],))
    writer.commit()
    before = {name.name: name.read_bytes() for name in tmp_path.iterdir() if not name.name.endswith("-shm")}
    found = scan([Source(name="db", path=path)], needles)
    after = {name.name: name.read_bytes() for name in tmp_path.iterdir() if not name.name.endswith("-shm")}
    writer.close()
    assert {(hit.question, hit.inside[:1]) for hit in found.hits} == {(0, ("table 0",))}
    assert before == after


def test_a_databases_views_are_not_run(tmp_path: Path, needles: Needles) -> None:
    path = tmp_path / "loop.db"
    writer = sqlite3.connect(path)
    writer.execute("CREATE TABLE note (text)")
    writer.execute(
        "CREATE VIEW endless AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
    )
    writer.commit()
    writer.close()
    assert look(path.read_bytes(), needles).unread == []


def test_a_pickle_is_read_and_never_loaded(tmp_path: Path, needles: Needles) -> None:
    mark = tmp_path / "loaded"

    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return os.mkdir, (str(mark),)

    content = pickle.dumps((TEXTS[0], Bomb()))
    assert {hit.question for hit in look(content, needles).hits} == {0}
    assert {hit.question for hit in look(zipped(content, name="data.pkl"), needles).hits} == {0}
    assert not mark.exists()
    pickle.loads(content)
    assert mark.exists()  # it is one


def test_a_torn_file_is_read_as_far_as_it_goes_and_named(needles: Needles) -> None:
    rest = bytes(random.Random(0).randbytes(60_000))
    for whole in (gzip.compress(TEXTS[0].encode() + rest), tarred(TEXTS[0].encode() + rest)):
        found = look(whole[: len(whole) * 2 // 3], needles)
        assert {hit.question for hit in found.hits} == {0}
        assert len(found.unread) == 1


def test_a_bomb_is_opened_to_its_limit_and_named(needles: Needles) -> None:
    bomb = gzip.compress(b"0" * 40_000_000)
    assert len(bomb) < 50_000
    found = look(bomb, needles, member_bytes=1 << 20)
    assert [str(unread) for unread in found.unread] == ["it: it grows beyond what is opened"]
    outside_ours = look(CONTAINERS["zstd"](b"0" * 40_000_000), needles, member_bytes=1 << 20)
    assert [str(unread) for unread in outside_ours.unread] == ["it: it grows beyond what is opened"]
    many = zipped(bomb)
    assert any("beyond" in unread.why for unread in look(many, needles, source_bytes=1 << 20).unread)


def test_what_lies_too_deep_is_named(needles: Needles) -> None:
    content = TEXTS[0].encode()
    for _ in range(4):
        content = gzip.compress(content)
    assert {hit.question for hit in look(content, needles, wrappings=4).hits} == {0}
    deep = look(content, needles, wrappings=3)
    assert deep.hits == []
    assert ["it lies in 3 others" in unread.why for unread in deep.unread] == [True]


def test_one_member_that_is_encrypted_is_named_and_the_others_are_read(needles: Needles) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", "nothing")
        archive.writestr("b", TEXTS[0])
    content = bytearray(out.getvalue())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    found = look(bytes(content), needles)
    assert {hit.question for hit in found.hits} == {0}
    assert [unread.why for unread in found.unread] == ["member 0 is encrypted"]


def test_a_link_in_an_archive_leads_nowhere(tmp_path: Path, needles: Needles) -> None:
    (tmp_path / "secret").write_text(TEXTS[0], encoding="utf-8")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        entry = tarfile.TarInfo("innocent")
        entry.type, entry.linkname = tarfile.SYMTYPE, str(tmp_path / "secret")
        archive.addfile(entry)
    assert look(out.getvalue(), needles).hits == []


def test_a_reader_that_dies_or_hangs_costs_one_file(
    tmp_path: Path, needles: Needles, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = parquet(TEXTS[0].encode())
    for body in ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "import time; time.sleep(600)"):
        program = tmp_path / "reader.py"
        program.write_text(body, encoding="utf-8")
        with monkeypatch.context() as patch:
            patch.setattr(outside, "_PROGRAM", program)
            found = scan(
                [Source(name="bad", content=content), Source(name="good", content=TEXTS[1].encode())],
                needles,
                Limits(seconds=0.5),
            )
        assert {unread.name.partition(" ")[0] for unread in found.unread} == {"bad"}
        assert "died, or took more than" in found.unread[0].why
        assert any(hit.source == "good" for hit in found.hits)
    assert {hit.question for hit in look(content, needles).hits} == {0}


def test_after_a_file_that_broke_its_reader_the_next_is_read(needles: Needles) -> None:
    broken = parquet(TEXTS[0].encode())[:200] + b"PAR1"
    sources = [Source(name="broken", content=broken), Source(name="whole", content=sqlite(TEXTS[1].encode()))]
    found = scan(sources, needles)
    assert {unread.name.partition(" ")[0] for unread in found.unread} == {"broken"}
    assert {hit.source for hit in found.hits} == {"whole"}


@pytest.mark.parametrize("name", CONTAINERS)
def test_no_damage_stops_a_scan(name: str, needles: Needles) -> None:
    """Flipped, cut and repeated bytes of every kind of file: each is read, or named, and the next source is found."""
    rng = random.Random(name)
    whole = CONTAINERS[name]((TEXTS[2] * 3).encode())
    sources = []
    for number in range(12):
        content = bytearray(whole)
        for _ in range(1 + number):
            content[rng.randrange(len(content))] = rng.randrange(256)
        cut = content[: rng.randrange(1, len(content))] if number % 3 == 0 else content
        sources.append(Source(name=str(number), content=bytes(cut)))
    found = scan([*sources, Source(name="last", content=TEXTS[1].encode())], needles, Limits(seconds=20))
    assert found.files == 13
    assert any(hit.source == "last" and hit.question == 1 for hit in found.hits)


@pytest.mark.parametrize(
    "content",
    [b"", b"\0", b"\x1f\x8b\x08", b"PK\x03\x04", b"PACK\0\0\0\2\xff\xff\xff\xff", b"SQLite format 3\0", b"PAR1PAR1",
     b"\xff\xff\xff\xff\x08\0\0\0" + b"\0" * 64, zlib.compress(b"x" * 200)[:-4], b"[" * 200_000, b"\\u" * 100_000,
     b"%" * 100_000, b"&" * 100_000, b"<" * 100_000, b"\x1b[" * 50_000, b"A" * 300_000, b"+\n" * 100_000,
     json.dumps({"x": "\ud800"}).encode(), bytes(range(256)) * 500, "中".encode() * 100_000, b"\xe4\xb8" * 50_000],
    ids=lambda content: f"{len(content)} bytes, {content[:6]!r}",
)  # fmt: skip
def test_no_odd_bytes_stop_a_scan(content: bytes, needles: Needles) -> None:
    found = look(content, needles)
    assert (found.files, found.hits) == (1, [])
