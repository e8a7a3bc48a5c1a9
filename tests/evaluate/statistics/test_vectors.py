"""The worked statistics vectors, each to its own tolerance; they were found by other programs (see the file)."""

import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from scipy.special import stdtrit

from opd.evaluate.statistics.estimates import (
    Counts,
    clustered_stderr,
    design_effect,
    intracluster_correlation,
    mean_over_questions,
    naive_stderr,
    naive_stderr_clt,
    pass_at_k,
    pass_at_k_score,
    seeds_stderr,
    tally,
    variance_parts,
)
from opd.evaluate.statistics.intervals import clopper_pearson, normal_quantile, sign_test_p, t_interval, wilson
from opd.evaluate.statistics.paired import paired_difference
from opd.evaluate.statistics.power import PairedDesign, detectable_difference, power_at, questions_needed
from opd.evaluate.statistics.printed import Printed
from opd.evaluate.statistics.sequential import Boundary, boundaries, mixture_test
from opd.evaluate.statistics.several import benjamini_hochberg, best_of_k_bias, holm
from opd.records.errors import AskedWrongly

Values = dict[str, Any]


def counts_of(given: Values, key: str = "correct_counts") -> Counts:
    each = given["samples_per_question"]
    if isinstance(each, int):
        return Counts.of(given[key], samples_per_question=each)
    return Counts(hits=tuple(given[key]), samples=tuple(each))


def cr0(counts: Counts) -> float:
    """Without the small-sample factor; also what an ideal bootstrap of questions gives."""
    return clustered_stderr(counts) * math.sqrt((counts.questions - 1) / counts.questions)


def miller(counts: Counts) -> float:
    """The formula as the paper prints it: the naive variance, and the products of distinct samples."""
    own = counts.mean * (1 - counts.mean) / counts.total_samples
    return math.sqrt(naive_stderr_clt(counts) ** 2 + cr0(counts) ** 2 - own)


def jackknife(counts: Counts) -> float:
    """The mean is taken again without each question."""
    questions = range(counts.questions)
    without = [
        Counts(
            hits=tuple(counts.hits[i] for i in questions if i != left),
            samples=tuple(counts.samples[i] for i in questions if i != left),
        ).mean
        for left in questions
    ]
    middle = sum(without) / len(without)
    return math.sqrt((len(without) - 1) / len(without) * sum((mean - middle) ** 2 for mean in without))


def balanced(given: Values) -> Values:
    counts = counts_of(given)
    stderr, parts = clustered_stderr(counts), variance_parts(counts)
    z = normal_quantile(0.975)
    return {
        "n": counts.total_samples,
        "questions": counts.questions,
        "mean": counts.mean,
        "se_naive_binomial": naive_stderr(counts),
        "se_naive_clt": naive_stderr_clt(counts),
        "se_cluster_cr0": cr0(counts),
        "se_cluster_cr1": stderr,
        "se_miller": miller(counts),
        "se_jackknife": jackknife(counts),
        "ci95_t": t_interval(counts.mean, stderr, df=counts.questions - 1),
        "ci95_z": (counts.mean - z * stderr, counts.mean + z * stderr),
        "t_quantile": float(stdtrit(counts.questions - 1, 0.975)),
        "design_effect": design_effect(counts),
        "icc_anova": intracluster_correlation(counts),
        "var_between_true": parts.between,
        "var_within": parts.within,
        "se_resampling_only": seeds_stderr(counts),
        "se_ideal_cluster_bootstrap": cr0(counts),
    }


def unbalanced(given: Values) -> Values:
    counts = counts_of(given)
    macro = mean_over_questions(counts.question_means())
    return {
        "micro_mean": counts.mean,
        "micro_se_cr0": cr0(counts),
        "micro_se_cr1": clustered_stderr(counts),
        "micro_se_miller": miller(counts),
        "macro_mean": macro.mean,
        "macro_se": macro.stderr,
        "icc_anova": intracluster_correlation(counts),
    }


def degenerate(given: Values) -> Values:
    counts = counts_of(given)
    return {
        "mean": counts.mean,
        "se_cluster_cr1": clustered_stderr(counts),
        "se_naive_binomial": naive_stderr(counts),
        "wilson95_rows": wilson(counts.total_hits, counts.total_samples),
        "wilson95_questions": wilson(sum(c == k for c, k in zip(*_pairs(counts), strict=True)), counts.questions),
    }


def _pairs(counts: Counts) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return counts.hits, counts.samples


def duplicate_rows(given: Values) -> Values:
    try:
        tally((str(question), seed, bool(correct)) for question, seed, correct in given["rows"])
    except AskedWrongly as error:
        return {"error": "twice" in str(error)}
    return {"error": False}


def paired(given: Values) -> Values:
    """The vectors' difference is A - B; ours is B - A."""
    a, b = counts_of(given, "correct_a"), counts_of(given, "correct_b")
    pair = paired_difference(b, a)
    se_a, se_b = clustered_stderr(a), clustered_stderr(b)
    unpaired = math.hypot(se_a, se_b)
    signs = [x - y for x, y in zip(a.hits, b.hits, strict=True)]
    ups, downs = sum(sign > 0 for sign in signs), sum(sign < 0 for sign in signs)
    return {
        "mean_a": a.mean,
        "mean_b": b.mean,
        "diff": pair.difference,
        "se_a": se_a,
        "se_b": se_b,
        "corr": (unpaired**2 - pair.stderr**2) / (2 * se_a * se_b),
        "se_paired": pair.stderr,
        "se_unpaired": unpaired,
        "t": pair.difference / pair.stderr,
        "df": pair.questions - 1,
        "p_t": pair.p,
        "z_unpaired": pair.difference / unpaired,
        "se_resampling_only": pair.stderr_fixed_questions,
        "omega2": pair.true_spread,
        "sign_test": {"pos": ups, "neg": downs, "p": sign_test_p(ups, downs)},
        "p_signflip_exact": pair.flips.p if pair.flips.draws is None else None,
    }


def power(given: Values) -> Values:
    cases = []
    for case in given["cases"]:
        design = PairedDesign(
            true_spread=case["omega2"],
            within_a=case["within_a"],
            within_b=case["within_b"],
            samples_a=case["k_a"],
            samples_b=case["k_b"],
        )
        stderr = design.stderr(case["questions"])
        aim = {"alpha": case["alpha"], "power": case["power"]}
        cases.append(
            {
                "se": stderr,
                "mde": detectable_difference(stderr, **aim),
                "questions_needed": questions_needed(case["delta"], design=design, **aim),
                "power_at_delta": power_at(case["delta"], stderr=stderr, alpha=case["alpha"]),
            }
        )
    return {"cases": cases}


def msprt(given: Values) -> Values:
    cases = []
    for case in given["cases"]:
        states = mixture_test(case["diffs"], sigma=case["sigma"], tau=case["tau"], alpha=case["alpha"])
        rejects = [n for n, state in enumerate(states, start=1) if state.p < case["alpha"]]
        cases.append(
            {
                "lambda_last": states[-1].evidence,
                "p_always_valid": [state.p for state in states],
                "cs_halfwidth_last": states[-1].halfwidth,
                "first_reject": rejects[0] if rejects else None,
            }
        )
    return {"cases": cases}


def group_sequential(given: Values) -> Values:
    rows = []
    for looks in given["looks"]:
        pocock = boundaries(looks, alpha=given["alpha"], shape=Boundary.POCOCK)
        fleming = boundaries(looks, alpha=given["alpha"], shape=Boundary.OBRIEN_FLEMING)
        rows.append(
            {
                "looks": looks,
                "pocock": pocock[-1],
                "obrien_fleming": fleming,
                "obrien_fleming_last": fleming[-1],
            }
        )
    return {"rows": rows}


def inversion(given: Values) -> Values:
    cases = []
    for case in given["cases"]:
        printed = Printed(
            questions=case["questions"],
            samples_per_question=case["k"],
            correct=case["correct"],
            stderr=case["se"],
            digits=case["digits"],
        )
        squares = printed.sums_of_squares()
        parts = printed.variance_parts(squares[0])
        n = case["questions"] * case["k"]
        mean = case["correct"] / n
        cases.append(
            {
                "mean": mean,
                "sum_sq_candidates": squares,
                "n_candidates": len(squares),
                "se_naive_binomial": math.sqrt(mean * (1 - mean) / n),
                "within": parts.within,
                "between": parts.between,
                "se_resampling_only": math.sqrt(parts.within / n),
            }
        )
    return {"cases": cases}


def dataset_pass_at_k(given: Values) -> Values:
    counts = Counts.of(given["correct_counts"], samples_per_question=given["n"])
    scores = {str(k): pass_at_k_score(counts, k) for k in given["k"]}
    return {k: {"mean": score.mean, "se": score.stderr} for k, score in scores.items()}


def clip_rate(given: Values) -> Values:
    counts = counts_of(given, "clipped_counts")
    return {"clip_rate": counts.mean, "se_cluster_cr1": clustered_stderr(counts)}


FOUND: dict[str, Callable[[Values], Values]] = {
    "clustered_se_balanced_1": balanced,
    "clustered_se_balanced_2": balanced,
    "clustered_se_balanced_3": balanced,
    "clustered_se_unbalanced": unbalanced,
    "degenerate_all_correct": degenerate,
    "degenerate_half_each": degenerate,
    "degenerate_single_question": degenerate,
    "duplicate_rows": duplicate_rows,
    "paired_difference_1": paired,
    "paired_difference_2": paired,
    "paired_difference_3": paired,
    "pass_at_k_unbiased": lambda given: {"values": [pass_at_k(c, n, k) for n, c, k in given["rows"]]},
    "pass_at_k_dataset": dataset_pass_at_k,
    "power_paired": power,
    "binomial_intervals": lambda given: {
        "wilson": [wilson(*row) for row in given["rows"]],
        "clopper_pearson": [clopper_pearson(*row) for row in given["rows"]],
    },
    "mcnemar_exact": lambda given: {"p": [sign_test_p(*row) for row in given["rows"]]},
    "sequential_msprt": msprt,
    "holm_bh": lambda given: {"holm": holm(given["p"]), "bh": benjamini_hochberg(given["p"])},
    "best_of_k_bias": lambda given: {
        "unit": [best_of_k_bias(k, 1.0) for k, _ in given["rows"]],
        "bias": [best_of_k_bias(*row) for row in given["rows"]],
    },
    "group_sequential": group_sequential,
    "clip_rate": clip_rate,
    "summary_inversion": inversion,
}


def vectors(shared: Path) -> dict[str, Values]:
    read = json.loads((shared / "cases" / "stats_vectors.json").read_text(encoding="utf-8"))["vectors"]
    return {vector["name"]: vector for vector in read}


def assert_equal(expected: Any, found: Any, *, tolerance: float, place: str) -> None:
    if isinstance(expected, dict):
        for key, value in expected.items():
            assert_equal(value, found[key], tolerance=tolerance, place=f"{place}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), place
        for index, (one, other) in enumerate(zip(expected, found, strict=True)):
            assert_equal(one, other, tolerance=tolerance, place=f"{place}[{index}]")
    elif isinstance(expected, float):
        assert isinstance(found, float | Fraction), (place, found)
        assert abs(found - expected) <= tolerance, (place, expected, found)
    else:
        assert found == expected, (place, expected, found)


def test_every_vector_has_its_check(shared: Path) -> None:
    assert set(vectors(shared)) == set(FOUND)


@pytest.mark.parametrize("name", FOUND)
def test_vector_holds_to_its_tolerance(name: str, shared: Path) -> None:
    vector = vectors(shared)[name]
    assert_equal(vector["expected"], FOUND[name](vector["input"]), tolerance=vector["tol"], place=name)
