r"""The decisions of the reference grader: which box, which normal forms, and what is compared how.

box        the last \boxed with its braces; none, an open one, or one without braces is no answer
text       equal by Hendrycks' normal form, or by that of PRM800K
list       (…) or […] without inner brackets: the same brackets, as many items, compared in order
fraction   two fractions of plain integers are equal as text only: 6/8 is not 3/4
integer    an integer equals only an integer
value      the difference simplifies to 0, where there are at most two letters and no large power
"""

import re
from collections.abc import Callable

from opd.grading.answers import Answer, inside_reasoning
from opd.grading.equality import Finding, NeedsWorker, Outcome
from opd.grading.reference.forms import hendrycks_form, is_integer, prm800k_form, without_grouping
from opd.grading.trees import Unreadable

LONGEST_ANSWER = 4_000  # characters, as for the house rules
MOST_LETTERS = 2  # in what is left to sympy

SameValue = Callable[[str, str], bool]  # of gold and answer, both in PRM800K's normal form


def extract(response: str, *, reasoning_opened: bool = False) -> Answer:
    r"""What stands in the last `\boxed{…}`; every brace counts, escaped or not."""
    start = response.rfind(r"\boxed")
    if start < 0:
        return Answer(text=None, missing="there is no box")
    inside = inside_reasoning(response, start, opened=reasoning_opened)
    if not response.startswith(r"\boxed{", start):
        return Answer(text=None, missing="the last box has no braces", inside_reasoning=inside)
    depth = 0
    for found in re.finditer("[{}]", response[start:]):
        depth += 1 if found.group() == "{" else -1
        if depth == 0:
            text = response[start + len(r"\boxed{") : start + found.start()]
            if not text.strip():
                return Answer(text=None, missing="the last box is empty", inside_reasoning=inside)
            return Answer(text=text, inside_reasoning=inside)
    return Answer(text=None, missing="the last box is never closed", inside_reasoning=inside)


def unwrapped(gold: str) -> str:
    """What a gold says: what stands in its last box, if it has one."""
    return (extract(gold).text or "") if r"\boxed" in gold else gold


def compare(  # noqa: PLR0911  # one return for each rule
    answer: str, gold: str, same_value: SameValue | None = None
) -> Outcome:
    """What the reference grader says of an answer, and why. Raises `NeedsWorker` when it takes sympy."""
    if max(len(answer), len(gold)) > LONGEST_ANSWER:
        reason = f"it is longer than {LONGEST_ANSWER} characters"
        return Outcome(finding=Finding.UNREADABLE, stage="text", reason=reason)
    if hendrycks_form(answer) == hendrycks_form(gold):
        return Outcome(finding=Finding.EQUAL, stage="text", reason="the same text in Hendrycks' normal form")
    given, wanted = prm800k_form(answer), prm800k_form(gold)
    if given == wanted:
        return Outcome(finding=Finding.EQUAL, stage="text", reason="the same text in PRM800K's normal form")
    items, golds = _items(given), _items(wanted)
    if not given:
        return _different("text", "nothing is left of it in PRM800K's normal form")
    if len(golds) != len(items):
        return _different("list", "another number of items")
    if len(golds) > 1 and (wanted[0], wanted[-1]) != (given[0], given[-1]):
        return _different("list", "other brackets")
    return _same_items(items, golds, same_value)


def _different(stage: str, reason: str) -> Outcome:
    return Outcome(finding=Finding.DIFFERENT, stage=stage, reason=reason)


def _same_items(items: list[str], golds: list[str], same_value: SameValue | None) -> Outcome:
    """Item by item, in order. What needs no sympy is looked at first, which changes no verdict."""
    left = []
    for item, gold in zip(items, golds, strict=True):
        equal, stage, reason = _without_sympy(item, gold)
        if equal is False:
            return _different(stage, reason)
        if equal is None:
            left.append((gold, item))
    if left and same_value is None:
        raise NeedsWorker
    try:
        different = same_value is not None and not all(same_value(gold, item) for gold, item in left)
    except Unreadable as error:
        return Outcome(finding=Finding.UNREADABLE, stage="value", reason=str(error))
    if different:
        return _different("value", "another value, by sympy")
    return Outcome(finding=Finding.EQUAL, stage="value", reason="equal in value, by sympy")


def _without_sympy(item: str, gold: str) -> tuple[bool | None, str, str]:
    """Whether two items are equal as far as text says, with stage and reason; None leaves them to sympy."""
    if _is_fraction(item) and _is_fraction(gold):
        return item == gold, "fraction", "another fraction, as text"
    if is_integer(item) != is_integer(gold):
        return False, "integer", "an integer equals only an integer"
    if _PLAIN_INTEGER.fullmatch(item) and _PLAIN_INTEGER.fullmatch(gold):
        return item == gold, "integer", "another integer"
    if not _may_be_evaluated(f"({gold})-({item})"):
        return False, "value", "too many letters, or too large a power, to be evaluated"
    return None, "value", ""


def _may_be_evaluated(difference: str) -> bool:
    letters = {letter for letter in re.sub("sqrt|frac", "", difference) if letter.isalpha()}
    return len(letters) <= MOST_LETTERS and not _LARGE_POWER.search(difference)


_LARGE_POWER = re.compile(r"\^[{(]|\^[0-9]+\^|\^[0-9][0-9]")
_PLAIN_INTEGER = re.compile(r"-?[1-9][0-9]*|0")


def _items(text: str) -> list[str]:
    """The items of a text in brackets; otherwise the text itself. A comma before three digits is no separator."""
    text = without_grouping(text)
    inner = text[1:-1]
    if len(text) > 2 and text[0] in "()[]" and text[-1] in "()[]" and not re.search(r"[()\[\]]", inner):
        return [item.strip() for item in inner.split(",")]
    return [text] if text else []


def _is_fraction(text: str) -> bool:
    return re.search(r"^-?[0-9]+.?/0*[1-9][0-9]*.?$", text) is not None
