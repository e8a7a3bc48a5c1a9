"""How to wrap bytes in each kind of file that the scanner opens; what its controls are planted in."""

import base64
import bz2
import gzip
import hashlib
import io
import json
import lzma
import pickle
import sqlite3
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

_PLACE = "notes/day-2.txt"
_BESIDE = b"Nothing to see here: loss 0.25.\n" * 40


def zipped(data: bytes, *, method: int = zipfile.ZIP_DEFLATED, name: str = _PLACE) -> bytes:
    """A zip archive of two members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("readme.txt", _BESIDE)
        archive.writestr(name, data)
    return out.getvalue()


def tarred(data: bytes) -> bytes:
    """A tar archive of two members."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in (("readme.txt", _BESIDE), (_PLACE, data)):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def loose_object(data: bytes) -> bytes:
    """A blob as a repository keeps it by itself."""
    return zlib.compress(b"blob %d\0" % len(data) + data)


def pack(data: bytes) -> bytes:
    """A repository's pack: a blob, and a delta that adds the data to a copy of its beginning."""
    copied = b"\x90\x10"  # sixteen bytes from the beginning
    added = b"".join(bytes([len(part)]) + part for part in _parts(data, 127))
    delta = _number(len(_BESIDE)) + _number(16 + len(data)) + copied + added
    base = _object(3, _BESIDE)
    header = b"PACK" + (2).to_bytes(4, "big") + (2).to_bytes(4, "big")
    body = header + base + _object(6, delta, behind=bytes([len(base)]))
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def _object(kind: int, body: bytes, *, behind: bytes = b"") -> bytes:
    first = kind << 4 | len(body) & 15
    rest = len(body) >> 4
    return (bytes([first | 0x80]) + _number(rest) if rest else bytes([first])) + behind + zlib.compress(body)


def _number(value: int) -> bytes:
    parts = [value & 0x7F]
    while value := value >> 7:
        parts.append(value & 0x7F)
    return bytes([part | 0x80 for part in parts[:-1]] + parts[-1:])


def _parts(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def parquet(data: bytes) -> bytes:
    """A compressed table of texts and numbers."""
    import pyarrow as pa
    from pyarrow import parquet as tables

    table = pa.table({"row": [1, 2], "messages": [[{"content": "hello"}], [{"content": data.decode()}]]})
    out = io.BytesIO()
    tables.write_table(table, out, compression="zstd")
    return out.getvalue()


def arrow(data: bytes) -> bytes:
    """A compressed stream of texts."""
    import pyarrow as pa
    from pyarrow import ipc

    batch = pa.record_batch({"text": ["hello", data.decode()]})
    out = io.BytesIO()
    with ipc.new_stream(out, batch.schema, options=ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    return out.getvalue()


def compressed(kind: str) -> Callable[[bytes], bytes]:
    """What pyarrow compresses as a file."""

    def pack_it(data: bytes) -> bytes:
        import pyarrow as pa

        out = pa.BufferOutputStream()
        with pa.CompressedOutputStream(out, kind) as stream:
            stream.write(data)
        return bytes(out.getvalue())

    return pack_it


def sqlite(data: bytes) -> bytes:
    """A database with the text in pages that other rows lie between."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA page_size = 512")
        connection.execute('CREATE TABLE "a ""note""" (id INTEGER PRIMARY KEY, text TEXT, raw BLOB)')
        connection.executemany(
            'INSERT INTO "a ""note""" VALUES (?, ?, ?)', [(1, "hello", b""), (2, data.decode(), b"x")]
        )
        connection.commit()
        connection.close()
        return path.read_bytes()


def safetensors(data: bytes) -> bytes:
    """A file of one number, whose header has the text among its metadata."""
    header = {"__metadata__": {"note": data.decode()}, "x": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + b"\7"


def document(data: bytes) -> bytes:
    """A word processor's file: each word in a tag of its own."""
    words = "".join(f"<w:r><w:t>{word} </w:t></w:r>" for word in data.decode().replace("&", "&amp;").split(" "))
    return zipped(f"<w:document>{words.replace('< ', '&lt; ')}</w:document>".encode(), name="word/document.xml")


def _array(data: bytes) -> bytes:
    """An array of one text, in UTF-32."""
    import numpy as np

    out = io.BytesIO()
    np.save(out, np.array([data.decode()]))
    return out.getvalue()


CONTAINERS: Mapping[str, Callable[[bytes], bytes]] = {
    "zip": zipped,
    "a stored zip": lambda data: zipped(data, method=zipfile.ZIP_STORED),
    "a zip behind a program": lambda data: b"#!/bin/sh\nexit\n" + zipped(data),
    "a zip in a zip": lambda data: zipped(zipped(data), name="inner.zip"),
    "gzip": gzip.compress,
    "gzip, in two parts": lambda data: gzip.compress(data[: len(data) // 2]) + gzip.compress(data[len(data) // 2 :]),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "tar": tarred,
    "tar, gzip": lambda data: gzip.compress(tarred(data)),
    "zstd": compressed("zstd"),
    "lz4": compressed("lz4"),
    "a repository's object": loose_object,
    "a repository's pack": pack,
    "parquet": parquet,
    "Arrow": arrow,
    "SQLite": sqlite,
    "a safetensors header": safetensors,
    "a pickle": lambda data: pickle.dumps({"text": data.decode()}),
    "numpy's archive": lambda data: zipped(_array(data), name="arr_0.npy"),
    "a document": document,
    "gzip, base64": lambda data: base64.b64encode(gzip.compress(data)),
}


def _encrypted() -> bytes:
    """A zip whose member says that it is encrypted, in its own header and in the directory."""
    content = bytearray(zipped(_BESIDE))
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.rfind(signature)
        content[at + flags] |= 1
    return bytes(content)


UNOPENABLE = (
    ("a PDF", b"%PDF-1.7\n" + _BESIDE),
    ("a 7z archive", b"7z\xbc\xaf\x27\x1c" + _BESIDE),
    ("an encrypted zip", _encrypted()),
    ("a picture", b"\x89PNG\r\n\x1a\n" + _BESIDE),
)
