"""Values as TOML: read back by the standard library's own reader."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.records.toml import toml

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=6))
def test_what_is_written_is_read_back_as_the_same_values(values):
    assert tomllib.loads(toml(values)) == values


@pytest.mark.parametrize(
    "text",
    [
        "a\nb\n",
        "'''\n",
        "ends in a quote'\n'",
        "\n\n",
        "tab\tand\nline",
        'say "hi"\n',
        "back\\slash\n",
        "\x7f\x00\n",
        "a\r\nb",
    ],
)
def test_texts_over_several_lines_are_kept_to_the_character(text):
    assert tomllib.loads(toml({"text": text, "after": 1})) == {"text": text, "after": 1}


def test_a_script_over_several_lines_is_written_as_it_reads():
    assert toml({"run": "#!/bin/sh\nset -e\n"}) == "run = '''\n#!/bin/sh\nset -e\n'''\n"


def test_values_come_before_tables_whatever_their_order():
    values = {"table": {"x": 1}, "value": 2, "tables": [{"y": 1}, {"y": 2, "z": {"w": 3}}], "left out": None}
    assert tomllib.loads(toml(values)) == {"table": {"x": 1}, "value": 2, "tables": values["tables"]}


def test_what_toml_has_no_word_for_is_refused():
    with pytest.raises(TypeError, match="no word"):
        toml({"bytes": b"x"})
    with pytest.raises(ValueError, match="not JSON compliant"):
        toml({"number": float("nan")})
