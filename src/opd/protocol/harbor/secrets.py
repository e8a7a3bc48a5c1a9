"""Known secrets in what is about to be published: looked for in every byte, and refused, not masked.

A secret is a value that is known, such as that of ANTHROPIC_API_KEY where the attempt ran; its form tells nothing. It
is found as it is, and as it stands in JSON (and in JSON within JSON), in a URL, in hexadecimal digits and in base64,
wherever it begins there, and with line ends in the middle of it.
"""

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from opd.records.errors import AnswerIsNo

Content = bytes | Path
"""A file's bytes, or where they lie."""

SHORTEST = 8  # characters; a shorter value stands everywhere by chance, and keeps nothing secret
_NAMES = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)
_CHUNK_BYTES = 1 << 20
_NESTED = 3  # records hold results that hold files that hold JSON
_LINE_END = re.compile(rb"(?:\\+[rn]|[\r\n])+")  # as it is, or escaped


def secrets_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables whose names say that their values are secret, and whose values are long enough to be."""
    return {
        name: value
        for name, value in environment.items()
        if _NAMES.search(name)
        and len(value.strip()) >= SHORTEST
        and not Path(value).exists()  # a key's file is no key
    }


def check(files: Mapping[str, Content], secrets: Mapping[str, str]) -> None:
    """Nothing, when no file and no file's name holds a secret; else `AnswerIsNo`, with each file and variable."""
    forms = {name: tuple(_forms(value.strip())) for name, value in secrets.items() if len(value.strip()) >= SHORTEST}
    found = [
        f"{path} holds the value of {name}"
        for path, content in files.items()
        for name in _found_in(path, content, forms)
    ]
    if found:
        raise AnswerIsNo(
            f"nothing was written: {'; '.join(found)}. Take it out where it came from, and revoke the key"
        )


def _found_in(path: str, content: Content, forms: Mapping[str, tuple[bytes, ...]]) -> list[str]:
    left = dict(forms)
    found = {name for name, needles in forms.items() if any(needle in path.encode() for needle in needles)}
    # twice as much as the longest, for what is broken into lines is longer there
    overlap = 2 * max((len(needle) for needles in forms.values() for needle in needles), default=1)
    end = b""
    for chunk in _chunks(content) if left else ():
        held = end + chunk
        views = (held, _LINE_END.sub(b"", held))
        new = {name for name, needles in left.items() if any(one in view for one in needles for view in views)}
        found |= new
        left = {name: needles for name, needles in left.items() if name not in new}
        end = held[-overlap:]
    return [name for name in forms if name in found]


def _chunks(content: Content) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def _forms(value: str) -> Iterator[bytes]:
    """The ways in which a value may stand in a file; those that are too short to mean it are left out."""
    raw = value.encode()
    texts = {raw, quote(value, safe="").encode(), raw.hex().encode(), raw.hex().upper().encode()}
    for keeps_letters in (True, False):
        text = value
        for _ in range(_NESTED):
            text = json.dumps(text, ensure_ascii=not keeps_letters)[1:-1]
            texts.add(text.encode())
    for before in range(3):
        # in base64 three bytes are four letters: the letters that no neighbour of the value has a part in
        whole = b64encode(b"\0" * before + raw)
        first = -(-before * 8 // 6)
        last = (before + len(raw)) * 8 // 6
        texts |= {whole[first:last], whole[first:last].translate(bytes.maketrans(b"+/", b"-_"))}
    yield from sorted(text for text in texts if len(text) >= SHORTEST)
