"""Files of an attempt as values: read once, never through a link, and believed only as their receipt lists them."""

import hashlib
import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from opd.protocol.attempts.evidence import Seen
from opd.protocol.audit.evidence import File, Held
from opd.records.errors import AskedWrongly
from opd.records.files import object_in
from opd.records.receipts import RECEIPT, Receipt
from opd.records.settings import Settings, validated
from opd.records.trees import Entry, Kind, meant

S = TypeVar("S", bound=Settings)
T = TypeVar("T")
_DAMAGE = (OSError, ValueError, KeyError, TypeError, RecursionError, AskedWrongly)


class Reading:
    """One attempt's files; what is left out is in `unread`, as `path: why`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.unread: list[str] = []

    def settings(self, kind: type[S], name: str, *, said: str | None = None) -> Held[S] | None:
        """What a file of JSON holds, None for one that isn't there; `said` is its digest by a receipt."""
        return self.parsed(name, lambda data: validated(kind, json.loads(data), source=name), said=said)

    def parsed(self, name: str, parse: Callable[[bytes], T], *, said: str | None = None) -> Held[T] | None:
        """What a file's bytes stand for; None for one that isn't there, and for one that is left out."""
        path = self.root / meant(name)
        if not is_file(path):
            if path.is_symlink() or path.exists():
                self.unread.append(f"{name}: no plain file")
            return None
        try:
            data = path.read_bytes()
            found = hashlib.sha256(data).hexdigest()
            if said is not None and said != found:
                raise AskedWrongly("not as its receipt says")
            return Held(value=parse(data), file=name, sha256=found, bytes=len(data))
        except _DAMAGE as error:
            self.unread.append(f"{name}: {_why(error)}")
            return None

    def held(self, name: str, value: T) -> Held[T]:
        """The value, as what this file holds."""
        data = (self.root / name).read_bytes() if is_file(self.root / name) else b""
        return Held(value=value, file=name, sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))

    @staticmethod
    def with_value(held: Held[Any], value: T) -> Held[T]:
        """The same file, with what it means."""
        return Held(value=value, file=held.file, sha256=held.sha256, bytes=held.bytes)

    def folder(self, seen: Seen) -> "Folder":
        """The sealed folder of a try."""
        assert seen.receipt is not None, "only of a try that is over"
        return Folder(self, seen.place.name, self.held(f"{seen.place.name}/{RECEIPT}", seen.receipt))

    def folder_at(self, name: str) -> "Folder | None":
        """Any other sealed folder."""
        receipt = self.settings(Receipt, f"{name}/{RECEIPT}")
        return Folder(self, name, receipt) if receipt else None


class Folder:
    """A sealed folder: what its receipt lists is there to be read, and nothing else."""

    def __init__(self, reading: Reading, name: str, receipt: Held[Receipt]) -> None:
        self._reading = reading
        self.name = name
        self.receipt = receipt
        self.place = reading.root / name
        self.entries = {entry.path: entry for entry in receipt.value.files if entry.kind is Kind.FILE}

    def files(self) -> list[File]:
        """All that it lists."""
        return [self._file(entry) for entry in self.entries.values()]

    def file(self, path: str) -> File | None:
        """One of them; None where there is none of this path."""
        return self._file(self.entries[path]) if path in self.entries else None

    def relative(self, file: File) -> str:
        """The path of one of its files in the folder."""
        return file.path.removeprefix(f"{self.name}/")

    def settings(self, kind: type[S], path: str) -> Held[S] | None:
        """What one of its files of JSON holds."""
        return self.parsed(path, lambda data: validated(kind, json.loads(data), source=path))

    def parsed(self, path: str, parse: Callable[[bytes], T]) -> Held[T] | None:
        """What one of its files stands for; None where it lists none of this path."""
        entry = self.entries.get(path)
        if entry is None:
            return None
        name = f"{self.name}/{path}"
        if not is_file(self._reading.root / meant(name)):
            self.leave_out(path, "gone")
            return None
        return self._reading.parsed(name, parse, said=entry.sha256)

    def object(self, file: File) -> Held[dict[str, Any]] | None:
        """The JSON object in one of its files; None for any other JSON, and for what is none: a stranger wrote it."""
        held = self.parsed(self.relative(file), lambda data: data)
        value = object_in(held.value) if held else None
        return self._reading.with_value(held, value) if held and value is not None else None

    def lines(self, path: str, one: Callable[[int, dict[str, Any]], T]) -> Held[tuple[T, ...]] | None:
        """The values of a file of JSON Lines; a line that can't be read leaves out itself alone, and is named."""

        def parse(data: bytes) -> tuple[T, ...]:
            return tuple(self._each(path, data, one))

        return self.parsed(path, parse)

    def one(self, kind: type[S], value: dict[str, Any]) -> S:
        """A line as settings."""
        return validated(kind, value, source=self.name)

    def leave_out(self, path: str, why: str) -> None:
        """It is in `unread`."""
        self._reading.unread.append(f"{self.name}/{path}: {why}")

    def _each(self, path: str, data: bytes, one: Callable[[int, dict[str, Any]], T]) -> Iterator[T]:
        for number, line in enumerate(data.split(b"\n"), start=1):
            if not line.strip():
                continue
            try:
                yield one(number, json.loads(line))
            except _DAMAGE as error:
                self.leave_out(path, f"line {number}: {_why(error)}")

    def _file(self, entry: Entry) -> File:
        return File(path=f"{self.name}/{entry.path}", bytes=entry.bytes, sha256=entry.sha256)


def is_file(path: Path) -> bool:
    """Whether a plain file stands there: no link, and nothing that a reader would wait for."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _why(error: BaseException) -> str:
    words = " ".join(str(error).split())[:300]
    return words if isinstance(error, AskedWrongly) else f"{type(error).__name__}: {words}"
