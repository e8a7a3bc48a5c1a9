"""Words, runs and shingles, against definitions that are slow and plain."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from opd.train.corpus.texts import (
    canonical,
    cjk_share,
    holds,
    jaccard,
    runs,
    shingles,
    words,
    words_and_characters,
)

SMALL = st.lists(st.sampled_from("abc"), max_size=12).map(tuple)


@given(st.text(max_size=60))
def test_words_are_the_maximal_runs_of_letters_and_digits(text: str) -> None:
    plain = unicodedata.normalize("NFKC", text).casefold()
    spaced = "".join(character if character.isalnum() else " " for character in plain)
    assert canonical(text) == " ".join(spaced.split())
    assert words(text) == tuple(spaced.split())


@given(SMALL, st.integers(min_value=1, max_value=5))
def test_runs_are_every_window(text: tuple[str, ...], length: int) -> None:
    assert runs(text, length) == {text[i : i + length] for i in range(len(text)) if i + length <= len(text)}


@given(SMALL, SMALL)
def test_one_text_holds_another_when_a_window_equals_it(outer: tuple[str, ...], inner: tuple[str, ...]) -> None:
    windows = {outer[i:j] for i in range(len(outer)) for j in range(i + 1, len(outer) + 1)}
    assert holds(outer, inner) == (inner in windows)


def test_words_that_only_begin_or_end_alike_do_not_hold_each_other() -> None:
    assert not holds(("rectangle", "abc"), ("angle", "abc"))
    assert not holds(("find", "the", "angles"), ("the", "angle"))


def test_a_text_shorter_than_a_shingle_is_one_itself_and_an_empty_one_has_none() -> None:
    assert shingles(("find", "x"), 3) == {("find", "x")}
    assert shingles((), 3) == set()
    assert runs(("find", "x"), 3) == set()


def test_the_jaccard_index_of_nothing_is_zero() -> None:
    assert jaccard(set(), set()) == 0.0
    assert jaccard({("a",), ("b",)}, {("b",), ("c",), ("d",)}) == 0.25


def test_signs_are_not_seen_by_words() -> None:
    """Why a comparison of words is never the last word."""
    assert words("$z^4 - z^2 + 1$") == words("$z^4+z^2+1$")


def test_full_width_letters_and_capitals_are_the_plain_ones() -> None:
    assert canonical("Ｆind $X_{12}$!") == "find x 12"


def test_chinese_is_one_word_or_a_word_for_each_character() -> None:
    assert words("求x的值，已知") == ("求x的值", "已知")
    assert words_and_characters("求x的值") == ("求", "x", "的", "值")
    assert cjk_share("求 x") == 0.5
    assert cjk_share("  ") == 0.0


def test_invisible_characters_do_not_cut_a_word_in_two() -> None:
    """H43: a zero-width space in every word hides a problem from the words of the public projections."""
    hidden = "Fi\u200bnd a\u00adll \u202ereal\u2060 ro\ufeffots\U000e0041"
    assert words(hidden) != words("Find all real roots")
    assert (
        words_and_characters(hidden)
        == words_and_characters("Find all real roots")
        == ("find", "all", "real", "roots")
    )
