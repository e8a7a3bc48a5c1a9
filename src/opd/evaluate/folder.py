"""The folder of an evaluation: whose it is, and what stands in it.

DIR/protocol.json    what is asked of which model; the folder goes on only with the same
    generations/     the tokens of each group of questions, written before any of them is graded; *.damaged is read
                     by nobody
    samples.jsonl    a line for each (question, sample), appended as they are graded
    score.json       written last: finished.py

At any moment a sample is missing, drawn, or settled: drawn once its generation stands, settled once its line says
something about the answer. Only what is missing is drawn, only what is drawn is graded.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import PARTIAL, drop_torn_line, object_in, read_json, read_lines, write_json
from opd.records.generation_table import FOLDER, Damaged, Making, read_keys
from opd.records.scores import Protocol, Sample
from opd.records.settings import validated

PROTOCOL = "protocol.json"
DAMAGED = ".damaged"  # ends the name of a file of generations that could not be read

Key = tuple[str, int]  # question, sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """The generations that stand: which file holds each, and who made the files."""

    files: dict[Key, Path]
    makings: tuple[Making, ...]
    damaged: dict[Path, Damaged]  # files that can't be read, and why


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Whose a folder is: everything that its score depends on, and the digest of the model."""

    protocol: Protocol
    model_digest: str

    def values(self) -> dict[str, Any]:
        """As it stands in protocol.json."""
        return {"protocol": self.protocol.resolved(), "model_digest": self.model_digest}


def refuse_other(out: Path, claimed: Claim) -> None:
    """Nothing, when the folder is empty or belongs to this evaluation; `AskedWrongly` when it is another's."""
    place, asked = out / PROTOCOL, claimed.values()
    if not place.exists():
        if any(not path.name.endswith(PARTIAL) for path in out.iterdir()):
            raise AskedWrongly(f"{out} exists and is not an evaluation; name a new folder")
        return
    stands = read_json(place)
    if stands != asked:
        there = stands.get("protocol", {}) if isinstance(stands, dict) else {}
        differs = sorted(key for key, value in asked["protocol"].items() if there.get(key) != value) or ["model"]
        raise AskedWrongly(f"{out} holds another evaluation (it differs in {', '.join(differs)}); name a new folder")


def claim(out: Path, claimed: Claim) -> None:
    """The folder belongs to this evaluation from now on.

    Whoever writes into it later makes no folder: one that has vanished stays away.
    """
    place = out / PROTOCOL
    if not place.exists():
        write_json(place, claimed.values(), parents=False)


def claim_to_draw(out: Path, claimed: Claim) -> None:
    """The same, and it has a place for generations."""
    claim(out, claimed)
    (out / FOLDER).mkdir(exist_ok=True)


def refuse_vanished(out: Path, claimed: Claim) -> None:
    """Nothing, when the folder that was claimed is there still; else `AnswerIsNo`.

    Under the name of a disk that has gone there may be another folder: that of the mount point, or a new one.
    """
    place = out / PROTOCOL
    again = "bring it back, and the same command goes on from what stood"
    try:
        found = object_in(place.read_bytes())
    except OSError as error:
        raise AnswerIsNo(
            f"{out} has gone since the evaluation began ({place.name}: {error.strerror}): a disk that is no longer "
            f"there, or someone who moved it; {again}"
        ) from error
    if found != claimed.values():
        raise AnswerIsNo(f"{place} is no longer what this evaluation wrote there; {again}")


def read_samples(path: Path) -> dict[Key, Sample]:
    """The rows that stand, by question and sample. A row whose grader failed gives way to a later one.

    Raises `AskedWrongly` for two settled rows of one key: a score would count the question twice.
    """
    drop_torn_line(path)
    samples: dict[Key, Sample] = {}
    for number, values in enumerate(read_lines(path) if path.exists() else [], start=1):
        sample = validated(Sample, values, source=f"{path}, line {number}")
        key = (sample.question, sample.sample)
        if is_settled(samples.get(key)):
            raise AskedWrongly(f"{path}, line {number}: question {key[0]}, sample {key[1]} is there twice")
        samples[key] = sample
    return samples


def is_settled(sample: Sample | None) -> bool:
    """Whether a row stands and says something about its answer."""
    return sample is not None and sample.judgement.verdict.settled


def clear_torn(out: Path) -> None:
    """What a crash left half-written is gone; the folder is this evaluation's, and nobody else is at work in it."""
    for torn in (*out.glob(f"*{PARTIAL}"), *(out / FOLDER).glob(f"*{PARTIAL}")):
        torn.unlink()


def read_drawn(out: Path) -> Drawn:
    """The generations that stand; `AskedWrongly` for one that is there twice."""
    files: dict[Key, Path] = {}
    makings: list[Making] = []
    damaged: dict[Path, Damaged] = {}
    for path in sorted((out / FOLDER).glob("*.parquet")):
        try:
            keys, making = read_keys(path)
        except Damaged as error:
            damaged[path] = error
            continue
        makings.append(making)
        for key in keys:
            if key in files:
                raise AskedWrongly(f"{path}: question {key[0]}, sample {key[1]} is also in {files[key]}")
            files[key] = path
    return Drawn(files=files, makings=tuple(makings), damaged=damaged)
