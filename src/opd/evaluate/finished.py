"""A finished folder: the score, sealed to the samples that it counted.

samples.jsonl    in the benchmark's order
score.json       written last, with the SHA-256 of samples.jsonl

A sum alone would not do: one sample made right and another made wrong leave it as it was, and move a comparison,
which pairs question by question.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from opd.records.errors import AnswerIsNo
from opd.records.files import sha256, write_json, write_text
from opd.records.scores import Score

SCORE = "score.json"
SAMPLES = "samples.jsonl"


def finish(out: Path, score: Score, *, questions: Sequence[str]) -> Score:
    """The score with the digest of its samples, which stand in the order of the questions from now on."""
    put_in_order(out / SAMPLES, questions)
    sealed = score.model_copy(update={"samples_sha256": sha256(out / SAMPLES)})
    write_json(out / SCORE, sealed.resolved(), parents=False)
    return sealed


def refuse_changed_samples(folder: Path, score: Score) -> None:
    """Nothing, when the samples beside a score are the bytes that it counted, or it is too old to say.

    Raises `AnswerIsNo` for others.
    """
    if score.samples_sha256 is None:
        return
    if (found := sha256(folder / SAMPLES)) != score.samples_sha256:
        raise AnswerIsNo(
            f"{folder}: {SAMPLES} has SHA-256 {found[:12]}…, and {SCORE} counted {score.samples_sha256[:12]}…; one "
            f"was changed. Bring the file back, or take {SCORE} away: the same evaluation completes the samples"
        )


def put_in_order(path: Path, questions: Sequence[str]) -> None:
    """The rows of samples.jsonl stand in the order of the benchmark, whoever drew or graded first.

    Rows of one key keep their order: a try that failed stays before the one that settled it. The file is replaced
    whole, or left alone when it is in order.
    """
    place = {question: number for number, question in enumerate(questions)}
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")  # splitlines also splits at U+2028
    keys = [(place[row["question"]], row["sample"]) for row in map(json.loads, lines)]
    ordered = sorted(range(len(lines)), key=keys.__getitem__)
    if ordered != list(range(len(lines))):
        write_text(path, "".join(f"{lines[number]}\n" for number in ordered), parents=False)
