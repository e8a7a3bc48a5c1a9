"""The published projection, by its definition and by the file that it made."""

import hashlib
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.records.errors import AskedWrongly
from opd.train.corpus.problems import Problem, read_corpus
from opd.train.corpus.projection import Fate, ProjectionRule, bare, find_rule, project

NAME = "opd-dapo-aime-zero-overlap-v2"
TEXT = st.lists(st.sampled_from("ABC"), max_size=7).map(" ".join)


def problems(texts: list[str], prefix: str = "t") -> list[Problem]:
    return [Problem(row=row, name=f"{prefix}{row}", text=text, answer=None) for row, text in enumerate(texts)]


def by_definition(training: list[str], evaluation: list[str], rule: ProjectionRule) -> list[Fate]:
    """Slow and plain: strings, one row after another."""

    def grams(form: str) -> list[list[str]]:
        w = form.split()
        return [w[i : i + rule.run_words] for i in range(len(w) - rule.run_words + 1)]

    fates: list[Fate] = []
    forms = [" ".join(text.lower().split()) for text in training]
    others = [" ".join(text.lower().split()) for text in evaluation]
    for row, form in enumerate(forms):
        if form in forms[:row]:
            fates.append(Fate.DUPLICATE)
        elif any(
            form == other
            or (other and f" {other} " in f" {form} ")
            or (form and f" {form} " in f" {other} ")
            or any(gram in grams(other) for gram in grams(form))
            for other in others
        ):
            fates.append(Fate.OVERLAP)
        else:
            fates.append(Fate.TRAIN)
    left = [row for row, fate in enumerate(fates) if fate is Fate.TRAIN]
    left.sort(key=lambda row: hashlib.sha256(rule.protocol.encode() + b"\0" + forms[row].encode()).digest())
    for row in left[: rule.reserved_rows]:
        fates[row] = Fate.RESERVED
    return fates


@given(st.lists(TEXT, max_size=8), st.lists(TEXT, max_size=3), st.integers(0, 3), st.integers(1, 4))
def test_every_row_goes_where_the_definition_sends_it(
    training: list[str], evaluation: list[str], reserved: int, run: int
) -> None:
    rule = ProjectionRule(protocol="salt", run_words=run, reserved_rows=reserved)
    placed = project(problems(training), problems(evaluation, "e"), rule)
    assert [one.fate for one in placed] == by_definition(training, evaluation, rule)
    assert [one.problem.row for one in placed] == list(range(len(training)))
    assert all(bool(one.reason) == (one.fate is not Fate.TRAIN) for one in placed)


def test_the_reasons_name_the_other_problem() -> None:
    rule = ProjectionRule(protocol="salt", run_words=3, reserved_rows=0)
    placed = project(
        problems(["p q", "p q", "x a b c y", "a b", "w a b", "b c d a"]), problems(["a b c d", "w a b"], "e"), rule
    )
    assert [(one.fate.value, one.reason, one.other) for one in placed] == [
        ("train", "", None),
        ("duplicate", "the words of an earlier row", "t0"),
        ("overlap", 'shares 3 words: "a b c"', "e0"),
        ("overlap", "is contained in an evaluation problem", "e0"),
        ("overlap", "the words of an evaluation problem", "e1"),
        ("overlap", 'shares 3 words: "b c d"', "e0"),
    ]


def test_instructions_around_a_problem_are_taken_off() -> None:
    rule = find_rule(NAME)
    wrapped = f"{rule.instructions_before[0]}\n\nFind $x$.\n\n{rule.instructions_after[0]}"
    assert bare(wrapped, rule) == "Find $x$."
    assert bare("Find $x$.", rule) == "Find $x$."


def test_a_rule_is_found_by_name_or_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rule.toml"
    path.write_text('protocol = "mine"\nrun_words = 13\n', encoding="utf-8")
    assert find_rule(str(path)) == ProjectionRule(protocol="mine", run_words=13)
    assert find_rule(NAME).digest != find_rule(NAME).model_copy(update={"reserved_rows": 81}).digest
    with pytest.raises(AskedWrongly, match=f"no projection rule 'v3'.*{NAME}"):
        find_rule("v3")


@pytest.mark.patient
def test_the_published_projection_comes_out_row_by_row(shared: Path) -> None:
    """17,917 rows, written out again with their wrapper → 16,395 → 15,365 → 15,285, and each row where it was."""
    rule = find_rule(NAME)
    data = shared / "data"
    corpus = read_corpus(data / "dapo_math_unique.jsonl")
    evaluation = [one for name in ("aime24", "aime25") for one in read_corpus(data / f"{name}.jsonl").problems]
    wrapped = [
        f"{rule.instructions_before[0]}\n\n{one.text}\n\n{rule.instructions_after[0]}" for one in corpus.problems
    ]
    again = [text for text, row in zip(wrapped, corpus.rows, strict=True) for _ in range(row.get("n_dup", 1) - 1)]
    placed = project(problems(wrapped + again), evaluation, rule)
    fates = Counter(one.fate for one in placed)
    assert len(placed) == 17_917
    assert fates == {Fate.TRAIN: 15_285, Fate.RESERVED: 80, Fate.OVERLAP: 1_030, Fate.DUPLICATE: 1_522}
    said = {"train": Fate.TRAIN, "reserved": Fate.RESERVED, "aime_overlap": Fate.OVERLAP}
    assert [one.fate for one in placed[:16_395]] == [said[row["projection"]] for row in corpus.rows]
    assert all(one.reason.startswith("shares 8 words") for one in placed if one.fate is Fate.OVERLAP)


@pytest.mark.patient
def test_the_wording_of_the_evaluation_set_is_part_of_the_rule(shared: Path) -> None:
    """With the other public wording of AIME 2025 two rows fewer stay: 15,363."""
    data = shared / "data"
    corpus = read_corpus(data / "dapo_math_unique.jsonl")
    other = read_corpus(data / "aime25.jsonl", find_rule(NAME).fields.model_copy(update={"problem": "problem_alt"}))
    evaluation = [*read_corpus(data / "aime24.jsonl").problems, *other.problems]
    fates = Counter(one.fate for one in project(corpus.problems, evaluation, find_rule(NAME)))
    assert fates[Fate.TRAIN] + fates[Fate.RESERVED] == 15_363
