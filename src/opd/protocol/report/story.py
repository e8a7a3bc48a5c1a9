"""What a report tells of: the facts of one attempt, found where they stand, and put in the order of its stages."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from opd.protocol.attempts.attempt import OUTCOME, RUN, TASK_LOCK, Attempt
from opd.protocol.attempts.evidence import Evidence, Seen
from opd.protocol.report.exploring import Exploration, Measured, Unit, exploration
from opd.protocol.report.sources import Fact, Sources
from opd.protocol.report.trainings import Difference, Match, differences, last_line, match
from opd.records.attempts import Stage, Status
from opd.records.receipts import RECEIPT


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """A sealed try, by its two files."""

    name: str
    number: int
    receipt: Fact
    outcome: Fact | None  # outcome.json; None where it ended before there was anything to say
    counts_as: str  # its outcome, after a ruling where there was one

    @property
    def step(self) -> Fact | None:
        """Of the checkpoint that it is about."""
        return self.outcome.get("step") if self.outcome else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalRun:
    """A final evaluation."""

    tried: Attempted
    score: Fact | None  # score.json

    @property
    def label(self) -> str:
        """`step 2100`."""
        return f"step {self.tried.number}"

    @property
    def evaluation(self) -> str:
        """The folder that `opd evaluate` left."""
        return f"{self.tried.name}/evaluation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A published number of the task's."""

    fact: Fact

    @property
    def name(self) -> str:
        """What it is of."""
        return str(self.fact.value["name"])

    @property
    def is_start(self) -> bool:
        """Whether it is the fixed start, untrained."""
        return "start" in self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The attempt as a report tells it."""

    attempt: Attempt
    sources: Sources
    run: Fact
    task: Fact
    inputs: Fact
    explorations: tuple[Attempted, ...]
    explored: Exploration | None  # the one that the submission comes from, else the last
    submission: Fact | None
    formals: tuple[Attempted, ...]
    counted: Attempted | None
    rulings: tuple[Fact, ...]
    validations: tuple[Attempted, ...]
    finals: tuple[FinalRun, ...]
    official: FinalRun | None
    missing: str | None
    audit: Fact | None

    @property
    def contract(self) -> Fact:
        """The task's own table."""
        return self.task["metadata"]["opd"]

    @property
    def device(self) -> Literal["GPU", "processor"]:
        """What the task is trained on."""
        return "GPU" if self.contract.value["needs"].get("gpus") else "processor"

    @property
    def left(self) -> Fact | None:
        """Seconds of the exploration's budget that were left, as the submission recorded them."""
        return self.submission.get("remaining_seconds") if self.submission else None

    @property
    def measured(self) -> tuple[Measured, ...]:
        """The measurements that have a score, in order."""
        return tuple(one for one in self.explored.measured if one.score) if self.explored else ()

    @property
    def scored(self) -> tuple[FinalRun, ...]:
        """The finals that have one."""
        return tuple(one for one in self.finals if one.score)

    def references(self, of: str) -> tuple[Reference, ...]:
        """The published numbers by one of the task's two measures."""
        return tuple(Reference(fact=one) for one in self.contract["references"].each() if one.value["of"] == of)

    @property
    def adopted(self) -> Measured | None:
        """The last measurement of the very source that was handed in, trained as it was formally; else None."""
        patched = self.submission.value["patched_sha256"] if self.submission else None
        formal = self.formal_file("recipe.json")
        same = [
            one
            for one in self.measured
            if one.training
            and _is(one.training.tree_sha256, patched)
            and not (formal and one.training.recipe and any(differences(one.training.recipe, formal)))
        ]
        return same[-1] if same else None

    @property
    def baseline(self) -> Measured | None:
        """The first measurement, where it is of the source as it was given."""
        first = next(iter(self.measured), None)
        tree = first.training.tree_sha256 if first and first.training else None
        return first if _is(tree, self.run.value["base_sha256"]) else None

    def is_given(self, measured: Measured) -> bool:
        """Whether a measurement is of the source as it was given, trained by the recipe of the baseline."""
        base, mine = (one.training if one else None for one in (self.baseline, measured))
        if base is None or mine is None or not _is(mine.tree_sha256, self.run.value["base_sha256"]):
            return False
        return not (base.recipe and mine.recipe and any(differences(base.recipe, mine.recipe)))

    @property
    def greatest(self) -> Measured | None:
        """The measurement with the greatest point estimate."""
        return max(self.measured, key=lambda one: float(one.proxy.value["mean"]), default=None)

    def unit_of(self, measured: Measured) -> Unit:
        """The unit that a measurement ends."""
        assert self.explored is not None, "what was measured was explored"
        return next(unit for unit in self.explored.units if unit.measured is measured)

    def match(self, a: str, b: str) -> Match:
        """In what the trainings behind two measurements differ, by their labels."""
        trainings = {label(one): one.training for one in self.measured}
        if a not in trainings:
            return Match(unknown="they are checkpoints of one training")
        return match(trainings[a], trainings[b])

    @property
    def change(self) -> tuple[Difference, ...] | None:
        """What the formal run's recipe has otherwise than the baseline's; None where either is unknown."""
        formal = self.formal_file("recipe.json")
        base = self.baseline.training.recipe if self.baseline and self.baseline.training else None
        return tuple(differences(base, formal)) if base and formal else None

    def formal_file(self, name: str) -> Fact | None:
        """A file of JSON that the counted formal run's own program left beside its checkpoints."""
        folder = self.formal_folder
        return self.sources.object(f"{folder}/{name}") if folder else None

    @property
    def formal_rows_seen(self) -> Fact | None:
        """How many rows the counted formal run had seen at its end, by its own summary, else by its metrics."""
        summary = self.formal_file("run.json")
        if summary and (seen := summary.whole("rows_seen")):
            return seen
        last = last_line(self.sources, f"{self.formal_folder}/metrics.jsonl") if self.formal_folder else None
        return last.whole("rows_seen") if last else None

    @property
    def formal_folder(self) -> str | None:
        """Where the counted formal run put its checkpoints, relative to the attempt."""
        if self.counted is None:
            return None
        pattern = str(self.contract.value["artifacts"]["pattern"])
        return f"{self.counted.name}/checkout/{pattern.rpartition('/')[0]}"


def _is(fact: Fact | None, value: object) -> bool:
    return fact is not None and fact.value == value


def label(measured: Measured) -> str:
    """`proxy 4`."""
    return f"proxy {measured.number}"


def story(attempt: Attempt, sources: Sources, evidence: Evidence, here: Status) -> Story:
    """All of it, of an attempt whose files hold."""
    explorations = _tried(evidence, sources, Stage.EXPLORE)
    submission = sources.json(f"{attempt.submission.name}/{OUTCOME}") if evidence.submission else None
    explored_in = str(submission.value["explored_in"]) if submission else None
    chosen = next((one for one in explorations if one.name == explored_in), None)
    if chosen is None and submission is None and explorations:
        chosen = explorations[-1]
    formals = _tried(evidence, sources, Stage.FORMAL)
    counted = evidence.counted.place.name if evidence.counted else None
    finals = tuple(_finals(_tried(evidence, sources, Stage.FINAL), evidence, sources))
    audit = evidence.audit
    return Story(
        attempt=attempt,
        sources=sources,
        run=sources.fact(RUN),
        task=sources.fact(TASK_LOCK),
        inputs=sources.fact("inputs.lock.json"),
        explorations=explorations,
        explored=_explored(chosen, evidence, sources),
        submission=submission,
        formals=formals,
        counted=next((one for one in formals if one.name == counted), None),
        rulings=tuple(sources.fact(f"{one.place.name}/ruling.json") for one in evidence.rulings),
        validations=_tried(evidence, sources, Stage.VALIDATION),
        finals=finals,
        official=next((one for one in finals if here.official and one.tried.number == here.official.step), None),
        missing=here.missing,
        audit=sources.json(f"{audit.place.name}/{OUTCOME}") if audit else None,
    )


def _tried(evidence: Evidence, sources: Sources, stage: Stage) -> tuple[Attempted, ...]:
    return tuple(_attempted(seen, sources) for seen in evidence.sealed(stage))


def _attempted(seen: Seen, sources: Sources) -> Attempted:
    name = seen.place.name
    return Attempted(
        name=name,
        number=seen.place.number,
        receipt=sources.fact(f"{name}/{RECEIPT}"),
        outcome=sources.json(f"{name}/{OUTCOME}"),
        counts_as=str(seen.outcome),
    )


def _finals(tried: tuple[Attempted, ...], evidence: Evidence, sources: Sources) -> Iterator[FinalRun]:
    """A score counts only of an artifact that was found valid."""
    for one in tried:
        score = sources.json(f"{one.name}/evaluation/score.json")
        has_one = one.outcome is not None and one.outcome.get("mean") is not None
        yield FinalRun(tried=one, score=score if has_one and one.number in evidence.valid_steps else None)


def _explored(chosen: Attempted | None, evidence: Evidence, sources: Sources) -> Exploration | None:
    if chosen is None:
        return None
    started = (one.at.utc for one in evidence.log.events if (one.actor, one.kind) == (chosen.name, "started"))
    return exploration(sources, chosen.name, started_utc=next(started, None))


def is_history(tried: Attempted, counted: Attempted | None) -> bool:
    """Whether a formal try is not the one that counts."""
    return counted is None or tried.name != counted.name
