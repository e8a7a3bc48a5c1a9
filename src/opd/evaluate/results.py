"""What a score and a comparison read: samples from any place that they understand, and what is known of them.

runs/scores/student/     a score folder: score.json and samples.jsonl, which have to agree
elsewhere.jsonl          {"question": "q1", "sample": 0, "correct": true} a line, from anywhere; no protocol is known
samples_aime_….jsonl     of lm-evaluation-harness
x.json, x.eval           logs of inspect_ai
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opd.evaluate.finished import SAMPLES, SCORE, refuse_changed_samples
from opd.evaluate.foreign.choice import Choice
from opd.evaluate.foreign.inspect_ai import is_archive, read_inspect
from opd.evaluate.foreign.lm_eval import is_lm_eval, read_lm_eval, task_of
from opd.evaluate.rows import Row, read_rows
from opd.evaluate.statistics.estimates import Counts, tally
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import digest, read_json, read_lines
from opd.records.scores import Protocol, Score
from opd.records.settings import read


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Samples, and what their place says of them."""

    name: str
    form: str
    """`score folder`, `samples`, `lm-evaluation-harness` or `inspect_ai`."""
    rows: tuple[Row, ...]
    """By question and sample."""
    score: Score | None = None
    benchmark: str | None = None
    model: str | None = None

    @property
    def protocol(self) -> Protocol | None:
        """What the samples were drawn and graded under, where it is known."""
        return None if self.score is None else self.score.protocol

    @property
    def is_unverified(self) -> bool:
        """Whether the score is of an earlier version, which took down no digest of its samples."""
        return self.score is not None and self.score.samples_sha256 is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """A model's counts on the questions of a benchmark; `counts` are in the order of `questions`, sorted."""

    name: str
    questions: tuple[str, ...]
    counts: Counts
    protocol: Protocol | None
    machine: Mapping[str, str] = field(default_factory=dict)
    """What the score says of the machine; empty where nothing is known."""
    unverified: bool = False
    """Of a score that is too old to say which samples it counted: only their sum was checked."""

    def without(self, questions: Iterable[str]) -> "Results":
        """The same without some of the questions; `AskedWrongly` when none is left."""
        gone = set(questions)
        kept = [place for place, name in enumerate(self.questions) if name not in gone]
        if not kept:
            raise AskedWrongly(f"{self.name}: no question is left without those {len(self.questions)}")
        return Results(
            name=self.name,
            questions=tuple(self.questions[place] for place in kept),
            counts=Counts(
                hits=tuple(self.counts.hits[place] for place in kept),
                samples=tuple(self.counts.samples[place] for place in kept),
            ),
            protocol=self.protocol,
            machine=self.machine,
            unverified=self.unverified,
        )


def read_source(path: Path, *, name: str | None = None, choice: Choice | None = None) -> Source:
    """The samples of a score folder, of the samples.jsonl in one, or of a file in one of the forms above.

    They are called by the path unless they get a name. Raises `AskedWrongly` for what is missing, unfinished,
    unreadable or ambiguous, and `AnswerIsNo` for a folder whose two files contradict each other.
    """
    name, choice = name or str(path), choice or Choice()
    if path.is_dir():
        return _of_folder(path, name=name)
    if path.name == SAMPLES and (path.parent / SCORE).is_file():
        return _of_folder(path.parent, name=name)
    if path.suffix in {".json", ".eval"} or is_archive(path):
        log = read_inspect(path, choice)
        return Source(name=name, form="inspect_ai", rows=_ordered(log.rows), benchmark=log.task, model=log.model)
    if is_lm_eval(next(iter(read_lines(path)), {})):
        rows = _ordered(read_lm_eval(path, choice))
        return Source(name=name, form="lm-evaluation-harness", rows=rows, benchmark=task_of(path))
    return Source(name=name, form="samples", rows=_ordered(read_rows(path)))


def read_results(path: Path, *, name: str | None = None, choice: Choice | None = None) -> Results:
    """The counts of what `read_source` reads."""
    return results_of(read_source(path, name=name, choice=choice))


def results_of(source: Source) -> Results:
    """The samples counted by question; `AskedWrongly` for none, and for one that is there twice."""
    protocol = source.protocol
    try:
        questions, counts = tally(
            ((row.question, row.sample, row.correct) for row in source.rows),
            questions=protocol.questions if protocol else None,
            samples_per_question=protocol.samples_per_question if protocol else None,
        )
    except AskedWrongly as error:  # of several sources, the one that lacks something is named
        raise AskedWrongly(f"{source.name}: {error}") from error
    return Results(
        name=source.name,
        questions=questions,
        counts=counts,
        protocol=protocol,
        machine=source.score.machine if source.score else {},
        unverified=source.is_unverified,
    )


def _of_folder(folder: Path, *, name: str) -> Source:
    if not (folder / SCORE).is_file():
        unfinished = (folder / SAMPLES).is_file()
        raise AskedWrongly(
            f"{folder} holds samples but no {SCORE}: that evaluation did not finish; run it again and it goes on"
            if unfinished
            else f"{folder} holds no {SCORE}: give the folder of an evaluation, or a JSON Lines file"
        )
    score = read(Score, folder / SCORE)
    # of the protocol as it is written: one of an earlier version has fewer keys, and is no other for that
    if digest(read_json(folder / SCORE)["protocol"]) != score.protocol_digest:
        raise AnswerIsNo(f"{folder / SCORE}: the protocol does not have the digest {score.protocol_digest[:12]}…")
    source = Source(
        name=name,
        form="score folder",
        rows=_ordered(read_rows(folder / SAMPLES)),
        score=score,
        benchmark=score.benchmark,
        model=score.model,
    )
    correct = results_of(source).counts.total_hits
    if correct != score.correct:
        raise AnswerIsNo(
            f"{folder}: {SCORE} says {score.correct} correct, {SAMPLES} holds {correct}; one was changed"
        )
    refuse_changed_samples(folder, score)
    return source


def _ordered(rows: Sequence[Row]) -> tuple[Row, ...]:
    return tuple(sorted(rows, key=lambda row: (row.question, row.sample)))
