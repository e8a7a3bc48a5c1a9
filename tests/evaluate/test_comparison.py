"""Whether two scores can be told apart: the published numbers, the refusals, and the words."""

import random
import statistics
from collections.abc import Sequence
from dataclasses import replace

import pytest
from scipy.special import betaincinv

from opd.evaluate.benchmark import find
from opd.evaluate.comparison import compare, compare_each, protocol_differences
from opd.evaluate.results import Results
from opd.evaluate.statistics.estimates import Counts, clustered_stderr
from opd.evaluate.statistics.printed import Printed
from opd.records.errors import AskedWrongly
from opd.records.scores import Comparison, Protocol

PROTOCOL = find("math500").protocol(grader="house")

MATH = {"questions": 500, "samples_per_question": 4}
AIME = {"questions": 60, "samples_per_question": 32}
PUBLISHED = {
    "12 steps": Printed(**MATH, correct=1629, stderr=0.014452, digits=6),
    "task reward": Printed(**MATH, correct=1669, stderr=0.014102, digits=6),
    "top-16": Printed(**MATH, correct=1664, stderr=0.014123, digits=6),
    "shuffle": Printed(**MATH, correct=1659, stderr=0.014388, digits=6),
    "2080": Printed(**AIME, correct=806, stderr=0.052541, digits=6),
    "2100": Printed(**AIME, correct=809, stderr=0.051593, digits=6),
    "2106": Printed(**AIME, correct=793, stderr=0.052286, digits=6),
    "shipped": Printed(**AIME, correct=820, stderr=0.051615, digits=6),
    "start": Printed(**AIME, correct=484, stderr=0.045, digits=4),  # its error is not printed; assumed
}


def hits_of(printed: Printed) -> list[int]:
    """Per-question counts, hardest question first, with exactly the printed sum and a sum of squares that fits.

    From the quantiles of a U-shaped difficulty: first the sum, one hit at a time, then the squares, by moving
    single hits from one question to another.
    """
    q, k, squares = printed.questions, printed.samples_per_question, printed.sums_of_squares()[0]
    shape = (0.5, 0.1) if printed.questions == 500 else (0.22, 0.3)
    hits = [round(k * float(betaincinv(*shape, (i + 0.5) / q))) for i in range(q)]
    draw = random.Random(0)
    while (missing := printed.correct - sum(hits)) != 0:
        i = draw.randrange(q)
        hits[i] = min(k, hits[i] + 1) if missing > 0 else max(0, hits[i] - 1)
    for _ in range(100_000):
        left = squares - sum(c * c for c in hits)
        if not left:
            return sorted(hits)
        i, j = draw.sample(range(q), 2)
        if hits[i] < k and hits[j] > 0 and abs(left - 2 * (hits[i] - hits[j]) - 2) <= abs(left):
            hits[i], hits[j] = hits[i] + 1, hits[j] - 1
    raise AssertionError(f"no counts with the sums of {printed}")


HITS = {name: hits_of(printed) for name, printed in PUBLISHED.items()}


def results(name: str, hits: Sequence[int], *, samples: int, protocol: Protocol | None = None) -> Results:
    return Results(
        name=name,
        questions=tuple(f"q{i:03}" for i in range(len(hits))),
        counts=Counts.of(hits, samples_per_question=samples),
        protocol=protocol,
    )


def published(name: str, hits: Sequence[int] | None = None) -> Results:
    return results(name, hits or HITS[name], samples=PUBLISHED[name].samples_per_question)


def independent(name: str) -> Results:
    """Paired with the wrong questions: as if two models had no difficulty in common."""
    return published(name, random.Random(1).sample(HITS[name], len(HITS[name])))


def most_favourable(a: str, b: str) -> Comparison:
    """Every question gains alike but for the sampling noise (ω² ≈ 0): no real pairing is kinder to a difference.

    Starts from both in order of difficulty, where they agree better than independent samples can, and swaps
    questions of B until the differences spread as sampling noise alone would spread them.
    """
    hits, draw = list(HITS[b]), random.Random(2)
    samples, questions = PUBLISHED[a].samples_per_question, PUBLISHED[a].questions
    noise = compare(published(a), published(b)).stderr_fixed_questions ** 2 * questions * samples**2
    while statistics.variance(y - x for x, y in zip(HITS[a], hits, strict=True)) < noise:
        i = draw.randrange(questions - 1)
        j = min(questions - 1, i + draw.randrange(1, 1 + questions // 10))
        hits[i], hits[j] = hits[j], hits[i]
    return compare(published(a), published(b, hits))


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_counts_below_have_the_published_mean_and_error(name: str) -> None:
    printed, counts = PUBLISHED[name], published(name).counts
    assert counts.total_hits == printed.correct
    assert round(clustered_stderr(counts), printed.digits) == printed.stderr


UNDECIDED = [
    ("shuffle", "task reward", 0.70),
    ("top-16", "task reward", 0.34),
    ("shuffle", "top-16", 0.35),
    ("2100", "shipped", 0.59),
    ("2106", "shipped", 1.48),
    ("2106", "2100", 0.88),
    ("2080", "shipped", None),
    ("2106", "2080", None),
    ("2080", "2100", None),
]


@pytest.mark.parametrize(("a", "b", "z"), UNDECIDED)
def test_the_proxies_and_the_checkpoints_cannot_be_told_apart(a: str, b: str, z: float | None) -> None:
    """0.8345, 0.8320 and 0.8295, and 820, 809, 806 and 793: not even in the most favourable pairing."""
    found = most_favourable(a, b)
    assert found.difference > 0
    assert found.true_spread == pytest.approx(0, abs=0.002)
    assert found.p_fixed_questions >= 0.13
    assert found.p >= 0.13
    assert found.distinguishable is False
    assert f"{b} cannot be told apart from {a} on questions like these" in found.verdict
    assert "cannot be told apart either" in found.verdict
    if z is not None:
        assert found.difference / found.stderr_fixed_questions == pytest.approx(z, abs=0.006)
    assert compare(published(a), independent(b)).distinguishable is False


def test_809_of_1920_can_be_told_apart_from_484() -> None:
    """About 18 errors on exactly these questions, and 2.5 even if the two had no difficulty in common."""
    found = compare(published("start"), published("2100"))
    assert found.distinguishable is True
    assert found.difference == pytest.approx(325 / 1920)
    assert found.difference / found.stderr_fixed_questions == pytest.approx(18, abs=1)
    assert found.verdict.startswith("2100 is better than start on questions like these: +0.1693")
    apart = compare(published("start"), independent("2100"))
    assert apart.difference / apart.stderr == pytest.approx(2.5, abs=0.3)
    assert apart.distinguishable is True
    back = compare(published("2100"), published("start"))
    assert back.verdict.startswith("start is worse than 2100 on questions like these: -0.1693")


def test_the_interval_of_a_comparison_is_much_narrower_than_the_printed_errors_suggest() -> None:
    found = most_favourable("2106", "shipped")
    unpaired = (0.051615**2 + 0.052286**2) ** 0.5
    assert 4 < unpaired / found.stderr < 8.5


def test_three_candidates_against_one_are_adjusted_for_being_three() -> None:
    a = published("12 steps")
    others = [published(name) for name in ("task reward", "top-16", "shuffle")]
    alone, together = [compare(a, other) for other in others], compare_each(a, others)
    decisive = [max(one.p, one.p_permutation) for one in alone]
    assert all(one.p_holm is None for one in alone)
    assert min(one.p_holm for one in together) == pytest.approx(3 * min(decisive))
    assert all(one.p_holm >= p for one, p in zip(together, decisive, strict=True))
    assert all("after Holm over 3" in one.verdict for one in together)


def test_holm_can_take_a_find_back() -> None:
    """p = 2/64 alone; with three more candidates it is one of four."""
    a = results("a", [0] * 12, samples=2)
    better = results("b", [1] * 6 + [0] * 6, samples=2)
    assert compare(a, better).distinguishable is True
    crowd = [better, *(results(f"c{i}", [0] * 12, samples=2) for i in range(3))]
    first, *rest = compare_each(a, crowd)
    assert first.p_holm == pytest.approx(4 * 2 / 64)
    assert [one.distinguishable for one in (first, *rest)] == [False] * 4
    assert "b cannot be told apart from a" in first.verdict


def test_the_two_readings_are_told_apart_and_each_says_of_itself_whether_it_finds_something() -> None:
    """Half of the questions gain 11 of 32 and half lose 9: other questions might lose, these have gained."""
    a = results("a", [16] * 60, samples=32)
    b = results("b", [27] * 30 + [7] * 30, samples=32)
    found = compare(a, b)
    assert (found.distinguishable, found.distinguishable_fixed_questions) == (False, True)
    assert "b cannot be told apart from a on questions like these" in found.verdict
    assert f"b is better (p = {found.p_fixed_questions:.2g})" in found.verdict
    assert 0.05 / 4 < found.p_fixed_questions < 0.05
    crowd = [b, *(results(f"c{i}", [16] * 60, samples=32) for i in range(3))]
    first, *rest = compare_each(a, crowd)
    assert first.p_fixed_questions == found.p_fixed_questions  # as it is; the word is adjusted
    assert [one.distinguishable_fixed_questions for one in (first, *rest)] == [False] * 4


def test_a_result_against_itself_cannot_be_told_apart() -> None:
    found = compare(published("start"), published("start"))
    assert found.difference == 0.0
    assert found.p is None
    assert found.p_permutation == 1.0
    assert found.detectable is None
    assert found.distinguishable is False
    assert "cannot be told apart from start on questions like these: +0.0000, no question differs" in found.verdict


def test_one_question_tells_nothing() -> None:
    found = compare(results("a", [0], samples=4), results("b", [4], samples=4))
    assert (found.stderr, found.ci95, found.p, found.distinguishable) == (None,) * 4
    assert found.distinguishable_fixed_questions is None  # every sample came out alike: no noise was seen
    assert "One question can't tell b from a" in found.verdict


def test_single_samples_leave_the_fixed_reading_open_and_say_so() -> None:
    found = compare(results("a", [0, 1, 0, 1], samples=1), results("b", [1, 1, 0, 1], samples=1))
    assert (found.stderr_fixed_questions, found.distinguishable_fixed_questions) == (None, None)
    assert "a single sample of a question does not show how much sampling noise there is" in found.verdict


def test_a_small_find_is_said_to_be_overstated() -> None:
    """Between two and 2.8 errors a find is real to 95 %, and on average larger than the truth."""
    a, b = [2] * 40, [2] * 25 + [3] * 12 + [1] * 3
    found = compare(results("a", a, samples=4), results("b", b, samples=4))
    assert found.distinguishable is True
    assert abs(found.difference) < found.detectable
    assert "so its size is probably overstated" in found.verdict


def test_the_verdict_gives_the_interval_both_ps_and_what_could_have_been_found() -> None:
    found = most_favourable("shuffle", "task reward")
    low, high = found.ci95
    assert f"95 % interval {low:+.4f} to {high:+.4f}" in found.verdict
    assert f"p = {found.p:.2g} by t, p = {found.p_permutation:.2g} by sign flips" in found.verdict
    assert f"has to reach {found.detectable:.4f} to be found here four times in five" in found.verdict
    assert f"error {found.stderr_fixed_questions:.4f}" in found.verdict


def test_unequal_samples_weigh_every_question_the_same() -> None:
    a = Results(name="a", questions=("x", "y"), counts=Counts(hits=(1, 0), samples=(1, 9)), protocol=None)
    b = Results(name="b", questions=("x", "y"), counts=Counts(hits=(2, 2), samples=(2, 2)), protocol=None)
    found = compare(a, b)
    assert (found.mean_a, found.mean_b, found.difference) == (0.5, 1.0, 0.5)
    assert (found.samples_a, found.samples_b) == (10, 4)


def test_other_protocols_do_not_compare_and_the_fields_are_named_with_both_values() -> None:
    other = PROTOCOL.model_copy(update={"limit_tokens": 31_744, "temperature": 0.6})
    a = results("a", HITS["shuffle"], samples=4, protocol=PROTOCOL)
    with pytest.raises(AskedWrongly, match=r"temperature: 0\.7 v 0\.6; limit_tokens: 12288 v 31744") as caught:
        compare(a, replace(a, name="b", protocol=other))
    assert "prompt" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert compare(a, replace(a, name="b")).questions == 500


def test_a_long_value_is_shown_short() -> None:
    other = PROTOCOL.model_copy(
        update={"prompt": "Answer this, and nothing else, after thinking for as long as you like: {problem}"}
    )
    (line,) = protocol_differences(PROTOCOL, other)
    assert line.startswith("prompt: '{problem} Please reason")
    assert len(line) < 160


def test_other_questions_do_not_compare() -> None:
    a = results("a", [1, 2, 3], samples=4)
    b = replace(a, name="b", questions=("q000", "q001", "r7"))
    with pytest.raises(AskedWrongly, match="1 of the 3 questions of a are not among the 3 of b, 'q002' for one"):
        compare(a, b)
    with pytest.raises(AskedWrongly, match="1 of the 4 questions of c are not among the 3 of a, 'q003' for one"):
        compare(a, results("c", [1, 2, 3, 4], samples=4))
