"""The worked statistics vectors again, each to its tolerance, through the commands that cover them."""

import json
from pathlib import Path
from typing import Any

import pytest

from opd.cli.main import run

Values = dict[str, Any]


@pytest.fixture(scope="module")
def vectors(shared: Path) -> dict[str, Values]:
    read = json.loads((shared / "cases" / "stats_vectors.json").read_text(encoding="utf-8"))["vectors"]
    return {vector["name"]: vector for vector in read}


def samples_file(path: Path, hits: list[int], samples: int | list[int], *, field: str = "correct") -> Path:
    """A file with these counts of a field; the other of correct and cut_short is false throughout."""
    each = [samples] * len(hits) if isinstance(samples, int) else samples
    rows = [
        {"question": f"q{q}", "sample": sample, "correct": False, "cut_short": False, field: sample < count}
        for q, (count, k) in enumerate(zip(hits, each, strict=True))
        for sample in range(k)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Any:
    def ask(*arguments: object) -> Values:
        assert run([*map(str, arguments), "--json"]) == 0
        found: Values = json.loads(capsys.readouterr().out)
        return found

    return ask


def assert_close(found: Values, expected: Values, names: dict[str, str], *, tolerance: float) -> None:
    """Each named value of the vector is the one that the command gives under its own name."""
    for theirs, ours in names.items():
        if theirs in expected:
            wanted = expected[theirs]
            assert found[ours] == (None if wanted is None else pytest.approx(wanted, abs=tolerance, rel=0)), theirs


SCORE = {
    "n": "n",
    "questions": "questions",
    "mean": "mean",
    "micro_mean": "mean",
    "se_naive_binomial": "stderr_naive",
    "se_cluster_cr1": "stderr",
    "micro_se_cr1": "stderr",
    "ci95_t": "ci95",
    "design_effect": "design_effect",
    "icc_anova": "icc",
    "se_resampling_only": "stderr_seeds",
    "wilson95_questions": "wilson95_questions",
}


@pytest.mark.parametrize(
    "name",
    [
        "clustered_se_balanced_1",
        "clustered_se_balanced_2",
        "clustered_se_balanced_3",
        "clustered_se_unbalanced",
        "degenerate_all_correct",
        "degenerate_half_each",
        "degenerate_single_question",
    ],
)
def test_opd_score_gives_the_vector(name: str, vectors: dict[str, Values], said: Any, tmp_path: Path) -> None:
    given, expected = vectors[name]["input"], vectors[name]["expected"]
    path = samples_file(tmp_path / "x.jsonl", given["correct_counts"], given["samples_per_question"])
    assert_close(said("score", path), expected, SCORE, tolerance=vectors[name]["tol"])


def test_opd_score_gives_the_clip_rate(vectors: dict[str, Values], said: Any, tmp_path: Path) -> None:
    vector = vectors["clip_rate"]
    given, expected = vector["input"], vector["expected"]
    path = samples_file(
        tmp_path / "x.jsonl", given["clipped_counts"], given["samples_per_question"], field="cut_short"
    )
    names = {"clip_rate": "share", "se_cluster_cr1": "stderr"}
    assert_close(said("score", path)["cut_short"]["part"], expected, names, tolerance=vector["tol"])


def test_opd_score_gives_pass_at_k_of_a_data_set(vectors: dict[str, Values], said: Any, tmp_path: Path) -> None:
    vector = vectors["pass_at_k_dataset"]
    path = samples_file(tmp_path / "x.jsonl", vector["input"]["correct_counts"], vector["input"]["n"])
    by_k = {one["k"]: one for one in said("score", path)["at_k"]}
    shown = [k for k in vector["input"]["k"] if k in by_k]
    assert shown
    for k in shown:
        assert by_k[k]["pass_at_k"] == pytest.approx(vector["expected"][str(k)]["mean"], abs=vector["tol"], rel=0)
        assert by_k[k]["pass_stderr"] == pytest.approx(vector["expected"][str(k)]["se"], abs=vector["tol"], rel=0)


def test_opd_score_gives_pass_at_k_of_single_questions(vectors: dict[str, Values], said: Any, tmp_path: Path) -> None:
    vector, shown = vectors["pass_at_k_unbiased"], 0
    for place, ((n, c, k), value) in enumerate(
        zip(vector["input"]["rows"], vector["expected"]["values"], strict=True)
    ):
        by_k = {one["k"]: one for one in said("score", samples_file(tmp_path / f"{place}.jsonl", [c], n))["at_k"]}
        if k in by_k:
            assert by_k[k]["pass_at_k"] == pytest.approx(value, abs=vector["tol"], rel=0)
            shown += 1
    assert shown == 7  # k = 3 of 10 is not among the powers of two


def test_opd_score_refuses_a_row_that_is_there_twice(
    vectors: dict[str, Values], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = vectors["duplicate_rows"]["input"]["rows"]
    path = tmp_path / "x.jsonl"
    path.write_text(
        "".join(json.dumps({"question": q, "sample": s, "correct": c}) + "\n" for q, s, c in rows), encoding="utf-8"
    )
    assert run(["score", str(path)]) == 2
    assert "sample 11 twice" in capsys.readouterr().err


COMPARE = {
    "mean_a": "mean_b",  # the vectors' difference is A - B, ours B - A: theirs is compared the other way round
    "mean_b": "mean_a",
    "diff": "difference",
    "se_paired": "stderr",
    "p_t": "p",
    "se_resampling_only": "stderr_fixed_questions",
    "omega2": "true_spread",
    "p_signflip_exact": "p_permutation",
}


@pytest.mark.parametrize("name", ["paired_difference_1", "paired_difference_2", "paired_difference_3"])
def test_opd_compare_gives_the_vector(name: str, vectors: dict[str, Values], said: Any, tmp_path: Path) -> None:
    vector = vectors[name]
    paths = [
        samples_file(
            tmp_path / f"{which}.jsonl", vector["input"][f"correct_{which}"], vector["input"]["samples_per_question"]
        )
        for which in ("b", "a")
    ]
    assert_close(said("compare", *paths), vector["expected"], COMPARE, tolerance=vector["tol"])


def test_with_single_samples_the_sign_flips_of_opd_compare_are_mcnemars_test(
    vectors: dict[str, Values], said: Any, tmp_path: Path
) -> None:
    vector = vectors["mcnemar_exact"]
    for (only_a, only_b), p in zip(vector["input"]["rows"], vector["expected"]["p"], strict=True):
        alike = [0, 1]
        a = samples_file(tmp_path / "a.jsonl", [1] * only_a + [0] * only_b + alike, 1)
        b = samples_file(tmp_path / "b.jsonl", [0] * only_a + [1] * only_b + alike, 1)
        assert said("compare", a, b)["p_permutation"] == pytest.approx(p, abs=vector["tol"], rel=0)


def test_opd_power_gives_the_vector(vectors: dict[str, Values], said: Any) -> None:
    vector = vectors["power_paired"]
    names = {
        "se": "stderr",
        "mde": "detectable",
        "questions_needed": "questions_needed",
        "power_at_delta": "power_at_difference",
    }
    for case, expected in zip(vector["input"]["cases"], vector["expected"]["cases"], strict=True):
        sets = {
            "questions": case["questions"],
            "samples": case["k_a"],
            "samples_b": case["k_b"],
            "within": case["within_a"],
            "within_b": case["within_b"],
            "true_spread": case["omega2"],
            "difference": case["delta"],
            "alpha": case["alpha"],
            "power": case["power"],
        }
        words = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
        (row,) = said("power", *words)["rows"]
        assert_close(row, expected, names, tolerance=vector["tol"])


def test_opd_power_gives_the_boundaries(vectors: dict[str, Values], said: Any) -> None:
    vector = vectors["group_sequential"]
    given = ["questions=60", "samples=32", "within=0.08", f"alpha={vector['input']['alpha']}"]
    for row in vector["expected"]["rows"]:
        words = [word for one in [*given, f"looks={row['looks']}"] for word in ("--set", one)]
        found = said("power", *words)
        assert found["pocock"] == pytest.approx([row["pocock"]] * row["looks"], abs=vector["tol"], rel=0)
        assert found["obrien_fleming"] == pytest.approx(row["obrien_fleming"], abs=vector["tol"], rel=0)


def test_opd_power_inverts_printed_scores(vectors: dict[str, Values], said: Any) -> None:
    vector = vectors["summary_inversion"]
    for case, expected in zip(vector["input"]["cases"], vector["expected"]["cases"], strict=True):
        sets = (
            f"questions={case['questions']}",
            f"samples={case['k']}",
            f"correct={case['correct']}",
            f"stderr={case['se']}",
        )
        found = said("power", *(word for one in sets for word in ("--set", one)))
        assert found["within_a"] == pytest.approx(expected["within"], abs=vector["tol"], rel=0)


def test_opd_compare_gives_the_bonus_of_the_best_of_several(
    vectors: dict[str, Values], said: Any, tmp_path: Path
) -> None:
    vector = vectors["best_of_k_bias"]
    one = samples_file(tmp_path / "x.jsonl", [1, 2, 3, 0], 4)
    for (candidates, _), unit in zip(vector["input"]["rows"], vector["expected"]["unit"], strict=True):
        found = said("compare", *[one] * (candidates + 1))["selection"]
        assert found["candidates"] == candidates
        assert found["expected_bonus"] / found["stderr_seeds"] == pytest.approx(unit, abs=vector["tol"], rel=0)
