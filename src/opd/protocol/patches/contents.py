"""What a file is that calls itself source: by its name, and by its bytes, whatever its name.

A submission trains again from the given models and data. What would carry learned weights, questions or compiled code
past that is found by name, by the first bytes of its format, or by what an encoding of it looks like as text. Whoever
hides a little in prose is not found here; the sizes that the surface allows bound how much that is.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from opd.protocol.patches.refusals import Rule

MOST_ROWS = 50  # JSON values, one a line or in one list: beyond, it is data, not settings
LONGEST_WORD = 1_000  # characters without a blank or a mark
MOST_ENCODED_LINES = 12  # of 60 characters and more
MOST_NUMBERS = 2_000  # in a file that is hardly anything else
_NUMBERS_TO_A_WORD = 4

_NAMES = {
    Rule.WEIGHTS: (
        ".safetensors .bin .pt .pth .ckpt .gguf .ggml .npz .npy .onnx .h5 .hdf5 .pkl .pickle .joblib .msgpack "
        ".tflite .pb .mar .pdparams .model"
    ),
    Rule.COMPILED: ".pyc .pyo .pyd .so .dll .dylib .a .o .obj .exe .wasm .ptx .cubin .class .jar .egg .whl",
    Rule.DATA: (
        ".parquet .arrow .feather .orc .avro .tfrecord .sqlite .sqlite3 .db .lmdb .mdb .zip .tar .tgz .gz .bz2 .xz "
        ".zst .7z .rar .png .jpg .jpeg .gif .pdf"
    ),
}
_ENDINGS = {ending: rule for rule, endings in _NAMES.items() for ending in endings.split()}
_NUMBERED = re.compile(r"\.(so|gz|bin|pt|part|data)([-.]\d.*)$")  # lib.so.1, x.data-00000-of-00001


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The rule that a file breaks, and as what it was recognised."""

    rule: Rule
    found: str


def judge_name(name: str) -> Judgement | None:
    """What the name alone says that is refused."""
    plain = name.casefold()
    if "__pycache__" in plain.split("/"):
        return Judgement(rule=Rule.COMPILED, found="compiled Python in __pycache__")
    last = plain.rpartition("/")[2]
    numbered = _NUMBERED.search(last)
    ending = f".{numbered[1]}" if numbered else last[last.rfind(".") :] if "." in last else ""
    rule = _ENDINGS.get(ending, Rule.DATA if numbered else None)
    return Judgement(rule=rule, found=f"a file called {ending}") if rule else None


def names_weights(name: str) -> bool:
    """Whether a file of this name holds a model's weights, in whichever format."""
    judged = judge_name(name)
    return judged is not None and judged.rule is Rule.WEIGHTS


def judge_content(content: bytes) -> Judgement | None:
    """What the bytes say that is refused, whatever the name; none for source text and settings."""
    for rule, what, is_one in _FORMATS:
        if is_one(content):
            return Judgement(rule=rule, found=what)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        return Judgement(rule=Rule.TEXT, found=f"bytes that are not UTF-8, at {error.start:,}")
    if "\0" in text:
        return Judgement(rule=Rule.TEXT, found=f"a zero byte, at {text.index(chr(0)):,}")
    found = _rows(text) or _encoded(text) or _numbers(text)
    return Judgement(rule=Rule.DATA, found=found) if found else None


def _begins(*marks: bytes) -> Callable[[bytes], bool]:
    return lambda content: content.startswith(marks)


def _is_safetensors(content: bytes) -> bool:
    """Eight bytes of length, then a JSON object of that length."""
    size = int.from_bytes(content[:8], "little")
    return content[8:9] == b"{" and 2 <= size <= len(content) - 8 and content[8 : 8 + size].rstrip().endswith(b"}")


def _is_pickle(content: bytes) -> bool:
    """Protocol 2 and up: the mark, the protocol, and STOP at the end."""
    return content[:1] == b"\x80" and content[1:2] in {b"\2", b"\3", b"\4", b"\5"} and content.endswith(b".")


def _is_bytecode(content: bytes) -> bool:
    """Two bytes that count versions, then CR LF, as every CPython writes, then flags that are small."""
    return content[2:4] == b"\r\n" and content[5:8] == b"\0\0\0"


_FORMATS: tuple[tuple[Rule, str, Callable[[bytes], bool]], ...] = (
    (Rule.WEIGHTS, "safetensors", _is_safetensors),
    (Rule.WEIGHTS, "a pickle", _is_pickle),
    (Rule.WEIGHTS, "GGUF", _begins(b"GGUF")),
    (Rule.WEIGHTS, "a NumPy array", _begins(b"\x93NUMPY")),
    (Rule.WEIGHTS, "HDF5", _begins(b"\x89HDF\r\n\x1a\n")),
    (Rule.COMPILED, "Python's bytecode", _is_bytecode),
    (Rule.COMPILED, "a program or library", _begins(b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\0asm")),
    (Rule.DATA, "Parquet", _begins(b"PAR1")),
    (Rule.DATA, "Arrow", _begins(b"ARROW1")),
    (Rule.DATA, "a SQLite database", _begins(b"SQLite format 3\0")),
    (Rule.DATA, "a zip archive (so are .npz and torch's files)", _begins(b"PK\3\4", b"PK\5\6")),
    (
        Rule.DATA,
        "compressed bytes",
        _begins(b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c", b"\x04\x22\x4d\x18"),
    ),
    (Rule.DATA, "a picture", _begins(b"\x89PNG", b"\xff\xd8\xff", b"GIF8")),
)


def _rows(text: str) -> str | None:
    """JSON values, one a line, or many in one document."""
    rows = sum(_is_row(line) for line in text.splitlines())
    if rows > MOST_ROWS:
        return f"{rows:,} lines that are each a JSON object or list"
    values = _json(text) if text.lstrip()[:1] in {"[", "{"} else None
    longest = max((len(one) for one in _lists(values)), default=0)
    return f"a JSON list of {longest:,} values" if longest > MOST_ROWS else None


def _is_row(line: str) -> bool:
    line = line.strip()
    return line[:1] + line[-1:] in {"{}", "[]"} and len(line) > 2 and bool(_json(line))


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _lists(value: object) -> list[list[object]]:
    """The list itself, or the lists that an object holds."""
    values = value.values() if isinstance(value, dict) else [value]
    return [one for one in values if isinstance(one, list)]


_ENDLESS = re.compile(rf"[A-Za-z0-9+/=_-]{{{LONGEST_WORD + 1},}}")
_ENCODED_LINE = re.compile(r"[A-Za-z0-9+/=_-]{60,}")
_AROUND_A_LINE = " \t\"',()b+\\"  # of a text that is written over several lines of code
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|0[xX][0-9a-fA-F]+|\\x[0-9a-fA-F]{2}")
_WORD = re.compile(r"[^\W\d_]+")


def _encoded(text: str) -> str | None:
    """Base 64, hexadecimal and their like: one word without end, or line upon line of nothing else."""
    if word := _ENDLESS.search(text):
        return f"{len(word.group()):,} characters without a blank: encoded data"
    longest = run = 0
    for line in text.splitlines():
        run = run + 1 if _ENCODED_LINE.fullmatch(line.strip(_AROUND_A_LINE)) else 0
        longest = max(longest, run)
    return f"{longest:,} lines one after the other of encoded data" if longest > MOST_ENCODED_LINES else None


def _numbers(text: str) -> str | None:
    """Numbers written out, with hardly a word between them."""
    rest, numbers = _NUMBER.subn(" ", text)
    if numbers <= MOST_NUMBERS or numbers <= _NUMBERS_TO_A_WORD * len(_WORD.findall(rest)):
        return None
    return f"{numbers:,} numbers written out"
