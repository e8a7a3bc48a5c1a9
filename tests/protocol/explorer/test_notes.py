"""`note`, asked through the explorer's own command: what stands in the record afterwards."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opd.protocol.explorer import client
from opd.protocol.explorer.desk import Desk, Question
from opd.protocol.explorer.notes import LONGEST, take_note
from opd.protocol.explorer.tools import lay_out_commands
from opd.protocol.packages import catalogue
from opd.protocol.packages.instruction import instruction
from opd.records.errors import AskedWrongly
from opd.records.tasks import Tool


class Office:
    """A desk that takes notes, and its record."""

    def __init__(self, folder: Path) -> None:
        self.socket, self.log, self.commands = folder / "desk", folder / "desk.jsonl", folder / "bin"
        self.desk = Desk({"note": take_note}, log=self.log)
        lay_out_commands(self.commands, (Tool.NOTE,))

    def note(self, *words: str | bytes) -> subprocess.CompletedProcess[str]:
        given = {client.DESK: str(self.socket), "PATH": os.environ["PATH"]}
        command: list[str | bytes] = [str(self.commands / "note"), *words]
        return subprocess.run(command, env=given, capture_output=True, text=True, check=False, cwd="/")

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    made = Office(tmp_path)
    with made.desk.open(made.socket):
        yield made


def test_a_note_stands_in_the_record_word_for_word_with_its_time(office: Office) -> None:
    words = "The prefix is 27 % of the rows;\n  shuffling should cover more — 数."
    noted = office.note(words, "--about", "/runs/shuffle")
    assert (noted.returncode, noted.stdout) == (0, "noted\n")
    (line,) = office.lines
    assert line["arguments"] == {"text": words, "about": "/runs/shuffle"}
    assert (line["command"], line["exit"], line["folder"]) == ("note", 0, "/")
    assert line["began"].endswith("Z")
    assert office.note("and no run").returncode == 0
    assert office.lines[1]["arguments"] == {"text": "and no run", "about": None}


def test_words_that_are_no_utf8_are_recorded_all_the_same(office: Office) -> None:
    """Half a character can be written to no file: a name of odd bytes must not keep a question out of the record."""
    odd = b"caf\xe9"
    with pytest.raises(UnicodeEncodeError):
        os.fsdecode(odd).encode()
    assert office.note(odd).returncode == 0
    assert [line["arguments"]["text"] for line in office.lines] == ["caf?"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "say what is to be noted"),
        ({"text": " \n"}, "say what is to be noted"),
        ({"text": ["a"]}, "say what is to be noted"),
        ({"text": "x" * (LONGEST + 1)}, "at most 4,000 characters, and this one 4,001"),
        ({"text": "x", "about": ""}, "--about names a run"),
        ({"text": "x", "about": 7}, "--about names a run"),
        ({"text": "x", "about": "y" * 1_001}, "--about names a run"),
    ],
)
def test_what_says_nothing_or_too_much_is_refused(arguments: dict[str, Any], says: str) -> None:
    said: list[str] = []
    with pytest.raises(AskedWrongly, match=says):
        take_note(Question(command="note", arguments=arguments, folder="/workspace", pid=1), said.append)
    assert said == []


def test_the_longest_note_is_taken() -> None:
    said: list[str] = []
    longest = {"text": "x" * LONGEST, "about": "y" * 1_000}
    assert take_note(Question(command="note", arguments=longest, folder="/", pid=1), said.append) == 0
    assert said == ["noted"]


@pytest.mark.parametrize("task", ["arith_tiny", "opd_math_1p5b"])
def test_the_instruction_tells_of_it(task: str) -> None:
    text = instruction(catalogue.find(task)[0])
    (row,) = [line for line in text.splitlines() if line.startswith("| `note ")]
    assert 'note "TEXT" [--about RUN]' in row
    assert "free of charge" in row
