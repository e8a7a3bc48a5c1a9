"""The files that a report is written from, and each value in them with its place: a `Fact`.

file      relative to the attempt; `comparisons/…` is the report's own
pointer   RFC 6901 into JSON, with a `#` behind it: how many members; `line:N` and such a pointer into JSON Lines;
          `line:N` or `lines:N-M` into other text; empty: all of it
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opd.records.errors import AskedWrongly
from opd.records.reports import COMPARISONS

_LINES = re.compile(r"lines?:(\d+)(?:-(\d+))?(.*)", re.DOTALL)
_LARGEST = 1 << 63  # of a number that is taken for one
_LARGEST_BYTES = 256 << 20  # of a file that a report quotes from


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A value in a file, with where it stands."""

    value: Any
    file: str
    pointer: str
    sha256: str  # of the file

    def __getitem__(self, key: str | int) -> "Fact":
        """What stands below; raises `KeyError` or `IndexError` where there is nothing."""
        token = str(key).replace("~", "~0").replace("/", "~1")
        return Fact(value=self.value[key], file=self.file, pointer=f"{self.pointer}/{token}", sha256=self.sha256)

    def get(self, *keys: str | int) -> "Fact | None":
        """What stands below, key after key; None where it is missing or null."""
        fact = self
        for key in keys:
            try:
                fact = fact[key]
            except (KeyError, IndexError, TypeError):
                return None
        return None if fact.value is None else fact

    def whole(self, *keys: str | int) -> "Fact | None":
        """What stands below, where it is a whole number that can be meant; a stranger may write anything."""
        fact = self.get(*keys)
        return fact if fact is not None and type(fact.value) is int and abs(fact.value) < _LARGEST else None

    def word(self, *keys: str | int) -> "Fact | None":
        """What stands below, where it is text, a number, or yes or no."""
        fact = self.get(*keys)
        if fact is None or not isinstance(fact.value, str | int | float):
            return None
        return fact if not isinstance(fact.value, int) or abs(fact.value) < _LARGEST else None

    @property
    def count(self) -> "Fact":
        """How many members a list or a table has."""
        return Fact(value=len(self.value), file=self.file, pointer=f"{self.pointer}#", sha256=self.sha256)

    def each(self) -> Iterator["Fact"]:
        """The members of a list."""
        return (self[number] for number in range(len(self.value)))


class Sources:
    """The files of an attempt and of one of its reports, each read once."""

    def __init__(self, attempt: Path, report: Path) -> None:
        self.attempt, self.report = attempt, report
        self._held: dict[str, tuple[bytes, str]] = {}
        self._parsed: dict[str, Any] = {}

    def path(self, file: str) -> Path:
        """Where a file lies; raises `AskedWrongly` for a name that leads out of the attempt."""
        root = self._root(file)
        path = root / file
        if not path.resolve().is_relative_to(root.resolve()):
            raise AskedWrongly(f"{file} leads out of {root}; a source lies in the attempt")
        return path

    def has(self, file: str) -> bool:
        """Whether there is such a file, reached by no link, and not too large to be quoted from."""
        try:
            path = self.path(file)
            is_plain = path.resolve() == (self._root(file).resolve() / file) and path.is_file()
            return is_plain and path.stat().st_size <= _LARGEST_BYTES
        except (AskedWrongly, OSError, ValueError):
            return False

    def object(self, file: str) -> Fact | None:
        """The same as `json`, where it is a table; None for anything else that a stranger may have put there."""
        fact = self.json(file)
        return fact if fact is not None and isinstance(fact.value, dict) else None

    def sha256(self, file: str) -> str:
        """Of the file as it was read."""
        return self._read(file)[1]

    def fact(self, file: str, pointer: str = "") -> Fact:
        """The value at this place; raises `AskedWrongly` where there is none."""
        return Fact(value=self._value(file, pointer), file=file, pointer=pointer, sha256=self.sha256(file))

    def json(self, file: str) -> Fact | None:
        """The whole of a JSON file; None where there is none, or it is not JSON."""
        if not self.has(file):
            return None
        try:
            return self.fact(file)
        except AskedWrongly:
            return None

    def lines(self, file: str) -> Iterator[Fact]:
        """Each object of a JSON Lines file; lines that are no object are passed over, and a missing file has none."""
        if not self.has(file):
            return
        data, sha256 = self._read(file)
        for number, line in enumerate(data.split(b"\n"), start=1):
            value = _parsed(line)
            if isinstance(value, dict):
                yield Fact(value=value, file=file, pointer=f"line:{number}", sha256=sha256)

    def _root(self, file: str) -> Path:
        return self.report if file.startswith(f"{COMPARISONS}/") else self.attempt

    def _value(self, file: str, pointer: str) -> Any:
        data, _ = self._read(file)
        if found := _LINES.fullmatch(pointer):
            first, last = int(found[1]), int(found[2] or found[1])
            lines = data.decode("utf-8", "replace").split("\n")
            if not 1 <= first <= last <= len(lines):
                raise AskedWrongly(f"{file} has {len(lines)} lines, and no {pointer}")
            text = "\n".join(lines[first - 1 : last])
            return below(_parsed(text.encode()), found[3], file=file) if _is_lines(file) else text
        if not file.endswith(".json"):
            return data.decode("utf-8", "replace")
        if file not in self._parsed:
            self._parsed[file] = _parsed(data)
        return below(self._parsed[file], pointer, file=file)

    def _read(self, file: str) -> tuple[bytes, str]:
        if file not in self._held:
            try:
                data = self.path(file).read_bytes()
            except OSError as error:
                raise AskedWrongly(f"{file} can't be read: {error.strerror}") from error
            self._held[file] = (data, hashlib.sha256(data).hexdigest())
        return self._held[file]


def below(value: Any, pointer: str, *, file: str) -> Any:
    """What a pointer of RFC 6901 leads to, or how many members that has; `AskedWrongly` where it leads nowhere."""
    if pointer.endswith("#"):
        members = below(value, pointer.removesuffix("#"), file=file)
        if not isinstance(members, list | dict):
            raise AskedWrongly(f"{file} has no members at {pointer}")
        return len(members)
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        try:
            value = value[int(key)] if isinstance(value, list) else value[key]
        except (KeyError, IndexError, ValueError, TypeError):
            raise AskedWrongly(f"{file} has nothing at {pointer}") from None
    return value


def _is_lines(file: str) -> bool:
    return file.endswith(".jsonl")


def _parsed(data: bytes) -> Any:
    """The value, or None where it is not JSON; NaN is none, and half of a character stands as a question mark."""
    try:
        value = json.loads(data, parse_constant=_refused)
        return _writable(value) if b"\\ud" in data.lower() else value
    except (ValueError, RecursionError):
        return None


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def _writable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_writable(one) for one in value]
    if isinstance(value, dict):
        return {_writable(key): _writable(one) for key, one in value.items()}
    return value
