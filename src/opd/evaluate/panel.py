"""Who says what a response is worth: a grader that decides, a second one whose opinion is kept, and a judge.

response ── grader ──┬── correct, or not referred ──────────────  the verdict
                     └── rejected, and referred ── judge ───────  the verdict; the grader's is an opinion
         ── second grader ──────────────────────────────────────  an opinion, whatever it says
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from opd.evaluate.benchmark import Benchmark
from opd.evaluate.judge import Judge, open_judge, settle
from opd.evaluate.settings import Evaluation
from opd.grading.grader import Grader
from opd.records.generation_table import Generation
from opd.records.scores import Judgement, Opinion, Protocol, Sample

_HALF_PAIR = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What a model wrote to a question, as text."""

    generation: Generation
    problem: str
    gold: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The graders and the judge of an evaluation."""

    grader: Grader
    second: Grader | None
    second_name: str
    judge: Judge | None

    def protocol(self, benchmark: Benchmark) -> Protocol:
        """Everything that a score of the benchmark by this panel depends on beside the model."""
        return benchmark.protocol(
            grader=self.grader.identity(),
            second_grader=None if self.second is None else self.second.identity(),
            judge=None if self.judge is None else self.judge.identity(),
        )

    def samples(self, responses: Sequence[Response], *, reasoning_opened: bool) -> list[Sample]:
        """The responses with their verdicts, in order; one that could not be settled says so.

        `reasoning_opened`: their prompts ended in `<think>`.
        """
        cases = [(one.text, one.gold, one.generation.stop.cut_short) for one in responses]
        judgements = self.grader.grade(cases, reasoning_opened=reasoning_opened)
        others: Sequence[Judgement | None] = [None] * len(cases)
        if self.second is not None:
            others = self.second.grade(cases, reasoning_opened=reasoning_opened)
        ruled = [
            _sample(one, judgement, () if other is None else (self._opinion(other),))
            for one, judgement, other in zip(responses, judgements, others, strict=True)
        ]
        problems = {one.generation.question: one.problem for one in responses}
        return ruled if self.judge is None else settle(ruled, problems, self.judge)

    def _opinion(self, judgement: Judgement) -> Opinion:
        return Opinion(by=self.second_name, verdict=judgement.verdict, reason=judgement.reason)


@contextmanager
def open_panel(asked: Evaluation) -> Iterator[Panel]:
    """The panel that the settings name; its processes and connections end with the block."""
    limits = asked.machine.grader_limits
    with ExitStack() as stack:

        def opened(name: str) -> Grader:
            return stack.enter_context(Grader(grader=name, limits=limits))

        yield Panel(
            grader=opened(asked.grader),
            second=opened(asked.second_grader) if asked.second_grader else None,
            second_name=asked.second_grader or "",
            judge=stack.enter_context(open_judge(asked.judge)) if asked.judge else None,
        )


def written(text: str) -> str:
    """The text as a file can hold it: half a surrogate pair, which some tokenizers decode to, becomes U+FFFD.

    What the model wrote to the last bit are its token ids, and those stand in the generations.
    """
    return _HALF_PAIR.sub("\ufffd", text)


def _sample(response: Response, judgement: Judgement, opinions: tuple[Opinion, ...]) -> Sample:
    generation = response.generation
    return Sample(
        question=generation.question,
        sample=generation.sample,
        seed=generation.seed,
        response=response.text,
        tokens=len(generation.token_ids),
        stop=generation.stop,
        gold=response.gold,
        judgement=judgement,
        opinions=opinions,
    )
