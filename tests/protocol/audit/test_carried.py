"""How much a patch carries: a program compresses, and weights in any digits do not."""

import base64
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from opd.protocol.audit import evidence
from opd.protocol.audit.carried import MOST_BYTES, carried

WEIGHTS = random.Random(1).randbytes(60_000)


def added(text: str, *, columns: int | None = None) -> bytes:
    """A patch with a new file of this text."""
    lines = text.splitlines()
    if columns:
        lines = [repr(text[at : at + columns]) for at in range(0, len(text), columns)]
    return "".join(["--- /dev/null\n", "+++ b/part.py\n", *(f"+{line}\n" for line in lines)]).encode()


@pytest.mark.parametrize("write", [base64.b64encode, base64.b85encode, base64.a85encode, bytes.hex])
def test_weights_are_more_than_a_program_whatever_they_are_written_in(write: Callable[[bytes], bytes | str]) -> None:
    text = write(WEIGHTS)
    seen = carried(added(text if isinstance(text, str) else text.decode(), columns=76))
    assert seen.packed_bytes > MOST_BYTES


def test_a_hundred_kilobytes_of_program_are_not() -> None:
    folder = Path(evidence.__file__).parent
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py")))[:100_000]
    seen = carried(added(text))
    assert len(text) > 60_000
    assert seen.packed_bytes <= MOST_BYTES
    assert seen.digits < MOST_BYTES / 10


def test_only_what_a_patch_adds_is_counted() -> None:
    removed = added("x = 1\ny = 2\n").replace(b"\n+", b"\n-")
    assert carried(removed).added_bytes == 0
    assert carried(added("x = 1\ny = 2\n")).added_bytes == len("x = 1\ny = 2")
