"""What a file wraps, by how it begins: whatever its name says. Nothing in it is executed, loaded or followed.

    here        zip (wheels, documents, numpy's and torch's archives), tar, gzip, bzip2, xz, zlib and git's packs
    outside     parquet, Arrow, SQLite with its log, zstd and lz4, in a process that may die (outside.py)
    unread      other archives, what is encrypted, printed pages, pictures: named, with the reason

The bytes of every file are looked at besides, so what lies in it as it is, such as the header of a safetensors file,
the strings of a pickle or a member that was stored and not compressed, needs no opening.
"""

import bz2
import gzip
import lzma
import mmap
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Protocol, Self, cast

from opd.protocol.contamination import git
from opd.protocol.contamination.outside import Broken, Member, Reader

Data = bytes | mmap.mmap
Opened = Iterator[Member]

_HEAD = 512
_TAIL = 1 << 16
_CHUNK = 1 << 16
_ENCRYPTED = 1  # bit of a zip entry's flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of one source is opened; what lies beyond is unread."""

    wrappings: int = 8
    members: int = 1_000_000
    member_bytes: int = 1 << 29
    source_bytes: int = 1 << 33
    seconds: float = 300.0  # that the process outside may take for one file


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """Something that was not looked into."""

    name: str
    why: str
    is_picture: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


class Readable(Protocol):
    """What can be read a piece at a time."""

    def read1(self, size: int, /) -> bytes:
        """What is at hand, at most so many bytes; none at the end."""
        ...


class Opener:
    """Opens what files wrap, within limits for each source."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._reader = Reader(seconds=limits.seconds)
        self._source = ""
        self._bytes = self._members = 0

    def __enter__(self) -> Self:
        self._scratch = tempfile.TemporaryDirectory(prefix="opd-scan-")
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.end()
        self._scratch.cleanup()

    def begin(self, source: str) -> None:
        """What is opened from now on belongs to this source."""
        self._source = source
        self._bytes = self._members = 0

    def may_go_deeper(self, inside: tuple[str, ...]) -> bool:
        """Whether something that lies in so many others may be opened."""
        return len(inside) < self._limits.wrappings

    def members(self, data: Data, inside: tuple[str, ...], *, path: Path | None = None) -> Iterator[Member | Unread]:
        """What the bytes wrap, one after the other, and what of it can't be read."""
        head = data[:_HEAD]
        if (reason := _unopenable(head)) is not None:
            yield self._unread(inside, reason[0], is_picture=reason[1])
            return
        opens = self._way_in(data, head, path)
        if opens is None:
            return
        if not self.may_go_deeper(inside):
            yield self._unread(inside, f"it lies in {len(inside)} others, and no more are opened")
            return
        try:
            for member in opens():
                self._bytes += len(member.data)
                self._members += 1
                yield member
                if self._members >= self._limits.members or self._room() == 0:
                    raise Broken("it grows beyond what is opened")
        except Broken as error:
            yield self._unread(inside, str(error))
        except Exception as error:  # noqa: BLE001  whatever a stranger's bytes make a library raise
            yield self._unread(inside, f"{type(error).__name__}: {str(error)[:120]}")

    def _unread(self, inside: tuple[str, ...], why: str, *, is_picture: bool = False) -> Unread:
        return Unread(name=" › ".join((self._source, *inside)), why=why, is_picture=is_picture)

    def _room(self) -> int:
        return max(0, min(self._limits.member_bytes, self._limits.source_bytes - self._bytes))

    def _way_in(self, data: Data, head: bytes, path: Path | None) -> Callable[[], Opened] | None:
        for begins, stream in _STREAMS.items():
            if head.startswith(begins):
                return lambda: self._stream(stream(BytesIO(data)))
        if head[257:262] == b"ustar":
            return lambda: self._tar(data)
        if head.startswith(git.MAGIC + b"\0\0\0"):
            return lambda: self._pack(data)
        if head[:1] == b"\x78" and int.from_bytes(head[:2], "big") % 31 == 0 and _inflates(head):
            return lambda: self._zlib(data)
        kind = next((kind for begins, kind in _OUTSIDE.items() if head.startswith(begins)), None)
        if kind is not None or _is_arrow_stream(head, len(data)):
            return lambda: self._outside(kind or "arrow", data, path)
        return (lambda: self._zip(data)) if _is_zip(data, head) else None

    def _stream(self, stream: Readable) -> Opened:
        """What a compression holds; of a torn one, what there is."""
        content, broken = _read(stream, self._room())
        yield Member(name="contents", data=content)
        if broken:
            raise broken

    def _zip(self, data: Data) -> Opened:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            problems = []
            for number, entry in enumerate(archive.infolist()):
                if entry.is_dir():
                    continue
                if entry.flag_bits & _ENCRYPTED:
                    problems.append(f"member {number} is encrypted")
                    continue
                with archive.open(entry) as file:
                    content, broken = _read(cast(Readable, file), self._room())
                yield Member(name=_numbered(number, entry.filename), data=content)
                if broken:
                    problems.append(f"member {number}: {broken}")
            if problems:
                raise Broken(
                    "; ".join(problems[:3]) + (f" and {len(problems) - 3} more" if len(problems) > 3 else "")
                )

    def _tar(self, data: Data) -> Opened:
        with tarfile.open(fileobj=BytesIO(data), mode="r:") as archive:
            for number, entry in enumerate(archive):
                file = archive.extractfile(entry) if entry.isreg() else None
                if file is not None:
                    content, broken = _read(cast(Readable, file), self._room())
                    yield Member(name=_numbered(number, entry.name), data=content)
                    if broken:
                        raise broken

    def _pack(self, data: Data) -> Opened:
        for number, body in enumerate(git.objects(data, largest=self._room())):
            yield Member(name=f"object {number}", data=body)

    def _zlib(self, data: Data) -> Opened:
        stream = zlib.decompressobj()
        content = stream.decompress(data[:], self._room())
        yield Member(name="inflated", data=content)
        if not stream.eof:
            raise Broken("it is cut short, or grows beyond what is opened")

    def _outside(self, kind: str, data: Data, path: Path | None) -> Opened:
        """By way of a copy, so that nothing but the copy is there to be changed; a database brings its log."""
        copy = Path(self._scratch.name) / "copy"
        copy.write_bytes(data)
        log = None if path is None else path.with_name(f"{path.name}-wal")
        if kind == "sqlite" and log is not None and log.is_file() and not log.is_symlink():
            shutil.copyfile(log, copy.with_name("copy-wal"))
        try:
            yield from self._reader.members(kind, copy, room=self._room())
        finally:
            for left in Path(self._scratch.name).iterdir():
                left.unlink()


_STREAMS: dict[bytes, Callable[[BytesIO], "Readable"]] = {
    b"\x1f\x8b\x08": lambda file: gzip.GzipFile(fileobj=file),
    **dict.fromkeys([b"BZh%d1AY&SY" % level for level in range(1, 10)], bz2.BZ2File),
    b"\xfd7zXZ\0": lzma.LZMAFile,
}
_OUTSIDE = {
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"SQLite format 3\0": "sqlite",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
}
_UNOPENABLE = {
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!\x1a\x07": "a RAR archive",
    b"MSCF": "a cabinet",
    b"%PDF": "a PDF: its text is drawn, not written",
    b"\x89HDF\r\n": "an HDF5 file: its parts may be compressed",
    b"Salted__": "encrypted",
    b"age-encryption.org": "encrypted",
    b"-----BEGIN PGP MESSAGE": "encrypted",
    b"\x1f\x9d": "an old compression",
}
_PICTURES = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8")


def _unopenable(head: bytes) -> tuple[str, bool] | None:
    """Why there is no way in, and whether it is a picture."""
    if head.startswith(_PICTURES) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP"):
        return "a picture", True
    found = next((what for begins, what in _UNOPENABLE.items() if head.startswith(begins)), None)
    return None if found is None else (found, False)


def _is_arrow_stream(head: bytes, size: int) -> bool:
    """Whether a mark and a length of a schema that fits come first, and not any numbers."""
    length = int.from_bytes(head[4:8], "little")
    return head.startswith(b"\xff\xff\xff\xff") and 0 < length < min(size, 1 << 24) and length % 8 == 0


def _is_zip(data: Data, head: bytes) -> bool:
    """Whether it begins as a zip, or ends as one, as programs that unpack themselves do."""
    tail = data[max(0, len(data) - _TAIL) :]
    return head.startswith(b"PK\x03\x04") or (b"PK\x05\x06" in tail and zipfile.is_zipfile(BytesIO(tail)))


def _inflates(head: bytes) -> bool:
    """Whether bytes that look like zlib's are."""
    try:
        zlib.decompressobj().decompress(head)
    except zlib.error:
        return False
    return True


def _read(stream: Readable, room: int) -> tuple[bytes, Exception | None]:
    """What can be read, and why not the rest."""
    parts: list[bytes] = []
    size = 0
    try:
        while part := stream.read1(_CHUNK):  # what there is, so that a torn end comes last
            size += len(part)
            if size > room:
                return b"".join(parts), Broken("it grows beyond what is opened")
            parts.append(part)
    except Exception as error:  # noqa: BLE001  whatever a stranger's bytes make a library raise
        return b"".join(parts), error
    return b"".join(parts), None


def _numbered(number: int, name: str) -> str:
    """A member by its place and the end of its name: a whole name is a stranger's text, and might hold a question."""
    suffix = PurePosixPath(name).suffix
    plain = suffix if suffix[1:].isalnum() and len(suffix) <= 9 else ""
    return f"member {number}{plain}"
