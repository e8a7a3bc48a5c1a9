"""The door of the room: responses and golds go in, judgements come out, in order.

    with Grader() as grader:
        judgements = grader.grade([(response, gold, cut_short), …])

A response's last box is compared with the gold by the house rules. What exact arithmetic decides is decided
here; the rest goes to processes that can be killed, which start when first needed. A case that they fail at is
`GRADER_FAILED`, never wrong.
"""

import hashlib
import importlib.util
import re
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Self

from opd.grading.answers import Answer, extract, unwrapped
from opd.grading.equality import Finding, NeedsWorker, Outcome, compare
from opd.grading.exact import Exact
from opd.grading.pool import Failed, Limits, Pool
from opd.grading.tokens import tokenise
from opd.grading.trees import Unreadable
from opd.records.errors import AskedWrongly
from opd.records.files import digest, sha256
from opd.records.scores import Judgement, Verdict

HOUSE = "house"
_READERS = ("math-verify", "latex2sympy2_extended", "sympy", "mpmath")  # their versions are part of the identity
_SPEC = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_MOST_REMEMBERED = 50_000

_VERDICTS = {
    Finding.EQUAL: Verdict.CORRECT,
    Finding.DIFFERENT: Verdict.WRONG,
    Finding.UNREADABLE: Verdict.UNREADABLE,
}

Case = tuple[str, str, bool]  # response, gold, whether the length limit ended the response


def check_gold(gold: str) -> None:
    """Raises `AskedWrongly` for a gold that nothing can equal: an empty one, or an empty or open box (E73)."""
    if _is_empty(unwrapped(gold)):
        raise AskedWrongly(f"gold {gold[:60]!r} holds no answer: no response could be right; correct or drop it")


def identity(grader: str | None = None) -> str:
    """Which grader this is, for the protocol of a score: its name and the SHA-256 of everything it consists of.

    For the house rules that is the source of this room and the versions of the libraries that it reads with;
    for "module:function", the source of the module. Raises `AskedWrongly` if there is no such module.
    """
    if grader is None:
        sources = {path.name: sha256(path) for path in sorted(Path(__file__).parent.glob("*.py"))}
        return f"{HOUSE}:{digest({'sources': sources, 'versions': {name: version(name) for name in _READERS}})}"
    return f"{grader}:{_module_digest(grader)}"


class Grader:
    """Grades by the house rules, or by someone's own `"module:function"` of (response, gold) to bool."""

    def __init__(self, *, grader: str | None = None, limits: Limits | None = None) -> None:
        if grader is not None and not _SPEC.fullmatch(grader):
            raise AskedWrongly(f"grader = {grader!r}: write it as module:function")
        self._grader = grader
        self._pool = Pool(grader=grader, limits=limits)
        self._remembered: dict[tuple[str, str], Outcome | Failed] = {}

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
        return identity(self._grader)

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The worker processes that are running now."""
        return self._pool.process_ids

    def grade(self, cases: Sequence[Case]) -> list[Judgement]:
        """A judgement for each (response, gold, cut_short), in order. Callable from any thread."""
        answers = [extract(response) for response, _, _ in cases]
        if self._grader is not None:
            return self._grade_foreign(self._grader, cases, answers)
        pairs = [
            None if answer.text is None else (answer.text, unwrapped(gold))
            for answer, (_, gold, _) in zip(answers, cases, strict=True)
        ]
        outcomes = self._outcomes({pair for pair in pairs if pair is not None})
        return [
            _missing(answer, cut_short=cut_short) if pair is None else _judged(answer, outcomes[pair])
            for answer, pair, (_, _, cut_short) in zip(answers, pairs, cases, strict=True)
        ]

    def _outcomes(self, pairs: set[tuple[str, str]]) -> dict[tuple[str, str], Outcome | Failed]:
        """What each pair of answer and gold comes to. Equal pairs are compared once."""
        outcomes: dict[tuple[str, str], Outcome | Failed] = {}
        left: list[tuple[str, str]] = []
        for pair in sorted(pairs):
            found = self._remembered.get(pair) or _compare_here(pair)
            if found is None:
                left.append(pair)
            else:
                outcomes[pair] = self._remember(pair, found)
        replies = self._pool.run([{"answer": answer, "gold": gold} for answer, gold in left])
        for pair, reply in zip(left, replies, strict=True):
            if isinstance(reply, Failed):
                outcomes[pair] = reply
            else:
                found = Outcome(finding=Finding(reply["finding"]), stage=reply["stage"], reason=reply["reason"])
                outcomes[pair] = self._remember(pair, found)
        return outcomes

    def _remember(self, pair: tuple[str, str], outcome: Outcome | Failed) -> Outcome | Failed:
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[pair] = outcome
        return outcome

    def _grade_foreign(self, grader: str, cases: Sequence[Case], answers: Sequence[Answer]) -> list[Judgement]:
        """Someone's own grader says right or not; the house extraction still says what there was to grade."""
        replies = self._pool.run([{"response": response, "gold": gold} for response, gold, _ in cases])
        judgements = []
        for answer, reply, (_, _, cut_short) in zip(answers, replies, cases, strict=True):
            if isinstance(reply, Failed):
                judgements.append(_judged(answer, reply))
            elif reply["correct"] or answer.text is not None:
                finding = Finding.EQUAL if reply["correct"] else Finding.DIFFERENT
                outcome = Outcome(finding=finding, stage=grader, reason=f"{grader} says so")
                judgements.append(_judged(answer, outcome))
            else:
                judgements.append(_missing(answer, cut_short=cut_short))
        return judgements


def _compare_here(pair: tuple[str, str]) -> Outcome | Failed | None:
    """What exact arithmetic decides in this process; None when it takes a worker."""
    answer, gold = pair
    if _is_empty(gold):
        return Failed(reason="the gold is empty: nothing can equal it")
    try:
        return compare(answer, gold, Exact())
    except NeedsWorker:
        return None


def _missing(answer: Answer, *, cut_short: bool) -> Judgement:
    return Judgement(
        verdict=Verdict.CUT_SHORT if cut_short else Verdict.NO_ANSWER,
        extracted=None,
        stage="extract",
        reason=answer.missing,
        inside_reasoning=answer.inside_reasoning,
    )


def _judged(answer: Answer, outcome: Outcome | Failed) -> Judgement:
    if isinstance(outcome, Failed):
        verdict, stage = Verdict.GRADER_FAILED, "failed"
    else:
        verdict, stage = _VERDICTS[outcome.finding], outcome.stage
    return Judgement(
        verdict=verdict,
        extracted=answer.text,
        stage=stage,
        reason=outcome.reason,
        inside_reasoning=answer.inside_reasoning,
    )


def _is_empty(gold: str) -> bool:
    """Whether nothing is left of a gold once its layout is gone; what can't be read is not empty."""
    try:
        return not tokenise(gold)
    except Unreadable:
        return False


def _module_digest(grader: str) -> str:
    module = grader.partition(":")[0]
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        raise AskedWrongly(f"grader = {grader!r}: there is no module {module!r} on the path of this Python")
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()
