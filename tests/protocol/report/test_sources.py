"""A fact is a value with its place, and its place leads to it again."""

import hashlib
import json

import pytest

from opd.protocol.report.sources import Sources
from opd.records.errors import AskedWrongly


@pytest.fixture
def sources(tmp_path):
    attempt, report = tmp_path / "attempt", tmp_path / "report"
    (report / "comparisons").mkdir(parents=True)
    attempt.mkdir()
    (attempt / "a.json").write_text(json.dumps({"x/y": {"~1": [1, {"z": None}]}, "list": [1, 2, 3]}))
    (attempt / "a.jsonl").write_text('{"text": "first"}\nnot json\n[1]\n{"text": "last"}\n')
    (attempt / "a.txt").write_text("one\ntwo\nthree\n")
    (report / "comparisons" / "01.json").write_text('{"p": 0.5}')
    (tmp_path / "secret.json").write_text("{}")
    return Sources(attempt, report)


def test_what_is_walked_to_is_found_again_by_its_pointer(sources):
    fact = sources.fact("a.json")["x/y"]["~1"][1]
    assert fact.pointer == "/x~1y/~01/1"
    assert sources.fact(fact.file, fact.pointer) == fact
    assert fact.sha256 == hashlib.sha256((sources.attempt / "a.json").read_bytes()).hexdigest()


def test_a_count_is_found_again(sources):
    count = sources.fact("a.json")["list"].count
    assert (count.value, sources.fact(count.file, count.pointer).value) == (3, 3)


def test_what_is_missing_or_null_is_none(sources):
    whole = sources.fact("a.json")
    assert whole.get("x/y", "~1", 1, "z") is None
    assert whole.get("nothing", "here") is None
    assert sources.json("absent.json") is None


def test_a_line_of_json_lines_is_found_again_and_other_lines_are_passed_over(sources):
    found = list(sources.lines("a.jsonl"))
    assert [one.pointer for one in found] == ["line:1", "line:4"]
    text = found[1]["text"]
    assert (text.pointer, sources.fact(text.file, text.pointer).value) == ("line:4/text", "last")


def test_lines_of_a_text_are_found(sources):
    assert sources.fact("a.txt", "lines:2-3").value == "two\nthree"
    with pytest.raises(AskedWrongly, match="has 4 lines, and no lines:3-9"):
        sources.fact("a.txt", "lines:3-9")


def test_comparisons_are_the_reports_own(sources):
    assert sources.fact("comparisons/01.json", "/p").value == 0.5


@pytest.mark.parametrize("file", ["../secret.json", "/etc/passwd", "link.json"])
def test_no_source_leads_out_of_the_attempt(sources, file):
    (sources.attempt / "link.json").symlink_to(sources.attempt.parent / "secret.json")
    with pytest.raises(AskedWrongly, match="leads out of"):
        sources.fact(file)


def test_a_pointer_to_nothing_is_refused(sources):
    for pointer in ("/list/7", "/no", "/list/x", "/list/0/a", "/list/0#"):
        with pytest.raises(AskedWrongly, match=r"nothing at|no members"):
            sources.fact("a.json", pointer)
