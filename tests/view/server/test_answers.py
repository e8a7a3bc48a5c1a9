"""What the server says is JSON to the strictest reader, whatever it is about."""

import asyncio
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.view.server.answers import HANDLED, Busy, Gone, Unreadable, encoded, refused

HALVES = st.text(st.characters(), max_size=20)  # halves of characters among them
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | HALVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(HALVES, inner, max_size=4),
    max_leaves=20,
)


def strictly(text: bytes):
    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text.decode("utf-8", "strict"), parse_constant=refuse)


def expected(value):
    """The definition, written out: NaN and infinity are null, half a character is its code point."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return "".join(f"⟨U+{ord(one):04X}⟩" if "\ud800" <= one <= "\udfff" else one for one in value)
    if isinstance(value, dict):
        return {expected(name): expected(one) for name, one in value.items()}
    return [expected(one) for one in value] if isinstance(value, list) else value


@given(VALUES)
def test_what_json_can_say_is_said_as_it_is_and_the_rest_as_it_is_documented(value):
    assert strictly(encoded(value)) == expected(value)


@pytest.mark.parametrize("value", [math.nan, "\ud800", {"\udfff": 1}])
def test_the_plain_encoder_would_have_said_what_no_strict_reader_takes(value):
    with pytest.raises((AssertionError, UnicodeEncodeError)):
        strictly(json.dumps(value, ensure_ascii=False).encode())
    strictly(encoded(value))


@pytest.mark.parametrize(
    ("raised", "status"),
    [
        (Gone("gone"), 404),
        (FileNotFoundError("gone"), 404),
        (NotADirectoryError("gone"), 404),
        (AskedWrongly("asked"), 400),
        (AnswerIsNo("no"), 409),
        (Unreadable("damaged"), 409),
        (PermissionError("not yours"), 409),
        (RecursionError("deep"), 409),
        (Busy("later"), 503),
    ],
)
def test_what_went_wrong_is_told_by_its_number_and_in_its_sentence(raised, status):
    assert isinstance(raised, HANDLED)
    told = asyncio.run(refused(Request({"type": "http"}), raised))
    assert (told.status_code, strictly(told.body)) == (status, {"error": str(raised)})


def test_lists_in_lists_without_end_are_cut():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(RecursionError):
        json.dumps(deep)
    assert "…" in encoded({"deep": deep}).decode()
    strictly(encoded({"deep": deep}))


def test_text_of_a_model_goes_through_as_it_is():
    text = "<script>alert(1)</script>\u202e\0\x1b[31m" + "a" * 1_000_000 + "\u2028é"
    assert strictly(encoded({"text": text})) == {"text": text}
