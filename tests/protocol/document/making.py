"""The attempt while it is made, stage after stage, each at its own time of day."""

from pathlib import Path
from typing import Any

from tests.protocol.document import sources
from tests.protocol.document.clerk import BOOT, Clerk, instant, seal_base
from tests.protocol.document.counts import counts, difficulties
from tests.protocol.document.course import course
from tests.protocol.document.evaluations import final_questions, protocol_of, write_evaluation
from tests.protocol.document.exploration import Ground, exploration, seal_proxies, write_files, write_runs
from tests.protocol.document.facts import CASE, Checkpoint, Facts
from tests.protocol.document.formal import Ran, write_completed, write_failed
from tests.protocol.document.narrative import narrative, process_of
from tests.protocol.document.questions import FILES, write_questions, write_training_rows
from tests.protocol.document.stand_ins import loaded, structure, write_model

import opd
from opd.protocol.attempts.attempt import EVENTS, OUTCOME, RULING, RUN, TASK_LOCK, Attempt, Place
from opd.protocol.attempts.events import Events
from opd.protocol.attempts.verify import founding
from opd.protocol.inputs import MADE, Fixed, Inputs, lock, measure
from opd.protocol.packages import catalogue
from opd.protocol.patches.source import changed_paths, digest_of, entries_of, write
from opd.protocol.stages.formal import ORDER
from opd.protocol.stages.submission import PATCH, PATCHED
from opd.protocol.stages.validation import LOADED
from opd.records.attempts import (
    Evaluated,
    Explored,
    Final,
    Formal,
    Handed,
    Identity,
    Replayed,
    RetryOrder,
    Stage,
    Submission,
    Validated,
    Validation,
)
from opd.records.causes import Ruling
from opd.records.files import digest, sha256, write_json
from opd.records.receipts import RECEIPT, begin
from opd.records.settings import read, validated
from opd.records.tasks import Task

INSTALL = digest("the install that judged")
COMMAND = ("claude",)


class Making:
    """One attempt while it is made, stage by stage."""

    def __init__(self, place: Path, facts: Facts, away: Path) -> None:
        self.facts, self.folder, self.away = facts, place / "runs" / CASE, away
        self.data, self.models = place / "data", place / "inputs"
        self.course = course(self.facts)
        write_questions(self.data)
        self.folder.mkdir(parents=True)
        (self.folder / MADE).mkdir()
        write_training_rows(self.folder / MADE / "train.jsonl")
        self.task = _task(self.facts, self.data, self.folder / MADE / "train.jsonl", self.course.given_seconds)
        self.base = sources.base(self.task)
        self.patched, self.patch = sources.shuffled(self.base, away=away / "workspace")
        self.attempt = self._founded()
        self.clerk = Clerk(self.attempt, began=self.facts.began)
        self.now = self.facts.began  # seconds since 1970, of the next thing that happens

    def all(self) -> None:
        """Every stage."""
        self._explore()
        self.now += 360
        if self.facts.first_try_errno is not None:
            self._fail()
            self.now += 2_400
            self._rule()
            self.now += 300
        self._complete()
        for one in self.facts.checkpoints:
            self._validate(one)
        chances = difficulties(self.task.contract.final.questions, mean=0.42, seed=60)
        for number, one in enumerate(self.facts.checkpoints):
            self._evaluate(one, chances, seed=60 + number)

    def _founded(self) -> Attempt:
        """What `opd attempt new` leaves."""
        folder, at = self.folder, self.facts.began - 120
        fixed = []
        for role in ("student", "teacher", "verifier"):
            write_model(self.models / role, seed=role)
            path = self.models / role
            fixed.append(Fixed(role=role, path=str(path), sha256=measure(path)))
        data = folder / MADE / "train.jsonl"
        fixed.insert(2, Fixed(role="data", path=f"{MADE}/{data.name}", sha256=sha256(data)))
        lock(folder, Inputs(fixed=tuple(fixed)))
        self.inputs = {one.role: one.sha256 for one in fixed}
        identity = Identity(
            case=CASE, task=self.task.short_name, task_sha256=self.task.digest, harness="claude-code",
            command=COMMAND, shown=(), endpoint="/run/opd/model.sock", model=self.facts.model,
            effort=self.facts.effort, opd_version=opd.__version__, install_sha256=INSTALL,
            base_sha256=digest_of(self.base), created_utc=instant(at, began=self.facts.began).utc,
        )  # fmt: skip
        write_json(folder / TASK_LOCK, self.task.resolved())
        write(self.base, begin(folder / "base") / "tree")
        seal_base(folder / "base", at=at, made_from={"task": self.task.digest, "install": INSTALL})
        write_json(folder / RUN, identity.resolved())
        Events(folder / EVENTS).add(
            "created", actor="operator", at=instant(at, began=self.facts.began), case=CASE, files=founding(folder)
        )
        return Attempt(folder)

    def _explore(self) -> None:
        facts, clerk, place = self.facts, self.clerk, self.attempt.next(Stage.EXPLORE)
        made_from = {"base": digest_of(self.base), "install": INSTALL}
        ground = Ground(
            facts=facts, attempt=self.attempt, course=self.course, turns=narrative(facts, self.course),
            base=self.base, shuffled=self.patched, away=self.away,
        )  # fmt: skip
        folder = clerk.begin(place, facts.began - 3, made_from)
        clerk.say(facts.began, "started", actor=place.name, mark=BOOT[:16].replace("-", ""))
        write_runs(ground, folder / "runs")
        proxies = seal_proxies(ground, clerk, place)
        submission = self._submit(place)
        write_files(ground, folder, submission)
        self.now = facts.began + self.course.submitted + 8
        clerk.end(
            place, self.now, Explored.SUBMITTED, exploration(ground, proxies), began=facts.began - 3,
            made_from=made_from, seconds=self.course.submitted + 11,
        )  # fmt: skip

    def _submit(self, explored_in: Place) -> Submission:
        at, place = self.facts.began + self.course.submitted, self.attempt.submission
        submission = Submission(
            origin="explorer", explored_in=explored_in.name, note=self.facts.note,
            patch_sha256=sources.sha256(self.patch), patch_bytes=len(self.patch), base_sha256=digest_of(self.base),
            patched_sha256=digest_of(self.patched), changed_paths=changed_paths(self.base, self.patched),
            remaining_seconds=self.facts.left_seconds, processes=self._running(),
        )  # fmt: skip
        made_from = {"base": submission.base_sha256, "patch": submission.patch_sha256}
        folder = self.clerk.begin(place, at, made_from)
        (folder / PATCH).write_bytes(self.patch)
        write_json(folder / PATCHED, [entry.resolved() for entry in entries_of(self.patched)])
        self.clerk.end(place, at + 0.4, Handed.SEALED, submission, began=at, made_from=made_from)
        return submission

    def _running(self) -> tuple[str, ...]:
        trainings = [process_of(one) for one in self.course.others if one.stop == "killed"]
        return (" ".join(COMMAND), "bash -c submit", *trainings)

    def _ran(self) -> Ran:
        return Ran(
            facts=self.facts, patched=self.patched, submission=self._submission(), inputs=self.inputs, began=self.now
        )

    def _submission(self) -> Submission:
        return read(Submission, self.attempt.submission.folder / OUTCOME)

    def _made_from(self, *before: str) -> dict[str, str]:
        """What a formal try is made from."""
        submission = self._submission()
        return {
            **self.clerk.receipts("submission", *before), "patch": submission.patch_sha256,
            "base": submission.base_sha256, "install": INSTALL, **self.inputs,
        }  # fmt: skip

    def _fail(self) -> None:
        place, made_from, began = self.attempt.next(Stage.FORMAL), self._made_from(), self.now
        folder = self.clerk.begin(place, began, made_from)
        self.clerk.say(began + 2, "started", actor=place.name, mark="6181d2f424cd6f59")
        formal, seconds = write_failed(self._ran(), folder)
        self.now = began + 2 + seconds
        self.clerk.end(
            place, self.now, Replayed.AMBIGUOUS, formal, began=began, made_from=made_from,
            because=formal.cause.because[0],
        )  # fmt: skip

    def _rule(self) -> None:
        about, place = self.attempt.place(Stage.FORMAL, 1), self.attempt.ruling_place(1)
        ruling = Ruling(
            about=about.name, verdict="infrastructure", by="review",
            because="the log of the shared file system has the same error at that minute, for other tenants too; the "
            "recipe is tried again as it is",
        )  # fmt: skip
        write_json(begin(place.folder) / RULING, ruling.resolved())
        self.clerk.seal(
            place.folder, place.name, "ruling", ruling.verdict, began=self.now, ended=self.now, active=0.0,
            made_from={"task": self.task.digest, **self.clerk.receipts(about.name)},
        )  # fmt: skip

    def _order(self, place: Place) -> RetryOrder:
        before = self.attempt.place(Stage.FORMAL, place.number - 1)
        return RetryOrder(
            after=before.name, outcome=Replayed.INFRA_FAILED,
            rule=read(Ruling, self.attempt.ruling_place(1).folder / RULING).because,
            by="review", patch_sha256=self._submission().patch_sha256,
            receipt_sha256=sha256(before.folder / RECEIPT), number=place.number,
            most=1 + self.task.contract.budgets.formal_retries,
        )  # fmt: skip

    def _complete(self) -> None:
        place, began = self.attempt.next(Stage.FORMAL), self.now
        before = [one.name for one in self.attempt.places(Stage.FORMAL)]
        made_from = self._made_from(*before)
        folder = self.clerk.begin(place, began, made_from)
        if before:
            write_json(folder / ORDER, self._order(place).resolved())
        self.clerk.say(began + 2, "started", actor=place.name, mark="91c07d5be42aa018")
        formal = write_completed(self._ran(), folder)
        self.formal: Formal = formal
        self.now = began + 2 + formal.seconds
        self.clerk.end(
            place, self.now + 11, Replayed.COMPLETED, formal, began=began, made_from=made_from,
            seconds=formal.seconds + 13,
        )  # fmt: skip
        self.now += 20

    def _validate(self, one: Checkpoint) -> None:
        place, began = self.attempt.place(Stage.VALIDATION, one.step), self.now
        sha = self._artifact(one)
        made_from = {**self.clerk.receipts(self.facts.formal_try), "artifact": sha, "install": INSTALL}
        folder = self.clerk.begin(place, began, made_from)
        (folder / "result").mkdir()
        write_json(folder / "result" / LOADED, loaded().resolved())
        for log in ("stdout.log", "stderr.log"):
            (folder / log).write_text("", encoding="utf-8")
        facts = Validation(
            step=one.step, artifact_sha256=sha, loaded=loaded(), faults=(),
            structure=structure(
                start_sha256=self.inputs["student"], teacher_sha256=self.inputs["teacher"], seed=sha
            ),
        )  # fmt: skip
        self.now = began + 58
        self.clerk.end(place, self.now, Validated.VALID, facts, began=began, made_from=made_from)

    def _evaluate(self, one: Checkpoint, chances: tuple[float, ...], *, seed: int) -> None:
        place, began = self.attempt.place(Stage.FINAL, one.step), self.now
        measure, sha = self.task.contract.final, self._artifact(one)
        validation = self.attempt.place(Stage.VALIDATION, one.step).name
        made_from = {**self.clerk.receipts(validation), "artifact": sha, "install": INSTALL}
        folder = self.clerk.begin(place, began, made_from)
        score = write_evaluation(
            folder / "evaluation", protocol_of(measure), final_questions(),
            counts(chances, samples=len(measure.seeds), correct=one.correct, printed=one.stderr, seed=seed),
            cut_short=one.cut_short, model_digest=sha, seconds=self.facts.final_seconds - 61,
        )  # fmt: skip
        facts = Final(
            step=one.step, artifact_sha256=sha, benchmark=score.benchmark, protocol_sha256=score.protocol_digest,
            evaluator_sha256=INSTALL, correct=score.correct, samples=score.samples, mean=score.mean,
            stderr=score.stderr, cut_short=score.cut_short, seconds=self.facts.final_seconds, missing=None,
        )  # fmt: skip
        self.now = began + self.facts.final_seconds
        self.clerk.end(place, self.now, Evaluated.SCORED, facts, began=began, made_from=made_from)

    def _artifact(self, one: Checkpoint) -> str:
        return next(artifact.sha256 for artifact in self.formal.artifacts if artifact.step == one.step)


def _task(facts: Facts, questions: Path, data: Path, given_seconds: float) -> Task:
    """The shipped task, on the made-up questions and rows."""
    task, _ = catalogue.find("opd_math_1p5b")
    values: dict[str, Any] = task.resolved()
    contract = values["metadata"]["opd"]
    shipped = contract["data"]["chosen_sha256"]
    contract["data"]["chosen_sha256"] = sha256(data)
    contract["run"] = contract["run"].replace(shipped, sha256(data))
    contract["budgets"]["explore_seconds"] = given_seconds
    contract["budgets"]["formal_seconds"] = facts.formal_given_seconds
    contract["final"]["files"] = [{"source": name, "sha256": sha256(questions / name), "rows": 30} for name in FILES]
    return validated(Task, values, source="the document's task")
