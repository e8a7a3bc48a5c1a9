"""What is compared with what, by which program, and what it says when that fails."""

from itertools import combinations
from types import SimpleNamespace

import pytest
from tests.protocol.report.conftest import by_click

from opd.protocol.comparison import by_program
from opd.protocol.report.comparing import ALL_PAIRS, Side, compared
from opd.protocol.report.sources import Sources
from opd.protocol.report.trainings import Match
from opd.records.errors import AnswerIsNo

COMPARISON = {
    "a": "a", "b": "b", "mean_a": 0.5, "mean_b": 0.5, "difference": 0.0, "stderr": 0.1, "stderr_fixed_questions": 0.1,
    "ci95": [-0.1, 0.1], "p": 0.4, "p_permutation": 0.6, "detectable": 0.3, "distinguishable": False, "questions": 9,
    "samples_a": 9, "samples_b": 9, "verdict": "alike",
}  # fmt: skip


def asked(tmp_path, count: int, anchors: tuple[str, ...] = (), **others):
    """The pairs that were compared of so many measurements, and the folders of each call."""
    calls = []

    def compare(_, folders, lead):
        calls.append(list(folders))
        several = [COMPARISON] * sum(len(folders) - place for place in range(1, lead + 1))
        return COMPARISON if len(several) == 1 else {"comparisons": several, "selection": {"candidates": 2}}

    sides = [Side(label=f"proxy {number}", evaluation=f"e/{number}") for number in range(1, count + 1)]
    families = {"proxy": sides} | others
    found = compared(
        Sources(tmp_path, tmp_path), families, anchors=anchors, match=lambda *_: Match(), compare=compare
    )
    return found, calls


@pytest.mark.parametrize("count", [0, 1, 2, 3, ALL_PAIRS])
def test_a_few_are_all_compared_with_each_other_once(tmp_path, count):
    found, _ = asked(tmp_path, count)
    labels = [f"proxy {number}" for number in range(1, count + 1)]
    assert [(one.a, one.b) for one in found.pairs] == list(combinations(labels, 2))


def test_many_are_compared_with_the_anchors_alone_and_no_pair_twice(tmp_path):
    found, _ = asked(tmp_path, ALL_PAIRS + 3, anchors=("proxy 1", "proxy 4"))
    pairs = [frozenset({one.a, one.b}) for one in found.pairs]
    assert len(pairs) == len(set(pairs)) == 8 + 7
    assert all(pair & {"proxy 1", "proxy 4"} for pair in pairs)


def test_two_families_are_never_compared_with_each_other(tmp_path):
    finals = [Side(label=f"step {step}", evaluation=f"f/{step}") for step in (10, 20)]
    found, calls = asked(tmp_path, 2, final=finals)
    assert calls == [["e/1", "e/2"], ["f/10", "f/20"]]
    assert found.between("proxy 1", "step 10") is None
    assert found.between("step 20", "step 10") is not None


def test_each_comparison_is_a_fact_of_its_familys_file(tmp_path):
    found, _ = asked(tmp_path, 3, final=[Side(label=f"step {step}", evaluation=f"f/{step}") for step in (10, 20)])
    assert [(one.found.file, one.found.pointer) for one in found.pairs] == [
        ("comparisons/01.json", "/comparisons/0"),
        ("comparisons/01.json", "/comparisons/1"),
        ("comparisons/01.json", "/comparisons/2"),
        ("comparisons/02.json", ""),
    ]


def test_the_pairs_of_a_table_are_one_family_by_holms_rule(told):
    """By hand: of m p values the i-th least counts (m - i + 1) times, and none counts less than the one before."""
    for of in ("proxy", "final"):
        pairs = [pair.found.value for pair in comparisons(told, of)]
        assert len(pairs) >= 3
        plain = sorted(max(one["p"], one["p_permutation"]) for one in pairs)
        expected, most = [], 0.0
        for place, p in enumerate(plain):
            most = max(most, min(1.0, (len(plain) - place) * p))
            expected.append(most)
        assert sorted(one["p_holm"] for one in pairs) == pytest.approx(expected)
        assert all(one["distinguishable"] == (one["p_holm"] < 0.05) for one in pairs)


def comparisons(told, of):
    """The pairs of a report's claims, from its files."""
    sources = Sources(told.built.folder, told.folder)
    return [
        SimpleNamespace(found=sources.fact(one.file, one.pointer)) for one in told.report.comparisons if one.of == of
    ]


def test_the_p_that_decides_is_the_adjusted_one_else_the_larger(tmp_path):
    found, _ = asked(tmp_path, 2)
    assert found.pairs[0].chance.value == 0.6


def test_the_installs_own_program_says_the_same_as_the_command_in_this_process(told):
    folders = ["final/step-002080/evaluation", "final/step-002100/evaluation"]
    ran, said = by_program(told.built.folder, folders), by_click(told.built.folder, folders)
    named = ("a", "b", "verdict")  # hold the folders as they were given
    assert {key: ran[key] for key in ran if key not in named} == {key: said[key] for key in said if key not in named}
    assert (ran["a"], ran["b"]) == tuple(folders)


def test_a_program_that_fails_is_named_with_its_last_words(tmp_path):
    with pytest.raises(AnswerIsNo, match=r"`opd compare` of nowhere, elsewhere failed: .*nowhere"):
        by_program(tmp_path, ["nowhere", "elsewhere"])
