r"""From a response to its answer as it stands: the last complete `\boxed{…}` or `\fbox{…}`.

The last box that was opened is the answer. When it was never closed, or holds nothing, there is no answer,
and no earlier box takes its place (fault E72). A bare mention of the command is not a box. Boxes with nothing
but commas or "and" between them form one list. Nothing is mined from prose. Time is linear in the response.

    … so \boxed{3}, \boxed{5} and \boxed{7}.        "3, 5, 7"
    … \boxed{5}. Once more: \boxed{5                no answer: never closed
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_OPENING = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)

# TeX boxes the next token when there is no brace; a letter counts only when the formula ends behind it, since
# "the \boxed command" boxes nothing.
_BRACELESS = re.compile(
    r"""
      (?P<number> -? (?: \d+ (?:\.\d+)? | \.\d+ ) (?![A-Za-z]) )
    | (?P<fraction> -? \\[dt]?frac \s* (?: \{[^{}]*\} | \d ) \s* (?: \{[^{}]*\} | \d ) )
    | (?P<letter> [A-Za-z] (?= \s* (?: \$ | \\\) | \\\] ) ) )
    """,
    re.VERBOSE,
)
_NOTHING = re.compile(r"(?:[\s~$]|\\[,;:!\s]|\\q?quad(?![A-Za-z])|\{\s*\})*")

# What may stand between the boxes of one list. Each alternative starts with its own character: linear time.
_BETWEEN = re.compile(
    r"""(?: [\s$*~&,;，、；和与及] | \\[()\[\],;:!\s] | \\q?quad(?![A-Za-z]) | and\b
        | \\(?:text|mbox|textrm|mathrm)\s*\{\s*,?\s*and\s*,?\s*\} )*""",
    re.VERBOSE | re.IGNORECASE,
)
_JOINED = re.compile(r"[,;，、；和与及]|and", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a response gives as its answer, or why it gives none."""

    text: str | None
    missing: str = ""  # why there is no text; empty when there is one
    inside_reasoning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Box:
    start: int
    end: int  # behind the closing brace
    text: str | None  # None: never closed


def extract(response: str, *, reasoning_opened: bool = False) -> Answer:
    """The answer of a response: its last box, or the list that it closes, and where that stood.

    `reasoning_opened`: the prompt ended in `<think>`, so that the response begins inside the reasoning.
    """
    openings = list(_OPENING.finditer(response))
    last, position = _last_box(response, openings)
    if last is None:
        return Answer(text=None, missing="there is no box")
    inside = inside_reasoning(response, last.start, opened=reasoning_opened)
    if last.text is None:
        return Answer(text=None, missing="the last box is never closed", inside_reasoning=inside)
    if _is_nothing(last.text):
        return Answer(text=None, missing="the last box is empty", inside_reasoning=inside)
    boxes = [last]
    for opening in reversed(openings[:position]):
        before = _box(response, opening, limit=boxes[-1].start)
        if before is None or before.text is None or _is_nothing(before.text):
            break
        if not _is_list_separator(response[before.end : boxes[-1].start]):
            break
        boxes.append(before)
    texts = dict.fromkeys(_stripped(box.text) for box in reversed(boxes) if box.text is not None)
    return Answer(text=", ".join(texts), inside_reasoning=inside)


def _stripped(text: str) -> str:
    r"""The text without blanks around it, where `\ ` is a blank too. An odd backslash has lost its blank."""
    end = len(text)
    while True:
        while end and text[end - 1].isspace():
            end -= 1
        backslashes = end
        while backslashes and text[backslashes - 1] == "\\":
            backslashes -= 1
        if (end - backslashes) % 2 == 0:
            return text[:end].lstrip()
        end -= 1


def unwrapped(gold: str) -> str:
    """What a gold answer says: some files keep it in a box, or at the end of a whole solution (fault E71)."""
    return (extract(gold).text or "") if _OPENING.search(gold) else gold


def _last_box(response: str, openings: Sequence[re.Match[str]]) -> tuple[_Box | None, int]:
    """The last box that is more than a mention of the command, and its position among the openings."""
    for position in range(len(openings) - 1, -1, -1):
        box = _box(response, openings[position], limit=len(response))
        if box is not None:
            return box, position
    return None, -1


def _box(response: str, opening: re.Match[str], *, limit: int) -> _Box | None:
    """The box that starts at an opening and must close before `limit`; None for a bare mention."""
    if response[opening.end() : opening.end() + 1] == "{":
        return _braced(response, opening, limit=limit)
    bare = _BRACELESS.match(response, opening.end())
    if bare is None or bare.end() > limit:
        return None
    return _Box(start=opening.start(), end=bare.end(), text=bare.group())


def _braced(response: str, opening: re.Match[str], *, limit: int) -> _Box:
    r"""A box by brace counting; `\{` and `\}` are text."""
    depth = 0
    for found in _BRACE.finditer(response, opening.end(), limit):
        if found.group() == "{":
            depth += 1
        elif found.group() == "}":
            depth -= 1
            if depth == 0:
                text = response[opening.end() + 1 : found.start()]
                return _Box(start=opening.start(), end=found.end(), text=text)
    return _Box(start=opening.start(), end=limit, text=None)


def _is_nothing(text: str) -> bool:
    return _NOTHING.fullmatch(text) is not None


def _is_list_separator(between: str) -> bool:
    return _BETWEEN.fullmatch(between) is not None and _JOINED.search(between) is not None


def inside_reasoning(response: str, position: int, *, opened: bool) -> bool:
    """Whether a `</think>` follows, or a `<think>` was opened before, here or in the prompt, and not closed."""
    if response.find("</think>", position) >= 0:
        return True
    closed = response.rfind("</think>", 0, position)
    return response.rfind("<think>", 0, position) > closed or (opened and closed < 0)
