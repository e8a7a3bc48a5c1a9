"""What a comparison can find, from a score, a pilot or given numbers: the document's table, and refusals."""

import math
import random
import statistics
from statistics import NormalDist
from typing import Any

import pytest

from opd.evaluate.design import Design, plan_power
from opd.evaluate.results import Results
from opd.evaluate.statistics.estimates import Counts
from opd.records.errors import AskedWrongly
from opd.records.power_report import PowerReport

REACH = NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(0.8)
MATH = {"questions": 500, "samples": 4, "correct": 1629, "stderr": 0.014452}
AIME = {"questions": 60, "samples": 32, "correct": 806, "stderr": 0.052541}
SHIPPED_MATH = {"questions": 500, "samples": 4, "correct": 1682, "stderr": 0.0138}
SHIPPED_AIME = {"questions": 60, "samples": 32, "correct": 820, "stderr": 0.051615}


def results(name: str, hits: list[int], *, samples: int = 4) -> Results:
    return Results(
        name=name,
        questions=tuple(f"q{place}" for place in range(len(hits))),
        counts=Counts.of(hits, samples_per_question=samples),
        protocol=None,
    )


def asked(**values: Any) -> PowerReport:
    return plan_power(Design(**values))


@pytest.mark.parametrize(
    ("printed", "shipped", "samples", "expected"),
    [
        (MATH, SHIPPED_MATH, 4, {0.0: 0.021, 0.005: 0.023, 0.01: 0.025, 0.02: 0.028}),
        (MATH, SHIPPED_MATH, 16, {0.0: 0.011, 0.01: 0.016}),
        (AIME, SHIPPED_AIME, 32, {0.0: 0.026, 0.005: 0.037, 0.01: 0.045, 0.02: 0.058}),
        (AIME, SHIPPED_AIME, 64, {0.0: 0.019, 0.01: 0.041}),
    ],
)
def test_the_published_designs_find_what_the_document_says(
    printed: dict[str, Any], shipped: dict[str, Any], samples: int, expected: dict[float, float]
) -> None:
    """80 % power, 5 %, two-sided; each side is as noisy as a printed score. (Rounded to a thousandth, 51 of 1,920
    samples are .027; the document cuts them to .026.)
    """
    noise = {"within": asked(**printed).within_a, "within_b": asked(**shipped).within_a}
    said = asked(questions=printed["questions"], samples=samples, **noise)
    found = {row.true_spread: row.detectable for row in said.rows}
    assert {spread: found[spread] for spread in expected} == pytest.approx(expected, abs=0.0007)


def test_in_samples_and_without_pairing_as_the_document_says() -> None:
    for printed, shipped, count, unpaired in (
        (MATH, SHIPPED_MATH, 42, 0.056),
        (AIME, SHIPPED_AIME, 51, 0.206),
    ):
        said = asked(**printed, within_b=asked(**shipped).within_a)
        assert round(said.rows[0].detectable_samples) == count
        assert said.unpaired_detectable == pytest.approx(unpaired, abs=0.0025)


def test_what_a_score_knows_is_its_own_noise_and_what_is_given_wins() -> None:
    hits = [3, 1, 2, 4, 0, 2]
    within = statistics.mean(c * (4 - c) / 12 for c in hits)
    said = plan_power(Design(), results("a", hits))
    assert (said.questions, said.samples_a, said.samples_b, said.source) == (6, 4, 4, "a")
    assert (said.within_a, said.within_b) == pytest.approx((within, within))
    assert said.rows[0].stderr == pytest.approx(math.sqrt(2 * within / 4 / 6))
    assert said.rows[0].detectable == pytest.approx(REACH * said.rows[0].stderr)
    more = plan_power(Design(questions=60, samples=8, samples_b=2, within_b=0.1), results("a", hits))
    assert more.rows[0].stderr == pytest.approx(math.sqrt((within / 8 + 0.1 / 2) / 60))


def test_a_pilot_knows_the_spread_of_the_true_differences() -> None:
    a, b = [0, 1, 2, 3, 4, 0, 1, 2], [4, 1, 3, 4, 4, 0, 0, 4]
    said = plan_power(Design(difference=0.1), results("a", a), results("b", b))
    differences = [(y - x) / 4 for x, y in zip(a, b, strict=True)]
    noise = [statistics.mean(c * (4 - c) / 12 for c in hits) for hits in (a, b)]
    spread = statistics.variance(differences) - sum(noise) / 4
    (row,) = said.rows
    assert row.true_spread == pytest.approx(spread)
    assert row.stderr == pytest.approx(statistics.stdev(differences) / math.sqrt(8))
    assert row.questions_needed == math.ceil(statistics.variance(differences) * (REACH / 0.1) ** 2)
    assert row.samples_needed is None  # the questions differ by more than any number of samples could even out


def test_a_spread_that_comes_out_negative_is_taken_as_none_and_said() -> None:
    draw = random.Random(0)
    a, b = ([draw.choice([1, 2, 3]) for _ in range(40)] for _ in range(2))
    pair = plan_power(Design(), results("a", a), results("b", [x if draw.random() < 0.9 else 2 for x in a]))
    assert pair.rows[0].true_spread == 0.0
    assert "below zero by chance, and 0 is taken" in pair.notes[0]
    assert len(b) == 40


def test_single_samples_of_a_pilot_leave_the_noise_in_the_spread() -> None:
    a, b = [0, 1, 1, 0, 1, 0], [1, 1, 1, 0, 0, 1]
    said = plan_power(Design(difference=0.2), results("a", a, samples=1), results("b", b, samples=1))
    differences = [y - x for x, y in zip(a, b, strict=True)]
    (row,) = said.rows
    assert (row.true_spread, said.within_a) == (pytest.approx(statistics.variance(differences)), 0.0)
    assert row.samples_needed is None
    assert "what more samples would buy is not known" in said.notes[0]


def test_several_candidates_share_the_error() -> None:
    one, three = (asked(questions=60, samples=32, within=0.08, candidates=n) for n in (1, 3))
    reach = NormalDist().inv_cdf(1 - 0.05 / 6) + NormalDist().inv_cdf(0.8)
    assert three.alpha_each == pytest.approx(0.05 / 3)
    assert three.rows[0].detectable / one.rows[0].detectable == pytest.approx(reach / REACH)


def test_the_samples_that_it_takes_find_it_and_one_fewer_does_not() -> None:
    given: dict[str, Any] = {"questions": 60, "within": 0.08, "true_spread": 0.001, "difference": 0.03}
    needed = asked(samples=4, **given).rows[0].samples_needed
    assert needed is not None
    chances = [asked(samples=samples, **given).rows[0].power_at_difference for samples in (needed - 1, needed)]
    assert chances[0] is not None
    assert chances[1] is not None
    assert chances[0] < 0.8 <= chances[1]


def test_where_nothing_varies_there_is_nothing_to_plan() -> None:
    row = asked(questions=5, samples=4, within=0.0, true_spread=0.0, difference=0.1).rows[0]
    assert (row.stderr, row.power_at_difference, row.questions_needed, row.samples_needed) == (0.0, None, None, None)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "questions is not known; give it by --set questions=…, or a score"),
        ({"questions": 60}, "samples is not known"),
        ({"questions": 60, "samples": 32}, "within is not known"),
        ({"questions": 60, "samples": 32, "correct": 809}, "a printed score has correct and stderr; give both"),
        ({"correct": 809, "stderr": 0.05}, "a printed score has correct and stderr; give both, with questions"),
        (
            {"questions": 60, "samples": 32, "correct": 809, "stderr": 0.0912},
            r"correct = 809, stderr = 0\.0912: no counts of 60 questions with 32 samples each",
        ),
    ],
)
def test_what_is_missing_or_impossible_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(AskedWrongly, match=message):
        asked(**given)


def test_a_score_and_a_printed_score_are_not_mixed_and_a_pilot_has_one_set_of_questions() -> None:
    a = results("a", [1, 2, 3])
    with pytest.raises(AskedWrongly, match="describe a printed score, and a is one; give one of the two"):
        plan_power(Design(**MATH), a)
    with pytest.raises(AskedWrongly, match="a and b have different questions"):
        plan_power(Design(), a, results("b", [1, 2]))
    with pytest.raises(AskedWrongly, match="one question does not show how much questions differ"):
        plan_power(Design(), results("a", [1]), results("b", [2]))
    uneven = Results(name="c", questions=("x", "y"), counts=Counts(hits=(1, 1), samples=(2, 3)), protocol=None)
    with pytest.raises(AskedWrongly, match="c has different numbers of samples"):
        plan_power(Design(), uneven)
