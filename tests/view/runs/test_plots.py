"""Pictures for papers, read back: positions against the scores, data against the files, text inside the page."""

import csv
import itertools
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import append_lines, write_json
from opd.records.metrics import StepMetrics, TeacherMetrics
from opd.records.scores import Comparison, Score
from opd.view.plots.compare import compare
from opd.view.plots.curve import curve, unit
from opd.view.plots.inputs import shares
from opd.view.plots.lengths import lengths
from opd.view.plots.plot import COLOURS, DASHES, MARKS, Plot, check_out, check_width, drawing, look, write
from opd.view.plots.score import score

Make = Callable[..., Path]
SVG = "{http://www.w3.org/2000/svg}"
WHITE, NEAR_BLACK = (253, 252, 249), (19, 21, 24)
ALL_RIGHT, HALF, MIXED = [[1, 1]] * 4, [[1, 0]] * 4, [[1, 1], [1, 0], [0, 0], [1, 1]]


@pytest.fixture
def runs(make_run: Make, make_score: Make, tmp_path: Path) -> Path:
    """Two trainings of one start, with scores of start, teacher and checkpoints."""
    for name in ("a", "b"):
        run = make_run(tmp_path / "runs" / name)
        make_score(tmp_path / "runs" / "scores" / f"{name}-6", MIXED, model=run / "checkpoint-6")
        make_score(tmp_path / "runs" / "scores" / f"{name}-12", ALL_RIGHT, model=run / "checkpoint-12")
    began = json.loads((tmp_path / "runs" / "a" / "began.json").read_text())["models"]
    for role, right in (("student", HALF), ("teacher", ALL_RIGHT)):
        place = tmp_path / role
        write_json(place / ".complete", {"files": began[role]})
        make_score(tmp_path / "runs" / "scores" / role, right, model=place)
    return tmp_path / "runs"


def held_comparison(path: Path, *, difference: float, ci95: tuple[float, float] | None) -> Path:
    """A file as `opd compare --json` prints it."""
    found = Comparison(
        a="scores/start",
        b="scores/b",
        mean_a=0.5,
        mean_b=0.5 + difference,
        difference=difference,
        stderr=0.01,
        stderr_fixed_questions=None,
        ci95=ci95,
        p=0.01,
        p_permutation=0.01,
        detectable=None,
        distinguishable=True,
        questions=9,
        samples_a=18,
        samples_b=18,
        verdict="B is better",
    )
    write_json(path, found.resolved())
    return path


def table(plot: Plot) -> list[dict[str, object]]:
    return [dict(zip(plot.columns, row, strict=True)) for row in plot.rows]


def fits(plot: Plot) -> bool:
    """Whether all that is drawn lies on the page, to a tenth of a point."""
    with drawing():
        canvas = FigureCanvasAgg(plot.figure)
        canvas.draw()
    box, (width, height) = plot.figure.get_tightbbox(canvas.get_renderer()), plot.figure.get_size_inches()
    room = 0.1 / 72
    return box.x0 >= -room and box.y0 >= -room and box.x1 <= width + room and box.y1 <= height + room


def test_the_data_of_a_curve_are_the_scores_of_each_runs_checkpoints(
    runs: Path, score_record: Callable[[Path], Score]
) -> None:
    drawn = curve([runs], metric=None)
    rows = table(drawn)
    assert [(row["run"], row["step"]) for row in rows] == [
        *(("a", step) for step in (0, 6, 12)),
        *(("b", step) for step in (0, 6, 12)),
        ("teacher", None),
    ]
    for row in rows:
        said = score_record(Path(str(row["file"])).parent)
        assert (row["mean"], row["stderr_clustered"]) == (said.mean, said.stderr)
        assert (row["ci95_low"], row["ci95_high"]) == said.ci95
    assert [row["mean"] for row in rows[:3]] == [0.5, 0.625, 1.0]


def test_the_points_of_a_curve_lie_where_the_scores_are(runs: Path) -> None:
    drawn = curve([runs], metric="score")
    (axes,) = drawn.figure.axes
    named = {line.get_label(): line.get_xydata() for line in axes.lines if not str(line.get_label()).startswith("_")}
    assert np.allclose(named["a"], [(0, 0.5), (6, 0.625), (12, 1.0)])
    assert np.allclose(named["b"], named["a"])
    corners = axes.collections[0].get_paths()[0].vertices
    for row in table(drawn)[:3]:
        at = corners[corners[:, 0] == row["step"]][:, 1]
        assert (at.min(), at.max()) == (row["ci95_low"], row["ci95_high"])


def test_the_teacher_is_a_line_with_its_interval(runs: Path, make_score: Make, tmp_path: Path) -> None:
    place = tmp_path / "teacher"
    make_score(runs / "scores" / "of-the-teacher", MIXED, model=place)
    (runs / "scores" / "teacher" / "score.json").unlink()
    drawn = curve([runs], metric=None)
    (teacher,) = [row for row in table(drawn) if row["run"] == "teacher"]
    (axes,) = drawn.figure.axes
    ends = [band.get_extents().transformed(axes.transData.inverted()) for band in axes.patches]
    assert [(band.y0, band.y1) for band in ends] == [
        (pytest.approx(teacher["ci95_low"]), pytest.approx(teacher["ci95_high"]))
    ]
    assert list(axes.lines[0].get_ydata()) == [teacher["mean"]] * 2


def test_without_scores_a_curve_is_of_the_kl_of_each_step(
    make_run: Make, metrics_of: Callable[[int], StepMetrics], tmp_path: Path
) -> None:
    make_run(tmp_path / "t", steps=30)
    drawn = curve([tmp_path], metric=None)
    assert drawn.columns == ("run", "step", "kl", "kl_moving_mean")
    values = [metrics_of(step).kl for step in range(1, 31)]
    assert [row["kl"] for row in table(drawn)] == values
    assert table(drawn)[14]["kl_moving_mean"] == pytest.approx(np.mean(values[13:16]))
    assert drawn.figure.axes[0].get_ylabel().replace("\n", " ") == "KL(student ‖ teacher), nats/token"


def test_any_number_of_the_metrics_can_be_drawn_and_an_unknown_one_is_refused_with_those_there_are(
    make_run: Make, tmp_path: Path
) -> None:
    make_run(tmp_path / "t", steps=3)
    assert [row["seconds.update"] for row in table(curve([tmp_path], metric="seconds.update"))] == [0.172] * 3
    with pytest.raises(AskedWrongly, match=r"no metric 'k1'; there are: loss, kl, .*gap\.mean"):
        curve([tmp_path], metric="k1")
    with pytest.raises(AskedWrongly, match="no metric 'warnings'"):
        curve([tmp_path], metric="warnings")


def test_a_step_without_a_value_is_an_empty_cell_and_no_zero(make_run: Make, tmp_path: Path) -> None:
    run = make_run(tmp_path / "t", steps=3)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    lines[0]["reward"], lines[2]["reward"] = 0.25, 0.75
    (run / "metrics.jsonl").unlink()
    append_lines(run / "metrics.jsonl", lines)
    drawn = curve([tmp_path], metric="reward")
    write(drawn, tmp_path / "x.svg")
    rows = list(csv.DictReader((tmp_path / "x.csv").read_text().splitlines()))
    assert [row["reward"] for row in rows] == ["0.25", "", "0.75"]
    assert drawn.figure.axes[0].lines[0].get_xdata().tolist() == [1, 3]


def test_metrics_whose_steps_do_not_rise_are_no_runs_own(make_run: Make, tmp_path: Path) -> None:
    run = make_run(tmp_path / "t", steps=3)
    path = run / "metrics.jsonl"
    path.write_text(path.read_text() * 2)
    with pytest.raises(AskedWrongly, match="don't rise"):
        curve([tmp_path], metric="kl")


def test_several_scores_are_drawn_in_order_with_their_intervals(
    runs: Path, score_record: Callable[[Path], Score]
) -> None:
    drawn = score([runs / "scores"])
    names = ["a-6", "a-12", "b-6", "b-12", "student", "teacher"]
    assert [row["score"] for row in table(drawn)] == names
    assert [label.get_text() for label in drawn.figure.axes[0].get_yticklabels()] == names
    segments = [band.get_segments()[0] for band in drawn.figure.axes[0].collections]
    known = [name for name in names if score_record(runs / "scores" / name).ci95]
    for name, segment in zip(known, segments, strict=True):
        assert segment[:, 0].tolist() == list(score_record(runs / "scores" / name).ci95 or ())


def test_a_score_without_an_interval_is_drawn_without_one(make_score: Make, tmp_path: Path) -> None:
    make_score(tmp_path / "one", [[1, 0]])
    make_score(tmp_path / "two", [[1, 1]])
    drawn = score([tmp_path])
    assert [(row["ci95_low"], row["ci95_high"]) for row in table(drawn)] == [(None, None)] * 2
    assert drawn.figure.axes[0].collections[:] == []


def test_scores_of_two_protocols_are_never_in_one_picture(make_score: Make, tmp_path: Path) -> None:
    make_score(tmp_path / "a", ALL_RIGHT)
    make_score(tmp_path / "b", ALL_RIGHT, protocol={"temperature": 0.5})
    with pytest.raises(AskedWrongly, match="differ in temperature"):
        score([tmp_path])


def test_a_score_beside_other_samples_is_refused(runs: Path) -> None:
    samples = runs / "scores" / "a-6" / "samples.jsonl"
    text = samples.read_text()
    samples.write_text(text.replace('"verdict": "wrong"', '"verdict": "correct"', 1))
    assert samples.read_text() != text
    for draw in (lambda: score([runs]), lambda: curve([runs], metric=None), lambda: lengths([runs])):
        with pytest.raises(AnswerIsNo, match="one was changed"):
            draw()


def test_an_unfinished_score_is_refused_where_it_is_named_and_passed_over_in_a_curve(runs: Path) -> None:
    (runs / "scores" / "a-6" / "score.json").unlink()
    with pytest.raises(AskedWrongly, match="did not finish"):
        score([runs / "scores" / "a-6"])
    assert [row["step"] for row in table(curve([runs], metric=None)) if row["run"] == "a"] == [0, 12]


def test_questions_of_a_single_score_have_their_own_intervals(make_score: Make, tmp_path: Path) -> None:
    """Wilson's interval of 1 of 2 by its formula."""
    drawn = score([make_score(tmp_path / "s", MIXED)], width=3.3)
    rows = {row["question"]: row for row in table(drawn)}
    assert {name: row["share"] for name, row in rows.items()} == {
        "arith-final-0000": 1.0,
        "arith-final-0001": 0.5,
        "arith-final-0002": 0.0,
        "arith-final-0003": 1.0,
    }
    z2 = 1.959963984540054**2
    half = np.sqrt(z2 / 2 * 0.25 + z2 * z2 / 16) / (1 + z2 / 2)
    assert rows["arith-final-0001"]["wilson95_low"] == pytest.approx(0.5 - half)
    (axes,) = drawn.figure.axes
    assert "0.625" in axes.get_title(loc="left")
    (lines,) = axes.collections
    drawn_as = [(row["wilson95_low"], row["wilson95_high"]) for row in table(drawn)]
    assert [tuple(segment[:, 1]) for segment in lines.get_segments()] == drawn_as
    points, mean = axes.lines
    assert list(points.get_ydata()) == [row["share"] for row in table(drawn)]
    assert set(mean.get_ydata()) == {0.625}
    assert fits(drawn)


def test_a_paired_comparison_shows_every_question_and_the_whole(runs: Path) -> None:
    drawn = compare([runs / "scores" / "student", runs / "scores" / "a-6"], width=3.3)
    *questions, whole = table(drawn)
    assert [row["difference"] for row in questions] == [0.5, 0.0, -0.5, 0.5]
    assert [row["right_b"] for row in questions] == [2, 1, 0, 2]
    assert whole["difference"] == pytest.approx(0.125)
    assert whole["stderr"] == pytest.approx(np.std([0.5, 0, -0.5, 0.5], ddof=1) / 2)
    assert (whole["samples_a"], whole["share_a"]) == (8, 0.5)
    assert (whole["samples_b"], whole["share_b"]) == (8, 0.625)
    assert "2 better, 1 worse, 1 equal" in drawn.said
    above, below = drawn.figure.axes
    marks = {band.get_label(): band.get_offsets().tolist() for band in above.collections}
    assert marks == {"2 better": [[0.5, 1.0]], "1 equal": [[0.5, 0.5]], "1 worse": [[0.5, 0.0]]}
    sizes = {band.get_label()[2:]: band.get_sizes()[0] for band in above.collections}
    assert sizes["better"] == 2 * sizes["equal"] == 2 * sizes["worse"], "an area is a number of questions"
    (interval,) = below.collections
    assert interval.get_segments()[0][:, 0].tolist() == [whole["ci95_low"], whole["ci95_high"]]
    assert fits(drawn)


def test_only_what_was_right_counts_as_right_and_a_later_verdict_counts(tmp_path: Path) -> None:
    verdicts = [("q", 0, "correct"), ("q", 1, "cut_short"), ("q", 2, "grader_failed"), ("q", 2, "correct")]
    lines = [{"question": name, "sample": at, "judgement": {"verdict": verdict}} for name, at, verdict in verdicts]
    append_lines(tmp_path / "samples.jsonl", lines)
    assert shares(tmp_path) == {"q": (2, 3)}


def test_comparisons_that_were_printed_are_drawn_from_their_files(tmp_path: Path) -> None:
    one = held_comparison(tmp_path / "one.json", difference=0.25, ci95=(0.125, 0.375))
    two = held_comparison(tmp_path / "two.json", difference=-0.5, ci95=None)
    several = tmp_path / "several.json"
    write_json(
        several, {"comparisons": [json.loads(one.read_text()), json.loads(two.read_text())], "selection": None}
    )
    assert table(compare([one, two])) == table(compare([several]))
    (axes,) = compare([several]).figure.axes
    assert [band.get_segments()[0][:, 0].tolist() for band in axes.collections] == [[0.125, 0.375]]
    assert [line.get_xdata()[0] for line in axes.lines][1:] == [0.25, -0.5]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b − start", "b − start"]


@pytest.mark.parametrize("text", ["{}", "[]", '{"comparisons": 3}', '{"comparisons": [1]}', "no JSON"])
def test_a_file_that_is_no_comparison_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(AskedWrongly):
        compare([tmp_path / "x.json"])


def test_one_score_is_no_comparison(runs: Path) -> None:
    with pytest.raises(AskedWrongly, match="needs two scores"):
        compare([runs / "scores" / "student"])


def test_lengths_of_scores_are_counted_by_outcome(make_score: Make, tmp_path: Path) -> None:
    """20 + 3 a sample + 1 a question: 20 and 23, 21 and 24; the wrong one is of 23 tokens."""
    drawn = lengths([make_score(tmp_path / "s", [[1, 0], [1, 1]])], width=3.3)
    rows = table(drawn)
    assert sum(int(str(row["right"])) for row in rows) == 3
    (wrong,) = [row for row in rows if row["wrong"]]
    assert int(str(wrong["least"])) <= 23 < int(str(wrong["below"]))
    heights = sum(bar.get_height() for bar in drawn.figure.axes[0].patches)
    assert heights == pytest.approx(1.0), "all samples together"
    parts = [bars.patches for bars in drawn.figure.axes[0].containers]  # right, wrong, cut short
    for lower, upper in itertools.pairwise(parts):
        assert [bar.get_y() for bar in upper] == pytest.approx([bar.get_y() + bar.get_height() for bar in lower])
    assert fits(drawn)


def test_lengths_of_trainings_stand_over_their_steps(
    make_run: Make, metrics_of: Callable[[int], StepMetrics], tmp_path: Path
) -> None:
    make_run(tmp_path / "t", steps=9)
    rows = table(lengths([tmp_path]))
    assert [row["mean_tokens"] for row in rows] == [metrics_of(step).mean_tokens for step in range(1, 10)]
    assert [row["cut_short"] for row in rows] == [metrics_of(step).cut_short for step in range(1, 10)]


def test_where_there_is_nothing_to_draw_it_is_said(tmp_path: Path) -> None:
    for draw in (lambda: curve([tmp_path], metric=None), lambda: score([tmp_path]), lambda: lengths([tmp_path])):
        with pytest.raises(AskedWrongly, match="at or below"):
            draw()


@pytest.mark.parametrize("width", [3.3, 6.6])
def test_all_that_is_drawn_lies_on_the_page(runs: Path, width: float, tmp_path: Path) -> None:
    """The other three kinds of pictures are tested so where they are made, on the narrow page."""
    held = held_comparison(tmp_path / "c.json", difference=0.25, ci95=(0.125, 0.375))
    plots = [
        curve([runs], metric="score", width=width),
        curve([runs], metric="gap.mean", width=width),
        score([runs], width=width),
        compare([held], width=width),
        lengths([runs / "a", runs / "b"], width=width),
    ]
    assert [plot.name for plot in plots if not fits(plot)] == []


def test_what_reaches_beyond_the_page_would_be_seen(runs: Path) -> None:
    drawn = curve([runs], metric="kl")
    drawn.figure.axes[0].set_ylabel("x" * 200)
    assert not fits(drawn)


@pytest.mark.parametrize("ending", [".svg", ".png"])
def test_equal_runs_give_equal_bytes(runs: Path, tmp_path: Path, ending: str) -> None:
    for name in ("one", "two"):
        write(curve([runs], metric="kl"), tmp_path / f"{name}{ending}")
    for file in (ending, ".csv"):
        assert (tmp_path / f"one{file}").read_bytes() == (tmp_path / f"two{file}").read_bytes()


def test_a_picture_is_as_wide_as_it_was_asked_to_be(runs: Path, tmp_path: Path) -> None:
    drawn = curve([runs], metric="kl", width=3.5)
    write(drawn, tmp_path / "x.svg")
    write(drawn, tmp_path / "y.png")
    box = re.search(r'viewBox="0 0 ([\d.]+) ', (tmp_path / "x.svg").read_text())
    assert box
    assert float(box[1]) == pytest.approx(3.5 * 72)
    assert int.from_bytes((tmp_path / "y.png").read_bytes()[16:20], "big") == 3.5 * 300


def test_a_pdf_is_the_same_each_time_and_holds_its_font_and_no_date(make_run: Make, tmp_path: Path) -> None:
    make_run(tmp_path / "t", steps=2)
    for name in ("one", "two"):
        write(curve([tmp_path], metric="kl", width=3.5), tmp_path / f"{name}.pdf")
    made = (tmp_path / "one.pdf").read_bytes()
    assert made == (tmp_path / "two.pdf").read_bytes()
    assert b"/FontFile2" in made, "outlines that a press can use and a reader can search"
    assert b"/Type3" not in made
    assert b"CreationDate" not in made
    media = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ", made)
    assert media
    assert float(media[1]) == pytest.approx(3.5 * 72)


def test_an_svg_speaks_its_title_and_what_it_shows(runs: Path, tmp_path: Path) -> None:
    write(curve([runs], metric="score"), tmp_path / "x.svg")
    root = ET.fromstring((tmp_path / "x.svg").read_text())
    assert (root.findtext(f"{SVG}title") or "").startswith("Score over steps on arith_tiny")
    assert "a: step 0 0.500, step 6 0.625, step 12 1.000" in (root.findtext(f"{SVG}desc") or "")
    assert {"a", "b", "teacher 1.000"} <= {"".join(one.itertext()) for one in root.iter(f"{SVG}text")}


def test_names_of_runs_are_text_and_no_formulas_or_markup(make_run: Make, tmp_path: Path) -> None:
    for name in ("$\\frac{a}{$", "<b>&amp;"):
        make_run(tmp_path / "runs" / name, steps=3)
    write(curve([tmp_path / "runs"], metric="kl"), tmp_path / "x.svg")
    root = ET.fromstring((tmp_path / "x.svg").read_text())
    assert {"$\\frac{a}{$", "<b>&amp;"} <= {"".join(one.itertext()) for one in root.iter(f"{SVG}text")}


def test_nothing_is_overwritten_and_an_unknown_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match=r"one of \.svg \.pdf \.png"):
        check_out(tmp_path / "x.jpg")
    (tmp_path / "x.svg").touch()
    with pytest.raises(AskedWrongly, match=r"x\.svg exists already"):
        check_out(tmp_path / "x.svg")
    for width in (0.5, 100.0, float("nan")):
        with pytest.raises(AskedWrongly, match="inches"):
            check_width(width)


def test_a_picture_is_had_in_several_formats_and_other_data_is_never_overwritten(runs: Path, tmp_path: Path) -> None:
    for ending in (".svg", ".pdf", ".png"):
        check_out(tmp_path / f"x{ending}")
        write(curve([runs], metric=None), tmp_path / f"x{ending}")
    data = (tmp_path / "x.csv").read_bytes()
    assert {one.name for one in tmp_path.glob("x.*")} == {"x.svg", "x.pdf", "x.png", "x.csv"}
    with pytest.raises(AskedWrongly, match=r"x\.csv exists already with other data"):
        write(curve([runs], metric="loss"), tmp_path / "x.SVG")
    assert (tmp_path / "x.csv").read_bytes() == data
    assert not (tmp_path / "x.SVG").exists()


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("paper", [WHITE, NEAR_BLACK])
def test_colours_stand_out_from_a_light_and_from_a_dark_page(colour: str, paper: tuple[int, int, int]) -> None:
    """WCAG 2.2 asks 3:1 of graphics."""
    dark, light = sorted(float(np.dot(linear(one), (0.2126, 0.7152, 0.0722))) for one in (rgb(colour), paper))
    assert (light + 0.05) / (dark + 0.05) >= 3


# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB
BLINDNESS = {
    "none": np.eye(3).tolist(),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


@pytest.mark.parametrize("kind", BLINDNESS)
def test_colours_of_runs_differ_for_the_colour_blind(kind: str) -> None:
    """At least 20 apart in CIELAB; 2.3 is just noticeable."""
    seen = [lab(np.array(BLINDNESS[kind]) @ linear(rgb(colour))) for colour in COLOURS]
    assert min(np.linalg.norm(one - other) for one, other in itertools.combinations(seen, 2)) > 20


def test_no_two_of_twenty_four_runs_look_the_same() -> None:
    looks = [look(place) for place in range(len(COLOURS) * len(DASHES))]
    assert len(looks) == 24
    assert len(set(looks)) == 24
    assert len({(one.colour, one.mark) for one in looks[: len(MARKS)]}) == len(MARKS)


def rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))


def linear(colour: Sequence[int]) -> np.ndarray:
    """sRGB to linear light."""
    share = np.array(colour) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def lab(light: np.ndarray) -> np.ndarray:
    """CIELAB of linear RGB under D65."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(light, 0, 1) / (0.9505, 1.0, 1.089)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_a_metric_of_one_of_several_teachers_has_the_unit_of_that_of_all() -> None:
    assert unit("teachers.terse.kl") == "teacher terse: KL(student ‖ teacher), nats/token"
    assert unit("teachers.terse.cut_short") == "teacher terse: cut short, share of rollouts"
    assert all(unit(f"teachers.math.{name}") != f"teacher math: {name}" for name in TeacherMetrics.model_fields)
    assert unit("teachers.math") == "teachers.math"
