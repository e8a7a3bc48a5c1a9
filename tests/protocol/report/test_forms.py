"""Every value is written as its form says, and no text of a stranger's acts in ours."""

import re

import pytest
from markdown_it import MarkdownIt

from opd.protocol.report.forms import rendered, visible
from opd.records.claims import Form

HOSTILE = "<script>alert(1)</script> ![x](http://example.com/a.png) `code` | *bold* _em_ $x$ &amp; ~~gone~~ [a]: b"


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (1920, Form.INTEGER, "1,920"),
        (-11, Form.INTEGER, "−11"),
        (2106, Form.STEP, "2106"),
        (0.8145, Form.MEAN, "0.8145"),
        (809 / 1920, Form.MEAN, "0.421354"),
        (0.5, Form.MEAN, "0.5000"),
        (0.05159312, Form.ERROR, "0.051593"),
        (0.0138, Form.ERROR, "0.0138"),
        (0.01167, Form.ERROR, "0.011670"),
        (-2.4, Form.NUMBER, "−2.40"),
        (0.1 + 0.2, Form.MEAN, "0.3000"),
        ("topk_forward_kl _x_ y_", Form.TEXT, "topk_forward_kl \\_x\\_ y\\_"),
        (0.031876, Form.ROUNDED, "0.0319"),
        (41701.93, Form.NUMBER, "41,701.93"),
        (43200.0, Form.NUMBER, "43,200"),
        (672.5, Form.NUMBER, "672.50"),
        (-1.0, Form.NUMBER, "−1"),
        (3288.61, Form.WHOLE, "3,289"),
        (0.4, Form.DURATION, "0.4 s"),
        (45, Form.DURATION, "45 s"),
        (59.6, Form.DURATION, "1 min"),
        (125, Form.DURATION, "2 min 5 s"),
        (11111, Form.DURATION, "3 h 5 min"),
        (14400, Form.DURATION, "4 h"),
        (41701.93 / 43200, Form.PERCENT, "96.53 %"),
        (0.269, Form.PERCENT, "26.90 %"),
        (1, Form.PERCENT, "100 %"),
        (0, Form.PERCENT, "0 %"),
        (21.79, Form.MULTIPLE, "21.8"),
        (325, Form.SIGNED_INTEGER, "+325"),
        (-11, Form.SIGNED_INTEGER, "−11"),
        (0.02, Form.SIGNED_MEAN, "+0.0200"),
        (-0.005, Form.SIGNED_MEAN, "−0.0050"),
        (0.032, Form.CHANCE, "0.032"),
        (2e-9, Form.CHANCE, "< 0.0001"),
        (3, Form.WORD, "three"),
        (13, Form.WORD, "13"),
        (22, Form.NTH, "22nd"),
        (11, Form.NTH, "11th"),
        ("2026-01-31T13:08:59.000Z", Form.CLOCK, "13:08 UTC"),
        ("2026-01-31T13:08:59.000+02:00", Form.MOMENT, "2026-01-31 11:08 UTC"),
        ("ad40e2ba6386ffff", Form.DIGEST, "`ad40e2ba6386…`"),
        (False, Form.CODE, "`false`"),
        ("a`b", Form.CODE, "``a`b``"),
        ("one\ntwo", Form.TEXT, "one two"),
        (None, Form.MEAN, "null"),
    ],
)
def test_a_value_is_written_in_its_form(value, form, text):
    assert rendered(value, form) == text


@pytest.mark.parametrize("form", [Form.TEXT, Form.QUOTE])
@pytest.mark.parametrize(
    "words", [HOSTILE, "# a heading", "- a list", "1. a list", "> a quote", "---", "| a |\n|---|"]
)
def test_words_of_a_stranger_show_as_they_are_and_make_no_markup(form, words):
    raw = MarkdownIt("gfm-like", {"linkify": False, "html": True})
    assert set(re.findall(r"<(\w+)", raw.render(words))) - {"p"}, "as they are they would act"
    html = raw.render(f"Said: {rendered(words, form)}" if form is Form.TEXT else rendered(words, form))
    inside = html.replace("<blockquote>", "").replace("</blockquote>", "").replace("<p>", "").replace("</p>", "")
    assert "<" not in inside
    shown = inside.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&amp;", "&")
    assert shown.split() == ["Said:", *words.split()][form is not Form.TEXT :]


def test_a_listing_shows_its_characters_one_by_one_whatever_fence_they_hold():
    patch = "+```\n+</code></pre><script>\n-`a`"
    (fence,) = MarkdownIt("gfm-like", {"linkify": False}).parse(rendered(patch, Form.LISTING))
    assert fence.type == "fence"
    assert fence.content == f"{patch}\n"


def test_a_code_span_stays_in_its_cell_of_a_table():
    (row,) = [f"| {rendered('a | b', Form.CODE)} | c |"]
    html = MarkdownIt("gfm-like", {"linkify": False}).render(f"| x | y |\n| --- | --- |\n{row}")
    assert html.count("<td>") == 2


def test_a_long_quotation_is_cut_at_a_word_and_says_so():
    text = rendered("word " * 1_000, Form.QUOTE)
    assert len(text) < 1_300
    assert text.endswith("word \\[…\\]")


def test_the_characters_that_marks_are_made_of_are_left_out():
    assert visible("a\ue000c001\ue001b\ue002\x1b[31m\n\u202ec") == "ac001b[31m\nc"
