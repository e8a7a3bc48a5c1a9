"""One request to a server, and the three ways in which it fails.

    MayPass      no connection, no answer in time, status 408, 429 or 5xx, no JSON: asked again, here or elsewhere
    Refused      any other status, another model, too small a limit: this server is not asked again
    WrongReply   an answer that is whole, and no score of the tokens that were asked for: as Refused

The API key goes into one header. What a server sends back with the key in it is not shown. Redirects are not
followed, so that the key goes nowhere else, and proxies of the environment are not used.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from types import ModuleType
from typing import Any, Self

from opd.models.served.settings import ServedSettings
from opd.records.servers import asked_pause, find_client, find_key

TOO_MANY = 429
_PASSING = frozenset({408, TOO_MANY})  # and 5xx
_SHOWN_CHARS = 300


class MayPass(Exception):
    """A request failed in a way that a later one may not. `busy`: the server is well, and has enough to do."""

    def __init__(self, reason: str, *, pause_seconds: float = 0.0, busy: bool = False) -> None:
        super().__init__(reason)
        self.pause_seconds = pause_seconds  # that the server asks for
        self.busy = busy


class Refused(Exception):
    """The server will give the same answer again."""


class WrongReply(Exception):
    """The answer can't be taken for a score, and asking the same server again would hide it."""


class Wire:
    """Connections to all servers, for as long as the block lasts: `async with Wire(settings) as wire`."""

    def __init__(self, settings: ServedSettings) -> None:
        self._key = servers_key(settings)
        self._timeout_seconds = settings.timeout_seconds
        self._httpx = client()
        self._client: Any = None

    async def __aenter__(self) -> Self:
        self._client = self._httpx.AsyncClient(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=self._timeout_seconds,
            limits=self._httpx.Limits(max_connections=None),
            trust_env=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def get(self, url: str, *, largest_bytes: int) -> bytes:
        """The body of an answer with status 200."""
        return await self._asked("GET", url, None, largest_bytes)

    async def post(self, url: str, request: Mapping[str, Any], *, largest_bytes: int) -> bytes:
        """The body of an answer with status 200 to this JSON."""
        return await self._asked("POST", url, request, largest_bytes)

    async def _asked(self, method: str, url: str, request: Mapping[str, Any] | None, largest_bytes: int) -> bytes:
        try:
            async with (
                asyncio.timeout(self._timeout_seconds),
                self._client.stream(method, url, json=request) as response,
            ):
                status, headers = response.status_code, response.headers
                body = await _whole(response.aiter_bytes(), largest_bytes=largest_bytes)
        except (TimeoutError, self._httpx.TimeoutException):
            raise MayPass(f"nothing came within {self._timeout_seconds:g} s") from None
        except self._httpx.RequestError as error:
            raise MayPass(f"{type(error).__name__}: {error}") from error
        if status == 200:
            return body
        reason = f"status {status}: {self.shown(body)}"
        if status in _PASSING or status >= 500:
            raise MayPass(reason, pause_seconds=asked_pause(headers), busy=status == TOO_MANY)
        raise Refused(reason)

    def shown(self, body: bytes) -> str:
        """The beginning of an answer, for a message."""
        text = body.decode(errors="replace").strip()
        if self._key and self._key in text:
            return "an answer that holds the API key, and is not shown"
        return repr(text[:_SHOWN_CHARS])


def servers_key(settings: ServedSettings | None, *, section: str = "machine") -> str:
    """The key that goes to the servers, empty where none does. Raises `AskedWrongly` when its variable is not set.

    `section` of the recipe is where the servers are named, for the message.
    """
    variable = settings.key_variable if settings else None
    return find_key(variable, setting=f"{section}.served.key_variable", whose="the servers'")


def client() -> ModuleType:
    """The HTTP client. Raises `AskedWrongly` when it is not installed."""
    return find_client(needed_by="a teacher behind a server", extra="served")


async def _whole(chunks: AsyncIterator[bytes], *, largest_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > largest_bytes:
            raise MayPass(f"the answer is longer than {largest_bytes:,} bytes")
    return bytes(body)
