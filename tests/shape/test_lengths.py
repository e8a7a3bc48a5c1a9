"""Files and functions stay short enough to be read in one go.

The hard limits stop a file that tells two stories; the shares keep "mostly" honest, so that the house as a
whole can't drift toward its limits.
"""

import ast
import textwrap
from collections.abc import Iterator

import pytest

LONGEST_FILE, USUAL_FILE = 450, 300  # lines
LONGEST_FUNCTION, USUAL_FUNCTION = 60, 40  # lines, from `def` to the last statement
MOSTLY = 0.9


def functions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Name and lines of every function, nested ones too. Decorators don't count: flags live there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


def share_within(lengths: list[int], usual: int) -> float:
    return sum(length <= usual for length in lengths) / len(lengths)


def test_no_file_is_longer_than_450_lines(sources):
    long = [f"{one.name}: {one.lines} lines" for one in sources if one.lines > LONGEST_FILE]
    assert not long, "\n".join(long)


def test_nine_files_in_ten_have_at_most_300_lines(sources):
    assert share_within([one.lines for one in sources], USUAL_FILE) >= MOSTLY


def test_no_function_is_longer_than_60_lines(sources):
    lengths = [(f"{one.name}: {name}", lines) for one in sources for name, lines in functions(one.tree)]
    long = [f"{place}: {lines} lines" for place, lines in lengths if lines > LONGEST_FUNCTION]
    assert not long, "\n".join(long)


def test_nine_functions_in_ten_have_at_most_40_lines(sources):
    lengths = [lines for one in sources for _, lines in functions(one.tree)]
    assert share_within(lengths, USUAL_FUNCTION) >= MOSTLY


def test_a_function_is_measured_from_def_to_its_end_wherever_it_stands():
    planted = textwrap.dedent("""
        class Room:
            @property
            def door(self):
                def hinge():
                    return 1

                return hinge()

        async def walk(): ...
    """)
    assert dict(functions(ast.parse(planted))) == {"door": 5, "hinge": 2, "walk": 1}


@pytest.mark.parametrize(("lengths", "share"), [([1, 40, 41, 90], 0.5), ([40], 1.0), ([41], 0.0)])
def test_the_limit_itself_is_within(lengths, share):
    assert share_within(lengths, USUAL_FUNCTION) == share
