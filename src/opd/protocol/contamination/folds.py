r"""Texts without what their carriers add, so that one text is the same in a table, a log, a patch and a tool result.

    decoded     \u003c &lt; %3C \x1b[31m           → what they stand for, down to the last wrapping
    letters     lower-case letters and digits alone, from any bytes, at the speed of a disk: what a search runs on
    canonical   decoded, without numbers of lines, diff and quote marks, and then letters, digits and signs

A backslash with one of n r t b f is dropped with its letter, at whatever depth of escapes it stands: `\n` is a line's
end to one reader and `\neq` a sign to another, and only what treats both alike is the same for text and copy. So the
letters of `\frac` are `rac`, wherever they stand.
"""

import codecs
import html
import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from urllib.parse import unquote_to_bytes

import numpy as np
from numpy.typing import NDArray

SIGNS = b"+-*/^=<>"  # what makes one formula another
ROUNDS = 5  # of wrappings inside wrappings

_ALNUM = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_HIGH = frozenset(range(128, 256))
_LOWER = bytes(range(256)).lower()
_BUT_LETTERS = bytes(code for code in range(256) if code not in _ALNUM | _HIGH)
_BUT_ASCII_LETTERS = bytes(code for code in range(256) if code not in _ALNUM)
_BUT_MARKS = bytes(code for code in range(256) if code not in _ALNUM | _HIGH | frozenset(SIGNS))
_TIGHT = b" \t\r\n\v\f\0\\\"'`"  # blanks, escapes and quotes
_DRAWN = {
    0x2212: "-",
    0x2192: "\t",
    0x2502: "|",
    0x2503: "|",
}  # a minus, and what viewers put between number and line
_LEGACY = {0xDC00 + code: bytes([code]).decode("cp1252", "ignore") for code in range(128, 256)}
"""What is no UTF-8, as it is decoded with `surrogateescape`, by the page that Latin-1 is a part of."""
_MOST_STRAY = 0.3  # of the bytes of a text are beyond ASCII and no UTF-8: more, and it is no text
_MOST_CONTROLS = 0.02  # nor that many that no keyboard writes
_CONTROLS = [code for code in range(32) if code not in b"\t\n\r\x1b"]
_WRAPPING = b"\\&%"
_FEW = 8  # percent signs that a text has of itself, and places that a search may leave wrapped: a question has more


def _kind(codes: bytes) -> NDArray[np.bool_]:
    """For each byte whether it is one of these."""
    table = np.zeros(256, np.bool_)
    table[list(codes)] = True
    return table


_ESCAPED_LETTER = _kind(b"nrtbf")
_SLASH, _BACKSLASH = _kind(b"/"), _kind(b"\\")
_HEX = _kind(b"0123456789abcdefABCDEF")
_OCTAL = _kind(b"01234567")
_BRACKET, _THREE = _kind(b"["), _kind(b"3")
_ESCAPED_CHARACTERS = re.compile(rb"\\u[0-9a-fA-F]{4}(?:\\+u[0-9a-fA-F]{4})*")  # begins as it is found fast
_ESCAPED_BYTES = re.compile(rb"\\x[0-9a-fA-F]{2}(?:\\+x[0-9a-fA-F]{2})*")
_OCTAL_BYTES = re.compile(rb"\\[0-3][0-7]{2}(?:\\+[0-3][0-7]{2}){3,}")  # fewer may be a table's line ends and numbers
_ESCAPE_WORD = re.compile(rb"\\+(?:033|e)(?=\[)|\^\[(?=\[)")
_ENTITY = re.compile(rb"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")
_PERCENTS = re.compile(rb"%[0-9a-fA-F]{2}(?:[\w.~!*()'+-]|%[0-9a-fA-F]{2})*")
_TERMINAL = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z^_])")
_TAG = re.compile(rb"<\\*/?[A-Za-z!][^<>]{0,400}>")
_NEW_LINE = re.compile(rb"\\+n|\\+r|\r")
_OTHER_BLANK = re.compile(rb"\\+[tbf]")
_LINE_START = re.compile(
    rb"\n(?:"  # begins as it is found fast
    rb"[ \t]*[>|+-][ \t]?"  # quotes, tables, diffs
    rb"|[ \t]*\d{1,7}[ \t]*(?:[\t:|]|[-.)] )[ \t]?"  # cat -n, viewers, grep -n
    rb"|[ \t]{2,}\d{1,7}[ \t]+"  # nl
    rb"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^\s\]]*\]?[ \t]*(?:[A-Z]{4,8}\b)?[ \t:-]*"  # logs
    rb"|[\w./~-]{1,200}[:-]\d{1,7}[:-]"  # grep -rn
    rb"){1,4}"
)


def letters(data: bytes) -> bytes:
    """The letters and digits of a block, lower-case; what its wrappings add is gone where it shows."""
    if not _is_text(data):
        return _without_escapes(data).translate(_LOWER, _BUT_ASCII_LETTERS)
    data = decoded(data, few=_FEW)
    if _has(data, b"<", _SLASH) or _has(data, b"<", _BACKSLASH, _SLASH):
        data = _TAG.sub(b"", data)
    return _without_escapes(data).translate(_LOWER, _BUT_LETTERS)


def canonical(data: bytes) -> bytes:
    """Letters, digits and signs, without the marks that stand at the beginnings of lines."""
    return readings(data)[0]


def readings(data: bytes) -> tuple[bytes, ...]:
    """The canonical text, and, where there are tags, that of what a browser would show."""
    data = decoded(data)
    shown = _TAG.sub(b"", data)
    return tuple(_marks(text) for text in ((data,) if shown == data else (data, shown)))


def _marks(data: bytes) -> bytes:
    data = _OTHER_BLANK.sub(b" ", _NEW_LINE.sub(b"\n", data))
    return _LINE_START.sub(b"\n", b"\n" + data).translate(_LOWER, _BUT_MARKS)


def tight(data: bytes) -> bytes:
    """Everything but blanks, quotes and backslashes, lower-case: for texts so short that every mark counts."""
    return (decoded(data, few=_FEW) if _is_text(data) else data).translate(_LOWER, _TIGHT)


def without_signs(marks: bytes) -> bytes:
    """The letters and digits of a canonical text."""
    return marks.translate(None, SIGNS)


def decoded(data: bytes, *, few: int = 0) -> bytes:
    """What escapes, entities and percent signs stand for, however often they were wrapped; no terminal's colours.

    Blanks, quotes and letters after a single backslash stay as they are; a null byte, as in UTF-16, is dropped. So
    few places that are wrapped once more are left as they are.
    """
    if b"\0" in data:
        data = data.replace(b"\0", b"")
    data = _plain(data)
    for _ in range(ROUNDS):
        said: list[int] = []  # how many characters that may be part of a wrapping stood in one
        before = data
        escapes = _escapes(data)
        for kind, (pattern, what) in _ESCAPES.items():
            if kind in escapes:
                data = pattern.sub(_noting(what, said), data)
        if b"&" in data:
            data = _ENTITY.sub(_noting(_entity, said), data)
        if data.count(b"%") >= _FEW:
            data = _PERCENTS.sub(_noting(_unquoted, said), data)
        if data is not before:
            data = _plain(data)
        if sum(said) <= few:
            break
    if "[" in escapes or _has(data, b"^", _BRACKET, _BRACKET):
        data = _ESCAPE_WORD.sub(b"\x1b", data)
    return _TERMINAL.sub(b"", data) if b"\x1b" in data else data


def _escapes(data: bytes) -> frozenset[str]:
    """Which kinds of escapes there are: of characters, of bytes, and of what begins a colour."""
    codes = np.frombuffer(data, np.uint8)
    at = np.flatnonzero(codes[: max(0, len(codes) - 4)] == ord("\\"))
    following = codes[at + 1]
    found = set()
    for letter in "ux":
        after = at[following == ord(letter)]
        if (_HEX[codes[after + 2]] & _HEX[codes[after + 3]]).any():
            found.add(letter)
    digits = at[_OCTAL[following]]
    if (_OCTAL[codes[digits + 2]] & _OCTAL[codes[digits + 3]] & _BACKSLASH[codes[digits + 4]]).any():
        found.add("0")
    octal, word = at[following == ord("0")], at[following == ord("e")]
    if (_THREE[codes[octal + 2]] & _BRACKET[codes[octal + 4]]).any() or _BRACKET[codes[word + 2]].any():
        found.add("[")
    return frozenset(found)


def _has(data: bytes, first: bytes, *kinds: NDArray[np.bool_]) -> bool:
    """Whether a byte stands somewhere, with bytes of these kinds behind it; faster than any search for the whole."""
    codes = np.frombuffer(data, np.uint8)
    at = np.flatnonzero(codes[: max(0, len(codes) - len(kinds))] == first[0])
    for distance, kind in enumerate(kinds, start=1):
        at = at[kind[codes[at + distance]]]
    return len(at) > 0


def _without_escapes(data: bytes) -> bytes:
    """With blanks in place of each backslash that one of n r t b f follows, and of that letter."""
    codes = np.frombuffer(data, np.uint8)
    at = np.flatnonzero(codes[:-1] == ord("\\"))
    at = at[_ESCAPED_LETTER[codes[at + 1]]]
    if not len(at):
        return data
    codes = codes.copy()
    codes[at] = codes[at + 1] = ord(" ")
    return codes.tobytes()


def _noting(unwrapped: Callable[[bytes], bytes], said: list[int]) -> Callable[[re.Match[bytes]], bytes]:
    """What a match stands for; `said` is told how many characters in it may be part of a wrapping themselves."""

    def what(found: re.Match[bytes]) -> bytes:
        text = unwrapped(found[0])
        if found.string[found.start() - 1 : found.start()] == b"\\":
            text = b" " + text  # a backslash that is left of a deeper wrapping makes no escape of what stood in it
        if marks := len(text) - len(text.translate(None, _WRAPPING)):
            said.append(marks)
        return text

    return what


def _characters(found: bytes) -> bytes:
    """Their hexadecimal digits are UTF-16, pair by pair; half of a character is none."""
    return codecs.utf_16_be_decode(bytes.fromhex(str(found.translate(None, b"\\u"), "ascii")), "ignore")[0].encode()


def _bytes(found: bytes) -> bytes:
    return bytes.fromhex(str(found.translate(None, b"\\x"), "ascii"))


def _octal(found: bytes) -> bytes:
    return bytes(int(digits, 8) for digits in found.replace(b"\\", b" ").split())


_ESCAPES = {
    "u": (_ESCAPED_CHARACTERS, _characters),
    "x": (_ESCAPED_BYTES, _bytes),
    "0": (_OCTAL_BYTES, _octal),
}


@lru_cache(maxsize=4096)
def _entity(found: bytes) -> bytes:
    return html.unescape(found.decode()).encode("utf-8", "ignore")


def _unquoted(found: bytes) -> bytes:
    return unquote_to_bytes(found.replace(b"+", b" "))


def _is_text(data: bytes) -> bool:
    """Whether the block is UTF-8, but for characters that its ends cut, or is at least mostly ASCII."""
    if data.isascii():
        return True
    try:
        codecs.utf_8_decode(data[_cut(data) :], "strict", False)
    except UnicodeDecodeError:
        counts = np.bincount(np.frombuffer(data, np.uint8), minlength=256)
        return bool(
            counts[128:].sum() < _MOST_STRAY * len(data) and counts[_CONTROLS].sum() < _MOST_CONTROLS * len(data)
        )
    return True


def _cut(data: bytes) -> int:
    """How many bytes at the beginning belong to a character that began before."""
    return next((at for at, code in enumerate(data[:4]) if code & 0xC0 != 0x80), 0)


def _plain(data: bytes) -> bytes:
    """Characters beyond ASCII in their plainest form: compatible letters without their marks, and no others.

    What is no UTF-8 is read as Windows-1252, and so as Latin-1.
    """
    if data.isascii():
        return data
    at = np.flatnonzero(np.frombuffer(data, np.uint8) > 127)
    breaks = np.flatnonzero(np.diff(at) > 1)
    starts = at[np.concatenate(([0], breaks + 1))].tolist()
    ends = (at[np.concatenate((breaks, [-1]))] + 1).tolist()
    parts: list[bytes] = []
    done = 0
    for start, end in zip(starts, ends, strict=True):
        plain = _plain_letters(data[start:end])
        apart = (
            b" " if plain and data[start - 1 : start] == b"\\" else b""
        )  # a backslash before it escapes nothing in it
        parts += (data[done:start], apart, plain)
        done = end
    return b"".join((*parts, data[done:]))


@lru_cache(maxsize=1 << 14)
def _plain_letters(run: bytes) -> bytes:
    text = run.decode("utf-8", "surrogateescape").translate(_LEGACY)
    plain = unicodedata.normalize("NFKD", text.translate(_DRAWN))
    return "".join(letter for letter in plain.casefold() if letter.isalnum() or letter.isascii()).encode()
