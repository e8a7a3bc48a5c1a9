"""Real servers of small models on loopback, each with a door that counts, waits, refuses and falsifies."""

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from opd.models.load import LanguageModel
from opd.models.served.server import Service

Falsify = Callable[[Any], Any]  # of the JSON of an answer; bytes are sent as they are


class Door:
    """What stands between a server and those who ask it for scores; everything else passes."""

    def __init__(self, application: Any) -> None:
        self.application = application
        self.requests: list[dict[str, Any]] = []  # those for scores
        self.under_way = 0
        self.most_under_way = 0
        self.pause_seconds = 0.0  # before each answer
        self.statuses: list[int] = []  # of the next answers, instead of one; 0: it passes
        self.falsify: Falsify | None = None
        self.trickle_seconds = 0.0  # between two bytes of an answer's first hundred
        self.asked: Callable[[], object] = lambda: None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] != "/v1/completions":
            await self.application(scope, receive, send)
            return
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await self._pass(scope, receive, send)
        finally:
            self.under_way -= 1

    async def _pass(self, scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        body = message.get("body", b"")
        while message.get("more_body"):
            message = await receive()
            body += message.get("body", b"")
        self.requests.append(json.loads(body))
        self.asked()
        await asyncio.sleep(self.pause_seconds)
        if self.statuses and (status := self.statuses.pop(0)):
            await _answer(send, status, b'{"error": "busy"}')
            return
        sent: list[Any] = []

        async def again() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def keep(message: Any) -> None:
            sent.append(message)

        await self.application(scope, again, keep)
        status, answer = sent[0]["status"], b"".join(one.get("body", b"") for one in sent[1:])
        if self.falsify is not None and status == 200:
            answer = self.falsify(json.loads(answer))
            answer = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        if self.trickle_seconds:
            await self._trickle(send, answer)
            return
        await _answer(send, status, answer)

    async def _trickle(self, send: Any, answer: bytes) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for place in range(100):
            await send({"type": "http.response.body", "body": answer[place : place + 1], "more_body": True})
            await asyncio.sleep(self.trickle_seconds)
        await send({"type": "http.response.body", "body": answer[100:]})


async def _answer(send: Any, status: int, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": body})


class Running:
    """A server at work in a thread, until `stop`: then nobody listens, and what was under way is broken off."""

    def __init__(self, door: Door, *, port: int = 0) -> None:
        self.door = door
        self._socket = socket.create_server(("127.0.0.1", port))
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        config = uvicorn.Config(door, log_level="critical", lifespan="off", ws="none", timeout_graceful_shutdown=0)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join()
        self._socket.close()


Serve = Callable[..., Running]


@contextlib.contextmanager
def serving() -> Iterator[Serve]:
    """`serve(model, name="teacher")`: a server of it; all of them are stopped at the end."""
    all_of_them: list[Running] = []

    def serve(model: LanguageModel, *, name: str = "teacher", port: int = 0, **settings: Any) -> Running:
        one = Running(Door(Service(model, name=name, **settings).application()), port=port)
        all_of_them.append(one)
        return one

    try:
        yield serve
    finally:
        for one in all_of_them:
            one.stop()
