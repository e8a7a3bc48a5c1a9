"""Numbers by step: every line once, the last word of each step, and no extreme lost however few points there are."""

import json
import math
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.view.server.columns import MOST_NAMES, bucketed, numbers, read_columns
from opd.view.server.lines import beginning, lines_from, mark_at
from opd.view.server.metrics import Metrics
from opd.view.server.places import Place, stamp_of


@pytest.fixture
def run(tmp_path):
    return Place(root=tmp_path, inside=PurePosixPath())


def write(run, lines, mode="w"):
    with (run.path / "metrics.jsonl").open(mode) as file:
        file.writelines(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)


def page(run, metrics=None, *, names=(), after=0, points=1000):
    return (metrics or Metrics()).page(run, names=names, after=after, points=points)


@given(st.lists(st.floats(-1e6, 1e6) | st.none(), min_size=1, max_size=60), st.integers(10, 70))
def test_a_bucket_has_the_mean_and_the_true_extremes_of_its_steps(tmp_path_factory, values, points):
    run = Place(root=tmp_path_factory.mktemp("run"), inside=PurePosixPath())
    write(
        run,
        [{"step": step, "loss": value} for step, value in enumerate(values, start=1)] + [{"step": 61, "loss": 0.0}],
    )
    values = [*values, 0.0]
    steps = [*range(1, len(values)), 61]
    found = page(run, points=points)
    assert len(found["buckets"]["rows"]) == min(points, len(values))
    assert sum(found["buckets"]["rows"]) == len(values)
    assert max(found["buckets"]["rows"]) - min(found["buckets"]["rows"]) <= 1
    begin = 0
    for bucket, rows in enumerate(found["buckets"]["rows"]):
        own = [value for value in values[begin : begin + rows] if value is not None]
        assert found["buckets"]["first"][bucket] == steps[begin]
        assert found["buckets"]["until"][bucket] == steps[begin + rows - 1]
        series = {name: column[bucket] for name, column in found["series"]["loss"].items()}
        expected = (math.fsum(own) / len(own), min(own), max(own)) if own else (None, None, None)
        assert [series["mean"], series["low"], series["high"]] == pytest.approx(expected)
        begin += rows


def test_a_star_in_a_name_stands_for_any_characters(run):
    write(run, [{"step": 1, "kl": 0.5, "teachers": {"terse": {"kl": 0.7, "clamped": 0.0}, "plain": {"kl": 0.1}}}])
    found = page(run, names=("kl", "teachers/*/kl"))
    assert {name: one["mean"] for name, one in found["series"].items()} == {
        "kl": [0.5], "teachers/terse/kl": [0.7], "teachers/plain/kl": [0.1]
    }  # fmt: skip
    assert page(run, names=("loss/*",))["series"] == {}


def test_a_spike_of_one_step_in_two_thousand_is_seen_in_ten_points(run):
    write(run, [{"step": step, "loss": 900.0 if step == 1234 else 1.0} for step in range(1, 2001)])
    found = page(run, points=10)
    assert max(found["series"]["loss"]["high"]) == 900.0
    assert max(found["series"]["loss"]["mean"]) < 10  # which a mean alone would have hidden


def test_a_name_is_that_of_its_section_and_its_own(metrics_of):
    line = metrics_of(3).resolved()
    found = numbers(line)
    assert found["gap/mean"] == line["gap"]["mean"]
    assert found["seconds/update"] == line["seconds"]["update"]
    assert "reward" not in found  # null
    assert "warnings" not in found


def test_what_is_no_number_is_null_and_stays_in_its_place(run):
    write(
        run,
        [
            '{"step": 1, "a": NaN, "b": 1}\n',
            '{"step": 2, "a": 1e999, "b": 2}\n',
            f'{{"step": 3, "a": {"9" * 400}}}\n',
        ],
    )
    found = page(run)
    assert found["series"]["a"]["mean"] == [None, None, None]
    assert found["series"]["b"]["mean"] == [1, 2, None]


def test_what_is_no_number_is_no_part_of_the_mean_of_its_neighbours(run):
    write(run, [f'{{"step": {step}, "a": {"1e999" if step % 2 else 7}}}\n' for step in range(1, 21)])
    assert page(run, points=10)["series"]["a"] == dict.fromkeys(("mean", "low", "high"), [7] * 10)


def test_damaged_lines_are_counted_and_hide_no_others(run):
    write(
        run,
        [{"step": 1, "loss": 1}, "not json\n", "[1]\n", '{"loss": 2}\n', '{"step": true}\n', '{"step": -1}\n', "\n"],
    )
    write(run, ["[" * 100_000 + "\n", '{"step": 2, "loss": "x"}\n', b"\xff\xfe\n".decode("latin-1")], mode="a")
    found = page(run)
    assert (found["steps"], found["passed_over"]) == (2, 7)


def test_the_last_line_of_a_step_counts_in_whatever_order_they_stand(run):
    write(run, [{"step": 1, "loss": 1}, {"step": 3, "loss": 3}, {"step": 2, "loss": 2}, {"step": 3, "loss": 30}])
    assert page(run)["series"]["loss"]["mean"] == [1, 2, 30]


def test_a_stranger_s_file_of_countless_names_gives_a_bounded_answer(run):
    write(run, [{"step": step, **{f"n{step}_{n}": 1 for n in range(100)}} for step in range(1, 60)])
    assert len(page(run)["names"]) == MOST_NAMES - 1  # but `step`


def test_growth_gives_what_reading_anew_gives_and_reads_no_line_twice(run):
    metrics = Metrics()
    write(run, [{"step": step, "loss": step} for step in range(1, 11)])
    page(run, metrics)
    before = metrics.columns(run)
    write(run, [{"step": 11, "loss": 11.0, "kl": 0.5}, '{"step": 12'], mode="a")
    after = metrics.columns(run)
    with run.at("metrics.jsonl").open() as file:
        assert beginning(file, before.mark) == before.mark.end > 0
    assert page(run, metrics) == page(run)
    assert page(run, metrics, after=10)["series"]["loss"]["mean"] == [11]
    assert page(run, metrics)["last"] == 11  # a torn line waits for its end
    write(run, [', "loss": 12}\n'], mode="a")
    assert page(run, metrics)["last"] == 12
    assert after.mark.end < metrics.columns(run).mark.end
    assert metrics.columns(run) is metrics.columns(run)  # unchanged: not even looked into


def test_a_file_that_was_cut_back_and_grew_past_its_old_end_is_read_anew(run):
    """As a run leaves it that was killed, taken up at an earlier state, and made other steps since."""
    metrics = Metrics()
    write(run, [{"step": step, "loss": 1.0} for step in range(1, 11)])
    old = metrics.columns(run)
    with (run.path / "metrics.jsonl").open("r+") as file:
        lines = file.readlines()
        file.seek(0)
        file.truncate()
        file.writelines(lines[:5])
        file.writelines(json.dumps({"step": step, "loss": 2.0}) + "\n" for step in range(6, 21))
    with run.at("metrics.jsonl").open() as file:  # the bad condition: the same file, and longer than before
        assert stamp_of(file).grew_from(old.mark.stamp)
    assert page(run, metrics)["series"]["loss"]["mean"] == [1.0] * 5 + [2.0] * 15


def test_no_line_is_too_long_for_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr("opd.view.server.lines.LONGEST_LINE", 10)
    (tmp_path / "x").write_bytes(b"short\n" + b"l" * 35 + b"\nnext\n" + b"torn" * 5)
    with (tmp_path / "x").open("rb") as file:
        assert list(lines_from(file, 0)) == [(0, b"short\n"), (6, None), (42, b"next\n")]
        assert mark_at(file, 47, stamp_of(file)).tail.endswith(b"\nnext\n")


def test_a_run_without_a_step_has_an_empty_page(run):
    assert page(run)["series"] == {}
    write(run, [])
    assert page(run)["buckets"] == {"first": [], "until": [], "rows": []}
    assert read_columns(run.at("metrics.jsonl"), None, key=lambda _: None).passed_over == 0
    assert bucketed(read_columns(run.at("metrics.jsonl"), None, key=lambda _: 1.0), ["x"], most=10)["series"] == {}
