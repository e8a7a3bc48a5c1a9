"""Exploration: the explorer at work in its sandbox, until it hands in, gives up, ends, or has no time left.

explore/attempt-001/
  isolation.json         what the sandbox was seen to prevent, just before
  workspace/             as it was at the end
  runs/ runs.jsonl       what its runs left; weights are digested and not kept
  proxy/001/ …           each measurement, sealed
  commands.jsonl desk.jsonl processes.jsonl device.jsonl
  trajectory/            what its harness recorded, and the same as ATIF
  recovery.patch         what stood there when it ended without a word: for people, never for a formal run
  outcome.json
"""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from opd.protocol.attempts.attempt import Attempt
from opd.protocol.attempts.creating import base_of
from opd.protocol.attempts.lease import Holder
from opd.protocol.attempts.tries import Try, a_try
from opd.protocol.clock import Deadline, Stopwatch
from opd.protocol.explorer import remains
from opd.protocol.explorer.adapters import adapter_of
from opd.protocol.explorer.bench import Bench
from opd.protocol.explorer.handing_in import Ending
from opd.protocol.explorer.native import Arrivals
from opd.protocol.explorer.trajectory import record_trajectory
from opd.protocol.inputs import changed, locked
from opd.protocol.isolation import record_isolation
from opd.protocol.machine import Machine
from opd.protocol.packages.instruction import instruction
from opd.protocol.patches.workspace import lay_out
from opd.protocol.phases import STATE
from opd.protocol.programs import last_words
from opd.protocol.stages.submission import seal_submission
from opd.protocol.supervision.supervise import Ended, supervise
from opd.protocol.supervision.usage import SPARED_BYTES, Sample, Watch
from opd.protocol.views import explorer_view
from opd.records.attempts import Exploration, Explored, Stage
from opd.records.errors import AnswerIsNo
from opd.records.files import write_json
from opd.records.receipts import Receipt, read_receipt

GRACE_SECONDS = 10.0  # between the soft signal and the end
_CUT_SHORT = {
    "deadline": (Explored.DEADLINE, "the budget ended before anything was handed in"),
    "limit": (Explored.AGENT_ERROR, "it was ended for what it took"),
    "lost": (Explored.INFRA_FAILED, "its sandbox died"),
    "not_started": (Explored.INFRA_FAILED, "its sandbox did not come to life"),
    "stopped": (Explored.CANCELLED, "it was stopped"),
}


def explore(
    attempt: Attempt, holder: Holder, machine: Machine, *, say: Callable[[str], None], cancelled: Callable[[], bool]
) -> Receipt:
    """The receipt of one exploration. A submission is sealed before it, the moment that it is accepted.

    `cancelled` is asked about once a second. Raises `AnswerIsNo` when a fixed input or the install has changed.
    """
    place = attempt.next(Stage.EXPLORE)
    inputs, base = locked(attempt), base_of(attempt)
    if sentences := changed(inputs):
        raise AnswerIsNo("; ".join(sentences))
    identity, contract = attempt.identity, attempt.task.contract
    made_from = {"base": identity.base_sha256, "install": identity.install_sha256}
    with a_try(attempt, holder, place, made_from=made_from) as this, ExitStack() as stack:
        record_isolation(machine, this.folder)
        workspace, runs = this.folder / "workspace", this.folder / "runs"
        lay_out(base, workspace)
        runs.mkdir()
        away = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="opd-desk-")))
        watch = Stopwatch()
        bench = Bench(
            attempt=attempt, this=this, machine=machine, base=base, away=away, say=say,
            deadline=Deadline(watch, seconds=contract.budgets.explore_seconds),
            accept=lambda candidate: seal_submission(attempt, holder, candidate.patch, candidate.submission),
        )  # fmt: skip
        with bench.open():
            ended = _supervised(attempt, this, bench, machine, cancelled)
        _close(attempt, this, bench, ended)
        if sentences := changed(inputs):
            this.say("inputs_changed", sentences=list(sentences))
            raise AnswerIsNo("; ".join(sentences))
    return read_receipt(place.folder)


def _supervised(attempt: Attempt, this: Try, bench: Bench, machine: Machine, cancelled: Callable[[], bool]) -> Ended:
    identity, contract = attempt.identity, attempt.task.contract
    adapter = adapter_of(identity.harness)
    logs = this.folder / "trajectory"
    logs.mkdir()
    start = adapter.start(
        identity.command, model=identity.model, effort=identity.effort, instruction=STATE / "instruction.md",
        through=bench.through,
    )  # fmt: skip
    arrivals = Arrivals(logs / adapter.native, logs / "times.jsonl")
    view = explorer_view(
        contract=contract, inputs=locked(attempt), workspace=bench.workspace, runs=bench.runs,
        commands=bench.commands, state=bench.state, shown=identity.shown, endpoint=identity.endpoint,
        gpus=machine.gpus, variables={**bench.variables, **start.variables},
    )  # fmt: skip

    this.say("started", mark=bench.mark)

    def stop() -> str | None:
        if bench.handing_in.over.is_set():
            return "handed in"
        return "cancelled" if cancelled() else None

    def tick(sample: Sample) -> None:
        this.beat()
        bench.tick(sample)
        arrivals.tick()

    return supervise(
        machine.rung.command(view, start.argv, mark=bench.mark),
        deadline=bench.deadline,
        grace_seconds=min(GRACE_SECONDS, bench.deadline.seconds / 20),
        out=logs / adapter.native,
        err=logs / "stderr.log",
        stop=stop,
        tick=tick,
        watch=Watch(
            folders=(bench.workspace, bench.runs), folder_bytes=contract.needs.disk_bytes, free_bytes=SPARED_BYTES
        ),
    )


def _close(attempt: Attempt, this: Try, bench: Bench, ended: Ended) -> None:
    """The outcome, after everything was collected."""
    ending = bench.handing_in.ending
    outcome, because = _outcome(ending, ended, this.folder / "trajectory")
    if ending is None:
        _keep_for_recovery(this, bench)
    remains.close(bench.runs, this.folder / "runs.jsonl")
    facts = Exploration(
        isolation=bench.machine.rung.name,
        exit_code=ended.exit_code,
        signal=ended.signal,
        seconds=round(bench.deadline.watch.active_seconds, 3),
        given_seconds=bench.deadline.seconds,
        suspended_seconds=round(this.watch.suspended_seconds, 3),
        idle_seconds=bench.ledger.idle_seconds,
        shortest_pipeline_seconds=bench.proxies.shortest_pipeline_seconds,
        proxies=len(bench.proxies.done),
        left_processes=tuple(process.command for process in ended.left_processes),
        recovery="recovery.patch" if (this.folder / "recovery.patch").exists() else None,
    )
    record_trajectory(
        adapter_of(attempt.identity.harness),
        folder=this.folder,
        identity=attempt.identity,
        version=bench.harness_version,
        instruction=instruction(attempt.task),
    )
    this.end(outcome, facts, because=because)


def _outcome(ending: Ending | None, ended: Ended, logs: Path) -> tuple[Explored, str | None]:
    """How the exploration ended, and why in a sentence: what the explorer said comes before how its program ended."""
    if ending is not None:
        return ending.outcome, ending.because
    if ended.stopped_because == "cancelled":
        return Explored.CANCELLED, "by the operator"
    if ended.reason != "ended":
        outcome, because = _CUT_SHORT[ended.reason]
        return outcome, f"{because}: {ended.stopped_because}" if ended.stopped_because else because
    if ended.exit_code == 0:
        return Explored.ENDED_EARLY, "the explorer's program ended without handing in"
    how = f"signal {ended.signal}" if ended.signal else f"exit code {ended.exit_code}"
    said = last_words(logs)
    last = f"; the last that it printed, whatever ended it: {said}" if said else ""
    return Explored.AGENT_ERROR, f"the explorer's program ended by {how}{last}"


def _keep_for_recovery(this: Try, bench: Bench) -> None:
    """What a patch of the workspace would have been; not eligible, and said so where it lies."""
    candidate, refusals = bench.handing_in.candidate(note=None)
    if candidate is None:
        write_json(this.folder / "recovery-refused.json", [one.resolved() for one in refusals])
    elif candidate.patch:
        (this.folder / "recovery.patch").write_bytes(candidate.patch)
