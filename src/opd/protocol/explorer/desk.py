"""The desk: it answers the explorer's commands, outside of the sandbox, one thread a question.

A question is one line of JSON on a socket that the sandbox shows; the answer is any number of lines {"say": …} and a
last one {"exit": …}. Every question and its end is a line of desk.jsonl.
"""

import json
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from socket import SO_PEERCRED, SOL_SOCKET
from typing import Any

from opd.protocol.clock import now
from opd.records.errors import OpdError
from opd.records.files import append_lines

_LONGEST_QUESTION = 1 << 16  # bytes
_MOST_AT_ONCE = 32  # questions
_MOST_QUESTIONS = 100_000  # of one exploration: its record fills no disk
_LONGEST_SAID, _MOST_SAID = 4_000, 200  # characters and lines of an answer that the record keeps
_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a command of the explorer asks."""

    command: str
    arguments: Mapping[str, Any]
    folder: str  # where it was started, as the sandbox sees it
    pid: int  # of the process that asks, as this side sees it


Say = Callable[[str], None]
Answer = Callable[[Question, Say], int]


class Desk:
    """The commands that there are, each with who answers it."""

    def __init__(self, answers: Mapping[str, Answer], *, log: Path) -> None:
        self._answers = answers
        self._log = log
        self._writing = threading.Lock()
        self._asked = 0

    def answer(self, question: Question, say: Say) -> int:
        """The exit code of the command; what it says goes to `say`. A refusal is said like anything else."""
        self._asked += 1
        if self._asked > _MOST_QUESTIONS:
            say(f"{_MOST_QUESTIONS:,} questions were answered; no more are in this exploration")
            return 1
        began = now()
        said: list[str] = []

        def heard(text: str) -> None:
            said.append(text[:_LONGEST_SAID])
            say(text)

        code = self._code(question, heard)
        ended = now()
        line = {
            "began": began.utc,
            "ended": ended.utc,
            "seconds": round(ended.monotonic - began.monotonic, 3),
            "command": question.command,
            "arguments": dict(question.arguments),
            "folder": question.folder,
            "pid": question.pid,
            "exit": code,
            "said": said[:_MOST_SAID],
        }
        with self._writing:
            append_lines(self._log, [line])
        return code

    def _code(self, question: Question, say: Say) -> int:
        if question.command not in self._answers:
            say(f"{question.command}: there is no such command; there are {', '.join(self._answers)}")
            return 2
        try:
            return self._answers[question.command](question, say)
        except OpdError as error:
            say(f"{question.command}: {error}")
            return error.exit_code

    @contextmanager
    def open(self, socket: Path) -> Iterator[None]:
        """Inside, questions at this socket are answered."""
        server = _Server(str(socket), self)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="desk", daemon=True)
        socket.chmod(0o666)  # the explorer is somebody else
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """At most so many questions at once: an explorer that asks without end takes no memory of ours."""

    daemon_threads = True
    block_on_close = False  # an evaluation that is under way ends with the exploration, not the other way round
    request_queue_size = 64

    def __init__(self, path: str, desk: Desk) -> None:
        self.desk = desk
        self._free = threading.BoundedSemaphore(_MOST_AT_ONCE)
        super().__init__(path, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answered by a thread; while all are busy, hung up on."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """The thread of one question."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """An explorer that went away in the middle of an answer is no error of ours."""
        with suppress(OSError):
            request.close()


class _Handler(socketserver.StreamRequestHandler):
    server: _Server
    timeout = 30.0  # seconds for a question to arrive, and for a line of the answer to be taken

    def handle(self) -> None:
        line = self.rfile.readline(_LONGEST_QUESTION)
        question = _parsed(line, pid=self._pid())
        code = 2 if question is None else self.server.desk.answer(question, self._say)
        if question is None:
            self._say("this is no question")
        with suppress(OSError):
            self._write({"exit": code})

    def _say(self, text: str) -> None:
        with suppress(OSError):  # who asked is gone, or doesn't listen; what was asked for is still done
            self._write({"say": text})

    def _write(self, value: dict[str, Any]) -> None:
        self.wfile.write(json.dumps(value).encode() + b"\n")
        self.wfile.flush()

    def _pid(self) -> int:
        held = self.connection.getsockopt(SOL_SOCKET, SO_PEERCRED, _CREDENTIALS.size)
        return int(_CREDENTIALS.unpack(held)[0])


def _parsed(line: bytes, *, pid: int) -> Question | None:
    try:
        value = _whole(json.loads(line, parse_constant=_refused))
        command, arguments, folder = (value[key] for key in ("command", "arguments", "folder"))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not (isinstance(command, str) and isinstance(arguments, dict) and isinstance(folder, str)):
        return None
    return Question(command=command, arguments=arguments, folder=folder, pid=pid)


def _whole(value: Any) -> Any:
    """The same with `?` for each half of a character, which can be written to no file: of a name that is no UTF-8."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no number that the record can hold")
