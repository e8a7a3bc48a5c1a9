"""The desk at its socket, asked by hand: by the explorer's own program, and by one that means harm."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opd.protocol.explorer import client
from opd.protocol.explorer.desk import Desk, Question, Say
from opd.protocol.explorer.tools import lay_out_commands
from opd.records.errors import AnswerIsNo
from opd.records.tasks import Tool


class Office:
    """A desk with three answers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "desk"
        self.log = folder / "desk.jsonl"
        self.waiting = threading.Event()
        self.desk = Desk({"timer": self._timer, "submit": self._refused, "fast-eval": self._slow}, log=self.log)

    def _timer(self, question: Question, say: Say) -> int:
        say(f"{question.folder} {dict(question.arguments)} {question.pid > 0}")
        return 0

    def _refused(self, question: Question, say: Say) -> int:
        say("looking")
        raise AnswerIsNo("a link is in the way")

    def _slow(self, question: Question, say: Say) -> int:
        self.waiting.wait(20)
        return 7

    def connect(self) -> socket.socket:
        asking = socket.socket(socket.AF_UNIX)
        asking.settimeout(20)
        asking.connect(str(self.socket))
        return asking

    def ask(self, line: bytes) -> list[dict[str, Any]]:
        with self.connect() as asking:
            asking.sendall(line)
            with asking.makefile("rb") as answer:
                return [json.loads(said) for said in answer]

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    made = Office(tmp_path)
    with made.desk.open(made.socket):
        yield made
        made.waiting.set()


def question(command: str, **arguments: Any) -> bytes:
    return json.dumps({"command": command, "arguments": arguments, "folder": "/workspace"}).encode() + b"\n"


def test_an_answer_is_lines_and_an_exit_code_and_a_line_of_the_record(office: Office) -> None:
    assert office.ask(question("timer", json=True)) == [{"say": "/workspace {'json': True} True"}, {"exit": 0}]
    (line,) = office.lines
    assert (line["command"], line["arguments"], line["exit"]) == ("timer", {"json": True}, 0)
    assert line["said"] == ["/workspace {'json': True} True"]
    assert line["pid"] == os.getpid()


def test_a_refusal_is_said_and_recorded_like_anything_else(office: Office) -> None:
    assert office.ask(question("submit")) == [
        {"say": "looking"},
        {"say": "submit: a link is in the way"},
        {"exit": 1},
    ]
    assert [line["exit"] for line in office.lines] == [1]


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"not json\n",
        b"[]\n",
        b'{"command": 1, "arguments": {}, "folder": ""}\n',
        b"\xff\xfe\n",
        b'{"command": "timer", "arguments": {"x": NaN}, "folder": ""}\n',
        b"[" * 60_000 + b"\n",
    ],
)
def test_what_is_no_question_is_told_so_and_nothing_breaks(office: Office, line: bytes) -> None:
    assert office.ask(line)[-1] == {"exit": 2}
    assert office.ask(question("nonsense"))[-1] == {"exit": 2}
    assert office.ask(question("timer"))[-1] == {"exit": 0}


def test_who_asks_without_end_is_hung_up_on_and_others_are_answered_afterwards(office: Office) -> None:
    asking = [office.connect() for _ in range(40)]
    for one in asking[:32]:
        one.sendall(question("fast-eval"))
    refused = [one.recv(1) for one in asking[32:]]
    assert refused == [b""] * 8
    office.waiting.set()
    for one in asking[:32]:
        with one.makefile("rb") as answer:
            assert json.loads(answer.readline()) == {"exit": 7}
    for one in asking:
        one.close()
    assert office.ask(question("timer"))[-1] == {"exit": 0}


def test_the_commands_are_one_program_that_ends_as_the_desk_says(office: Office) -> None:
    commands = office.folder / "bin"
    lay_out_commands(commands, tuple(Tool))
    given = {client.DESK: str(office.socket), "PATH": os.environ["PATH"]}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(commands / words[0]), *words[1:]], env=given, capture_output=True, text=True, check=False, cwd="/"
        )

    assert sorted(path.name for path in commands.iterdir()) == [
        "fast-eval", "no-candidate", "note", "on-device", "submit", "timer",
    ]  # fmt: skip
    assert run("timer").stdout == "/ {'json': False} True\n"
    refused = run("submit", "--check")
    assert (refused.returncode, refused.stdout) == (1, "looking\nsubmit: a link is in the way\n")
    assert run("submit", "--chekc").returncode == 2
    assert run("no-candidate").returncode == 2, "why has to be said"
    given[client.DESK] = str(office.folder / "nobody")
    gone = run("timer")
    assert gone.returncode == 1
    assert "nobody is at the desk" in gone.stderr


def test_a_folder_of_the_explorers_decides_nothing_about_its_commands(office: Office, tmp_path: Path) -> None:
    """faults H39: `argparse.py` beside the working folder, or a PYTHONPATH, is not what the command imports."""
    commands, trap = office.folder / "bin", tmp_path / "trap"
    lay_out_commands(commands, (Tool.TIMER,))
    trap.mkdir()
    for name in ("argparse.py", "json.py", "sitecustomize.py"):
        (trap / name).write_text("raise SystemExit(9)\n")
    planted = subprocess.run(
        [sys.executable, "-c", "import json"], cwd=trap, env={}, capture_output=True, check=False
    )
    assert planted.returncode == 9, "the trap works"
    given = {client.DESK: str(office.socket), "PYTHONPATH": str(trap)}
    asked = subprocess.run([str(commands / "timer")], cwd=trap, env=given, capture_output=True, check=False)
    assert asked.returncode == 0, asked.stderr
