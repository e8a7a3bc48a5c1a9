"""Scores that an explorer names when it is done, held against everything that was measured, or that it was told.

A number is looked at where a word for a score stands beside it. It is held by a receipt, or by what a program of its
own printed, or by nothing: then it is a claim that nothing measured.
"""

import re
from collections.abc import Iterator
from itertools import combinations

from opd.protocol.audit.check import Noted
from opd.protocol.audit.evidence import Evidence, ExploreTry
from opd.records.audits import Pointer, Verdict
from opd.records.trajectories import Content, Step

NOTE = "the note of the submission"
_WORD = r"(?:accura\w*|scor\w+|pass@\d+|pass_at_\w+|proxy|metric|correct\w*|solv\w+|benchmark)"
_BETWEEN = r"[^\d.;!?\n]"
_BEFORE = re.compile(rf"\b{_WORD}{_BETWEEN}{{0,40}}$", re.IGNORECASE)
_AFTER = re.compile(rf"{_BETWEEN}{{0,16}}\b{_WORD}", re.IGNORECASE)
_ZERO_BEFORE = re.compile(r"\b(?:accuracy|score[sd]?|correct)\s*(?:is|was|of|at|to|=|:)?\s*$", re.IGNORECASE)
_ZERO_AFTER = re.compile(r"\s(?:correct|solved|accuracy)\b", re.IGNORECASE)
_NEAR = 60  # characters before a number that are looked at
_SCORE = re.compile(
    r"(?<![\w.])(?P<share>0\.\d{2,}|[01]\.0+)(?![\w.]*\d)|(?<![\w./@#-])(?P<zero>0)(?![\w.,:/]|\s?%)|"
    r"(?<![\w.])(?P<percent>\d{1,3}(?:\.\d+)?)\s?%|"
    r"(?<![\w./])(?P<correct>\d{1,7})\s?/\s?(?P<samples>\d{2,7})(?![\w./])"
)


def unmeasured(evidence: Evidence, one: ExploreTry) -> Iterator[Noted]:
    """A note for each text in which the explorer names a score that no receipt and no program's output holds."""
    known = _known(evidence, one)
    told = _told(one)
    for source, text, pointer in _said(evidence, one):
        claimed = [found for found in _SCORE.finditer(text) if _is_a_score(found)]
        unknown = [found[0].strip() for found in claimed if not (_is_held(found, known) or _is_told(found, told))]
        if unknown:
            named = ", ".join(dict.fromkeys(unknown))
            yield Noted(
                verdict=Verdict.SUSPECTED,
                sentence=f"{source} names {named}: no receipt and no output of its programs holds it",
                evidence=(pointer,),
            )


def _said(evidence: Evidence, one: ExploreTry) -> Iterator[tuple[str, str, Pointer]]:
    """What it says at the end: the note of its submission, and its last message."""
    handed = evidence.submission.facts if evidence.submission else None
    if handed and handed.value.note and handed.value.explored_in == one.name:
        yield NOTE, handed.value.note, handed.at("/note")
    if one.trajectory is None:
        return
    for place, step in reversed(list(enumerate(one.trajectory.value.steps))):
        if step.source == "agent" and (text := _text(step.message)):
            if step.tool_calls or len(text) < _LONGEST:  # the log of a program that is no model's is no message
                yield "its last message", text, one.trajectory.at(f"/steps/{place}/message")
            return


_LONGEST = 20_000  # characters of a message


def _is_a_score(found: re.Match[str]) -> bool:
    """Whether a word for a score stands beside the number, in its own sentence."""
    before = found.string[max(0, found.start() - _NEAR) : found.start()]
    if found["zero"]:  # seeds and files are numbered from it
        return bool(_ZERO_BEFORE.search(before) or _ZERO_AFTER.match(found.string, found.end()))
    return bool(_BEFORE.search(before) or _AFTER.match(found.string, found.end()))


def _known(evidence: Evidence, one: ExploreTry) -> set[float]:
    """Shares that were measured, and differences of two: as numbers between 0 and 1."""
    facts = [measured.facts.value for measured in one.measured]
    means = [fact.mean for fact in facts if fact.mean is not None]
    found = {value for fact in facts for value in (fact.mean, fact.stderr, fact.cut_short) if value is not None}
    if evidence.task:
        found |= {reference.score for reference in evidence.task.value.contract.references}
        means += [reference.score for reference in evidence.task.value.contract.references]
    apart = {abs(a - b) for a, b in combinations(means, 2) if a != b}  # that two are the same makes no score of 0
    return found | apart | {1 - value for value in means}


def _is_held(found: re.Match[str], known: set[float]) -> bool:
    """Whether a known value, rounded as this number is written, is this number."""
    share = _share(found)
    if found["correct"]:
        return any(abs(share - value) < 1e-9 for value in known) or share > 1
    text = found["share"] or found["percent"] or found["zero"]
    digits = len(text.partition(".")[2]) + (2 if found["percent"] else 0)
    if share in {0.0, 1.0}:
        return share in known  # 0.4 % is not nothing, and 99.6 % not all
    return any(abs(share - one) <= 0.5000001 * 10**-digits for one in known)


def _is_told(found: re.Match[str], told: str) -> bool:
    """Whether it was read somewhere; all and nothing stand everywhere, so that they count only as scores."""
    share = _share(found)
    if share not in {0.0, 1.0}:
        return found[0] in told
    return any(_share(one) == share for one in _SCORE.finditer(told) if _is_a_score(one))


def _share(found: re.Match[str]) -> float:
    """The number, between 0 and 1 where it is a score."""
    if found["correct"]:
        return int(found["correct"]) / int(found["samples"]) if int(found["samples"]) else 2.0
    return float(found["share"] or found["zero"] or found["percent"]) / (100 if found["percent"] else 1)


def _told(one: ExploreTry) -> str:
    """All that the desk and its own programs printed: a number in it was read somewhere."""
    asked = [line for ask in (one.asked.value if one.asked else ()) for line in ask.said]
    steps = one.trajectory.value.steps if one.trajectory else ()
    printed = [
        _text(result.content)
        for step in steps
        for result in (step.observation.results if step.observation else ())
        if result.content is not None
    ]
    return "\n".join([*asked, *printed, *_instruction(steps)])


def _instruction(steps: tuple[Step, ...]) -> list[str]:
    return [_text(step.message) for step in steps if step.source != "agent"]


def _text(content: Content | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part.text for part in content if part.text)
