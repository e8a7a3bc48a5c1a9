"""Problems are checked by Python's own arithmetic and by reading their text, never by the generator."""

import ast
import json
import operator
import re
from itertools import islice, pairwise
from pathlib import Path

import pytest

import opd
from opd.tasks.arith_tiny.problems import Chain, chains, sets, sloppy_solution, stream, unseen, write_sets

SHIPPED = Path(opd.__file__).parent / "tasks" / "arith_tiny"
NAMES = ("final", "proxy", "train")
SIZES = {"final": 500, "proxy": 500, "train": 2_000}


def rows(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (SHIPPED / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def by_python(expression: str) -> list[int]:
    """Every value on the way through a sum, the start first, as Python's parser and operators find them."""

    def walk(node: ast.expr) -> list[int]:
        if isinstance(node, ast.Constant):
            return [node.value]
        before = walk(node.left)
        act = {ast.Add: operator.add, ast.Sub: operator.sub}[type(node.op)]
        return [*before, act(before[-1], node.right.value)]

    return walk(ast.parse(expression, mode="eval").body)


def lines_of(solution: str) -> tuple[list[tuple[int, int, int]], int]:
    """(left, signed step, result) of each line of a solution, and its boxed answer."""
    found = re.fullmatch(r"((?:\d+[+-]\d+=\d+\n)+)</think>\n\n\\boxed\{(\d+)\}", solution)
    assert found, f"not a solution: {solution!r}"
    lines = re.findall(r"(\d+)([+-]\d+)=(\d+)\n", found.group(1))
    return [(int(left), int(step), int(result)) for left, step, result in lines], int(found.group(2))


def test_the_files_that_ship_are_those_that_the_program_writes(tmp_path):
    write_sets(tmp_path)
    for name in NAMES:
        shipped = (SHIPPED / f"{name}.jsonl").read_bytes()
        assert (tmp_path / f"{name}.jsonl").read_bytes() == shipped


def test_no_problem_stands_twice_in_the_three_sets():
    problems = [row["problem"] for name in NAMES for row in rows(name)]
    assert len(problems) == sum(SIZES.values())
    assert len(set(problems)) == len(problems)


@pytest.mark.parametrize("name", NAMES)
def test_a_set_has_its_size_and_numbers_its_rows(name):
    found = rows(name)
    assert [row["id"] for row in found] == [f"arith-{name}-{number:04d}" for number in range(1, SIZES[name] + 1)]
    assert all(list(row) == ["id", "problem", "answer", "source"] for row in found)


@pytest.mark.parametrize("name", NAMES)
def test_every_answer_is_what_python_computes_within_the_stated_ranges(name):
    for row in rows(name):
        expression = re.fullmatch(r"Compute (\d+(?:[+-][2-9]){2,4})\.", row["problem"]).group(1)
        values = by_python(expression)
        assert row["answer"] == str(values[-1])
        assert 1 <= values[0] <= 99
        assert all(0 <= value <= 99 for value in values)


@pytest.mark.parametrize("steps", [2, 3, 4])
def test_the_training_set_has_about_a_third_of_each_length(steps):
    lengths = [len(re.findall(r"[+-]", row["problem"])) for row in rows("train")]
    assert lengths.count(steps) / len(lengths) == pytest.approx(1 / 3, abs=5 * (2 / 9 / 2_000) ** 0.5)


def test_a_solution_is_written_out_line_by_line():
    chain = Chain(start=73, steps=(-9, 7))
    assert chain.problem == "Compute 73-9+7."
    assert chain.answer == 71
    assert chain.solution == "73-9=64\n64+7=71\n</think>\n\n\\boxed{71}"


def test_every_line_of_an_exact_solution_is_true_and_follows_the_problem():
    for chain in sets().train:
        lines, boxed = lines_of(chain.solution)
        expression = chain.problem.removeprefix("Compute ").removesuffix(".")
        values = by_python(expression)
        assert expression == f"{values[0]}{''.join(f'{step:+d}' for _, step, _ in lines)}"
        assert [left for left, _, _ in lines] == values[:-1]
        assert [result for _, _, result in lines] == values[1:]
        assert boxed == values[-1]


def test_a_sloppy_solution_carries_its_slips_on_and_stays_in_range():
    rng = stream("test")
    sizes = set()
    for chain in sets().train:
        lines, boxed = lines_of(sloppy_solution(chain, rng=rng, slip_share=0.5))
        assert lines[0][0] == chain.start
        assert tuple(step for _, step, _ in lines) == chain.steps
        assert all(line[2] == following[0] for line, following in pairwise(lines))
        assert boxed == lines[-1][2]
        assert all(0 <= result <= 99 for _, _, result in lines)
        sizes |= {result - (left + step) for left, step, result in lines}
    assert sizes == {-10, -2, -1, 0, 1, 2, 10}


def test_steps_go_wrong_as_often_as_asked():
    """Away from the ends of the range, where every slip fits: a binomial count, within 5 standard errors."""
    rng = stream("test")
    chain = Chain(start=50, steps=(2, -2, 2, -2))
    wrong = [
        left + step != result
        for _ in range(1_000)
        for left, step, result in lines_of(sloppy_solution(chain, rng=rng, slip_share=0.16))[0]
    ]
    assert sum(wrong) / len(wrong) == pytest.approx(0.16, abs=5 * (0.16 * 0.84 / len(wrong)) ** 0.5)


def test_a_slip_that_fits_nowhere_is_not_made():
    # the values 99, 90, 99, 0 are at both ends of the range: the first step can be wrong by nothing at all
    both_ends = Chain(start=97, steps=(2, -9, 9, -99))
    for seed in range(50):
        lines, _ = lines_of(sloppy_solution(both_ends, rng=stream(str(seed)), slip_share=1.0))
        assert [result for _, _, result in lines[:3]] == [99, 90, 99]
        assert lines[3][2] in {1, 2, 10}


def test_without_slips_a_sloppy_solution_is_exact():
    rng = stream("test")
    assert all(sloppy_solution(chain, rng=rng, slip_share=0.0) == chain.solution for chain in sets().proxy)


def test_what_makes_the_models_never_sees_an_evaluation_problem():
    """The same stream without the exclusion does meet them, so that the exclusion has something to do."""
    evaluated = {row["problem"] for name in ("final", "proxy") for row in rows(name)}
    draws = 20_000
    careless = {chain.problem for chain in islice(chains(stream("models/1/teacher/problems")), draws)}
    careful = {chain.problem for chain in islice(unseen("models/1/teacher/problems"), draws)}
    assert len(careless & evaluated) > 50
    assert not careful & evaluated


def test_a_stream_belongs_to_its_name():
    def drawn(name: str) -> list[Chain]:
        return list(islice(chains(stream(name)), 50))

    assert drawn("a") == drawn("a")
    assert drawn("a") != drawn("b")


def test_another_seed_gives_other_sets_that_are_disjoint_too():
    other = sets(seed=2)
    assert set(other.final) != set(sets().final)
    assert len({*other.final, *other.proxy, *other.train}) == 3_000
