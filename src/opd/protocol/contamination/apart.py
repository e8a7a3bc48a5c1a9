r"""Texts that their carrier has taken apart, put together again: a stream's deltas, and the columns of a table.

    {"delta": {"text": "A fer"}}         the short values of one key path, line after line     → A ferry
    {"delta": {"text": "ry"}}
    12,ferry                             each column of short lines with the same mark         → ferry crosses
    13,crosses

The lines may stand in a JSON string, where their ends are written as `\n`. What has no such lines is passed over.
"""

import csv
import json
import mmap
import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

Data = bytes | mmap.mmap

_BLOCK = 1 << 18
_OVERLAP = 1 << 14  # bytes, so that lines at a block's end are seen together with the next
_LEAST_PARTS = 8
_MOST_LETTERS = 80  # of a value that is a part
_MOST_COLUMNS = 8
_DEEPEST = 8  # keys of a path
_WRAPPINGS = 3  # JSON strings inside JSON strings
_LINES = 16  # in a row that are close to each other
_SHORT_LINE = 20  # bytes on average: a number and a word have fewer
_LEAST_LINE = 3
_OBJECT = 1 << 10  # bytes on average, of lines that hold an object
_BEHIND = 1 << 8  # bytes of the last line
_DELTAS = re.compile(rb'(?:\n|: ?")(?:data: ?)?(?=(\{[^\n]{1,4096}+))')  # a string may begin with one
_TABLE = re.compile(rb"(?<=\n)(?:[^\n,;|\t: ]{0,60}+[,;|\t: ][^\n]{0,100}+\n){%d,}+" % _LEAST_PARTS)
_MARKS = (",", "\t", ";", "|", ":")
_NEWLINE, _BACKSLASH, _N, _BRACE = b"\n\\n{"


def joined(data: Data) -> bytes:
    """All texts of parts that there are, one after the other."""
    texts: list[str] = []
    for start, end in _merged(_close_lines(data)):
        lines = b"\n" + data[start:end] + b"\n"
        for _ in range(_WRAPPINGS + 1):
            texts += (*_streams(lines), *_columns(lines))
            if b"\\n" not in lines:
                break
            lines = _unwrapped(lines)
    return "\n\n".join(texts).encode("utf-8", "replace")


def _close_lines(data: Data) -> Iterator[tuple[int, int]]:
    """From where to where there are many short lines, or many of objects."""
    for start in range(0, len(data), _BLOCK):
        codes = np.frombuffer(data[start : start + _BLOCK + _OVERLAP], np.uint8)
        for ends in (np.flatnonzero(codes[:-8] == _NEWLINE), _written_ends(codes[:-8])):
            for first, last in (*_rows(ends, _LINES, _SHORT_LINE), *_rows(_objects(codes, ends), _LINES, _OBJECT)):
                yield start + first, start + last


def _written_ends(codes: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Where an `n` stands behind a backslash."""
    at = np.flatnonzero(codes[:-1] == _BACKSLASH) + 1
    ends: NDArray[np.intp] = at[codes[at] == _N]
    return ends


def _objects(codes: NDArray[np.uint8], ends: NDArray[np.intp]) -> NDArray[np.intp]:
    """The ends of lines behind which an object begins."""
    objects: NDArray[np.intp] = ends[(codes[ends + 1] == _BRACE) | (codes[ends + 7] == _BRACE)]  # behind `data: `
    return objects


def _rows(ends: NDArray[np.intp], lines: int, length: int) -> Iterator[tuple[int, int]]:
    """From where to where so many lines in a row are of this length on average, and not all but empty."""
    lengths = ends[lines:] - ends[:-lines]
    near = (lengths <= lines * length) & (lengths >= lines * _LEAST_LINE)
    if not near.any():
        return
    edges = np.flatnonzero(np.diff(near.astype(np.int8), prepend=0, append=0))
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        before = int(ends[first - 1]) if first else 0  # the line before it may be its first
        yield before, int(ends[last - 1 + lines]) + _BEHIND


def _merged(spans: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Each place once."""
    first = last = -1
    for start, end in sorted(spans):
        if start > last:
            if last > first:
                yield first, last
            first = start
        last = max(last, end)
    if last > first:
        yield first, last


def _unwrapped(data: bytes) -> bytes:
    """What a JSON string says, but for characters by their number."""
    data = data.replace(b"\\\\", b"\0").replace(b"\\n", b"\n").replace(b"\\t", b"\t").replace(b'\\"', b'"')
    return data.replace(b"\0", b"\\")


def _streams(lines: bytes) -> Iterator[str]:
    """The texts of each key path, over all lines: between two parts of one stream there may be others."""
    parts: dict[tuple[str, ...], list[str]] = {}
    for found in _DELTAS.finditer(lines):
        try:
            value, _ = _JSON.raw_decode(found[1].decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        for path, text in _texts(value, ()):
            parts.setdefault(path, []).append(text)
    yield from ("".join(texts) for texts in parts.values() if _is_taken_apart(texts))


_JSON = json.JSONDecoder(strict=False)


def _texts(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, str):
        if 0 < len(value) <= _MOST_LETTERS:
            yield path, value
    elif isinstance(value, dict) and len(path) < _DEEPEST:
        for key, one in value.items():
            yield from _texts(one, (*path, key))
    elif isinstance(value, list) and len(path) < _DEEPEST:
        for one in value:
            yield from _texts(one, (*path, "*"))


def _columns(lines: bytes) -> Iterator[str]:
    """Each column of each run of lines that hold the same mark; of those of two words, the second."""
    for table in _TABLE.finditer(lines):
        rows = table[0].decode("utf-8", "replace").splitlines()
        for mark in _MARKS:
            for has, run in groupby(rows, lambda row, mark=mark: mark in row):  # type: ignore[misc]
                if has:
                    yield from _columns_of([_cells(row, mark) for row in run])
        for is_pair, run in groupby(rows, lambda row: len(row.split()) == 2):
            if is_pair:
                yield from _columns_of([row.split() for row in run])


def _cells(row: str, mark: str) -> list[str]:
    try:
        return next(csv.reader([row], delimiter=mark), [])
    except csv.Error:
        return row.split(mark)


def _columns_of(rows: list[list[str]]) -> Iterator[str]:
    for place in range(min(_MOST_COLUMNS, max(map(len, rows)))):
        cells = [row[place] for row in rows if place < len(row)]
        if _is_taken_apart(cells):
            yield " ".join(cells)


def _is_taken_apart(texts: list[str]) -> bool:
    return len(texts) >= _LEAST_PARTS and len(set(texts)) > 1
