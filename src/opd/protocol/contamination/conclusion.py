"""What a scan comes to: a verdict with its arithmetic, and where everything is that it rests on."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from opd.protocol.contamination.matching import ESCAPED, WHOLE, Form
from opd.protocol.contamination.needles import LEAST_LETTERS, Needles
from opd.protocol.contamination.scan import Hit, Scan
from opd.records.audits import Control, Verdict

LEAST_IN_ORDER = 5  # short questions one behind the other, as in the final: no chance puts them so
_MOST_TOLD = 40  # places and reasons that are listed
_COUNTED: Mapping[str, tuple[Form, ...]] = {
    "exact": (Form.EXACT,),
    "escaped": ESCAPED,
    "whitespace-normalized": (Form.WHITESPACE,),
    "folded": (Form.FOLDED, Form.LETTERS),
    "near": (Form.NEAR,),
}
_SHORT = {"short": (Form.SHORT,)}  # where the final has such questions
_NEARLY = frozenset({Form.LETTERS, Form.NEAR})


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """What a check says of it."""

    verdict: Verdict
    sentence: str
    details: tuple[str, ...]
    places: tuple[Hit, ...]  # the gravest first
    unread: tuple[str, ...]


def conclude(scan: Scan, needles: Needles, controls: Sequence[Control], *, across: str | None = None) -> Conclusion:
    """The verdict; `across` says in words what was looked at, and is the count of files where it is None.

    A whole question somewhere, or several short ones in the final's order, is confirmed; a part, a rewording or a
    question with another sign is suspected. Short questions out of order are no evidence either way. Something that
    could not be read leaves the axis not assessed, but for a picture, which no patch and no training row can carry.
    """
    missed = [control.name for control in controls if not control.found]
    closed = [unread for unread in scan.unread if not unread.is_picture]
    said = _said(scan, needles, across or f"{scan.files:,} files")
    if missed:
        verdict, why = Verdict.NOT_ASSESSED, f"the scanner missed what was planted: {'; '.join(missed[:5])}"
    elif any(hit.form in WHOLE for hit in scan.hits) or scan.in_order >= LEAST_IN_ORDER:
        verdict, why = Verdict.CONFIRMED, _where(scan)
    elif any(hit.form in _NEARLY for hit in scan.hits):
        verdict, why = Verdict.SUSPECTED, _where(scan)
    elif closed:
        verdict, why = Verdict.NOT_ASSESSED, f"{len(closed):,} could not be read: {closed[0]}"
    elif needles.too_short or scan.counts[Form.SHORT]:
        verdict, why = Verdict.NOT_ASSESSED, _too_short(scan, needles)
    else:
        verdict, why = Verdict.NONE_FOUND, ""
    places = tuple(_gravest_first(scan.hits)[:_MOST_TOLD])
    return Conclusion(
        verdict=verdict,
        sentence=f"{why}; {said}" if why else said,
        details=tuple(_details(scan, needles, places)),
        places=places,
        unread=tuple(str(unread) for unread in scan.unread),
    )


def _gravest_first(hits: Sequence[Hit]) -> list[Hit]:
    """Whole questions first, one of each file before a second of any: a list that is cut then names every file.

    Where short questions stand one behind the other they are what was found, and parts of others say less.
    """
    order = {form: number for number, form in enumerate(Form)}
    by_form = sorted(hits, key=lambda hit: order[hit.form])
    seen: Counter[tuple[bool, str]] = Counter()
    placed = []
    for hit in by_form:
        kind = (hit.form not in WHOLE, hit.source)
        placed.append((kind[0], seen[kind], hit))
        seen[kind] += 1
    return [hit for *_, hit in sorted(placed, key=lambda one: one[:2])]


def _said(scan: Scan, needles: Needles, across: str) -> str:
    counted = {**_COUNTED, **(_SHORT if needles.short else {})}
    counts = {name: sum(scan.counts[form] for form in forms) for name, forms in counted.items()}
    pairs = sum(hit.paired for hit in scan.hits)
    return (
        f"{len(needles.questions):,} problem/answer pairs across {across}: {_listed(counts)} problem hits, and "
        f"{_number(pairs)} pair hits; {scan.files:,} files of {scan.bytes:,} bytes were read, and {scan.members:,} "
        "members inside of them"
    )


def _details(scan: Scan, needles: Needles, places: Sequence[Hit]) -> Iterator[str]:
    for form, count in scan.counts.items():
        questions = len({hit.question for hit in scan.hits if hit.form is form})
        yield f"{form}: {count:,} places, {questions:,} of the {len(needles.questions):,} questions"
    if scan.in_order > 1:
        yield f"in the final's order stand at most {scan.in_order:,} short questions one behind the other"
    yield from map(_told, places)
    if more := len(scan.hits) - len(places):
        files = len({hit.source for hit in scan.hits} - {hit.source for hit in places})
        yield f"and {more:,} more places" + (f", in {files:,} further files among others" if files else "")
    short = sum(needle.is_short for needle in needles.all)
    if short:
        yield (
            f"{short:,} texts have fewer than {LEAST_LETTERS} letters and digits and were looked for mark for mark; "
            f"{needles.too_short:,} are too short even for that"
        )


def _told(hit: Hit) -> str:
    place = f"line {hit.line:,}" if hit.line is not None else f"byte {hit.offset:,} of {' › '.join(hit.inside)}"
    run = f", {hit.run:,} letters in a row" if hit.run else ""
    return f"{hit.id} {hit.form}{run}: {hit.source}, {place}{', its answer beside it' if hit.paired else ''}"


def _where(scan: Scan) -> str:
    if scan.in_order >= LEAST_IN_ORDER and not any(hit.form in WHOLE for hit in scan.hits):
        sources = list(dict.fromkeys(hit.source for hit in scan.hits if hit.source in scan.ordered))
        return f"{scan.in_order:,} questions stand one behind the other in the final's order, in {_some(sources)}"
    whole = [hit for hit in scan.hits if hit.form in WHOLE]
    hits = whole or [hit for hit in scan.hits if hit.form in _NEARLY]
    sources = list(dict.fromkeys(hit.source for hit in hits))
    count = len({hit.question for hit in hits})
    what = (
        f"{count:,} {'question stands' if count == 1 else 'questions stand'}{'' if whole else ' in part, or nearly,'}"
    )
    return f"{what} in {_some(sources)}"


def _some(sources: Sequence[str]) -> str:
    return ", ".join(sources[:3]) + (f" and {len(sources) - 3:,} more" if len(sources) > 3 else "")


def _too_short(scan: Scan, needles: Needles) -> str:
    found = len({hit.question for hit in scan.hits if hit.form is Form.SHORT})
    return (
        f"its questions have too few letters for a find to mean anything: {found:,} stand somewhere mark for mark, "
        f"at most {scan.in_order:,} of them in the final's order, where {LEAST_IN_ORDER} would be no chance"
        if found
        else f"{needles.too_short:,} questions have too few letters to be looked for"
    )


def _number(count: int) -> str:
    return "zero" if count == 0 else f"{count:,}"


def _listed(counts: Mapping[str, int]) -> str:
    """`3 exact, zero escaped, …`; a number that is every kind's is said once."""
    *most, last = counts
    if len(set(counts.values())) == 1:
        return f"{_number(counts[last])} {', '.join(most)} or {last}"
    return f"{', '.join(f'{_number(counts[name])} {name}' for name in most)} and {_number(counts[last])} {last}"
