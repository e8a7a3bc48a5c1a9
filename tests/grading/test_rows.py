"""A file graded line by line: order, mistakes with their place, pipes, and memory."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from opd.grading.grader import Grader
from opd.grading.pool import Limits
from opd.grading.rows import Tally, opened
from opd.records.errors import AskedWrongly


def written(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def row(number, answer, gold):
    return {"id": f"q{number}", "response": rf"\boxed{{{answer}}}", "gold": gold}


def graded(path, grader="house", second=None):
    tally = Tally()
    with Grader(grader=grader, limits=Limits(workers=1)) as first, opened(path) as sheet:
        other = None if second is None else Grader(grader=second, limits=Limits(workers=1))
        values = list(sheet.graded(first, other, tally))
        if other is not None:
            other.close()
    return values, tally


def test_two_thousand_lines_come_out_in_the_order_in_which_they_went_in(tmp_path):
    path = written(tmp_path / "in.jsonl", *(row(number, number % 7, "3") for number in range(2_000)))
    values, tally = graded(path)
    assert [one["id"] for one in values] == [f"q{number}" for number in range(2_000)]
    assert [one["correct"] for one in values] == [number % 7 == 3 for number in range(2_000)]
    assert tally.verdicts == {"correct": len(range(3, 2_000, 7)), "wrong": 2_000 - len(range(3, 2_000, 7))}
    assert tally.rows == 2_000


def test_a_line_comes_out_with_its_verdict_and_how_it_was_reached(tmp_path):
    rows = [
        row(1, r"\sqrt8", r"2\sqrt2"),
        row(2, "5", "6") | {"kind": "other keys are passed over"},
        {"id": 3, "response": "cut", "gold": "6", "cut_short": True},
        {"id": "4", "response": r"<think>\boxed{7}</think>", "gold": "7"},
    ]
    values, tally = graded(written(tmp_path / "in.jsonl", *rows))
    assert [list(one) for one in values] == [
        ["id", "verdict", "correct", "extracted", "stage", "reason", "seconds"] for _ in rows
    ]
    assert [(one["id"], one["verdict"], one["extracted"], one["stage"]) for one in values] == [
        ("q1", "correct", r"\sqrt8", "value"),
        ("q2", "wrong", "5", "integer"),
        (3, "cut_short", None, "extract"),
        ("4", "correct", "7", "integer"),
    ]
    assert all(one["seconds"] >= 0 for one in values)
    assert tally.inside_reasoning == 1


def test_a_second_grader_stands_beside_the_first_and_decides_nothing(tmp_path):
    path = written(tmp_path / "in.jsonl", row(1, "6/8", "3/4"), row(2, "528", "52_8"), row(3, "7", "7"))
    values, tally = graded(path, second="reference")
    assert [one["correct"] for one in values] == [True, False, True]
    assert [one["second"]["correct"] for one in values] == [False, True, True]
    assert {one["second"]["by"] for one in values} == {"reference"}
    assert tally.agreements == {(True, False): 1, (False, True): 1, (True, True): 1}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "is not JSON"),
        ("[1]", "is not a JSON object"),
        ('{"id": "a", "gold": "5"}', "has no response; it has id, gold"),
        ('{"response": "x"}', "has no id and no gold"),
        ("{}", "it has nothing"),
        ('{"id": 1.5, "response": "x", "gold": "5"}', "id = 1.5 is neither text nor a whole number"),
        ('{"id": true, "response": "x", "gold": "5"}', "id = true"),
        ('{"id": "a", "response": null, "gold": "5"}', "response = null is not text"),
        ('{"id": "a", "response": "x", "gold": 5}', "gold = 5 is not text; put it in quotes"),
        ('{"id": "a", "response": "x", "gold": "5", "cut_short": 1}', "cut_short = 1 is neither true nor false"),
        ("[" * 100_000, "is not JSON"),
        ('{"id": "a", "response": "x", "gold": "1", "gold": "2"}', "the key 'gold' stands there twice"),
    ],
)
def test_a_bad_line_is_named_before_anything_is_graded(tmp_path, line, says):
    path = written(tmp_path / "in.jsonl", row(1, "5", "5"))
    path.write_text(f"{path.read_text()}\n{line}\n")
    with pytest.raises(AskedWrongly, match=r"in\.jsonl, line 3") as error, opened(path):
        pytest.fail("a file with a bad line was opened")
    assert says in str(error.value)


def test_bytes_that_are_no_text_are_named_too(tmp_path):
    path = tmp_path / "in.jsonl"
    for start in (b'{"id": "\xff', b'\xff\xfe{"id": "'):  # the second is the mark of another encoding
        path.write_bytes(start + b'", "response": "x", "gold": "5"}\n')
        with pytest.raises(AskedWrongly, match="line 1 is not JSON: 'utf-8' codec"), opened(path):
            pass


def test_an_id_names_one_response(tmp_path):
    path = written(tmp_path / "in.jsonl", row(1, "5", "5"), row(2, "5", "5"), row(1, "6", "5"))
    with pytest.raises(AskedWrongly, match="line 3: id 'q1' stands there a second time"), opened(path):
        pass
    with opened(written(path, {"id": 1} | row(0, "5", "5") | {"id": 1}, row(0, "5", "5") | {"id": "1"})) as sheet:
        assert [one.id for one in sheet.rows()] == [1, "1"]


@pytest.mark.parametrize(("name", "says"), [("nowhere.jsonl", "does not exist"), (".", "is a folder")])
def test_a_file_that_is_none_is_asked_wrongly(tmp_path, name, says):
    with pytest.raises(AskedWrongly, match=says), opened(tmp_path / name):
        pass


def test_an_empty_file_has_no_lines(tmp_path):
    values, tally = graded(written(tmp_path / "in.jsonl"))
    assert (values, tally.rows) == ([], 0)


def test_a_pipe_can_be_graded_although_it_can_be_read_only_once(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    rows = "".join(json.dumps(row(number, number, "3")) + "\n" for number in range(5))
    writer = threading.Thread(target=path.write_text, args=(rows,))
    writer.start()
    values, _ = graded(path)
    writer.join()
    assert [one["correct"] for one in values] == [number == 3 for number in range(5)]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\n\n  \n"])
def test_blank_lines_and_other_line_ends_are_passed_over(tmp_path, line_end):
    path = tmp_path / "in.jsonl"
    path.write_bytes(line_end.join(json.dumps(row(number, "3", "3")) for number in range(3)).encode())
    values, _ = graded(path)
    assert [one["id"] for one in values] == ["q0", "q1", "q2"]


MEASURED = """
import resource, sys
from pathlib import Path
from opd.grading.grader import Grader
from opd.grading.rows import Tally, opened
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with Grader() as grader, opened(Path(sys.argv[1])) as sheet:
    for values in sheet.graded(grader, None, tally := Tally()):
        pass
print(tally.rows, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.patient
def test_a_large_file_is_graded_in_the_memory_of_a_batch(tmp_path):
    """150 MB of responses; the batch is 4 MB of characters, which stay in memory as text and as JSON for a moment."""
    path = tmp_path / "in.jsonl"
    padding = "so it goes " * 9_000
    with path.open("w") as file:
        for number in range(1_500):
            file.write(json.dumps({"id": number, "response": rf"{padding}\boxed{{{number}}}", "gold": "7"}) + "\n")
    assert path.stat().st_size > 140 << 20
    source = Path(__file__).parents[2] / "src"
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(source), *sys.path[1:]])},
        capture_output=True,
        text=True,
        check=True,
    )
    rows, megabytes = map(int, done.stdout.split())
    assert rows == 1_500
    assert megabytes < 60
