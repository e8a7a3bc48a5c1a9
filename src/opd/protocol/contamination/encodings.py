"""What runs of base64 and hexadecimal digits say, wrapped, numbered and escaped as they may be.

base64        a run of 64 digits begins a region; further lines of the same length belong to it, and one shorter
              line ends it
hexadecimal   80 digits, in lines of any even length or in pairs, with `0x`, commas, colons or blanks between them
"""

import base64
import binascii
import mmap
import re
from collections.abc import Iterator

_DIGITS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/-_")
_IS_DIGIT = bytes(ord("a") if code in _DIGITS else ord(" ") for code in range(256))
_RUN = b"a" * 64
_BLOCK = 1 << 18
_LEAST_BYTES = 40  # of what is decoded; a digest has 32
_LEAST_KINDS = 12  # of digits in a run: a rule across the page has one
_SAMPLE = 256
_LEAST_READABLE = 0.85  # of a sample, for a text

_CHUNK = re.compile(rb"[A-Za-z0-9+/_-]+")
_NEXT = re.compile(  # the end of a line, a number or a mark, and the next line's digits
    rb"=*\"?(?:\\+[nr]|\s)+(?:[ \t]*\d{1,7}(?:\t|\\+t|:|\xe2\x86\x92| {1,2})|[>|] ?| +)?\"?([A-Za-z0-9+/_-]+)"
)
_HEX = re.compile(rb"[0-9a-fA-F]+")
_MARK = rb"[ \t]*\d{1,7}(?:\t|\\+t|:|\xe2\x86\x92| {1,2}(?! ))|[>|+-] ?"  # a line's number, or a quote's
_HEX_CHUNK = rb"(?:0[xX])?[0-9a-fA-F]{2,}+(?![0-9A-Za-z])"
_BETWEEN = rb"[\"']?[,:;]?(?:(?:[ \t\r\n]|\\+[nrt]){1,12}+(?:" + _MARK + rb")??|(?<=[,:;]))[\"']?"
_HEX_REGION = re.compile(
    rb"(?:(?<![0-9A-Za-z])|(?<=\\[nrt]))" + _HEX_CHUNK + rb"(?:" + _BETWEEN + _HEX_CHUNK + rb")*+"
)
_LINE_MARK = re.compile(rb"(?<=[\nnr])(?:" + _MARK + rb")(?=[\"']?(?:0[xX])?[0-9a-fA-F]{2})")
_PREFIX = re.compile(rb"0[xX]")
_HEX_RUN = b"h" * 64
_HEX_CLASSES = bytes(ord("h") if code in b"0123456789abcdefABCDEF" else ord(" ") for code in range(256))
_AMID_HEX = b" \t\r\n,:;\"'xX\\nrt>|+-"
_NOT_HEX = bytes(code for code in range(256) if code not in b"0123456789abcdefABCDEF")
_PRINTED = bytes(range(32, 127)) + b"\0\t\n\r"


def encoded(data: "bytes | mmap.mmap") -> Iterator[tuple[str, bytes]]:
    """Each region decoded, with its name; of one that may begin amid other digits, each reading that is text."""
    done = 0
    for start in range(0, len(data), _BLOCK):
        classes = data[start : start + _BLOCK + len(_RUN)].translate(_IS_DIGIT)
        at = classes.find(_RUN, max(0, done - start))
        while at >= 0:
            digits, done = _region(data, start + at)
            yield from _decoded(digits)
            at = classes.find(_RUN, done - start) if done - start < len(classes) else -1
    yield from _hexadecimal(data)


def _hexadecimal(data: "bytes | mmap.mmap") -> Iterator[tuple[str, bytes]]:
    """Each region of hexadecimal digits decoded."""
    done = 0
    for start in range(0, len(data), _BLOCK):
        block = data[start : start + _BLOCK + 4 * len(_HEX_RUN)]
        if _HEX_RUN not in block.translate(_HEX_CLASSES, _AMID_HEX):
            continue
        at = max(done, start)
        while (found := _HEX_REGION.search(data, at, min(len(data), start + _BLOCK))) is not None:
            whole = _HEX_REGION.match(data, found.start()) or found  # beyond the end of the block
            at = done = whole.end()
            for text in dict.fromkeys((whole[0], _LINE_MARK.sub(b"", whole[0]))):  # `20:` is a number or a byte
                yield from _read_pairs(_PREFIX.sub(b"", text).translate(None, _NOT_HEX))


def _read_pairs(digits: bytes) -> Iterator[tuple[str, bytes]]:
    if len(set(digits[:_SAMPLE])) < _LEAST_KINDS:
        return
    for first in range(2):  # it may begin amid other digits
        content = binascii.unhexlify(digits[first : first + (len(digits) - first) // 2 * 2])
        if len(content) >= _LEAST_BYTES and (first == 0 or _is_readable(content)):
            yield "hex", content


def _region(data: "bytes | mmap.mmap", start: int) -> tuple[bytes, int]:
    """The digits of a region, and where it ends."""
    if start and data[start - 1 : start] == b"\\" and data[start : start + 1] in {b"n", b"r", b"t"}:
        start += 1  # it belongs to the escape
    first = _CHUNK.match(data, start)
    assert first, "a run begins here"
    chunks, end, length = [first[0]], first.end(), len(first[0])
    while len(chunks[-1]) == length or len(chunks) == 1:
        following = _NEXT.match(data, end)
        if following is None or len(following[1]) > length:
            break
        chunks.append(following[1])
        end = following.end()
    if len(chunks) > 1 and all(chunk.startswith(b"+") for chunk in chunks):
        chunks = [chunk[1:] for chunk in chunks]  # lines of a diff
    return b"".join(chunks), end


def _decoded(digits: bytes) -> Iterator[tuple[str, bytes]]:
    if len(set(digits[:_SAMPLE])) < _LEAST_KINDS or _HEX.fullmatch(digits):
        return
    plain = digits.translate(bytes.maketrans(b"-_", b"+/"))
    for first in range(4):
        content = _base64(plain[first:])
        if len(content) >= _LEAST_BYTES and (first == 0 or _is_readable(content)):
            yield "base64", content


def _base64(digits: bytes) -> bytes:
    whole = digits[: len(digits) - (len(digits) % 4 == 1)]  # one digit over says nothing
    return base64.b64decode(whole + b"=" * (-len(whole) % 4))


def _is_readable(content: bytes) -> bool:
    sample = content[:_SAMPLE]
    return len(sample) - len(sample.translate(None, _PRINTED)) >= _LEAST_READABLE * len(sample)
