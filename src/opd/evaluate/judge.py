"""The judge: a second instance for answers that the rules reject.

    with open_judge(settings) as judge:
        samples = settle(samples, {question.id: question.problem for question in questions}, judge)

A judge sees the question, the gold and what the response says after its reasoning. Its verdict is CORRECT, WRONG or
JUDGE_FAILED; a failure is never taken for wrong, and a score waits until it has been asked again. What is asked
twice is answered once: equal (question, gold, answer part) have one reply.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from opd.evaluate.judges import prompt, reply
from opd.evaluate.judges.exchange import Asked, Backend, JudgeModel, NoReply, Reply
from opd.evaluate.judges.prompt import Template, answer_part, read_template
from opd.evaluate.judges.recorded import RecordedBackend, Recording
from opd.evaluate.judges.reply import Label, Reading, Unread, read_reply, verdict_of
from opd.evaluate.judges.settings import JudgeSettings
from opd.records.files import digest, sha256
from opd.records.scores import Judgement, Opinion, Parsed, Sample, Verdict

BY = "judge:"
_AT_ONCE = 256  # replies that are recorded together; a crash loses no more
_SAYS: dict[Label, str] = {
    "A": "A: the answer agrees with the gold",
    "B": "B: the answer does not agree with the gold",
    "C": "C: there is no final answer to compare",
}
_SOURCES = (prompt, reply)  # they decide what is asked and what a reply means, so they are part of the identity


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCase:
    """What a judge is asked about."""

    question: str  # the problem's text
    gold: str
    response: str  # whole; the judge is shown the answer part


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOutcome:
    """What came of it."""

    verdict: Verdict  # CORRECT, WRONG or JUDGE_FAILED
    reason: str
    reply: str | None  # as it came; None where none did
    parsed: Parsed | None  # None where it could not be read


_NOTHING_TO_JUDGE = JudgeOutcome(
    verdict=Verdict.JUDGE_FAILED,
    reason="the response says nothing after its reasoning, so there is nothing to judge",
    reply=None,
    parsed=None,
)


class Judge:
    """Asks a backend, reads its replies, and remembers and records those that could be read."""

    def __init__(self, settings: JudgeSettings, backend: Backend, template: Template) -> None:
        self._settings = settings
        self._backend = backend
        self._template = template
        self._read: dict[str, tuple[Reply, Reading]] = {}
        self._recording = None if settings.record is None else Recording(settings.record, judge=backend.model)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._backend.close()

    @property
    def model(self) -> JudgeModel:
        """Who replies."""
        return self._backend.model

    @property
    def by(self) -> str:
        """Who decides, as a `Judgement` says it."""
        return f"{BY}{self.model.name}"

    def identity(self) -> str:
        """Name and digest for the protocol of a score: over model, template, settings and the code that reads.

        A replay has the identity of the judge whose replies it reads.
        """
        parts = {
            "model": self.model.resolved(),
            "template": self._template.digest,
            "settings": self._settings.model_dump(mode="json", include={"referred", "answer_chars"}),
            "sources": {Path(str(module.__file__)).name: sha256(Path(str(module.__file__))) for module in _SOURCES},
        }
        return f"{self.model.name}:{digest(parts)}"

    def refers(self, verdict: Verdict) -> bool:
        """Whether the rules' verdict is one that this judge is asked about."""
        return verdict.value in self._settings.referred

    def answer_part(self, response: str) -> str:
        """What this judge is shown of a response; empty when there is nothing to judge."""
        return answer_part(response, most_chars=self._settings.answer_chars)

    def judged(self, cases: Sequence[JudgeCase]) -> list[JudgeOutcome]:
        """An outcome for each case, in order. Equal cases are asked once; a failure is remembered by nobody."""
        asked = [self._asked(case) for case in cases]
        waiting = {one.key: one for one in asked if one is not None and not self._remembered(one.key)}
        failed: dict[str, JudgeOutcome] = {}
        turns = list(waiting.values())
        for start in range(0, len(turns), _AT_ONCE):
            failed |= self._ask(turns[start : start + _AT_ONCE])
        return [
            _NOTHING_TO_JUDGE if one is None else failed.get(one.key) or _outcome(*self._read[one.key])
            for one in asked
        ]

    def _asked(self, case: JudgeCase) -> Asked | None:
        """The turn for a case; None when there is nothing to judge."""
        answer = self.answer_part(case.response)
        if not answer:
            return None
        texts = {"question": case.question, "gold": case.gold, "answer": answer}
        return Asked(key=self._template.key(**texts), turn=self._template.turn(**texts))

    def _remembered(self, key: str) -> bool:
        """Whether the reply under a key is known, from before or from the recording."""
        if key not in self._read and self._recording is not None:
            found = self._recording.find(key)
            reading = None if found is None else read_reply(found)
            if found is not None and isinstance(reading, Reading):
                self._read[key] = (found, reading)
        return key in self._read

    def _ask(self, turns: Sequence[Asked]) -> dict[str, JudgeOutcome]:
        """The failures; what could be read is remembered and recorded."""
        failed: dict[str, JudgeOutcome] = {}
        fresh: list[tuple[str, Reply, Reading]] = []
        for one, got in zip(turns, self._backend.replies(turns), strict=True):
            reading = got if isinstance(got, NoReply) else read_reply(got)
            if isinstance(got, Reply) and isinstance(reading, Reading):
                fresh.append((one.key, got, reading))
            elif isinstance(reading, NoReply | Unread):
                text = got.text if isinstance(got, Reply) else None
                failed[one.key] = JudgeOutcome(
                    verdict=Verdict.JUDGE_FAILED, reason=reading.reason, reply=text, parsed=None
                )
        if self._recording is not None:
            self._recording.add(fresh)
        self._read |= {key: (got, reading) for key, got, reading in fresh}
        return failed


def open_judge(settings: JudgeSettings) -> Judge:
    """The judge that the settings name, ready to be asked; a context manager.

    Raises `AskedWrongly` for a model, a template or a recording that can't be used and for a key that is not set.
    """
    template = read_template(settings.template)  # before a large model is loaded
    return Judge(settings, _backend(settings), template)


def settle(samples: Sequence[Sample], questions: Mapping[str, str], judge: Judge) -> list[Sample]:
    """The samples, in order, with a judge's decision on each that the rules reject and that is referred to it.

    `questions` has the problem's text by the question's id. Where the judge decides, the rules' verdict is the first
    of the opinions. A sample that this or another judge has settled stays as it is; one at which a judge failed is
    asked again. A response that says nothing after its reasoning keeps the rules' verdict.
    """
    ruled = [undecided(sample) if sample.judgement.verdict is Verdict.JUDGE_FAILED else sample for sample in samples]
    due = [
        place
        for place, sample in enumerate(ruled)
        if judge.refers(sample.judgement.verdict) and not is_judged(sample) and judge.answer_part(sample.response)
    ]
    outcomes = judge.judged(
        [
            JudgeCase(question=questions[sample.question], gold=sample.gold, response=sample.response)
            for sample in (ruled[place] for place in due)
        ]
    )
    for place, outcome in zip(due, outcomes, strict=True):
        ruled[place] = _decided(ruled[place], outcome, by=judge.by)
    return ruled


def is_judged(sample: Sample) -> bool:
    """Whether a judge has the last word on a sample."""
    return sample.judgement.by.startswith(BY)


def undecided(sample: Sample) -> Sample:
    """The sample as the rules left it. What a judge said of it becomes an opinion, unless the judge failed."""
    if not is_judged(sample):
        return sample
    rules, *others = sample.opinions
    judged = sample.judgement
    said = [] if not judged.verdict.settled else [_opinion(judged)]
    by_rules = {"verdict": rules.verdict, "stage": "rules", "reason": rules.reason, "by": rules.by}
    judgement = judged.model_copy(update=by_rules | {"reply": None, "parsed": None})
    return sample.model_copy(update={"judgement": judgement, "opinions": (*said, *others)})


def _decided(sample: Sample, outcome: JudgeOutcome, *, by: str) -> Sample:
    rules = sample.judgement
    judgement = rules.model_copy(update={"stage": "judge", "by": by, **asdict(outcome)})
    return sample.model_copy(update={"judgement": judgement, "opinions": (_opinion(rules), *sample.opinions)})


def _opinion(judgement: Judgement) -> Opinion:
    return Opinion(
        by=judgement.by,
        verdict=judgement.verdict,
        reason=judgement.reason,
        reply=judgement.reply,
        parsed=judgement.parsed,
    )


def _outcome(got: Reply, reading: Reading) -> JudgeOutcome:
    return JudgeOutcome(
        verdict=verdict_of(reading.label), reason=_SAYS[reading.label], reply=got.text, parsed=reading.parsed
    )


def _backend(settings: JudgeSettings) -> Backend:
    if settings.local is not None:
        from opd.evaluate.judges.local import open_local

        return open_local(settings.local)
    if settings.server is not None:
        from opd.evaluate.judges.server import ServerBackend

        return ServerBackend(settings.server)
    assert settings.recorded is not None, "one of the three is there"
    return RecordedBackend(settings.recorded.file)
