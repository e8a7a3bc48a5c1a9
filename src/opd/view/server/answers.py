"""What the server answers with: JSON that any reader takes, whatever the files held, and errors of one sentence.

Models and strangers write NaN, halves of characters and lists in lists in lists. JSON has no NaN: it becomes null, as
every other undefined number. Half a character has no UTF-8: it stands as its code point, `⟨U+D800⟩`.
"""

import json
import math
import re
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from opd.records.errors import AnswerIsNo, AskedWrongly, OpdError

_DEEPEST = 200  # lists in lists; what a file held has been cut before
_HALF = re.compile("[\ud800-\udfff]")


class Gone(OpdError):
    """What was asked for is not there, or is not there any more."""


class Unreadable(OpdError):
    """What was asked for is there, and its files can't be read as what they should be."""


class Busy(OpdError):
    """So many wait for programs already that more would leave no thread to answer anything else."""


_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (Gone, 404),
    (Busy, 503),
    (Unreadable, 409),
    (AskedWrongly, 400),
    (AnswerIsNo, 409),
    (FileNotFoundError, 404),  # a folder that was removed while it is shown
    (NotADirectoryError, 404),
    (OSError, 409),
    (RecursionError, 409),  # a file with lists in lists in lists
)


def answer(value: Any, *, status: int = 200) -> Response:
    """The value as JSON."""
    return Response(encoded(value), status_code=status, media_type="application/json")


def encoded(value: Any) -> bytes:
    """UTF-8 that every JSON reader takes; what JSON can't say is replaced, see above."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (ValueError, RecursionError):  # UnicodeEncodeError is a ValueError
        return encoded_anyway(value)


def encoded_anyway(value: Any) -> bytes:
    """The same for a value that JSON can't say as it is."""
    return json.dumps(_sayable(value, left=_DEEPEST), ensure_ascii=False, separators=(",", ":")).encode()


def refusal(status: int, message: str) -> Response:
    """An error as the API gives it."""
    return answer({"error": message}, status=status)


async def refused(_: Request, error: Exception) -> Response:
    """The answer to a request that raised one of ours, or an error of the system."""
    status = next(number for kind, number in _STATUS if isinstance(error, kind))
    return refusal(status, str(error))


HANDLED: tuple[type[Exception], ...] = (OpdError, OSError, RecursionError)
"""What `refused` answers; anything else is a bug here, and is answered by 500."""


def whole(text: str) -> str:
    """The text with each half of a character as its code point."""
    return _HALF.sub(lambda found: f"⟨U+{ord(found.group()):04X}⟩", text)


def _sayable(value: Any, *, left: int) -> Any:
    if left == 0:
        return "…"
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {whole(str(key)): _sayable(one, left=left - 1) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_sayable(one, left=left - 1) for one in value]
    return value
