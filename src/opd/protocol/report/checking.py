"""A report held against what it was made from, again, by its claims: `opd attempt report --verify`.

attempt    everything that `opd attempt verify` holds against its receipts, read again: whatever a report names,
           or leaves unnamed, is the file that was sealed, and so is the report itself, pictures and all
claims     each value stands where its claim says, in a file with that digest; each formula comes to its value;
           each value is written as its form says; each judgement follows from what it rests on
texts      each claim stands at its place; no number and no comparing word stands outside of one
page       the numbers of the page are those of the texts, one after the other
"""

import math
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path

from pydantic import NonNegativeInt

from opd.protocol.attempts.attempt import Attempt, Place
from opd.protocol.attempts.verify import Verification, verify
from opd.protocol.report.forms import rendered
from opd.protocol.report.formulas import evaluated
from opd.protocol.report.linting import faults as text_faults
from opd.protocol.report.linting import unfit
from opd.protocol.report.sources import Sources
from opd.records.attempts import Reported, Stage
from opd.records.claims import Claim, Claims, Document, Form, Origin
from opd.records.errors import AskedWrongly
from opd.records.files import sha256
from opd.records.receipts import is_sealed, read_receipt
from opd.records.reports import CLAIMS, COMPARISONS, PAGE
from opd.records.settings import Settings, read

_BLOCKS = frozenset({Form.QUOTE, Form.LISTING, Form.HIDDEN})
_CLOSE_ENOUGH = 1e-12  # of a formula's value: the same arithmetic on another machine


class Rechecked(Settings):
    """What came of it."""

    report: str
    """`report/attempt-001`."""
    claims: NonNegativeInt
    numbers: NonNegativeInt
    """Places in the texts at which a claim stands."""
    files: NonNegativeInt
    bytes: NonNegativeInt
    """Of the attempt's sealed folders, read again."""
    faults: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults

    def text(self) -> str:
        """For people."""
        counted = f"{self.report}: {self.claims:,} claims, at {self.numbers:,} places of its texts"
        read_again = f"the attempt: {self.files:,} sealed entries, {self.bytes:,} bytes"
        wrong = [f"WRONG   {fault}" for fault in self.faults]
        return "\n".join([counted, read_again, *wrong, "all holds" if self.holds else "it does not hold"])


def verify_report(attempt: Attempt, place: Place | None = None) -> Rechecked:
    """What came of holding a report against its sources and all that these are part of, the whole attempt; of the
    newest sealed report by default.

    Raises `AskedWrongly` where there is none.
    """
    place = place or next(filter(_is_rendered_or_damaged, reversed(attempt.places(Stage.REPORT))), None)
    if place is None:
        raise AskedWrongly(f"{attempt.folder} has no sealed report; `opd attempt report` makes one")
    found = verify(attempt)
    faults = list(found.all_faults())
    try:
        claims = read(Claims, place.folder / CLAIMS)
    except AskedWrongly as error:
        return _rechecked(place, found, Claims(claims=(), documents={}), [*faults, str(error)])
    return _rechecked(place, found, claims, [*faults, *rechecked(attempt.folder, place.folder, claims)])


def _rechecked(place: Place, found: Verification, claims: Claims, faults: list[str]) -> Rechecked:
    spans = [span.of for document in claims.documents.values() for span in document.spans]
    return Rechecked(
        report=place.name,
        claims=len(claims.claims),
        numbers=sum(one in claims.by_id() for one in spans),
        files=sum(one.files for one in found.folders),
        bytes=found.bytes,
        faults=tuple(faults),
    )


def _is_rendered_or_damaged(place: Place) -> bool:
    """Whether a report came to its end (one that failed is sealed as well), or has a seal that is broken."""
    if not place.folder.exists():
        return False  # it was begun
    return not is_sealed(place.folder) or read_receipt(place.folder).outcome == Reported.RENDERED


def rechecked(attempt: Path, report: Path, claims: Claims) -> Iterator[str]:
    """What is wrong with the claims and the texts of a report, sealed or not."""
    sources, by_id = Sources(attempt, report), claims.by_id()
    for claim in claims.claims:
        yield from _claim(claim, by_id, sources)

    def is_there(name: str) -> bool:
        return ((report if name.startswith(COMPARISONS) else attempt) / name).exists()

    for name, document in claims.documents.items():
        text = _text(report / name)
        if text is None or sha256(report / name) != document.sha256:
            yield f"{name} is not the text that its claims are about"
        else:
            yield from text_faults(name, text, document, by_id, is_there=is_there)
    if (report / PAGE).is_file():
        yield from _page(_text(report / PAGE) or "", claims.documents, by_id)


def _claim(claim: Claim, by_id: Mapping[str, Claim], sources: Sources) -> Iterator[str]:
    if claim.origin is Origin.JUDGEMENT:
        yield from unfit(claim, by_id)
        return
    try:
        if claim.formula is not None:
            value: object = evaluated(claim.formula, {name: one.value for name, one in by_id.items()})
        else:
            value = sources.fact(claim.file or "", claim.pointer or "").value
            if sources.sha256(claim.file or "") != claim.sha256:
                yield f"{claim.id}: {claim.file} is not the file that it was read from"
        written = rendered(claim.value, claim.form)
    except (AskedWrongly, ValueError, TypeError) as error:
        yield f"{claim.id}: {error}"
        return
    where = claim.formula or f"{claim.file} {claim.pointer}"
    if not _same(value, claim.value):
        yield f"{claim.id}: {where} is {value!r:.80}, and the report says {claim.value!r:.80}"
    if written != claim.text:
        yield f"{claim.id}: {claim.value!r:.80} is written {written!r:.80}, and the report has {claim.text!r:.80}"


def _same(found: object, said: object) -> bool:
    if isinstance(found, float) and isinstance(said, int | float):
        return math.isclose(found, said, rel_tol=_CLOSE_ENOUGH, abs_tol=_CLOSE_ENOUGH)
    return type(found) is type(said) and found == said


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _page(html: str, documents: Mapping[str, Document], by_id: Mapping[str, Claim]) -> Iterator[str]:
    reader = _Reader()
    reader.feed(html)
    for name, document in documents.items():
        claims = [by_id[span.of] for span in document.spans if span.of in by_id]
        said = [
            (one.id, _bare(one.text)) for one in claims if one.origin is Origin.COMPUTED and one.form not in _BLOCKS
        ]
        found = [(claim, _bare(text)) for claim, text in reader.found.get(name, [])]
        if found != said:
            first = next(
                (pair for pair in zip(found, said, strict=False) if pair[0] != pair[1]), ("one end", "another")
            )
            yield f"{PAGE}: the numbers of {name} are not those of the text, first {first[0]} for {first[1]}"


def _bare(text: str) -> str:
    """Without what Markdown makes of it: marks of code, and escapes."""
    return " ".join(text.replace("`", "").replace("\\", "").split())


class _Reader(HTMLParser):
    """The claims of a page, with their text, by the document that they stand in."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, list[tuple[str, str]]] = {}
        self._document: str | None = None
        self._claim: str | None = None
        self._text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An article is a document, and data a claim."""
        given = dict(attrs)
        if tag == "article" and given.get("data-document"):
            self._document = given["data-document"]
        elif tag == "data" and given.get("data-claim"):
            self._claim, self._text = given["data-claim"], []

    def handle_endtag(self, tag: str) -> None:
        """Of either."""
        if tag == "article":
            self._document = None
        elif tag == "data" and self._claim is not None and self._document is not None:
            self.found.setdefault(self._document, []).append((self._claim, "".join(self._text)))
            self._claim = None

    def handle_data(self, data: str) -> None:
        """Of a claim."""
        if self._claim is not None:
            self._text.append(data)
