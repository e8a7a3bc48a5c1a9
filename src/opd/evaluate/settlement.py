"""A finished score folder → a new one, in which a judge has settled what the rules rejected.

Nothing is sampled and the old folder is only read. Judged before, its samples go back to the rules' verdicts first,
and the earlier judge's become opinions.

DIR/protocol.json    the old protocol with this judge in it
    judge.json       which folder was judged, with the digest of its samples, and by whom
    samples.jsonl    the old samples with their verdicts now, appended group by group
    score.json       written last
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opd.evaluate.benchmark import Benchmark, find, names
from opd.evaluate.code import counted_here
from opd.evaluate.finished import SAMPLES, finish
from opd.evaluate.folder import Claim, Key, claim, is_settled, read_samples, refuse_other
from opd.evaluate.judge import Judge, is_judged, open_judge, settle, undecided
from opd.evaluate.judges.exchange import JudgeModel
from opd.evaluate.judges.settings import JudgeSettings
from opd.evaluate.questions import pinned, read_questions
from opd.evaluate.results import read_source
from opd.evaluate.score import build_score
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import alone, append_lines, check_writable, read_lines, sha256, write_json
from opd.records.scores import Protocol, Sample, Score
from opd.records.settings import Settings, read, validated

RECORD = "judge.json"
_GROUP = 64  # samples between two looks at whether the person interrupted

Report = Callable[[int, int], None]


class Judged(Settings):
    """`judge.json`: what was judged, and by whom."""

    folder: str
    """The score folder that the samples are from."""
    samples_sha256: str
    """Of its samples.jsonl."""
    judge: JudgeModel
    settings: JudgeSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What came of it: the scores, and of the samples that the judge settled how many it found right."""

    before: Score
    after: Score
    by: str
    asked: int
    right: int


def judge_folder(
    folder: Path,
    out: Path,
    settings: JudgeSettings,
    *,
    benchmark: str | None = None,
    data: Path | None = None,
    report: Report = lambda _done, _of: None,
    interrupted: Callable[[], bool] = lambda: False,
) -> Settled:
    """The score of the folder's samples with the judge that the settings name; nothing is asked twice.

    `benchmark` names the one that was evaluated where its name in the score doesn't lead there, `data` its file.
    `report` is told how many of how many samples are done. Raises `AskedWrongly` for a folder without a score, other
    questions, or an `out` of something else, and `AnswerIsNo` when samples are unsettled at the end.
    """
    check_writable(out)
    before = read_source(folder).score
    assert before is not None, "a score folder has one"
    problems = _problems(before.protocol, benchmark, data)
    samples = [undecided(sample) for sample in _read_only(folder / SAMPLES)]
    with open_judge(settings) as judge:
        protocol = before.protocol.model_copy(update={"judge": judge.identity()})
        out.mkdir(parents=True, exist_ok=True)
        with alone(out):
            refuse_other(out, Claim(protocol=protocol, model_digest=before.model_digest))
            claim(out, Claim(protocol=protocol, model_digest=before.model_digest))
            _write_origin(folder, out, judge, settings)
            rows = _settled(samples, problems, judge, out=out, report=report, interrupted=interrupted)
            after = build_score(
                rows,
                protocol=protocol,
                model=before.model,
                model_digest=before.model_digest,
                seconds=before.seconds,
                machine=counted_here(before.machine),
            )
            after = finish(out, after, questions=list(dict.fromkeys(sample.question for sample in samples)))
    asked = [sample for sample in rows if is_judged(sample)]
    return Settled(
        before=before, after=after, by=judge.by, asked=len(asked), right=sum(sample.correct for sample in asked)
    )


def _settled(
    samples: Sequence[Sample],
    problems: Mapping[str, str],
    judge: Judge,
    *,
    out: Path,
    report: Report,
    interrupted: Callable[[], bool],
) -> list[Sample]:
    """All samples, each as the judge left it now or in an earlier call; they stand in the new samples.jsonl."""
    standing = read_samples(out / SAMPLES)
    for start in range(0, len(samples), _GROUP):
        waiting = [one for one in samples[start : start + _GROUP] if not is_settled(standing.get(_key(one)))]
        if waiting and interrupted():
            raise AnswerIsNo(f"interrupted with {len(standing)} samples judged; the same command goes on from there")
        rows = settle(waiting, problems, judge)
        append_lines(out / SAMPLES, [row.resolved() for row in rows])
        standing |= {_key(row): row for row in rows}
        report(len(standing), len(samples))
    return list(standing.values())


def _write_origin(folder: Path, out: Path, judge: Judge, settings: JudgeSettings) -> None:
    """`judge.json` stands; `AskedWrongly` where it says that other samples were judged here."""
    origin = Judged(folder=str(folder), samples_sha256=sha256(folder / SAMPLES), judge=judge.model, settings=settings)
    if (out / RECORD).exists():
        stands = read(Judged, out / RECORD)
        if stands.samples_sha256 != origin.samples_sha256:
            raise AskedWrongly(
                f"{out} judges the samples of {stands.folder}, not those of {folder}; name a new folder"
            )
    write_json(out / RECORD, origin.resolved())


def _problems(protocol: Protocol, benchmark: str | None, data: Path | None) -> dict[str, str]:
    """The problem of each question by its id, from the data that the score names."""
    declared = pinned(_declared(protocol, benchmark), data)
    if declared.data_sha256 != protocol.data_sha256:
        raise AskedWrongly(
            f"{declared.name} has data {declared.data_sha256[:12]}…, the score is of {protocol.data_sha256[:12]}…; "
            "name the benchmark that was evaluated, or its file with --data"
        )
    questions = read_questions(declared.model_copy(update={"questions": protocol.questions}), data)
    return {question.id: question.problem for question in questions}


def _declared(protocol: Protocol, benchmark: str | None) -> Benchmark:
    name = benchmark or protocol.benchmark.partition(" (")[0]  # `math500 (50 × 1 of 500 × 4)`
    if benchmark is None and name not in names():
        raise AskedWrongly(f"the score is of {name}, which is no benchmark here; name its file with --benchmark")
    return find(name)


def _read_only(path: Path) -> Iterator[Sample]:
    """The last row of each key, as it stands; a row that failed was given way to before the score was written."""
    rows = {}
    for number, values in enumerate(read_lines(path), start=1):
        sample = validated(Sample, values, source=f"{path}, line {number}")
        rows[_key(sample)] = sample
    return iter(rows.values())


def _key(sample: Sample) -> Key:
    return sample.question, sample.sample
