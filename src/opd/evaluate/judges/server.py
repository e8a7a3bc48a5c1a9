"""A server in OpenAI's form as a judge: `POST URL/chat/completions` with one user turn, at temperature 0.

The API key comes from an environment variable and goes into one header. It stands in no record, no message and no
`repr`; what a server sends back with the key in it is dropped whole. Redirects are not followed, so that the key
goes nowhere else.
"""

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from opd.evaluate.judges.exchange import Asked, JudgeModel, NoReply, Reply
from opd.evaluate.judges.settings import ServerJudge
from opd.records.servers import asked_pause, find_client, find_key

_PASSING = frozenset({408, 409, 429})  # and 5xx: another try may find it gone
_LONGEST_PAUSE_SECONDS = 60.0
_LARGEST_ANSWER_BYTES = 1 << 22
_SHOWN_CHARS = 200


class _MayPass(Exception):
    """A request failed in a way that a later one may not."""

    def __init__(self, reason: str, *, pause_seconds: float = 0.0) -> None:
        super().__init__(reason)
        self.pause_seconds = pause_seconds  # that the server asks for


class ServerBackend:
    """Replies of a server."""

    def __init__(self, settings: ServerJudge, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._settings = settings
        self._sleep = sleep
        self._key = find_key(settings.key_variable, setting="key_variable", whose="the judge's")
        self._httpx = find_client(needed_by="a judge at a server", extra="judge")
        self._client = self._httpx.Client(
            base_url=settings.url.rstrip("/") + "/",
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=settings.timeout_seconds,
            limits=self._httpx.Limits(max_connections=settings.concurrency),
        )
        self._model = JudgeModel(name=settings.model, limit_tokens=settings.limit_tokens)

    @property
    def model(self) -> JudgeModel:
        """The name that the server knows the model by; which weights it has is the server's word."""
        return self._model

    def replies(self, turns: Sequence[Asked]) -> list[Reply | NoReply]:
        """A reply to each turn, several under way at once."""
        with ThreadPoolExecutor(max_workers=self._settings.concurrency) as threads:
            return list(threads.map(self._reply, turns))

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    def _reply(self, asked: Asked) -> Reply | NoReply:
        pause_seconds = self._settings.backoff_seconds
        for left in range(self._settings.tries - 1, -1, -1):
            try:
                status, body = self._answer(asked.turn)
            except _MayPass as error:
                if not left:
                    tries = f"{self._settings.tries} tries" if self._settings.tries > 1 else "one try"
                    return self._without_key(NoReply(reason=f"no reply after {tries}: {error}"))
                self._sleep(min(max(pause_seconds, error.pause_seconds), _LONGEST_PAUSE_SECONDS))
                pause_seconds *= 2
                continue
            return self._without_key(_read(body) if status == 200 else _refused(status, body))
        raise AssertionError("the last try returns")

    def _answer(self, turn: str) -> tuple[int, bytes]:
        """Status and body of one request; `_MayPass` for what another try may get over."""
        deadline = time.monotonic() + self._settings.timeout_seconds
        request = {
            "model": self._settings.model,
            "messages": [{"role": "user", "content": turn}],
            "temperature": 0,
            "max_tokens": self._settings.limit_tokens,
        }
        try:
            with self._client.stream("POST", "chat/completions", json=request) as response:
                status, headers = response.status_code, response.headers
                body = b"".join(_in_time(response.iter_bytes(), deadline=deadline))
        except self._httpx.TimeoutException:
            raise _MayPass(f"nothing came within {self._settings.timeout_seconds:g} s") from None
        except self._httpx.RequestError as error:
            raise _MayPass(f"{type(error).__name__}: {error}") from error
        if status in _PASSING or status >= 500:
            raise _MayPass(_refused(status, body).reason, pause_seconds=asked_pause(headers))
        return status, body

    def _without_key(self, result: Reply | NoReply) -> Reply | NoReply:
        """The result, unless the key stands in it."""
        text = result.text if isinstance(result, Reply) else result.reason
        if self._key and self._key in text:
            return NoReply(reason="the server's answer holds the API key and was dropped")
        return result


def _in_time(chunks: Any, *, deadline: float) -> Any:
    """The chunks; a body that trickles past the deadline or grows without end is none."""
    size_bytes = 0
    for chunk in chunks:
        size_bytes += len(chunk)
        if time.monotonic() > deadline:
            raise _MayPass("the answer was not complete in time")
        if size_bytes > _LARGEST_ANSWER_BYTES:
            raise _MayPass(f"the answer is longer than {_LARGEST_ANSWER_BYTES:,} bytes")
        yield chunk


def _read(body: bytes) -> Reply | NoReply:
    """The reply in a body of the form {"choices": [{"message": {"content": …}, "finish_reason": …}]}."""
    try:
        choice = json.loads(body)["choices"][0]
        content, finish = choice["message"]["content"], choice.get("finish_reason")
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return NoReply(reason=f"the server's answer is no chat completion: {_shown(body)}")
    if not isinstance(content, str):
        return NoReply(reason=f"the server's answer holds no text: {_shown(body)}")
    return Reply(text=content, cut_short=finish == "length")


def _refused(status: int, body: bytes) -> NoReply:
    return NoReply(reason=f"the server answered with status {status}: {_shown(body)}")


def _shown(body: bytes) -> str:
    return repr(body.decode(errors="replace").strip()[:_SHOWN_CHARS])
