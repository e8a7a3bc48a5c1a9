import hashlib
import json
from pathlib import Path

import pytest

from opd.protocol.attempts.events import Events
from opd.records.errors import AskedWrongly
from opd.records.receipts import NO_HEAD


@pytest.fixture
def log(tmp_path: Path) -> Events:
    events = Events(tmp_path / "events.jsonl")
    events.add("began", actor="explore/attempt-001", name="explore/attempt-001")
    events.add("suspended", actor="explore/attempt-001", seconds=3.5)
    events.add("sealed", actor="explore/attempt-001", outcome="submitted")
    return events


def test_each_line_holds_the_digest_of_the_line_before_it(log: Events) -> None:
    before = NO_HEAD.sha256
    for number, line in enumerate(log.path.read_bytes().splitlines(), start=1):
        value = json.loads(line)
        assert (value["seq"], value["prev_sha256"]) == (number, before)
        before = hashlib.sha256(line).hexdigest()
    assert log.head().sha256 == before
    assert [event.kind for event in log.read()] == ["began", "suspended", "sealed"]


def test_a_second_writer_goes_on_where_the_first_was(log: Events) -> None:
    Events(log.path).add("ruled", actor="operator")
    log.add("began", actor="formal/attempt-001")
    assert [event.seq for event in log.read()] == [1, 2, 3, 4, 5]


def _change(lines: list[bytes]) -> list[bytes]:
    return [lines[0], lines[1].replace(b"3.5", b"0.5"), *lines[2:]]


def _take_out(lines: list[bytes]) -> list[bytes]:
    return [lines[0], *lines[2:]]


def _swap(lines: list[bytes]) -> list[bytes]:
    return [lines[1], lines[0], *lines[2:]]


def _cut_the_beginning(lines: list[bytes]) -> list[bytes]:
    return lines[1:]


@pytest.mark.parametrize("forge", [_change, _take_out, _swap, _cut_the_beginning])
def test_a_line_changed_taken_out_or_moved_breaks_the_chain(log: Events, forge: object) -> None:
    assert callable(forge)
    log.path.write_bytes(b"".join(forge(log.path.read_bytes().splitlines(keepends=True))))
    with pytest.raises(AskedWrongly, match="the chain breaks here"):
        Events(log.path).read()


def test_an_end_that_was_cut_off_is_missed_by_who_holds_its_digest(log: Events) -> None:
    head = log.head()
    lines = log.path.read_bytes().splitlines(keepends=True)
    log.path.write_bytes(b"".join(lines[:-1]))
    assert len(Events(log.path).read()) == 2, "the chain alone can't tell"
    assert not Events(log.path).holds(head)
    assert Events(log.path).holds(NO_HEAD)


def test_what_a_crash_left_of_a_line_is_cut_off_and_said(log: Events) -> None:
    with log.path.open("ab") as file:
        file.write(b'{"seq": 4, "half')
    assert len(Events(log.path).read()) == 3
    Events(log.path).add("resumed", actor="operator")
    assert [(event.kind, event.data) for event in Events(log.path).read()[3:]] == [
        ("torn_line", {"bytes": 16}),
        ("resumed", {}),
    ]
