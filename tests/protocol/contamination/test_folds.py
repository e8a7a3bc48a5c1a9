"""What wrappings leave of a text: its letters, whatever was put around and between them."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.protocol.contamination.conftest import TEXTS

from opd.protocol.contamination.folds import canonical, letters, without_signs

WRAPPINGS = (
    json.dumps,
    lambda text: json.dumps(text, ensure_ascii=False),
    lambda text: "\n".join(f"{number:6d}\t{line}" for number, line in enumerate(text.split("\n"), 1)),
    lambda text: "\n".join(f"> {line}" for line in text.split("\n")),
    lambda text: text.replace(" ", "\n"),
    lambda text: text.replace("e", "e\u200b"),
)
MATHS = st.text(
    alphabet=st.sampled_from(
        [*"abefnrtyz", *"0159", " ", "\n", "\\", '"', "'", "$", "{", "}", "^", "_", "é", "中", "ﬁ"]
    ),
    min_size=1,
    max_size=80,
).map(lambda text: f"y{text}y")


@example("yﬁy", [json.dumps, json.dumps])  # a letter of two behind a backslash that is a wrapping's, or its own
@example("yé\\ﬁy", [json.dumps])
@settings(max_examples=200, deadline=None, derandomize=True)
@given(MATHS, st.lists(st.sampled_from(WRAPPINGS[:2]), max_size=4))
def test_json_in_json_leaves_the_letters_of_a_text_as_they_are(text: str, wrappings: list) -> None:  # type: ignore[type-arg]
    wrapped = text
    for wrap in wrappings:
        wrapped = wrap(wrapped)
    assert without_signs(canonical(wrapped.encode())) == without_signs(canonical(text.encode()))
    assert letters(wrapped.encode()) == letters(text.encode())


@pytest.mark.parametrize("wrap", WRAPPINGS)
def test_a_wrapping_of_lines_leaves_the_canonical_text_as_it_is(wrap) -> None:  # type: ignore[no-untyped-def]
    for text in TEXTS:
        assert without_signs(canonical(text.encode())) in without_signs(canonical(wrap(text).encode()))


def test_a_letter_that_was_escaped_twice_makes_no_escape_of_the_backslash_that_is_left() -> None:
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in "find")
    for wrapped in (escaped, json.dumps(escaped), json.dumps(json.dumps(escaped))):
        assert letters(wrapped.encode()) == canonical(wrapped.encode()) == b"find"
