"""What may stand in a report's text: no number without a claim, no word that compares without a ground.

Looked at is the text as it is written, with its spans. Digits and number words have to lie in a claim, or in one of
the few places that are none, each of which is checked for what it may be. Words that compare have to lie in a
judgement; what somebody else said is quoted, and is not ours to gate.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from opd.protocol.report.marks import IDENTIFIER
from opd.records.claims import Claim, Document, Exempt, Form, Ground, Origin, Span

CONVENTIONS = frozenset({"95 %", "80 %", "5 %", "four times in five", "SHA-256"})
"""What a comparison's fields are by definition: its interval, its power, its level."""

NUMBER = re.compile(
    r"\d+"
    r"|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|hundred|thousand|million|twice)\b",
    re.IGNORECASE,
)
"""A number, in digits or in words."""

UP = re.compile(
    r"\b(?:beat\w*|better|improv\w+|outperform\w*|superior\w*|gain\w*|benefit\w*|higher|helps?|helped|raised?|raises)\b",
    re.IGNORECASE,
)
DOWN = re.compile(
    r"\b(?:worse|inferior\w*|regress\w*|lower|degrad\w+|collaps\w+|hurts?|harm\w*|los(?:es|t)|lowered)\b",
    re.IGNORECASE,
)
NEITHER = re.compile(
    r"\b(?:caus(?:e[sd]?|al\w*|ing)|significan\w+|(?<!design )effect\w*|due to|thanks to)\b", re.IGNORECASE
)
"""Words that say more than that one number is larger: they need a test, or stand in a sentence that denies them."""

WEAK_UP = re.compile(r"\b(?:above|highest|greatest|exceed\w*)\b", re.IGNORECASE)
WEAK_DOWN = re.compile(r"\b(?:below|lowest|smallest)\b", re.IGNORECASE)
LEVEL = re.compile(r"\b(?:as many|the same)\b", re.IGNORECASE)
WEAK = re.compile(r"\bbest\b", re.IGNORECASE)
"""Words for the order of numbers."""

DENIES = re.compile(r"\b(?:not established|cannot be told apart|no test)\b", re.IGNORECASE)
"""What a sentence has to say that stands on the ground of not being established."""

_ALL = (UP, DOWN, NEITHER, WEAK_UP, WEAK_DOWN, WEAK)
_STRONG = (UP, DOWN, NEITHER)
_NUMBERED = re.compile(r"\d+(?:\.\d+)*\.?|U-\d\d+")


def faults(
    name: str, text: str, document: Document, claims: Mapping[str, Claim], *, is_there: Callable[[str], bool]
) -> Iterator[str]:
    """What is wrong with a text, each a sentence; nothing when all of it stands on something."""
    yield from _spans(name, text, document, claims, is_there)
    numbers = [span for span in document.spans if _vouches_for_numbers(span, claims)]
    for found in _outside(NUMBER, text, numbers):
        yield f"{name}: {_around(text, found)} holds a number that is no claim"
    grounds = [span for span in document.spans if _vouches_for_words(span, claims)]
    for pattern in _ALL:
        for found in _outside(pattern, text, grounds):
            yield f"{name}: {_around(text, found)} compares without a ground"


def unfit(claim: Claim, claims: Mapping[str, Claim]) -> Iterator[str]:
    """Why a judgement does not follow from what it rests on; nothing for one that does."""
    under = [claims[one].value for one in claim.rests_on if one in claims]
    if len(under) < len(claim.rests_on):
        yield f"{claim.id} rests on claims that are not there"
    elif claim.ground is Ground.NOT_ESTABLISHED:
        if not claim.because or not DENIES.search(claim.text):
            yield f"{claim.id} is not established, and its sentence does not say so with a reason: {claim.text!r}"
    elif claim.ground is Ground.RULE:
        if not under:
            yield f"{claim.id} names a rule that is nowhere: {claim.text!r}"
        if any(pattern.search(claim.text) for pattern in _STRONG):
            yield f"{claim.id} says more than that a rule chose: {claim.text!r}"
    elif claim.ground is Ground.ORDER:
        yield from _of_order(claim, under)
    else:
        yield from _of_test(claim, under)


def _of_order(claim: Claim, under: Sequence[object]) -> Iterator[str]:
    """The first number that it rests on is the difference that the word is about, or the numbers in their order."""
    numbers = [value for value in under if isinstance(value, int | float) and not isinstance(value, bool)]
    if not numbers or any(pattern.search(claim.text) for pattern in _STRONG):
        yield f"{claim.id} says more than the order of numbers: {claim.text!r}"
    elif len(numbers) == 1:
        yield from _of_direction(claim, numbers[0])
    else:
        first, *others = numbers
        is_least = WEAK_DOWN.search(claim.text) is not None
        if any(first > other if is_least else first < other for other in others):
            yield f"{claim.id} is not in the order that it says: {claim.text!r} of {numbers}"


def _of_test(claim: Claim, under: Sequence[object]) -> Iterator[str]:
    """A test tells apart, and the difference has the direction of the words."""
    if True not in under:
        yield f"{claim.id} compares by a test that tells nothing apart: {claim.text!r}"
    differences = [value for value in under if isinstance(value, float)]
    if len(differences) != 1:
        yield f"{claim.id} compares by a test without a difference"
    else:
        yield from _of_direction(claim, differences[0])
    if NEITHER.search(claim.text) and claim.ground is not Ground.MATCHED_CONTROL:
        yield f"{claim.id} names a cause without a matched control: {claim.text!r}"


def _of_direction(claim: Claim, difference: float) -> Iterator[str]:
    up = any(pattern.search(claim.text) for pattern in (UP, WEAK_UP))
    down = any(pattern.search(claim.text) for pattern in (DOWN, WEAK_DOWN))
    level = not up and not down and LEVEL.search(claim.text)
    if (up and difference <= 0) or (down and difference >= 0) or (level and difference):
        yield f"{claim.id} says {claim.text!r}, and the difference is {difference}"


def _spans(
    name: str, text: str, document: Document, claims: Mapping[str, Claim], is_there: Callable[[str], bool]
) -> Iterator[str]:
    for span in document.spans:
        words = text[span.start : span.end]
        if span.of == Exempt.NUMBERING and not _NUMBERED.fullmatch(words):
            yield f"{name}: {words!r} is no number of a heading"
        elif span.of == Exempt.NAME and not IDENTIFIER.fullmatch(words.strip("`")):
            yield f"{name}: {words} is no identifier"
        elif span.of == Exempt.CONVENTION and words not in CONVENTIONS:
            yield f"{name}: {words!r} is no convention"
        elif span.of == Exempt.PATH and not is_there(words.strip("`")):
            yield f"{name}: {words} is not there"
        elif span.of in claims and words != claims[span.of].text:
            yield f"{name}: {words!r} stands where {span.of} says {claims[span.of].text!r}"
        elif span.of not in claims and span.of not in set(Exempt):
            yield f"{name}: {words!r} is of {span.of}, which is no claim"


def _vouches_for_numbers(span: Span, claims: Mapping[str, Claim]) -> bool:
    return span.of not in claims or claims[span.of].origin is not Origin.JUDGEMENT


def _vouches_for_words(span: Span, claims: Mapping[str, Claim]) -> bool:
    """A judgement, what comes from a file word for word, and what can hold no word that compares."""
    if span.of not in claims:
        return True
    claim = claims[span.of]
    return claim.origin is not Origin.COMPUTED or claim.form in {Form.CODE, Form.TEXT}


def _outside(pattern: re.Pattern[str], text: str, spans: list[Span]) -> Iterator[re.Match[str]]:
    inside = bytearray(len(text))
    for span in spans:
        inside[span.start : span.end] = b"\1" * (span.end - span.start)
    return (found for found in pattern.finditer(text) if not all(inside[found.start() : found.end()]))


def _around(text: str, found: re.Match[str]) -> str:
    """The words that it stands in, for whoever has to find it."""
    start, end = max(0, found.start() - 30), min(len(text), found.end() + 20)
    return repr(" ".join(text[start:end].split()))
