"""The server at work: on this machine's own addresses only, until somebody ends it."""

import errno
import os
import secrets
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from html import escape
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from opd.records.errors import AskedWrongly
from opd.view.server.programs import Programs

if TYPE_CHECKING:
    from opd.view.server.index import Index

_ENDS_WITHIN_SECONDS = 1
_BACKLOG = 128
_TOKEN_BYTES = 16


def serve(
    roots: Sequence[Path], *, port: int = 0, open_browser: bool = True, said: Callable[[str], None] = print
) -> None:
    """Answers for the runs below these folders until it is interrupted; `said` is told the address first.

    Raises `AskedWrongly` for a folder that is not there and for a port that is taken.
    """
    for root in roots:
        if not root.is_dir():
            raise AskedWrongly(f"{root} is no folder; name one that runs lie in, or a run")
    token, programs = secrets.token_urlsafe(_TOKEN_BYTES), Programs()
    with ExitStack() as stack:
        stack.callback(programs.close)
        sockets = [stack.enter_context(one) for one in listening(port)]
        port = sockets[0].getsockname()[1]
        address = f"http://127.0.0.1:{port}/?token={token}"
        said(address)
        if open_browser and has_display():
            stack.enter_context(shown_in_browser(address))

        import uvicorn  # takes most of a second, while the browser starts and its request waits at the socket

        from opd.view.server.app import application
        from opd.view.server.index import Index

        index = Index(roots)
        Thread(target=_read_ahead, args=(index,), daemon=True).start()
        # a cookie is of a host and not of a port: two servers would take each other's
        app = application(index, token=token, cookie=f"opd-view-{port}", programs=programs)
        config = uvicorn.Config(
            app,
            access_log=False,  # addresses hold what is looked at
            date_header=False,
            lifespan="off",
            log_level="warning",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_ENDS_WITHIN_SECONDS,
            ws="none",
        )

        class Server(uvicorn.Server):
            async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
                programs.close()  # who waits for one is answered, and needs not be cut off
                await super().shutdown(sockets)

        Server(config).run(sockets=sockets)


def listening(port: int) -> list[socket.socket]:
    """Sockets at 127.0.0.1 and, where this machine has it, at ::1, both at this port; 0: one that is free."""
    first = _bound(socket.AF_INET, "127.0.0.1", port)
    taken = first.getsockname()[1]
    try:
        return [first, _bound(socket.AF_INET6, "::1", taken)]
    except (AskedWrongly, OSError):  # no IPv6 here, or another program is at that port; the address printed is IPv4
        return [first]


def _read_ahead(index: "Index") -> None:
    """What the first page asks for is there: the runs, and what reads a table of rollouts."""
    index.entries()
    import_module("pyarrow.parquet")


def has_display() -> bool:
    """Whether a browser would have a window, and not take the terminal."""
    return sys.platform in {"darwin", "win32"} or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


@contextmanager
def shown_in_browser(address: str) -> Iterator[None]:
    """A browser is sent to the address by a file that only its owner reads: a command line is read by everybody."""
    with tempfile.NamedTemporaryFile("w", suffix=".html", prefix="opd-view-", encoding="utf-8") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(address)}">')
        file.flush()
        Thread(target=webbrowser.open, args=(Path(file.name).as_uri(),), daemon=True).start()
        yield


def _bound(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    # TCP by name: only for a socket that says so does asyncio send the end of an answer at once, not after 40 ms
    one = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind((host, port))
        one.listen(_BACKLOG)  # from here on who connects is kept waiting, and not turned away
    except OSError as error:
        one.close()
        if error.errno in {errno.EADDRINUSE, errno.EACCES}:
            why = "taken" if error.errno == errno.EADDRINUSE else "not open to you"
            raise AskedWrongly(f"--port {port} is {why}; give another, or 0 for one that is free") from error
        raise
    return one
