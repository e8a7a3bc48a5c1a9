"""What is printed, kept within bounds."""

from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies

from opd.protocol.supervision.output import HeadAndTail


def kept(path: Path, pieces: list[bytes], *, most_bytes: int, flush_after_each: bool = False) -> tuple[bytes, int]:
    log = HeadAndTail(path, most_bytes=most_bytes)
    for piece in pieces:
        log.write(piece)
        if flush_after_each:
            log.flush()
    log.close()
    assert log.written_bytes == sum(map(len, pieces))
    return path.read_bytes(), log.left_out_bytes


@hypothesis.given(
    pieces=strategies.lists(strategies.binary(max_size=40), max_size=12),
    most_bytes=strategies.integers(2, 60),
    flush_after_each=strategies.booleans(),
)
def test_a_log_is_all_of_it_or_its_head_a_note_and_its_tail(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], most_bytes: int, flush_after_each: bool
) -> None:
    path = tmp_path_factory.mktemp("log") / "out"
    whole = b"".join(pieces)
    text, left_out = kept(path, pieces, most_bytes=most_bytes, flush_after_each=flush_after_each)
    if len(whole) <= most_bytes:
        assert (text, left_out) == (whole, 0)
        return
    head_bytes, tail_bytes = most_bytes - most_bytes // 2, most_bytes // 2
    note = f"\n[… {len(whole) - most_bytes:,} bytes left out …]\n".encode()
    assert left_out == len(whole) - most_bytes
    assert text == whole[:head_bytes] + note + whole[-tail_bytes:]


def test_while_it_grows_the_file_shows_what_came_last(tmp_path: Path) -> None:
    log = HeadAndTail(tmp_path / "out", most_bytes=20)
    log.write(b"0123456789abcdefghij")
    log.write(b"KLMNO")
    log.flush()
    assert (tmp_path / "out").read_bytes() == "0123456789\n[… 5 bytes left out …]\nfghijKLMNO".encode()
    assert log.last_line() == "fghijKLMNO"
    log.close()


def test_where_nothing_was_said_the_last_line_says_so(tmp_path: Path) -> None:
    log = HeadAndTail(tmp_path / "out", most_bytes=20)
    log.write(b"\n \n")
    assert log.last_line() == "nothing was said"
    log.close()
