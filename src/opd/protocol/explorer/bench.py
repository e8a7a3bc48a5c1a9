"""Everything that stands ready while an explorer works: the desk, the device's lock, the records, the ledger.

state/        shown to the explorer, read-only
  instruction.md  budget.json  record.sh  device.lock
  desk            the socket of the desk
  record          the pipe of the record
bin/          its commands
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath

from opd.protocol.at_hand import near
from opd.protocol.attempts.attempt import Attempt
from opd.protocol.attempts.tries import Try
from opd.protocol.clock import Deadline, Stopwatch
from opd.protocol.explorer.adapters import Through, adapter_of
from opd.protocol.explorer.designs import FOLDER, LIMIT_SECONDS, Designs
from opd.protocol.explorer.desk import Answer, Desk, Question, Say
from opd.protocol.explorer.handing_in import Candidate, HandingIn
from opd.protocol.explorer.ledger import Ledger, text_of
from opd.protocol.explorer.lock import DeviceLock
from opd.protocol.explorer.notes import take_note
from opd.protocol.explorer.outlook import Outlook, outlook, rank
from opd.protocol.explorer.proxy import Proxies
from opd.protocol.explorer.record import BASH_ENV, RECORD, Record
from opd.protocol.explorer.snapshot import Snapshot, snapshot
from opd.protocol.explorer.tools import lay_out_commands
from opd.protocol.inputs import locked
from opd.protocol.machine import Machine
from opd.protocol.measures import evaluation
from opd.protocol.packages.instruction import instruction
from opd.protocol.patches.source import Tree
from opd.protocol.phases import ARTIFACT, RUNS, STATE, WORKSPACE
from opd.protocol.programs import Judge, last_words
from opd.protocol.sandbox.ladder import new_mark
from opd.protocol.sandbox.layout import interpreter
from opd.protocol.sandbox.view import Value
from opd.protocol.supervision.device import Recorder
from opd.protocol.supervision.processes import Life, marked
from opd.protocol.supervision.usage import Sample
from opd.protocol.views import ENDPOINT
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import write_text
from opd.records.tasks import Tool

_OF_THE_EXPLORER_ALONE = frozenset({Tool.TIMER, Tool.NOTE})  # asked at any time, and no news for the operator
_OTHER = PurePosixPath("/other")  # of two evaluations, as `opd power` sees it
_RELAY = Path(__file__).with_name("endpoint.py")


class Bench:
    """What one exploration needs, beside the explorer."""

    def __init__(
        self,
        *,
        attempt: Attempt,
        this: Try,
        machine: Machine,
        base: Tree,
        away: Path,
        deadline: Deadline,
        accept: Callable[[Candidate], None],
        say: Callable[[str], None],
    ) -> None:
        contract, identity = attempt.task.contract, attempt.identity
        outputs = (PurePosixPath(contract.artifacts.pattern).parent,)
        self._measure = contract.proxy
        verifier = locked(attempt).path("verifier") if contract.proxy.judged else None
        self.machine, self.deadline = machine, deadline
        self.mark = new_mark()  # in the environment of everything that the explorer starts
        self.workspace, self.runs = this.folder / "workspace", this.folder / "runs"
        self.state, self.commands = away / "state", away / "bin"
        self.state.mkdir()
        for folder in (away, self.state):
            folder.chmod(0o755)  # the explorer is somebody else
        lay_out_commands(self.commands, contract.tools)
        write_text(self.state / "instruction.md", instruction(attempt.task))
        write_text(self.state / "record.sh", BASH_ENV)
        self.harness_version = adapter_of(identity.harness).version(identity.command)  # asked before anything starts
        self.through = self._through() if identity.endpoint else None
        self._judge = Judge(contract, machine, code_sha256=identity.install_sha256)
        self._evaluation = evaluation(
            contract.proxy, verifier=verifier, workers=max(1, contract.needs.gpus), beside=near(attempt.folder)
        )
        self._say = say
        self.designs = Designs(
            this.folder / FOLDER, proxies=this.folder / "proxy", ask=self._power, rank=rank(contract.proxy)
        )
        self.proxies = self._proxies(
            attempt,
            this.folder / "proxy",
            look=lambda: snapshot(self.workspace, base, surface=contract.surface, outputs=outputs),
        )
        self.handing_in = HandingIn(
            workspace=self.workspace,
            base=base,
            surface=contract.surface,
            outputs=outputs,
            explored_in=this.place.name,
            outlook=self._outlook,
            left_seconds=deadline.left,
            processes=lambda: self.ledger.running(),  # noqa: PLW0108  it comes after this
            accept=accept,
        )
        self._record = Record(self.state / "record", this.folder / "commands.jsonl")
        self.ledger = self._ledger(this.folder)
        self._desk = Desk(self._answers(contract.tools), log=this.folder / "desk.jsonl")

    @property
    def variables(self) -> Mapping[str, Value]:
        """By which the explorer's programs find it all."""
        return {
            "OPD_INSTRUCTION": STATE / "instruction.md",
            "OPD_DESK": STATE / "desk",
            "OPD_DEVICE_LOCK": STATE / "device.lock",
            RECORD: STATE / "record",
            "BASH_ENV": STATE / "record.sh",
        }

    def _proxies(self, attempt: Attempt, folder: Path, *, look: Callable[[], Snapshot]) -> Proxies:
        contract, identity = attempt.task.contract, attempt.identity
        return Proxies(
            folder,
            measure=contract.proxy,
            evaluate=self._evaluate,
            lock=DeviceLock(self.state),
            on_host=self._on_host,
            largest_bytes=contract.needs.disk_bytes,
            watch=self.deadline.watch,
            events=attempt.events.head,
            made_from={"task": identity.task_sha256, "install": identity.install_sha256},
            look=look,
            measured=self.designs.after,
        )

    def _ledger(self, folder: Path) -> Ledger:
        recorder = Recorder(
            folder,
            gpus=self.machine.uuids,
            living=self._living,
            evaluating=lambda: self.proxies.evaluating,
        )
        return Ledger(recorder, budget=self.state / "budget.json", outlook=self._outlook, living=self._living)

    def _living(self) -> tuple[Life, ...]:
        """What of the explorer's runs now."""
        return marked(self.mark)

    def _through(self) -> Through:
        """How a harness reaches its model: by a relay that shows the endpoint's socket as a server of its own."""
        relay = self.state / _RELAY.name
        relay.write_bytes(_RELAY.read_bytes())
        return Through(python=interpreter(), program=STATE / _RELAY.name, socket=ENDPOINT)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Inside, commands are answered and recorded."""
        with ExitStack() as stack:
            stack.enter_context(self._record.open())
            stack.enter_context(self.ledger.open())
            stack.enter_context(self._desk.open(self.state / "desk"))
            stack.callback(self.designs.close)
            stack.callback(self.proxies.close)
            stack.callback(self.handing_in.close)  # first: it tells an evaluation to end
            yield

    def tick(self, sample: Sample) -> None:
        """A second has gone by."""
        self.ledger.add(sample)

    def _answers(self, tools: tuple[Tool, ...]) -> Mapping[str, Answer]:
        answers: dict[Tool, Answer] = {
            Tool.FAST_EVAL: self.proxies.fast_eval,
            Tool.TIMER: self._timer,
            Tool.NOTE: take_note,
            Tool.SUBMIT: self.handing_in.submit,
            Tool.NO_CANDIDATE: self.handing_in.no_candidate,
        }
        return {str(tool): self._told(answers[tool]) for tool in tools}

    def _told(self, answer: Answer) -> Answer:
        """The same answer, which the operator hears too where it is news."""

        def told(question: Question, say: Say) -> int:
            def both(text: str) -> None:
                say(text)
                self._say(text)

            return answer(question, say if question.command in _OF_THE_EXPLORER_ALONE else both)

        return told

    def _timer(self, question: Question, say: Say) -> int:
        for line in (text_of(self.ledger.budget),) if question.arguments.get("json") else self._outlook().sentences():
            say(line)
        return 0

    def _outlook(self) -> Outlook:
        return outlook(
            left_seconds=self.deadline.left(), given_seconds=self.deadline.seconds, done=tuple(self.proxies.done),
            design=self.designs.latest, measure=self._measure,
        )  # fmt: skip

    def _on_host(self, inside: PurePosixPath) -> tuple[Path, PurePosixPath]:
        """Where a path that the explorer names lies; the explorer's own folders are all that there is to name."""
        inside = PurePosixPath(os.path.normpath(inside))
        for place, folder in ((WORKSPACE, self.workspace), (RUNS, self.runs)):
            for spelt in (place, PurePosixPath(folder)):  # the second on a rung without mounts of its own
                if inside.is_relative_to(spelt):
                    return folder, inside.relative_to(spelt)
        raise AskedWrongly(
            f"{inside} is neither in your workspace nor in your runs; give the folder of a checkpoint there"
        )

    def _evaluate(self, model: Path, out: Path) -> None:
        """Evaluates by the proxy benchmark, as the task says; raises `AnswerIsNo` when no score comes of it."""
        out.mkdir()
        logs = out.parent
        ended = self._judge.run(
            self._evaluation.arguments,
            artifact=model,
            result=out,
            logs=logs,
            deadline=self.deadline,
            others=self._evaluation.shown,
            stop=lambda: "the exploration is over" if self.handing_in.over.is_set() else None,
        )
        if ended.exit_code != 0:
            raise AnswerIsNo(f"the evaluation ended by {ended.reason}: {last_words(logs)}".rstrip(": "))

    def _power(self, one: Path, other: Path | None) -> str:
        """What `opd power` says of one evaluation, or of two as a pilot; raises `AnswerIsNo` when it fails."""
        with tempfile.TemporaryDirectory(prefix="opd-power-") as folder:
            result, logs = Path(folder) / "result", Path(folder)
            result.mkdir()
            ended = self._judge.run(
                ("power", *([_OTHER] if other else []), ARTIFACT, "--json"),
                artifact=one,
                result=result,
                logs=logs,
                deadline=Deadline(Stopwatch(), seconds=LIMIT_SECONDS),
                others={_OTHER: other} if other else {},
                stop=lambda: "the exploration is over" if self.designs.over.is_set() else None,
            )
            if ended.exit_code != 0:
                raise AnswerIsNo(f"opd power ended by {ended.reason}: {last_words(logs)}".rstrip(": "))
            return (logs / "stdout.log").read_text(encoding="utf-8")
