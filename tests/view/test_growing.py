"""Files that grow while they are read."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opd.view.growing import last_line, lines_in, news

quick = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


@quick
@given(st.lists(st.text(max_size=12), max_size=8), st.integers(min_value=0), st.booleans())
def test_two_looks_see_each_line_once_wherever_the_first_one_ended(
    tmp_path: Path, words: list[str], cut: int, torn: bool
) -> None:
    values = [{"word": word} for word in words]
    whole = "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values).encode("utf-8", "replace")
    path = tmp_path / "m.jsonl"
    path.write_bytes(whole[: cut % (len(whole) + 1)])
    first = news(path)
    path.write_bytes(whole + b'{"torn": ' * torn)
    second = news(path, start=first.end)
    expected = [json.loads(line) for line in whole.split(b"\n") if line]
    assert [*first.values, *second.values] == expected
    assert last_line(path) == (expected[-1] if expected else None)
    assert lines_in(path) == len(expected)


def test_a_file_that_was_cut_back_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n')
    end = news(path).end
    path.write_text('{"a": 1}\n')
    again = news(path, start=end)
    assert (again.start, again.values) == (0, ({"a": 1},))


def test_lines_that_are_no_objects_are_counted_and_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(b'{"a": 1}\n[2]\n\n\xff\xfe\n' + b"[" * 100_000 + b'\n{"a": 3}\n7\n')
    found = news(path)
    assert found.values == ({"a": 1}, {"a": 3})
    assert found.passed_over == 4
    assert last_line(path) == {"a": 3}


@pytest.mark.parametrize("size", [10, 65_500, 65_536, 200_000, 1_000_000])
def test_the_last_line_is_found_from_the_end_however_long_it_is(tmp_path: Path, size: int) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text(json.dumps({"n": 1}) + "\n" + json.dumps({"text": "x" * size}) + "\n" + '{"torn')
    assert last_line(path) == {"text": "x" * size}


def test_the_end_of_a_damaged_line_is_not_taken_for_a_line(tmp_path: Path) -> None:
    """It fills the last 64 KiB to the byte, so that a first look at the end begins where it looks like an object."""
    end = json.dumps({"x": "y" * (65_536 - len('{"x": ""}\n'))}) + "\n"
    assert len(end) == 65_536
    path = tmp_path / "m.jsonl"
    path.write_text('{"n": 1}\ndamaged ' + end)
    assert last_line(path) == {"n": 1}


def test_a_file_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    assert news(tmp_path / "m.jsonl", start=9).values == ()
    assert last_line(tmp_path / "m.jsonl") is None
    assert lines_in(tmp_path / "m.jsonl") == 0
