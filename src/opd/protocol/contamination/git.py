"""What a repository's packs hold, without a program of git's: an untrusted repository can make those run others.

A pack is a row of objects, each with its kind, its size and a compressed body. A delta's body says which bytes to
copy from another object and which to add; what it adds is new text, and what it copies stands whole in that other.
"""

import mmap
import zlib
from collections.abc import Iterator

MAGIC = b"PACK"
_HEADER = 12
_DELTAS = {6: None, 7: 20}  # by an offset of some bytes, by a digest
_COPY = 0x80
_CHUNK = 1 << 16


def objects(pack: "bytes | mmap.mmap", *, largest: int) -> Iterator[bytes]:
    """The body of each object, and of each delta what it adds. `ValueError` or `zlib.error` for what is no pack."""
    count = int.from_bytes(pack[8:_HEADER], "big")
    at = _HEADER
    for _ in range(count):
        kind, at = _kind(pack, at)
        body, at = _inflated(pack, at, largest=largest)
        yield _added(body) if kind in _DELTAS else body


def _kind(pack: "bytes | mmap.mmap", at: int) -> tuple[int, int]:
    """The kind of the object there, and where its body begins."""
    kind = pack[at] >> 4 & 7
    at = _behind_number(pack, at)
    if kind == 6:
        at = _behind_number(pack, at)
    return kind, at + (_DELTAS.get(kind) or 0)


def _behind_number(data: "bytes | mmap.mmap", at: int) -> int:
    """Where a number ends whose bytes but the last have their highest bit set."""
    while data[at] & _COPY:
        at += 1
    return at + 1


def _inflated(pack: "bytes | mmap.mmap", at: int, *, largest: int) -> tuple[bytes, int]:
    stream, parts, size = zlib.decompressobj(), [], 0
    while not stream.eof:
        chunk = pack[at : at + _CHUNK]
        if not chunk:
            raise ValueError("the pack is cut short")
        part = stream.decompress(chunk, largest - size + 1)
        parts.append(part)
        size += len(part)
        if size > largest:
            raise ValueError("an object grows beyond what is opened")
        at += len(chunk) - len(stream.unused_data) - len(stream.unconsumed_tail)
    return b"".join(parts), at


def _added(delta: bytes) -> bytes:
    at = _behind_number(delta, _behind_number(delta, 0))  # the sizes before and behind
    parts = []
    while at < len(delta):
        code = delta[at]
        at += 1
        if code & _COPY:
            at += (code & 0x7F).bit_count()
        else:
            parts.append(delta[at : at + code])
            at += code
    return b"".join(parts)
