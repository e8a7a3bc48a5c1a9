"""The pictures are read back as XML: positions against the scores, labels against the units."""

import itertools
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.records.metrics import StepMetrics
from opd.records.scores import Score
from opd.view.story import pictures
from opd.view.story.pictures import COLOURS, Role
from opd.view.story.story import Story
from opd.view.svg import INK

SVG = "{http://www.w3.org/2000/svg}"
WHITE, NEAR_BLACK = (253, 252, 249), (19, 21, 24)


def draw_all(story: Story) -> dict[str, str]:
    points = [(point.step, point.score.value) for point in story.curve]
    return {
        "curve": pictures.learning_curve(points, start=story.start.value, teacher=story.teacher.value),
        "bars": pictures.score_bars(pictures.story_scores(story)),
        "kl": pictures.kl_over_steps(story.metrics.value),
        "health": pictures.health_panels(story.metrics.value),
    }


def texts(picture: str) -> list[str]:
    return ["".join(one.itertext()) for one in ET.fromstring(picture).iter(f"{SVG}text")]


def lines_of(picture: str, *, colour: str, width: str) -> list[np.ndarray]:
    """The points of every unfilled path of this colour and width."""
    found = []
    for path in ET.fromstring(picture).iter(f"{SVG}path"):
        style = path.get("style", "")
        if f"stroke: {colour}" in style and "fill: none" in style and f"stroke-width: {width}" in style:
            numbers = [float(one) for one in re.findall(r"-?[\d.]+", path.get("d", ""))]
            found.append(np.array(numbers).reshape(-1, 2))
    return found


def test_equal_stories_give_equal_pictures(story: Story) -> None:
    assert draw_all(story) == draw_all(story)


@pytest.mark.parametrize(
    ("picture", "labels"),
    [
        ("curve", ["updates of the student (steps)", "pass@1, share of samples correct"]),
        ("bars", ["pass@1, share correct; lines: 95 % interval", "start", "distilled", "teacher"]),
        ("kl", ["step", "KL(student ‖ teacher), nats/token"]),
        ("health", ["length, tokens a rollout", "cut short, share of rollouts", "gradient norm before clipping"]),
    ],
)
def test_axes_name_what_they_show_with_its_unit_as_text(story: Story, picture: str, labels: list[str]) -> None:
    assert set(labels) <= set(texts(draw_all(story)[picture]))


def test_the_numbers_beside_the_lines_are_the_scores_to_the_last_digit(story: Story) -> None:
    drawn = draw_all(story)
    assert {"start 0.465", "distilled 0.843", "teacher 0.969"} <= set(texts(drawn["curve"]))
    assert {"0.465", "0.843", "0.969"} <= set(texts(drawn["bars"]))


def test_the_points_of_the_curve_lie_where_the_scores_are(story: Story) -> None:
    (line,) = lines_of(draw_all(story)["curve"], colour=COLOURS[Role.RESULT], width="2")
    steps = np.array([point.step for point in story.curve])
    means = np.array([point.score.value.mean for point in story.curve])
    for place, value in ((line[:, 0], steps), (line[:, 1], means)):
        slope, offset = np.polyfit(value, place, 1)
        assert np.abs(slope * value + offset - place).max() < 0.02, "an axis is a straight scale"
    assert line[-1, 1] < line[0, 1], "up is better"


def test_the_band_of_the_curve_ends_at_the_clustered_intervals(story: Story, score_of: Callable[..., Score]) -> None:
    """Twice the interval makes the band twice as high."""

    def height(factor: float) -> float:
        scores = [
            (step, score_of("s", mean, ci95=(mean - factor, mean + factor))) for step, mean in ((0, 0.4), (9, 0.8))
        ]
        ends = score_of("e", 0.1, ci95=(0.0, 0.2)), score_of("e", 0.9, ci95=(0.8, 1.0))
        picture = pictures.learning_curve(scores, start=ends[0], teacher=ends[1])
        root = ET.fromstring(picture)
        style = f"fill: {COLOURS[Role.RESULT]}; fill-opacity: 0.2"
        (use,) = [one for one in root.iter(f"{SVG}use") if style in one.get("style", "")]
        target = use.get("{http://www.w3.org/1999/xlink}href", "").removeprefix("#")
        (band,) = [one.get("d", "") for one in root.iter(f"{SVG}path") if one.get("id") == target]
        places = np.array([float(one) for one in re.findall(r"-?[\d.]+", band)]).reshape(-1, 2)
        left = places[places[:, 0] == places[:, 0].min()]
        return float(np.ptp(left[:, 1]))

    assert height(0.08) == pytest.approx(2 * height(0.04), rel=0.01)


def test_bars_reach_from_zero_to_the_score_on_the_scale_below_them(story: Story) -> None:
    root = ET.fromstring(draw_all(story)["bars"])
    ticks = {"".join(one.itertext()): float(one.get("x", "nan")) for one in root.iter(f"{SVG}text")}
    scores = dict(pictures.story_scores(story))
    for role, colour in COLOURS.items():
        (bar,) = [one.get("d", "") for one in root.iter(f"{SVG}path") if f"fill: {colour}" in one.get("style", "")]
        places = [float(one) for one in re.findall(r"-?[\d.]+", bar)][::2]
        assert min(places) == pytest.approx(ticks["0.00"], abs=0.02)
        reached = (max(places) - ticks["0.00"]) / (ticks["1.00"] - ticks["0.00"])
        assert reached == pytest.approx(scores[role].mean, abs=1e-3)
    clip = next(root.iter(f"{SVG}clipPath")).find(f"{SVG}rect")
    assert clip is not None
    assert float(clip.get("x", "nan")) == pytest.approx(ticks["0.00"], abs=0.02), "nothing of a bar is hidden"


def test_a_score_without_an_interval_is_drawn_without_one(score_of: Callable[..., Score]) -> None:
    bare = {"stderr": None, "ci95": None, "stderr_naive": None}
    start, teacher = score_of("a", 0.0, **bare), score_of("t", 1.0, **bare)
    assert "start 0.000" in texts(pictures.learning_curve([(0, start)], start=start, teacher=teacher))
    bars = pictures.score_bars([(Role.START, start), (Role.TEACHER, teacher)])
    assert "95 % interval undefined" in bars
    assert "nan" not in bars.lower()


def test_a_run_of_one_step_can_be_drawn(metrics_of: Callable[[int], StepMetrics]) -> None:
    for picture in (pictures.kl_over_steps([metrics_of(1)]), pictures.health_panels([metrics_of(1)])):
        assert ET.fromstring(picture).tag == f"{SVG}svg"


def test_pictures_ask_for_nothing_from_outside_and_take_their_ink_from_the_page(story: Story) -> None:
    for picture in draw_all(story).values():
        root = ET.fromstring(picture)
        for one in root.iter():
            for name, value in one.attrib.items():
                assert "://" not in value, f"{name}={value}"
                if name.endswith("href"):
                    assert value.startswith("#")
        assert "currentColor" in picture
        assert INK not in picture
        assert "font-family" not in picture
        assert "<style" not in picture
        assert not re.search(r"20\d\d-\d\d", picture), "no dates"


def test_pictures_are_spoken_by_a_title_and_a_description(story: Story) -> None:
    for picture in draw_all(story).values():
        root = ET.fromstring(picture)
        ids = {one.get("id"): "".join(one.itertext()) for one in root.iter() if one.get("id")}
        assert root.get("role") == "img"
        assert all(len(ids[name]) > 3 for name in root.get("aria-labelledby", "missing").split())


def test_ids_of_different_pictures_never_meet_and_each_reference_has_its_target(story: Story) -> None:
    seen: set[str] = set()
    for picture in draw_all(story).values():
        ids = re.findall(r' id="([^"]+)"', picture)
        assert len(ids) == len(set(ids))
        assert not seen & set(ids)
        assert set(re.findall(r'(?:href="|url\()#([^")]+)', picture)) <= set(ids)
        seen |= set(ids)


def test_the_summary_picture_stands_alone_on_light_and_on_dark(story: Story, tmp_path: Path) -> None:
    pictures.write_summary_picture(tmp_path / "summary.svg", story)
    text = (tmp_path / "summary.svg").read_text(encoding="utf-8")
    assert ET.fromstring(text).tag == f"{SVG}svg"
    assert "prefers-color-scheme:dark" in text
    assert {"distilled 0.843", "0.843", "teacher", "pass@1, share of samples correct"} <= set(texts(text))


@pytest.mark.parametrize("colour", COLOURS.values())
@pytest.mark.parametrize("paper", [WHITE, NEAR_BLACK])
def test_colours_stand_out_from_a_light_and_from_a_dark_page(colour: str, paper: tuple[int, int, int]) -> None:
    """WCAG 2.2 asks 3:1 of graphics."""
    assert contrast(rgb(colour), paper) >= 3


# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB
BLINDNESS = {
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


@pytest.mark.parametrize("kind", BLINDNESS)
def test_colours_differ_for_the_colour_blind(kind: str) -> None:
    """At least 15 apart in CIELAB; 2.3 is just noticeable."""
    seen = [lab(np.array(BLINDNESS[kind]) @ linear(rgb(colour))) for colour in COLOURS.values()]
    for one, other in itertools.combinations(seen, 2):
        assert np.linalg.norm(one - other) > 15


@given(st.lists(st.floats(min_value=-1, max_value=1), max_size=6), st.floats(min_value=0.01, max_value=0.5))
def test_labels_are_moved_apart_in_their_order_and_no_further_than_needed(places: list[float], apart: float) -> None:
    moved = pictures.spread(places, apart=apart)
    for (a, near_a), (b, near_b) in itertools.combinations(zip(places, moved, strict=True), 2):
        assert abs(near_a - near_b) >= apart - 1e-9
        assert (a < b) <= (near_a < near_b)
    assert sum(moved) == pytest.approx(sum(places), abs=1e-9), "pushed evenly up and down"
    if all(abs(a - b) >= apart for a, b in itertools.combinations(places, 2)):
        assert moved == pytest.approx(places)


@given(st.lists(st.floats(min_value=-100, max_value=100), min_size=1, max_size=40), st.integers(1, 5))
def test_smoothing_is_the_mean_of_the_neighbours_and_is_not_shifted(values: list[float], reach: int) -> None:
    smooth = pictures.smoothed(values, reach=reach)
    kernel = np.ones(2 * reach + 1)
    held = np.convolve(np.ones(len(values)), kernel)[reach : reach + len(values)]
    assert smooth == pytest.approx(np.convolve(values, kernel)[reach : reach + len(values)] / held, abs=1e-9)


def rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def linear(colour: Sequence[int]) -> np.ndarray:
    scaled = np.array(colour) / 255
    return np.where(scaled <= 0.04045, scaled / 12.92, ((scaled + 0.055) / 1.055) ** 2.4)


def contrast(one: Sequence[int], other: Sequence[int]) -> float:
    """WCAG contrast ratio of two sRGB colours."""
    light, dark = sorted((float(np.dot([0.2126, 0.7152, 0.0722], linear(c))) for c in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def lab(colour: np.ndarray) -> np.ndarray:
    """CIELAB (D65) of a linear RGB colour."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(to_xyz @ np.clip(colour, 0, 1) / np.array([0.9505, 1.0, 1.089]))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])
