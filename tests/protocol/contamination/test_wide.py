"""Letters of two and four bytes are read as what they are, wherever in a file they begin."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opd.protocol.contamination.matching import WHOLE
from opd.protocol.contamination.needles import Needles, Question
from opd.protocol.contamination.scan import Source, scan
from opd.protocol.contamination.wide import widened

ANGLES = (
    "In the quadrilateral KLMN with ∠K = 70° and ∠M ≤ π/3 the side KL is 2√3 − ½ units long, and Désirée's circle "
    "touches LM at Ω. What is the greatest area × 9 that the café's table can have?"
)
WORDS = st.lists(
    st.sampled_from(["∠K=70°", "≤ π/3", "Désirée", "and the circle", "has 12 sides", "× 9 − ½", "中点", "ends"]),
    min_size=30,
    max_size=60,
).map(" ".join)
CODECS = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    WORDS, st.sampled_from(CODECS), st.integers(0, 300), st.sampled_from([b"", bytes(4_000), b"plain text. " * 99])
)
def test_a_text_is_read_to_its_last_sign_from_any_byte_on(text: str, codec: str, first: int, behind: bytes) -> None:
    stray = random.Random(first).randbytes(first).replace(b"\0", b"x")
    assert any(text in said.decode() for _, said in widened(stray + text.encode(codec) + behind))


@pytest.mark.parametrize("codec", [*CODECS, "utf-16", "utf-32", "utf-8-sig"])
def test_a_question_with_signs_beyond_ascii_stands_there_whole_in_every_encoding(codec: str) -> None:
    _is_whole(ANGLES, ANGLES.encode(codec))


@pytest.mark.parametrize("codec", ["latin-1", "cp1252"])
def test_and_in_one_byte_for_each_letter(codec: str) -> None:
    text = ANGLES.translate(str.maketrans("∠≤π√−Ω", "<<p'-O"))
    _is_whole(text, text.encode(codec))


def _is_whole(text: str, content: bytes) -> None:
    needles = Needles([Question(wordings=(text,), answer="12")])
    for before in (b"", b"Looking at it: "):
        found = scan([Source(name="it", content=before + content)], needles)
        assert {hit.form for hit in found.hits} & WHOLE


@pytest.mark.parametrize("kind", ["<i8", "<f4", "<f2", "u1"])
def test_numbers_are_no_texts(kind: str) -> None:
    numbers = (np.random.default_rng(0).standard_normal(200_000) * 9_000).astype(kind)
    assert sum(len(said) for _, said in widened(numbers.tobytes())) < numbers.nbytes / 10


def test_a_text_is_none_of_these() -> None:
    assert list(widened(ANGLES.encode() * 99)) == []
