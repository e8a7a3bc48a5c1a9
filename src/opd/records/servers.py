"""What whoever asks a server over HTTP does alike: the key, the client, and what a bad answer asks for."""

import os
from collections.abc import Mapping
from types import ModuleType

from opd.records.errors import AskedWrongly


def find_key(variable: str | None, *, setting: str, whose: str) -> str:
    """The API key of an environment variable, empty where none is sent; it stands in no record and no message.

    `setting` names the variable's place in the settings, `whose` the key. Raises `AskedWrongly` when it is not set.
    """
    if variable is None:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise AskedWrongly(f"{setting}: the environment variable {variable} is not set; it holds {whose} key")
    return key


def find_client(*, needed_by: str, extra: str) -> ModuleType:
    """The HTTP client, httpx2. Raises `AskedWrongly` when it is not installed."""
    try:
        import httpx2
    except ModuleNotFoundError:
        raise AskedWrongly(f"{needed_by} needs httpx2: pip install 'opd[{extra}]'") from None
    return httpx2


def asked_pause(headers: Mapping[str, str]) -> float:
    """Seconds that `Retry-After` asks for; 0 where it is absent or a date."""
    try:
        return max(0.0, float(headers.get("retry-after", "0")))
    except ValueError:
        return 0.0
