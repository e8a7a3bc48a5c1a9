"""What stands of an evaluation's samples, and the step that moves it on: a file of generations is settled.

missing ── drawn (a file of generations) ── settled (a line of samples.jsonl)
                 └──────────── graded, but the grader or the judge failed: tried again by the next call
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from opd.evaluate.finished import SAMPLES, finish
from opd.evaluate.folder import DAMAGED, Key, clear_torn, is_settled, read_drawn, read_samples
from opd.evaluate.panel import Panel, Response, written
from opd.evaluate.questions import Question
from opd.models.chat import text_of
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import append_lines
from opd.records.generation_table import Damaged, Generation, Making, read_generations
from opd.records.scores import Sample, Score


class Standing:
    """The samples of a folder that belongs to this evaluation; nobody else is at work there."""

    def __init__(
        self,
        out: Path,
        *,
        panel: Panel,
        tokenizer: Any,
        questions: Sequence[Question],
        samples: int,
        reasoning_opened: bool,
        say: Callable[[str], None],
    ) -> None:
        self._out = out
        self._panel = panel
        self._tokenizer = tokenizer
        self._reasoning_opened = reasoning_opened
        self._questions = {question.id: question for question in questions}
        self._keys = [(question.id, sample) for question in questions for sample in range(samples)]
        clear_torn(out)
        self._samples = read_samples(out / SAMPLES)
        drawn = read_drawn(out)
        self._drawn = drawn.files
        self._refuse_strangers()
        self._set_aside(drawn.damaged, say)

    def settled(self) -> list[Sample]:
        """The samples that say something about their answers."""
        return [sample for sample in self._samples.values() if is_settled(sample)]

    def rows(self) -> list[Sample]:
        """One for each sample that was graded, settled or not."""
        return list(self._samples.values())

    def ungraded(self) -> list[Key]:
        """What no line of samples.jsonl is about."""
        return [key for key in self._keys if key not in self._samples]

    def missing(self) -> frozenset[Key]:
        """What has to be drawn."""
        return frozenset(key for key in self._unsettled() if key not in self._drawn)

    def unsettled_files(self) -> Iterator[Path]:
        """The files in which a generation waits for its verdict, in the order of the questions."""
        return iter(dict.fromkeys(self._drawn[key] for key in self._unsettled() if key in self._drawn))

    def settle(self, path: Path) -> list[Sample]:
        """The samples of what the file holds and is not settled yet; they stand in samples.jsonl."""
        waiting = [one for one in read_generations(path) if not is_settled(self._samples.get(_key(one)))]
        responses = [self._response(one) for one in waiting]
        samples = self._panel.samples(responses, reasoning_opened=self._reasoning_opened)
        append_lines(self._out / SAMPLES, [sample.resolved() for sample in samples])
        self._samples |= {(sample.question, sample.sample): sample for sample in samples}
        return samples

    def finish(self, score: Score) -> Score:
        """The score as it stands then, and samples.jsonl in the order of the questions, whoever was first.

        Raises `AnswerIsNo` when the file does not hold the samples that the score counts.
        """
        found = read_samples(self._out / SAMPLES)
        if found.keys() != self._samples.keys():
            raise AnswerIsNo(
                f"{self._out / SAMPLES} holds {len(found)} of the {len(self._samples)} samples that were graded: it "
                "was changed meanwhile; bring it back, or run the same command again, which grades what is missing"
            )
        return finish(self._out, score, questions=list(self._questions))

    def makings(self) -> tuple[Making, ...]:
        """Where the generations that stand now were drawn."""
        drawn = read_drawn(self._out)
        for error in drawn.damaged.values():  # since this call began
            raise error
        return drawn.makings

    def _unsettled(self) -> list[Key]:
        return [key for key in self._keys if not is_settled(self._samples.get(key))]

    def _response(self, generation: Generation) -> Response:
        question = self._questions[generation.question]
        text = text_of(self._tokenizer, generation.token_ids, stop=generation.stop)
        return Response(generation=generation, problem=question.problem, gold=question.gold, text=written(text))

    def _set_aside(self, damaged: Mapping[Path, Damaged], say: Callable[[str], None]) -> None:
        """Damaged files lose their names, so that what they held is drawn anew.

        Raises `AskedWrongly` where a sample was graded whose tokens are in no other file: those would be lost, and
        a person decides that.
        """
        graded = [key for key in self._samples if key not in self._drawn]
        for path, error in damaged.items():
            if graded:
                raise AskedWrongly(
                    f"{error.fault}, and {len(graded)} samples that were graded have their tokens in no other file: "
                    "bring it back, or take it away, and their verdicts stand without tokens"
                )
            aside = path.replace(path.with_name(f"{path.name}{DAMAGED}"))
            say(f"{error.fault}; none of its samples was graded: it is {aside.name} now, and they are drawn anew")

    def _refuse_strangers(self) -> None:
        strange = sorted({*self._samples, *self._drawn}.difference(self._keys))
        if strange:
            question, sample = strange[0]
            raise AskedWrongly(
                f"{self._out} holds {len(strange)} samples that are not of this benchmark (question {question}, "
                f"sample {sample} first); name a new folder"
            )


def _key(generation: Generation) -> Key:
    return generation.question, generation.sample
