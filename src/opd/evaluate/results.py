"""What a comparison reads: the counts of each question, and the protocol that they were found under.

runs/scores/student/     a score folder: score.json and samples.jsonl, which have to agree
elsewhere.jsonl          {"question": "q1", "sample": 0, "correct": true} a line, from any harness;
                         other keys are passed over, and no protocol is known
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opd.evaluate.statistics import Counts, tally
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import read_lines
from opd.records.scores import Protocol, Score, Verdict
from opd.records.settings import read

SCORE = "score.json"
SAMPLES = "samples.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """A model's counts on the questions of a benchmark; `counts` are in the order of `questions`, sorted."""

    name: str
    questions: tuple[str, ...]
    counts: Counts
    protocol: Protocol | None


def read_results(path: Path, *, name: str | None = None) -> Results:
    """The results of a score folder, of the samples.jsonl in one, or of a JSON Lines file of triples.

    They are called by the path unless they get a name. Raises `AskedWrongly` for what is missing, unfinished or
    unreadable, and `AnswerIsNo` for a folder whose two files contradict each other.
    """
    name = name or str(path)
    if path.is_dir():
        return _of_folder(path, name=name)
    if path.name == SAMPLES and (path.parent / SCORE).is_file():
        return _of_folder(path.parent, name=name)
    questions, counts = tally(_triples(path))
    return Results(name=name, questions=questions, counts=counts, protocol=None)


def _of_folder(folder: Path, *, name: str) -> Results:
    if not (folder / SCORE).is_file():
        unfinished = (folder / SAMPLES).is_file()
        raise AskedWrongly(
            f"{folder} holds samples but no {SCORE}: that evaluation did not finish; run it again and it goes on"
            if unfinished
            else f"{folder} holds no {SCORE}: give the folder of an evaluation, or a JSON Lines file"
        )
    score = read(Score, folder / SCORE)
    protocol = score.protocol
    if protocol.digest != score.protocol_digest:
        raise AnswerIsNo(f"{folder / SCORE}: the protocol does not have the digest {score.protocol_digest[:12]}…")
    questions, counts = tally(
        _triples(folder / SAMPLES),
        questions=protocol.questions,
        samples_per_question=protocol.samples_per_question,
    )
    if counts.total_hits != score.correct:
        raise AnswerIsNo(
            f"{folder}: {SCORE} says {score.correct} correct, {SAMPLES} holds {counts.total_hits}; one was changed"
        )
    return Results(name=name, questions=questions, counts=counts, protocol=protocol)


def _triples(path: Path) -> Iterator[tuple[str, int, bool]]:
    """(question, sample, correct) of every row.

    A row whose grader failed gives way to a later one of the same key; without one the file can't be counted.
    """
    waiting: dict[tuple[str, int], str] = {}
    for number, row in enumerate(read_lines(path), start=1):
        place = f"{path}, row {number}"
        key = _key(row, place=place)
        correct = _correct(row, place=place)
        if correct is None:
            waiting.setdefault(key, place)
            continue
        waiting.pop(key, None)
        yield *key, correct
    for place in waiting.values():
        raise AskedWrongly(f"{place}: the grader failed on it, which says nothing about the answer; grade it again")


def _key(row: Mapping[str, Any], *, place: str) -> tuple[str, int]:
    question, sample = _value(row, "question", place=place), _value(row, "sample", place=place)
    if isinstance(question, bool) or not isinstance(question, str | int):
        raise AskedWrongly(f"{place}: question = {question!r}; a question is named by a text or a number")
    if isinstance(sample, bool) or not isinstance(sample, int):
        raise AskedWrongly(f"{place}: sample = {sample!r}; it is the number of the sample, or its seed")
    return str(question), sample


def _correct(row: Mapping[str, Any], *, place: str) -> bool | None:
    """Whether the row counts as correct; None where its grader failed."""
    if "correct" not in row and "judgement" in row:
        verdict = _verdict(row, place=place)
        return verdict.correct if verdict.settled else None
    correct = _value(row, "correct", place=place)
    if correct not in (True, False):  # which 1 and 0 are as well
        raise AskedWrongly(f"{place}: correct = {correct!r}; write true or false")
    return bool(correct)


def _verdict(row: Mapping[str, Any], *, place: str) -> Verdict:
    try:
        return Verdict(row["judgement"]["verdict"])
    except (KeyError, TypeError, ValueError) as error:
        raise AskedWrongly(f"{place}: no verdict in its judgement") from error


def _value(row: Mapping[str, Any], key: str, *, place: str) -> Any:
    if key not in row:
        raise AskedWrongly(f"{place}: no {key!r}; a row holds question, sample and correct")
    return row[key]
