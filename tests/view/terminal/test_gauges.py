from hypothesis import given
from hypothesis import strategies as st

from opd.view.terminal.gauges import sparkline

BLOCKS = "▁▂▃▄▅▆▇█"


def test_eight_equal_steps_from_zero_draw_the_eight_blocks() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], width=8) == BLOCKS


def test_the_lowest_block_is_zero_so_that_a_flat_line_stays_high() -> None:
    assert sparkline([5.0, 5.0, 5.0], width=3) == "███"
    assert sparkline([0.0, 0.0], width=3) == "▁▁"


def test_values_below_zero_move_the_floor_down() -> None:
    assert sparkline([-1.0, 1.0], width=2) == "▁█"


def test_neighbours_share_a_column_by_their_mean() -> None:
    assert sparkline([0, 0, 8, 8, 0, 8], width=3) == "▁█▅"


def test_no_values_draw_nothing() -> None:
    assert sparkline([], width=10) == ""


@given(st.lists(st.floats(min_value=-1e6, max_value=1e6), max_size=300), st.integers(min_value=1, max_value=40))
def test_the_line_is_as_long_as_there_are_values_or_columns(values: list[float], width: int) -> None:
    assert len(sparkline(values, width=width)) == min(len(values), width)
    assert sparkline(values, width=width, ascii_only=True).isascii()
