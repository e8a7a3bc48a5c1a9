"""The folder of an evaluation: whose it is, and which rows stand in it.

DIR/protocol.json    what is asked of which model; the folder goes on only with the same
    samples.jsonl    a line for each (question, sample), appended as they are graded
    score.json       written last
"""

from pathlib import Path

from opd.records.errors import AskedWrongly
from opd.records.files import PARTIAL, drop_torn_line, read_json, read_lines, write_json
from opd.records.scores import Protocol, Sample
from opd.records.settings import validated

Key = tuple[str, int]  # question, sample


def claim(out: Path, *, protocol: Protocol, weights_digest: str) -> None:
    """The folder belongs to this evaluation; `AskedWrongly` when it belongs to another one."""
    settings = protocol.resolved()
    asked = {"protocol": settings, "model_digest": weights_digest}
    place = out / "protocol.json"
    if not place.exists():
        if out.exists() and any(not path.name.endswith(PARTIAL) for path in out.iterdir()):
            raise AskedWrongly(f"{out} exists and is not an evaluation; name a new folder")
        write_json(place, asked)
    stands = read_json(place)
    if stands != asked:
        differs = sorted(key for key, value in settings.items() if stands.get("protocol", {}).get(key) != value) or [
            "model"
        ]
        raise AskedWrongly(f"{out} holds another evaluation (it differs in {', '.join(differs)}); name a new folder")


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
