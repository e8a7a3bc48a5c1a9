"""A real server over a folder of runs, and how a test asks it: every byte of a request as given."""

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from threading import Thread
from typing import Any

import uvicorn

from opd.view.server.app import application
from opd.view.server.index import Index
from opd.view.server.programs import Programs
from opd.view.server.serving import listening

TOKEN, COOKIE = "a-token-of-this-test", "opd-view-test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    headers: Message
    body: bytes

    def json(self) -> Any:
        """The body, read as strictly as the strictest reader does."""

        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} is no JSON")

        return json.loads(self.body.decode("utf-8"), parse_constant=refuse)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """A server, and how it is asked: over a real connection, with every byte of the request as given."""

    host: str
    port: int

    def __call__(
        self, path: str, *, method: str = "GET", headers: Mapping[str, str] | None = None, known: bool = True
    ) -> Answer:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            cookie = {"cookie": f"{COOKIE}={TOKEN}"} if known else {}
            for name, value in ({"host": f"127.0.0.1:{self.port}"} | cookie | dict(headers or {})).items():
                connection.putheader(name, value)
            connection.endheaders()
            answered = connection.getresponse()
            return Answer(status=answered.status, headers=answered.headers, body=answered.read())
        finally:
            connection.close()

    def rows(self) -> dict[str, dict[str, Any]]:
        """The list of runs, by name."""
        return {row["name"]: row for row in self("/api/runs").json()["runs"]}

    def id(self, name: str) -> str:
        return str(self.rows()[name]["id"])


@contextmanager
def served(*roots: Path, programs: Programs | None = None, assets: Path | None = None) -> Iterator[Asking]:
    """A server over these folders, at work in a thread."""
    sockets = listening(0)
    more = {} if assets is None else {"assets": assets}
    app = application(Index(roots), token=TOKEN, cookie=COOKIE, programs=programs, **more)
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="error", ws="none"))
    thread = Thread(target=server.run, args=(sockets,))
    thread.start()
    try:
        yield Asking(host="127.0.0.1", port=sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()
        for one in sockets:
            one.close()
