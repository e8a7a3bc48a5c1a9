"""A report's Markdown as HTML: text of strangers stays text, and every number leads to the claim that it stands for.

Claims are marked by their places in the Markdown. Private-use characters go in at these places, the text is rendered
without raw HTML, and the characters become elements: so a number is found in its cell, its heading or its sentence
wherever Markdown puts it, and nothing in a quotation can pass for a mark.
"""

import re
from collections.abc import Mapping, Sequence
from html import escape, unescape
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from opd.records.claims import Claim, Document, Form, Origin, Span
from opd.records.errors import AskedWrongly
from opd.view.plain import shown

_OPEN, _SHUT, _ZERO = "\ue000", "\ue001", 0xE010
_MARKS = re.compile(r"\ue000([\ue010-\ue019]+)\ue001|\ue001")
_BLOCKS = frozenset({Form.QUOTE, Form.LISTING, Form.HIDDEN})
_PRIVATE = re.compile("[\ue000-\uf8ff]")
_LINKS = ["link", "image", "autolink", "reference"]  # a text leads nowhere, and asks nothing of a network
_HEADING = re.compile(r"h([1-6])")
_DEEPEST = 6


def rendered(text: str, document: Document, claims: Mapping[str, Claim], *, deeper: int) -> str:
    """The document as HTML, its headings so many levels deeper; each number is a `<data>` in a link to its claim.

    Raises `AskedWrongly` for a document that holds the characters that marks are made of.
    """
    if found := _PRIVATE.search(text):
        raise AskedWrongly(f"the text holds U+{ord(found.group()):04X} at {found.start()}, which marks are made of")
    marked, order = _marked(text, linked(text, document.spans, claims))
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table").disable(_LINKS)
    tokens = markdown.parse(marked)
    _deepen(tokens, by=deeper)
    _name_cells(tokens)
    html = markdown.renderer.render(tokens, markdown.options, {})
    html = html.replace("<table>", '<div class="scroll" tabindex="0"><table>').replace("</table>", "</table></div>")
    return _seen(_MARKS.sub(lambda mark: _element(mark, order, claims), html))


def linked(text: str, spans: Sequence[Span], claims: Mapping[str, Claim]) -> tuple[Span, ...]:
    """The spans that become elements: numbers and short texts that were read or worked out, each on one line."""
    return tuple(
        span
        for span in spans
        if (claim := claims.get(span.of)) is not None
        and claim.origin is Origin.COMPUTED
        and claim.form not in _BLOCKS
        and "\n" not in text[span.start : span.end]
    )


def place_of(claim: Claim) -> str:
    """Where a claim comes from, in words: a file and a place in it, or the claims that it was worked out from."""
    if claim.formula is not None:
        return claim.formula
    if claim.file is None:
        return ", ".join(claim.rests_on)
    return f"{claim.file} {claim.pointer}".rstrip() if claim.pointer else claim.file


def _marked(text: str, spans: Sequence[Span]) -> tuple[str, tuple[str, ...]]:
    """The text with a mark before and behind each span, and the claims that the marks' numbers stand for."""
    order = tuple(span.of for span in spans)
    marks = [
        (span.start, 1, -span.end, _OPEN + "".join(chr(_ZERO + int(digit)) for digit in str(number)) + _SHUT)
        for number, span in enumerate(spans)
    ]
    marks += [(span.end, 0, 0, _SHUT) for span in spans]  # at one place one is shut before the next is opened
    parts, at = [], 0
    for place, _, _, mark in sorted(marks):
        parts += [text[at:place], mark]
        at = place
    return "".join([*parts, text[at:]]), order


def _element(mark: re.Match[str], order: Sequence[str], claims: Mapping[str, Claim]) -> str:
    if mark.group(1) is None:
        return "</data></a>"
    claim = claims[order[int("".join(str(ord(digit) - _ZERO) for digit in mark.group(1)))]]
    title = escape(f"{claim.id}: {place_of(claim)}", quote=True)
    kind = "n words" if claim.form is Form.TEXT else "n"
    return f'<a class="{kind}" href="#{escape(claim.id)}"><data data-claim="{escape(claim.id)}" title="{title}">'


def _seen(html: str) -> str:
    """What can't be seen stands as its code point: nothing moves a cursor or turns the text around."""
    return "\n".join(shown(line, longest=len(line)) for line in html.expandtabs(4).split("\n"))


def _deepen(tokens: Sequence[Token], *, by: int) -> None:
    """A document's headings stand below those of the page."""
    for token in tokens:
        if found := _HEADING.fullmatch(token.tag):
            token.tag = f"h{min(_DEEPEST, int(found.group(1)) + by)}"


def _name_cells(tokens: Sequence[Token]) -> None:
    """Each cell of a table carries the name of its column, so that a narrow page can put one below the other."""
    header: list[str] = []
    column = 0
    for token, inside in pairwise(tokens):
        if token.type == "thead_open":
            header = []
        elif token.type == "th_open":
            header.append(unescape(_PRIVATE.sub("", inside.content).replace("`", "").replace("*", "")))
        elif token.type == "tr_open":
            column = 0
        elif token.type == "td_open":
            token.attrSet("data-name", header[column])
            column += 1
