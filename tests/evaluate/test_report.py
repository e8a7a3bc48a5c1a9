"""What a report of a score holds, by its definitions on samples that can be counted by hand."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.evaluate.lengths import bin_width, most_bins
from opd.evaluate.report import score_report
from opd.evaluate.results import Source
from opd.evaluate.rows import Row
from opd.records.score_report import ScoreReport
from opd.records.scores import Opinion, Verdict


def row(question: str, sample: int, *, correct: bool, **known: Any) -> Row:
    return Row(question=question, sample=sample, correct=correct, **known)


def report_of(rows: Sequence[Row]) -> ScoreReport:
    ordered = sorted(rows, key=lambda one: (one.question, one.sample))
    return score_report(Source(name="x", form="samples", rows=tuple(ordered)))


def question(name: str, pattern: str, **known: Any) -> list[Row]:
    """r right, w wrong, c cut short without an answer, C cut short and right."""
    return [
        row(
            name,
            place,
            correct=kind in "rC",
            verdict={"r": "correct", "C": "correct", "w": "wrong", "c": "cut_short"}[kind],
            by="house",
            answered=kind != "c",
            extracted=None if kind == "c" else "7" if kind in "rC" else "8",
            inside_reasoning=False,
            cut_short=kind in "cC",
            tokens=100 if kind in "cC" else 10 + place,
            gold="7",
            **known,
        )
        for place, kind in enumerate(pattern)
    ]


ROWS = [*question("a", "rrrw"), *question("b", "rwcc"), *question("c", "wwwc"), *question("d", "rCrr")]


def by_hand(shares: Sequence[float]) -> tuple[float, float]:
    """Mean and clustered error of equally many samples a question."""
    return statistics.mean(shares), statistics.stdev(shares) / math.sqrt(len(shares))


def test_the_clip_rate_has_a_clustered_error_and_bounds_the_score() -> None:
    said = report_of(ROWS).cut_short
    assert said is not None
    assert (said.part.samples, said.part.correct) == (4, 1)
    assert (said.part.share, said.part.stderr) == pytest.approx(by_hand([0, 0.5, 0.25, 0.25]))
    assert (said.all_wrong.mean, said.all_wrong.stderr) == pytest.approx(by_hand([0.75, 0.25, 0, 0.75]))
    assert (said.all_right.mean, said.all_right.stderr) == pytest.approx(by_hand([0.75, 0.75, 0.25, 1]))
    assert report_of(ROWS).mean == 0.5


@given(st.lists(st.text("rwcC", min_size=1, max_size=5), min_size=1, max_size=6))
def test_the_score_as_graded_lies_between_its_bounds(patterns: list[str]) -> None:
    report = report_of([one for place, pattern in enumerate(patterns) for one in question(f"q{place}", pattern)])
    assert report.cut_short is not None
    assert report.cut_short.all_wrong.mean <= report.mean <= report.cut_short.all_right.mean
    assert sum(part.samples for part in report.verdicts) == report.n
    assert sum(part.samples for part in report.box) == report.n
    assert report.lengths is not None
    counted = [one.correct + one.wrong + one.cut_short for one in report.lengths.bins]
    assert sum(counted) == report.n
    assert sum(one.share for one in report.lengths.bins) == pytest.approx(1)


def test_verdicts_are_shares_of_all_samples_with_clustered_errors() -> None:
    parts = {part.name: part for part in report_of(ROWS).verdicts}
    assert {name: (part.samples, part.correct) for name, part in parts.items()} == {
        "correct": (8, 8),
        "wrong": (5, 0),
        "cut_short": (3, 0),
    }
    assert (parts["wrong"].share, parts["wrong"].stderr) == pytest.approx(by_hand([0.25, 0.25, 0.75, 0]))


def test_a_share_of_nothing_has_wilsons_interval_and_not_a_width_of_zero() -> None:
    said = report_of([*question("a", "rr"), *question("b", "rw")]).cut_short
    assert said is not None
    assert said.part.share == 0.0
    assert said.part.ci95 == pytest.approx((0.0, 1.959964**2 / (2 + 1.959964**2)), abs=1e-6)


def test_where_the_answer_stood_is_counted_apart() -> None:
    rows = [
        row("a", 0, correct=True, answered=True, inside_reasoning=False),
        row("a", 1, correct=True, answered=True, inside_reasoning=True),
        row("b", 0, correct=False, answered=False, inside_reasoning=True),  # opened inside, and never closed
        row("b", 1, correct=False, answered=True, inside_reasoning=True),
    ]
    assert [(part.name, part.samples, part.correct) for part in report_of(rows).box] == [
        ("after the reasoning", 1, 1),
        ("inside the reasoning", 2, 1),
        ("no complete box", 1, 0),
    ]


def test_what_the_samples_do_not_tell_is_left_open() -> None:
    report = report_of([row("a", 0, correct=True), row("a", 1, correct=False)])
    assert (report.verdicts, report.decided_by, report.box, report.opinions) == ((), (), (), ())
    assert (report.cut_short, report.lengths, report.contamination) == (None, None, None)
    assert [(one.k, one.pass_at_k, one.majority_at_k) for one in report.at_k] == [(1, 0.5, None), (2, 1.0, None)]


def test_one_sample_of_which_something_is_not_known_leaves_it_open_for_all() -> None:
    rows = [row("a", 0, correct=True, cut_short=False, tokens=5, by="house"), row("a", 1, correct=False)]
    report = report_of(rows)
    assert (report.cut_short, report.lengths, report.decided_by) == (None, None, ())


def test_questions_come_with_their_interval_and_the_answer_they_gave_instead() -> None:
    """Wilson's interval of 1 of 4 by its own formula."""
    first, *rest = report_of(ROWS).by_question
    assert [(one.question, one.correct) for one in (first, *rest)] == [("c", 0), ("b", 1), ("a", 3), ("d", 4)]
    assert (first.wrong_answer, first.wrong_answers, first.cut_short, first.gold) == ("8", 3, 1, "7")
    z2 = 1.959964**2
    centre, reach = (0.25 + z2 / 8) / (1 + z2 / 4), math.sqrt(z2 * (0.1875 + z2 / 16) / 4) / (1 + z2 / 4)
    assert rest[0].interval == pytest.approx((centre - reach, centre + reach), abs=1e-6)
    assert rest[-1].wrong_answer is None


def test_the_most_split_questions_are_nearest_to_half() -> None:
    rows = [*question("a", "rrrw"), *question("b", "rrww"), *question("c", "wwww"), *question("d", "rwww")]
    assert report_of(rows).most_split == ("b", "a", "d")


def test_lengths_are_in_bins_of_a_round_width_and_the_wrong_apart_from_the_cut_short() -> None:
    said = report_of(ROWS).lengths
    assert said is not None
    assert (said.unit, said.longest, said.median) == ("tokens", 100, 12)
    assert [(one.least, one.below) for one in said.bins] == [(n, n + 20) for n in range(0, 120, 20)]
    assert (said.bins[0].correct, said.bins[0].wrong, said.bins[0].cut_short) == (7, 5, 0)
    assert (said.bins[5].correct, said.bins[5].wrong, said.bins[5].cut_short) == (1, 0, 3)
    assert (said.bins[5].share, said.bins[5].stderr) == pytest.approx(by_hand([0, 0.5, 0.25, 0.25]))
    assert said.mean_correct == pytest.approx((10 + 11 + 12 + 10 + 10 + 100 + 12 + 13) / 8)


def test_the_interval_of_a_rare_length_stays_inside_zero_and_one() -> None:
    rows = [
        row(f"q{place}", one, correct=True, tokens=900 if place == one == 0 else 5)
        for place in range(8)
        for one in (0, 1)
    ]
    said = report_of(rows).lengths
    assert said is not None
    rare = said.bins[-1]
    assert rare.ci95 is not None
    assert 0 < rare.ci95[0] < rare.share == 1 / 16 < rare.ci95[1] < 1


def test_without_tokens_lengths_are_in_characters() -> None:
    rows = [row("a", 0, correct=True, response="x" * 30), row("a", 1, correct=False, response="x" * 10)]
    said = report_of(rows).lengths
    assert said is not None
    assert (said.unit, said.mean, said.stderr, said.mean_wrong) == ("characters", 20.0, None, 10.0)


def test_a_few_samples_are_not_each_in_a_bin_of_its_own() -> None:
    """Six responses of 4 to 9 tokens once came in ten bins, most of them empty or with one sample."""
    rows = [row(f"q{place}", 0, correct=True, tokens=4 + place) for place in range(6)]
    said = report_of(rows).lengths
    assert said is not None
    assert [(one.least, one.below, one.correct) for one in said.bins] == [(4, 6, 2), (6, 8, 2), (8, 10, 2)]


def test_there_are_no_bins_below_the_shortest() -> None:
    rows = [row(f"q{place}", 0, correct=True, tokens=1_000 + place) for place in range(27)]
    said = report_of(rows).lengths
    assert said is not None
    assert [(one.least, one.correct) for one in said.bins] == [(n, 5) for n in range(1_000, 1_025, 5)] + [(1_025, 2)]


@pytest.mark.parametrize(("samples", "bins"), [(1, 2), (6, 4), (8, 4), (27, 6), (64, 8), (1000, 20), (2000, 20)])
def test_the_bins_grow_with_the_cube_root_of_the_samples(samples: int, bins: int) -> None:
    assert most_bins(samples) == bins


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(1, 20))
def test_at_most_so_many_bins_hold_all_and_a_smaller_round_width_would_not(one: int, other: int, most: int) -> None:
    def bins(width: int) -> int:
        return len(range(shortest // width * width, longest + 1, width))

    shortest, longest = sorted((one, other))
    width = bin_width(shortest, longest, most=most)
    assert bins(width) <= most
    digits = str(width).rstrip("0")
    assert digits in {"1", "2", "5"}
    if width > 1:
        smaller = width // 2 if digits != "5" else width // 5 * 2
        assert bins(smaller) > most


def opinion(by: str, verdict: Verdict) -> Opinion:
    return Opinion(by=by, verdict=verdict, reason=f"{by} says {verdict.value}")


def test_who_did_not_decide_is_set_against_who_did() -> None:
    both = opinion("reference", Verdict.WRONG), opinion("house", Verdict.WRONG)
    rows = [
        row("a", 0, correct=True, by="house", opinions=both[:1]),
        row("a", 1, correct=True, by="judge:m", opinions=both),
        row("b", 0, correct=False, by="house", opinions=(opinion("reference", Verdict.CORRECT),)),
        row("b", 1, correct=False, by="house", opinions=(opinion("reference", Verdict.GRADER_FAILED),)),
    ]
    report = report_of(rows)
    said = {(one.other, one.by): one for one in report.opinions}
    reference = said["reference", "house"]
    assert (reference.asked, reference.failed, reference.other_says_right, reference.other_says_wrong) == (3, 1, 1, 1)
    assert reference.mean_by_other is None  # it failed on one sample, so it has no score
    assert said["reference", "judge:m"].other_says_wrong == 1
    assert (said["house", "judge:m"].asked, said["house", "judge:m"].other_says_wrong) == (1, 1)
    assert [(one.question, one.sample, one.other) for one in report.disagreements] == [
        ("a", 0, "reference"),
        ("a", 1, "reference"),
        ("a", 1, "house"),
        ("b", 0, "reference"),
    ]
    assert [(part.name, part.samples) for part in report.decided_by] == [("house", 3), ("judge:m", 1)]


def test_a_second_grader_that_saw_every_sample_has_a_score_of_its_own() -> None:
    verdicts = [[True, True], [False, True], [False, False]]
    rows = [
        row(
            f"q{place}",
            sample,
            correct=False,
            by="judge:m" if sample else "house",
            opinions=(opinion("reference", Verdict.CORRECT if right else Verdict.WRONG),),
        )
        for place, both in enumerate(verdicts)
        for sample, right in enumerate(both)
    ]
    for one in report_of(rows).opinions:
        assert one.mean_by_other is not None
        assert (one.mean_by_other.mean, one.mean_by_other.stderr) == pytest.approx(by_hand([1, 0.5, 0]))
