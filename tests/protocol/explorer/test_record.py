import os
from pathlib import Path

import pytest

from opd.protocol.explorer import record
from opd.protocol.explorer.record import Record
from opd.records.files import read_lines


def _recorded(folder: Path, *writes: bytes) -> list[dict[str, object]]:
    pipe, log = folder / "pipe", folder / "commands.jsonl"
    with Record(pipe, log).open():
        for data in writes:
            with pipe.open("wb", buffering=0) as file:
                file.write(data)
    return list(read_lines(log))


def test_a_command_is_kept_with_its_shell_and_what_nobody_of_ours_wrote_as_it_came(tmp_path: Path) -> None:
    ours, strange = _recorded(tmp_path, b"7\t9\t1\t'python train.py'\n", b"x\ty\n")
    assert (ours["shell"], ours["process"], ours["last_exit"], ours["command"]) == (7, 9, 1, "python train.py")
    assert strange["as_it_came"] == "x\ty"


def test_a_record_that_is_full_says_how_many_bytes_came_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "LARGEST_BYTES", 0)
    monkeypatch.setattr(os, "read", _one_line_at_a_time)
    first, second = b"1\t1\t0\t'echo one'\n", b"1\t1\t0\t'curl example.org'\n"
    kept, *rest = _recorded(tmp_path, first, second, second)
    assert kept["command"] == "echo one"
    assert [{name: one[name] for name in one if name not in {"at", "monotonic"}} for one in rest] == [
        {"lost_bytes": 2 * len(second)}
    ]


def _one_line_at_a_time(descriptor: int, _most: int, *, read=os.read) -> bytes:  # type: ignore[no-untyped-def]
    line = b""
    while not line.endswith(b"\n"):
        line += read(descriptor, 1)
    return line
