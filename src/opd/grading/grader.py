"""The door of the room: responses and golds go in, judgements come out, in order.

    with Grader() as grader:
        judgements = grader.grade([(response, gold, cut_short), …])

A response's last box is compared with the gold by the house rules, or as the public rule grader would
("reference"), or by someone's own function. What needs no library is decided here; the rest goes to processes
that can be killed, which start when first needed. A case that they fail at is `GRADER_FAILED`, never wrong.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from opd.grading import answers as house
from opd.grading import equality
from opd.grading.answers import Answer
from opd.grading.equality import Finding, NeedsWorker, Outcome
from opd.grading.exact import Exact
from opd.grading.identity import HOUSE, REFERENCE, check_name, identity
from opd.grading.lexer import tokenise
from opd.grading.pool import Failed, Limits, Pool
from opd.grading.reference import rules as reference
from opd.grading.trees import Unreadable
from opd.records.errors import AskedWrongly
from opd.records.scores import Judgement, Verdict

_MOST_REMEMBERED = 50_000

_VERDICTS = {
    Finding.EQUAL: Verdict.CORRECT,
    Finding.DIFFERENT: Verdict.WRONG,
    Finding.UNREADABLE: Verdict.UNREADABLE,
}

_EMPTY_GOLD = Failed(reason="the gold is empty: nothing can equal it")

Case = tuple[str, str, bool]  # response, gold, whether the length limit ended the response
Pair = tuple[str, str]  # answer, gold
Timed = tuple[Outcome | Failed, float]  # with the seconds that it took


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """A judgement and what it cost."""

    judgement: Judgement
    seconds: float
    """Wall time of this case alone; of equal answers to equal golds the first pays for all."""


class _Extract(Protocol):
    def __call__(self, response: str, *, reasoning_opened: bool) -> Answer: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """What one of the two rule graders is made of."""

    extract: _Extract
    unwrapped: Callable[[str], str]  # a gold without its box
    compare: Callable[[str, str], Outcome]  # raises NeedsWorker


_RULES = {
    HOUSE: _Rules(
        extract=house.extract,
        unwrapped=house.unwrapped,
        compare=lambda answer, gold: equality.compare(answer, gold, Exact()),
    ),
    REFERENCE: _Rules(extract=reference.extract, unwrapped=reference.unwrapped, compare=reference.compare),
}


def check_gold(gold: str) -> None:
    """Raises `AskedWrongly` for a gold that nothing can equal: an empty one, or an empty or open box (E73)."""
    if _is_empty(house.unwrapped(gold)):
        raise AskedWrongly(f"gold {gold[:60]!r} holds no answer: no response could be right; correct or drop it")


class Grader:
    """Grades by the house rules (None or "house"), as the public rule grader ("reference"), or by someone's own
    `"module:function"` of (response, gold) to bool.
    """

    def __init__(self, *, grader: str | None = None, limits: Limits | None = None) -> None:
        self._name = check_name(grader)
        self._rules = _RULES.get(self._name)
        self._pool = Pool(grader=self._name, limits=limits)
        self._remembered: dict[Pair, Outcome | Failed] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the worker processes, if any were started."""
        self._pool.close()

    def identity(self) -> str:
        """Name and digest of this grader, as `identity` gives them."""
        return identity(self._name)

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The worker processes that are running now."""
        return self._pool.process_ids

    @property
    def retries(self) -> int:
        """How many comparisons failed in a worker, or were killed, and were tried once more."""
        return self._pool.retries

    def grade(self, cases: Sequence[Case], *, reasoning_opened: bool = False) -> list[Judgement]:
        """A judgement for each (response, gold, cut_short), in order. Callable from any thread.

        `reasoning_opened`: the prompts ended in `<think>`, so that the responses begin inside the reasoning.
        """
        return [one.judgement for one in self.graded(cases, reasoning_opened=reasoning_opened)]

    def graded(self, cases: Sequence[Case], *, reasoning_opened: bool = False) -> list[Graded]:
        """The judgements of `grade`, each with its seconds."""
        rules = self._rules or _RULES[HOUSE]  # someone's own grader: the house says what there was to grade
        extracted: list[tuple[Answer, float]] = []
        for response, _, _ in cases:
            start = time.perf_counter()
            answer = rules.extract(response, reasoning_opened=reasoning_opened)
            extracted.append((answer, time.perf_counter() - start))
        found = self._by_rules(rules, cases, extracted) if self._rules else self._by_function(cases, extracted)
        graded = []
        for (answer, extraction), (outcome, seconds), (_, _, cut_short) in zip(extracted, found, cases, strict=True):
            judgement = _judged(answer, outcome, cut_short=cut_short, by=self._name)
            graded.append(Graded(judgement=judgement, seconds=extraction + seconds))
        return graded

    def _by_rules(
        self, rules: _Rules, cases: Sequence[Case], extracted: Sequence[tuple[Answer, float]]
    ) -> list[tuple[Outcome | Failed | None, float]]:
        """What each answer comes to, or None where there is none. Equal pairs are compared once."""
        pairs = [
            None if answer.text is None else (answer.text, rules.unwrapped(gold))
            for (answer, _), (_, gold, _) in zip(extracted, cases, strict=True)
        ]
        outcomes = self._outcomes(rules, {pair for pair in pairs if pair is not None})
        found: list[tuple[Outcome | Failed | None, float]] = []
        for pair, (_, gold, _) in zip(pairs, cases, strict=True):
            if pair is None:  # beside an empty gold a response without an answer is no worse than any other
                found.append((_EMPTY_GOLD if _is_empty(rules.unwrapped(gold)) else None, 0.0))
            else:
                outcome, seconds = outcomes[pair]
                found.append((outcome, seconds))
                outcomes[pair] = outcome, 0.0
        return found

    def _outcomes(self, rules: _Rules, pairs: set[Pair]) -> dict[Pair, Timed]:
        """What each pair comes to, here or in a worker, and what that cost."""
        outcomes: dict[Pair, Timed] = {}
        left: dict[Pair, float] = {}
        for pair in sorted(pairs):
            start = time.perf_counter()
            found = self._remembered.get(pair) or _compare_here(rules, pair)
            seconds = time.perf_counter() - start
            if found is None:
                left[pair] = seconds
            else:
                outcomes[pair] = self._remember(pair, found), seconds
        replies = self._pool.timed([{"answer": answer, "gold": gold} for answer, gold in left])
        for pair, (reply, seconds) in zip(left, replies, strict=True):
            if isinstance(reply, Failed):
                outcomes[pair] = reply, left[pair] + seconds
            else:
                found = Outcome(finding=Finding(reply["finding"]), stage=reply["stage"], reason=reply["reason"])
                outcomes[pair] = self._remember(pair, found), left[pair] + seconds
        return outcomes

    def _remember(self, pair: Pair, outcome: Outcome | Failed) -> Outcome | Failed:
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[pair] = outcome
        return outcome

    def _by_function(
        self, cases: Sequence[Case], extracted: Sequence[tuple[Answer, float]]
    ) -> list[tuple[Outcome | Failed | None, float]]:
        """Someone's own grader says right or not; without a box, its no is that there was no answer."""
        replies = self._pool.timed([{"response": response, "gold": gold} for response, gold, _ in cases])
        found: list[tuple[Outcome | Failed | None, float]] = []
        for (answer, _), (reply, seconds) in zip(extracted, replies, strict=True):
            if isinstance(reply, Failed):
                found.append((reply, seconds))
            elif reply["correct"] or answer.text is not None:
                finding = Finding.EQUAL if reply["correct"] else Finding.DIFFERENT
                outcome = Outcome(finding=finding, stage=self._name, reason=f"{self._name} says so")
                found.append((outcome, seconds))
            else:
                found.append((None, seconds))
        return found


def _compare_here(rules: _Rules, pair: Pair) -> Outcome | Failed | None:
    """What is decided in this process; None when it takes a worker."""
    answer, gold = pair
    if _is_empty(gold):
        return _EMPTY_GOLD
    try:
        return rules.compare(answer, gold)
    except NeedsWorker:
        return None


def _judged(answer: Answer, outcome: Outcome | Failed | None, *, cut_short: bool, by: str) -> Judgement:
    if outcome is None:
        verdict, stage, reason = Verdict.CUT_SHORT if cut_short else Verdict.NO_ANSWER, "extract", answer.missing
    elif isinstance(outcome, Failed):
        verdict, stage, reason = Verdict.GRADER_FAILED, "failed", outcome.reason
    else:
        verdict, stage, reason = _VERDICTS[outcome.finding], outcome.stage, outcome.reason
    return Judgement(
        verdict=verdict,
        extracted=answer.text,
        stage=stage,
        reason=reason,
        inside_reasoning=answer.inside_reasoning,
        by=by,
    )


def _is_empty(gold: str) -> bool:
    """Whether nothing is left of a gold once its layout is gone; what can't be read is not empty."""
    try:
        return not tokenise(gold)
    except Unreadable:
        return False
