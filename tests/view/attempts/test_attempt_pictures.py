"""The pictures of an attempt are read back as XML: places against the values, labels against the units."""

import json
import re
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.view.attempts.made import Made, report_of, svgs, write_made
from tests.view.story.test_pictures import NEAR_BLACK, SVG, WHITE, contrast, rgb

from opd.records.errors import AskedWrongly
from opd.records.reports import Activity, Coverage, Curve, ReferenceLine, Stretch
from opd.view.attempts.curves import binned, seen_parts
from opd.view.attempts.drawing import BLUE, COLOURS, ORANGE, time_scale
from opd.view.attempts.files import read_grid, read_series
from opd.view.attempts.forest import panels, reference_ends
from opd.view.attempts.grid import wilson
from opd.view.attempts.timeline import device_parts, placed

Pictures = Mapping[str, Mapping[str, str]]


def texts(picture: str) -> list[str]:
    return ["".join(one.itertext()) for one in ET.fromstring(picture).iter(f"{SVG}text")]


def markers(picture: str, *, colour: str) -> list[tuple[float, float]]:
    """Where the marks of this colour stand."""
    return [
        (float(one.get("x", "nan")), float(one.get("y", "nan")))
        for one in ET.fromstring(picture).iter(f"{SVG}use")
        if f"fill: {colour}" in one.get("style", "")
    ]


def boxes(picture: str, *, colour: str) -> list[tuple[float, float]]:
    """Left end and width of each filled path of this colour."""
    found = []
    for one in ET.fromstring(picture).iter(f"{SVG}path"):
        if f"fill: {colour}" in one.get("style", "") and one.get("clip-path"):
            places = [float(number) for number in re.findall(r"-?[\d.]+", one.get("d", ""))][::2]
            found.append((min(places), max(places) - min(places)))
    return found


def scale_of(picture: str) -> tuple[float, float]:
    """Slope and offset of the uppermost horizontal axis, by its ticks; a row of labels has fewer."""
    ticks: defaultdict[float, list[tuple[float, float]]] = defaultdict(list)
    for one in ET.fromstring(picture).iter(f"{SVG}text"):
        text = "".join(one.itertext()).replace("\N{MINUS SIGN}", "-")
        if re.fullmatch(r"-?\d+(\.\d+)?", text) and "text-anchor: middle" in one.get("style", ""):
            ticks[float(one.get("y", "nan"))].append((float(text), float(one.get("x", "nan"))))
    row = next(row for _, row in sorted(ticks.items()) if len(row) > 3)
    slope, offset = np.polyfit([value for value, _ in row], [place for _, place in row], 1)
    return float(slope), float(offset)


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_every_picture_has_a_title_a_description_and_units(pictures: Pictures, width: str) -> None:
    units = {
        "exploration": ("time since the exploration began, hours", "share of samples", "95 %"),
        "stages": ("active time of the attempt, hours",),
        "proxy-scores": ("share of samples right; lines: 95 %", "difference of shares"),
        "final-scores": ("share of samples right; lines: 95 %", "difference of shares"),
        "grid": ("share of samples right", "95 %"),
        "probes": ("KL to the teacher, nats a token", "step"),
        "run-0": ("KL to the teacher, nats a token", "length, tokens a rollout", "step"),
        "rows": ("training rows, by their place in the file",),
    }
    assert set(units) == set(pictures)
    for name, expected in units.items():
        root = ET.fromstring(pictures[name][width])
        ids = {one.get("id"): "".join(one.itertext()) for one in root.iter() if one.get("id")}
        assert all(len(ids[label]) > 5 for label in root.get("aria-labelledby", "missing").split()), name
        said = " ".join(texts(pictures[name][width]))
        assert all(unit in said for unit in expected), (name, said)


def test_no_id_stands_in_two_pictures(pictures: Pictures) -> None:
    every = [one for both in pictures.values() for svg in both.values() for one in re.findall(r' id="([^"]+)"', svg)]
    assert len(every) == len(set(every))
    assert len(every) >= 2 * 2 * len(pictures)


def test_names_of_strangers_are_only_names(hostile_page: str) -> None:
    """No markup, no formula, nothing that moves a cursor; and a picture that is whole."""
    found = svgs(hostile_page)
    assert len(found) == 8
    for name, both in found.items():
        for svg in both.values():
            root = ET.fromstring(svg)
            assert not [one for one in root.iter() if one.tag.endswith("script")], name
            assert not re.search("[\x00\x1b\u202e]", "".join(root.itertext())), name
    assert "<script>alert(1)</script> $x^2$" in "".join(texts(found["proxy-scores"]["wide"]))


def test_the_device_is_drawn_as_long_as_it_was_used(whole: Made, pictures: Pictures) -> None:
    picture = pictures["exploration"]["wide"]
    slope, offset = scale_of(picture)
    assert whole.report.exploring is not None
    parts = device_parts(whole.report.exploring)
    assert len(parts["in use"]) == 5, "four trainings, and what the ledger does not call idle at the end"
    for name, colour in (("in use", BLUE), ("evaluation", ORANGE)):
        expected = [(offset + slope * begin / 3600, slope * (end - begin) / 3600) for begin, end in parts[name]]
        assert boxes(picture, colour=colour) == [pytest.approx(one, abs=0.05) for one in expected]
    (end,) = [text for text in texts(picture) if "left" in text]
    assert end == "submitted, 3,289 s left"


STRETCHES = st.lists(
    st.tuples(st.sampled_from([Activity.EVALUATION, Activity.IDLE]), st.integers(0, 60), st.integers(0, 60)),
    max_size=8,
)


@given(STRETCHES, st.integers(1, 50))
def test_the_device_did_one_thing_at_each_moment(told: list[tuple[Activity, int, int]], used: int) -> None:
    """Second by second: an evaluation where one is, else idle where the ledger says so, else use."""
    stretches = tuple(
        Stretch(activity=kind, begin_seconds=min(a, b), end_seconds=max(a, b), label="", unit=None)
        for kind, a, b in told
    )
    exploring = report_of().exploring
    assert exploring is not None
    parts = device_parts(exploring.model_copy(update={"stretches": stretches, "used_seconds": float(used)}))
    for second in range(used):
        inside = [one.activity for one in stretches if one.begin_seconds <= second < one.end_seconds]
        expected = "evaluation" if Activity.EVALUATION in inside else "idle" if Activity.IDLE in inside else "in use"
        drawn = [name for name, own in parts.items() for begin, end in own if begin <= second + 0.5 < end]
        assert drawn == [expected]
    assert sum(end - begin for own in parts.values() for begin, end in own) == used


def test_proxies_stand_at_their_time_and_one_without_a_score_has_no_point(whole: Made, pictures: Pictures) -> None:
    told = whole.report.exploring
    assert told is not None
    ends = [one.end_seconds for one in told.stretches if one.activity is Activity.EVALUATION]
    found = placed(told.stretches, whole.report.proxies)
    assert [(at, number, one.label) for at, number, one in found] == [
        (at, number, f"proxy {number:03d}") for number, at in enumerate(ends, start=1)
    ]
    slope, offset = scale_of(pictures["exploration"]["wide"])
    points = [x for x, _ in markers(pictures["exploration"]["wide"], colour=ORANGE)]
    assert points == pytest.approx([offset + slope * at / 3600 for at in ends[:3]], abs=0.05)


def test_the_intervals_of_the_proxies_are_the_recorded_ones(whole: Made, pictures: Pictures) -> None:
    """As long as their share of the axis: from the lowest tick to the highest is a known difference."""
    root = ET.fromstring(pictures["exploration"]["wide"])
    ticks = [("".join(one.itertext()), float(one.get("y", "nan"))) for one in root.iter(f"{SVG}text")]
    shares = sorted((float(text), y) for text, y in ticks if re.fullmatch(r"0\.\d\d", text))
    slope = (shares[-1][1] - shares[0][1]) / (shares[-1][0] - shares[0][0])
    lengths = []
    for path in root.iter(f"{SVG}path"):
        if "stroke: currentColor; stroke-width: 1.2" in path.get("style", ""):
            x, y, x_end, y_end = (float(one) for one in re.findall(r"-?[\d.]+", path.get("d", "")))
            assert x == x_end
            lengths.append(abs(y_end - y))
    ends = [one.ci95 for one in whole.report.proxies if one.ci95 is not None]
    assert lengths == pytest.approx([abs(slope) * (high - low) for low, high in ends], abs=0.1)
    assert len(lengths) == 3


def test_a_checkpoint_that_was_measured_twice_stands_at_both_times(whole: Made) -> None:
    assert whole.report.exploring is not None
    evaluations = [one for one in whole.report.exploring.stretches if one.activity is Activity.EVALUATION]
    same = [one.model_copy(update={"label": "/runs/1"}) for one in evaluations]
    proxies = [one.model_copy(update={"what": "/runs/1"}) for one in whole.report.proxies]
    assert [at for at, _, _ in placed(same, proxies)] == [one.end_seconds for one in evaluations]


def test_a_proxy_that_the_time_line_does_not_know_is_put_nowhere(whole: Made) -> None:
    assert whole.report.exploring is not None
    found = placed(whole.report.exploring.stretches[:3], whole.report.proxies)
    assert [one.label for _, _, one in found] == ["proxy 001"]


def test_the_points_of_a_forest_lie_where_the_scores_are(whole: Made, pictures: Pictures) -> None:
    picture = pictures["final-scores"]["wide"]
    slope, offset = scale_of(picture)
    means = [one.mean for one in whole.report.finals if one.mean is not None and not one.official]
    points = [x for x, _ in markers(picture, colour=BLUE)]
    assert points[:2] == pytest.approx([offset + slope * mean for mean in means], abs=0.05)
    assert len(points) == 3, "and the difference, on an axis of its own"
    assert abs(points[2] - (offset + slope * whole.report.comparisons[1].difference)) > 20
    (official,) = markers(picture, colour=ORANGE)
    assert official[0] == pytest.approx(offset + slope * 809 / 1920, abs=0.05)


def test_the_intervals_of_a_forest_are_the_recorded_ones(whole: Made, pictures: Pictures) -> None:
    picture = pictures["final-scores"]["wide"]
    slope, offset = scale_of(picture)
    lines = [
        [float(one) for one in re.findall(r"-?[\d.]+", path.get("d", ""))]
        for path in ET.fromstring(picture).iter(f"{SVG}path")
        if "stroke: currentColor; stroke-width: 1.2" in path.get("style", "")
    ]
    across = [(line[0], line[2]) for line in lines if len(line) == 4 and line[1] == line[3]]
    for one in whole.report.finals:
        assert one.ci95 is not None
        expected = tuple(offset + slope * end for end in one.ci95)
        assert [pair for pair in across if pair == pytest.approx(expected, abs=0.05)], one.label


def test_proxy_and_final_never_share_a_picture(whole: Made) -> None:
    proxy, final = panels(whole.report)
    assert [row.name for row in proxy.rows] == [
        "shipped at step 40",
        "proxy 001, runs/1",
        "proxy 002, runs/2",
        "proxy 003, runs/3",
    ]
    assert [row.name for row in final.rows] == [
        "fixed start",
        "shipped recipe, replayed",
        "step 2080",
        "step 2100, official",
        "step 2106",
    ]
    assert {one.of for one in proxy.tests} == {"proxy"}
    assert {one.of for one in final.tests} == {"final"}
    assert proxy.missing == ("proxy 004: the checkpoint could not be read",)


def test_a_reference_has_the_interval_of_its_published_error_or_none() -> None:
    line = ReferenceLine(name="x", of="final", score=0.427083, stderr=0.051615, correct=820, samples=1_920)
    low, high = stats.t.interval(0.95, 59, loc=0.427083, scale=0.051615)
    assert reference_ends(line, questions=60) == pytest.approx((low, high))
    assert reference_ends(line.model_copy(update={"stderr": None}), questions=60) is None


def test_the_grid_has_each_question_in_one_place_in_all_rows_lowest_first(whole: Made) -> None:
    grid = read_grid(whole.attempt, whole.report.finals)
    assert grid is not None
    lines = [json.loads(line) for line in (whole.attempt / grid.files[1]).read_text().splitlines()]
    for place in (0, 31, 59):
        own = [one["judgement"]["verdict"] for one in lines if one["question"] == grid.questions[place]]
        assert (grid.right[1][place], grid.samples[1][place]) == (own.count("correct"), len(own))
    assert [sum(row) for row in grid.right] == [806, 809, 793]
    totals = [sum(row[place] for row in grid.right) for place in range(60)]
    assert totals == sorted(totals)


def test_the_bars_of_the_grid_are_the_shares(whole: Made, pictures: Pictures) -> None:
    """By the area of all bars of a colour: it is the sum of the shares, on one scale for the three rows."""
    grid = read_grid(whole.attempt, whole.report.finals)
    assert grid is not None
    heights = []
    for one in ET.fromstring(pictures["grid"]["wide"]).iter(f"{SVG}path"):
        if f"fill: {BLUE}" in one.get("style", ""):
            places = [float(number) for number in re.findall(r"-?[\d.]+", one.get("d", ""))][1::2]
            heights.append(max(places) - min(places))
    shares = [
        right / all_
        for row, of in zip(grid.right, grid.samples, strict=True)
        for right, all_ in zip(row, of, strict=True)
    ]
    assert len(heights) == len(shares) == 180
    ratio = sum(heights) / sum(shares)
    assert heights == pytest.approx([ratio * share for share in shares], abs=0.05)


def test_finals_of_different_questions_are_no_grid(tmp_path: Path) -> None:
    made = write_made(tmp_path)
    path = made.attempt / "final/step-002106/evaluation/samples.jsonl"
    path.write_text(path.read_text().replace("aime-07", "aime-97"))
    with pytest.raises(AskedWrongly, match="different questions"):
        read_grid(made.attempt, made.report.finals)


@given(st.integers(1, 400).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials))))
def test_the_interval_of_a_question_is_wilsons(counts: tuple[int, int]) -> None:
    expected = stats.binomtest(*counts).proportion_ci(method="wilson")
    assert wilson(*counts) == pytest.approx((expected.low, expected.high), abs=1e-9)


@given(st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), max_size=60), st.integers(1, 9))
def test_bins_hold_every_value_once_and_lose_no_spike(values: list[float | None], most: int) -> None:
    bins = binned(range(1, len(values) + 1), values, most=most)
    known = [value for value in values if value is not None]
    assert len(bins) <= most
    if known:
        assert (min(one.least for one in bins), max(one.greatest for one in bins)) == (min(known), max(known))
        assert all(one.least - 1e-6 <= one.mean <= one.greatest + 1e-6 for one in bins)
        size = -(-len(known) // most)
        weights = [size] * (len(bins) - 1) + [len(known) - size * (len(bins) - 1)]
        assert sum(w * one.mean for w, one in zip(weights, bins, strict=True)) == pytest.approx(sum(known), abs=1e-3)


@given(st.integers(1, 20_000).flatmap(lambda rows: st.tuples(st.integers(0, rows), st.just(rows))), st.booleans())
def test_what_is_filled_of_a_strip_is_what_was_seen(counts: tuple[int, int], shuffled: bool) -> None:
    seen, rows = counts
    told = Coverage(label="x", rows_seen=seen, rows=rows, shuffled=shuffled, claimed_by="candidate")
    parts = seen_parts(told)
    assert sum(length for _, length in parts) == pytest.approx(seen)
    assert all(start >= 0 and start + length <= rows + 1e-6 for start, length in parts)
    if shuffled and 0 < seen < rows:
        assert parts[-1][0] > 0.9 * rows, "spread over the whole file"
    elif seen:
        assert parts == [(0.0, float(seen))], "the first rows"


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        '{"step": 1e400}',
        '{"step": true, "kl": 1}',
        '{"kl": 1}',
        '{"step": -1, "kl": 1}',
        "[1]",
        "\x00",
        '{"step": 3, "kl": NaN}',
        '{"step": 3, "kl": 1' + "0" * 400 + "}",
        '{"step": 3, "kl": "x"}',
        '{"step": 3, "kl": true}',
        '{"step": 1' + "0" * 4_000 + ', "kl": 1}',
        '{"step": 1' + "0" * 5_000 + ', "kl": 1}',
    ],
    ids=range(13),
)
def test_metrics_that_are_none_neither_stop_the_page_nor_get_into_it(tmp_path: Path, line: str) -> None:
    (tmp_path / "metrics.jsonl").write_text(f'{{"step": 1, "kl": 0.5}}\n{line}\n{{"step": 2, "kl": 0.25}}\n')
    curve = Curve(label="x", file="metrics.jsonl", claimed_by="candidate")
    series = read_series(tmp_path, curve, names=["kl", "loss"])
    assert series is not None
    assert [value for value in series.values["kl"] if value is not None] == [0.5, 0.25]
    assert "loss" not in series.values


def test_metrics_that_are_a_link_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text('{"step": 1, "kl": 0.5}\n')
    (tmp_path / "metrics.jsonl").symlink_to(tmp_path / "elsewhere")
    curve = Curve(label="x", file="metrics.jsonl", claimed_by="candidate")
    assert read_series(tmp_path, curve, names=["kl"]) is None
    assert read_series(tmp_path, curve.model_copy(update={"file": "elsewhere"}), names=["kl"]) is not None


@pytest.mark.parametrize(
    ("seconds", "unit", "size"),
    [
        (14_400, "hours", 3600),
        (7_200, "hours", 3600),
        (420, "minutes", 60),
        (180, "minutes", 60),
        (100, "seconds", 1),
        (0, "seconds", 1),
    ],
)
def test_the_unit_of_time_fits_what_is_drawn(seconds: float, unit: str, size: float) -> None:
    assert (time_scale(seconds).name, time_scale(seconds).seconds) == (unit, size)


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("paper", [WHITE, NEAR_BLACK])
def test_colours_stand_out_from_a_light_and_from_a_dark_page(colour: str, paper: tuple[int, int, int]) -> None:
    """WCAG 2.2 asks 3:1 of graphics."""
    assert contrast(rgb(colour), paper) >= 3


STYLE = (Path(__file__).parents[3] / "src/opd/view/attempts/attempt.css").read_text()


def test_the_colours_of_the_verdicts_can_be_read_on_light_and_on_dark() -> None:
    """WCAG 2.2 asks 4.5:1 of text."""
    light, dark, _print = re.findall(r"--good: (#\w+); --bad: (#\w+); --unsure: (#\w+);", STYLE)
    for paper, colours in ((WHITE, light), (NEAR_BLACK, dark)):
        assert all(contrast(rgb(colour), paper) >= 4.5 for colour in colours)


def test_added_and_removed_lines_can_be_read_on_their_own_ground() -> None:
    added, removed = (f"--{name}: (\\d+) (\\d+) (\\d+)" for name in ("added", "removed"))
    for paper, ink, which in ((WHITE, "#1c1f23", 0), (NEAR_BLACK, "#e4e6e8", 1)):
        for pattern in (added, removed):
            tint = [int(one) for one in re.findall(pattern, STYLE)[which]]
            ground = [round(0.14 * t + 0.86 * p) for t, p in zip(tint, paper, strict=True)]
            assert contrast(rgb(ink), ground) >= 7
