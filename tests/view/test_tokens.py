import html
import math
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from opd.records.errors import AskedWrongly
from opd.records.rollouts import ScoredRollout
from opd.view import tokens as view

MINUS = "\N{MINUS SIGN}"
Scored = Callable[..., ScoredRollout]


class Spans(HTMLParser):
    """Every token span: its classes, its title and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[set[str], str, str]] = []
        self.others: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "span":
            self.found.append((set((values["class"] or "").split()), values["title"] or "", ""))
        else:
            self.others.append(tag)

    def handle_data(self, data: str) -> None:
        classes, title, text = self.found[-1]
        self.found[-1] = classes, title, text + data


def test_pieces_join_to_the_text_of_the_whole(tokenizer: Tokenizer) -> None:
    text = "73-9=64\nπ ≈ 3.14, 数学, 👩‍🔬, é</think>\n\n\\boxed{71}"
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert len(ids) > len(text), "characters here take several tokens each: the hard case"
    assert "".join(view.pieces(ids, tokenizer)) == text


@given(text=st.text(max_size=60))
def test_any_text_comes_back_whole_and_each_token_has_a_piece(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    found = view.pieces(ids, tokenizer)
    assert len(found) == len(ids)
    assert "".join(found) == tokenizer.decode(ids, skip_special_tokens=False)


@given(ids=st.lists(st.integers(min_value=0, max_value=400), max_size=60))
def test_any_ids_have_pieces_even_where_the_bytes_are_no_text(tokenizer: Tokenizer, ids: list[int]) -> None:
    """E34: an id beyond the tokenizer, from a padded row of the embedding, is shown and breaks nothing."""
    found = view.pieces(ids, tokenizer)
    assert len(found) == len(ids)
    for id_, text in zip(ids, found, strict=True):
        assert (f"id {id_} has no text" in text) == (id_ >= tokenizer.get_vocab_size())


def test_a_character_of_several_tokens_stands_at_the_token_that_completes_it(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("a👍b", add_special_tokens=False).ids
    assert view.pieces(ids, tokenizer) == ["a", "", "", "", "👍", "b"]


def test_what_follows_a_broken_character_keeps_its_text(tokenizer: Tokenizer) -> None:
    broken = tokenizer.encode("👍", add_special_tokens=False).ids[:2]
    rest = tokenizer.encode("=64 is right", add_special_tokens=False).ids
    assert "".join(view.pieces([*broken, *rest], tokenizer)).endswith("=64 is right")


@pytest.mark.parametrize(
    ("gap", "kind"),
    [
        (0.0, ""), (0.049, ""), (-0.049, ""), (0.05, "p1"), (-0.05, "n1"), (0.2, "p2"), (-0.3, "n2"), (0.5, "p3"),
        (-0.99, "n3"), (1.0, "p4"), (-1.5, "n4"), (2.0, "p5"), (-17.0, "n5"),
    ],
)  # fmt: skip
def test_a_colour_says_between_which_bounds_the_gap_lies(gap: float, kind: str) -> None:
    assert view.level_class(view.level(gap)) == kind


def test_spans_carry_the_right_ids_log_probabilities_and_gaps(tokenizer: Tokenizer, scored_of: Scored) -> None:
    """E30: the ids shown are those that were sampled, and each gap is log teacher - log student."""
    scored = scored_of(response="73-9=63\n</think>", gaps={6: -4.62, 3: 0.7})
    found = Spans(view.spans(view.tokens_of(scored, tokenizer))).found
    assert len(found) == len(scored.rollout.token_ids)
    rows = zip(found, scored.rollout.token_ids, scored.rollout.logp, scored.teacher_logp, strict=True)
    for (classes, title, _), id_, student, teacher in rows:
        numbers = [float(one.replace(MINUS, "-")) for one in re.findall(rf"[{MINUS}+]?\d+\.\d{{3}}", title)]
        assert f"id {id_}:" in title
        assert numbers == pytest.approx([student, teacher, teacher - student], abs=6e-4)
        bounds = sum(abs(teacher - student) >= bound for bound in (0.05, 0.2, 0.5, 1, 2))
        assert classes - {"t"} == ({f"{'p' if teacher > student else 'n'}{bounds}"} if bounds else set())
    assert found[6][2] == "3"
    assert f"student {MINUS}1.300 ({100 * math.exp(-1.3):.1f} %)" in found[6][1]


def test_the_widest_gaps_come_first_whatever_their_sign(tokenizer: Tokenizer, scored_of: Scored) -> None:
    scored = scored_of(response="73-9=63\n63+7=70", gaps={2: 0.9, 6: -4.6, 9: 2.1})
    assert [token.place for token in view.widest(view.tokens_of(scored, tokenizer), count=3)] == [7, 10, 3]


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</pre></span>", "a & b", "<!-- --><b>"]
)
def test_hostile_text_is_shown_and_not_obeyed(tokenizer: Tokenizer, scored_of: Scored, text: str) -> None:
    shown = Spans(view.spans(view.tokens_of(scored_of(response=text), tokenizer)))
    assert "".join(piece for _, _, piece in shown.found) == text
    assert shown.others == []


def test_line_ends_keep_their_place_and_get_a_mark() -> None:
    assert view.visible("64\n71") == '64<i class="nl" aria-hidden="true"></i>\n71'


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\u202e", "\u200b", "\u2066", "\ufeff", "\r"])
def test_invisible_and_turning_characters_are_shown_by_their_code_point(character: str) -> None:
    shown = view.visible(f"a{character}b")
    assert f"U+{ord(character):04X}" in shown
    assert character not in shown


@given(st.text(max_size=200))
def test_visible_text_is_never_markup(text: str) -> None:
    shown = re.sub(r'<i class="(?:nl" aria-hidden="true"|code")>[^<]*</i>', "", view.visible(text))
    assert "<" not in shown
    assert ">" not in shown
    assert all(html.unescape(one) in text for one in re.findall(r"&[^;]*;", shown))


def test_a_missing_or_damaged_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match=r"tokenizer\.json does not exist"):
        view.read_tokenizer(tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(AskedWrongly, match="is not JSON"):
        view.read_tokenizer(tmp_path / "tokenizer.json")
