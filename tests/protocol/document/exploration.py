"""The exploration's folder: what the orchestrator, the desk, the ledger and the harness wrote in its three hours."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from tests.protocol.document.clerk import BOOT, Clerk, instant
from tests.protocol.document.counts import counts, difficulties
from tests.protocol.document.course import EXPORT_SECONDS, Course, Proxied, Training
from tests.protocol.document.evaluations import protocol_of, proxy_questions, write_evaluation
from tests.protocol.document.facts import Facts
from tests.protocol.document.ledger import TRAINING_PID, device_lines, idle_seconds
from tests.protocol.document.narrative import Turn, process_of, settings_of
from tests.protocol.document.runs import write_run
from tests.protocol.document.sources import RECIPE

from opd.protocol.attempts.attempt import OUTCOME, Attempt, Place
from opd.protocol.clock import utc
from opd.protocol.explorer import remains
from opd.protocol.explorer.adapters import adapter_of
from opd.protocol.explorer.claims import claims
from opd.protocol.explorer.proxy import Proxy
from opd.protocol.explorer.snapshot import Snapshot, snapshot
from opd.protocol.explorer.trajectory import record_trajectory
from opd.protocol.packages.instruction import instruction
from opd.protocol.patches.source import Tree, write
from opd.protocol.sandbox.probes import Isolation, Probed
from opd.protocol.sandbox.view import Guarantee
from opd.records.attempts import Exploration, Submission
from opd.records.files import digest, sha256, tree, write_json
from opd.records.receipts import begin
from opd.records.scores import Score

_HARNESS_PID = 3_100
_TRAJECTORIES: dict[str, bytes] = {}


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What an exploration is made of."""

    facts: Facts
    attempt: Attempt
    course: Course
    turns: tuple[Turn, ...]
    base: Tree
    shuffled: Tree
    away: Path  # for what is no part of the attempt


def isolation() -> Isolation:
    """A sandbox that was seen to prevent everything."""
    return Isolation(
        rung="bubblewrap", version="0.11.0", refused={}, kernel="Linux 6.8.0", machine="x86_64", user="root",
        probes=tuple(
            Probed(name=name, outcome="prevented", declared=True, inside="refused", outside="it was done")
            for name in Guarantee
        ),
    )  # fmt: skip


def write_files(ground: Ground, folder: Path, submission: Submission) -> None:
    """All but the proxies, which are sealed on their way, and the outcome."""
    write_json(folder / "isolation.json", isolation().resolved())
    write(ground.shuffled, folder / "workspace")
    (folder / "device.jsonl").write_text(device_lines(ground.course, ground.facts.began), encoding="utf-8")
    _write_lines(folder / "commands.jsonl", _commands(ground))
    _write_lines(folder / "desk.jsonl", _desk(ground, submission))
    _write_lines(folder / "processes.jsonl", _processes(ground))
    logs = folder / "trajectory"
    logs.mkdir()
    _write_native(ground, logs)
    (logs / "stderr.log").write_text("", encoding="utf-8")
    remains.close(folder / "runs", folder / "runs.jsonl")
    _write_trajectory(ground, folder)


def write_runs(ground: Ground, folder: Path) -> None:
    """What the trainings left, weights included: those end with the exploration."""
    recipe = {True: ground.shuffled, False: ground.base}
    for one in ground.course.trainings:
        name = folder / one.name
        write_run(
            name, recipe[one.shuffled][RECIPE].content.decode(), settings=settings_of(one), steps=one.steps,
            step_seconds=one.step_seconds, checkpoints=one.checkpoints, stop=one.stop,
            seconds=round(one.ended - one.began - EXPORT_SECONDS, 3),
        )  # fmt: skip
        (folder / f"{one.name}.log").write_text(_log_of(one), encoding="utf-8")


def seal_proxies(ground: Ground, clerk: Clerk, place: Place) -> list[Proxy]:
    """Each measurement, sealed at its time."""
    facts, contract = ground.facts, ground.attempt.task.contract
    chances = difficulties(contract.proxy.questions, mean=0.82, seed=500)
    identity = ground.attempt.identity
    outcomes = []
    for one in ground.course.proxies:
        step = one.training.checkpoints[-1]
        inside = PurePosixPath(one.training.name, f"checkpoint-{step}")
        model = digest(tree(place.partial / "runs" / inside))
        folder = place.partial / "proxy" / f"{one.number:03d}"
        partial = begin(folder)
        score = write_evaluation(
            partial / "evaluation", protocol_of(contract.proxy), proxy_questions(),
            counts(
                chances, samples=len(contract.proxy.seeds), correct=one.measured.correct,
                printed=one.measured.stderr, seed=500 + one.number,
            ),
            cut_short=one.measured.cut_short, model_digest=model, seconds=round(facts.proxy_seconds - 14.0, 3),
        )  # fmt: skip
        outcome = _proxy(ground, one, score, place=place, partial=partial, inside=inside)
        write_json(partial / OUTCOME, outcome.resolved())
        clerk.seal(
            folder, None, "proxy", "scored", began=facts.began + one.began, ended=facts.began + one.ended,
            active=facts.proxy_seconds,
            made_from={"task": identity.task_sha256, "install": identity.install_sha256, "checkpoint": model},
        )  # fmt: skip
        outcomes.append(outcome)
    return outcomes


def exploration(ground: Ground, proxies: Sequence[Proxy]) -> Exploration:
    """Its outcome."""
    left = tuple(process_of(one) for one in ground.course.others if one.stop == "killed")
    return Exploration(
        isolation="bubblewrap", exit_code=None, signal="SIGTERM", seconds=round(ground.course.submitted + 0.4, 3),
        given_seconds=ground.course.given_seconds, suspended_seconds=0.0, idle_seconds=idle_seconds(ground.course),
        shortest_pipeline_seconds=ground.facts.pipeline_seconds, proxies=len(proxies), left_processes=left,
        recovery=None,
    )  # fmt: skip


def _proxy(
    ground: Ground, one: Proxied, score: Score, *, place: Place, partial: Path, inside: PurePosixPath
) -> Proxy:
    """Its outcome, with the files that it names: the source's patch, what the run folder says."""
    runs = place.partial / "runs"
    stood = _snapshot(ground, one.training)
    made_by = claims(runs, inside, named=PurePosixPath("/runs") / inside)
    assert made_by is not None, "there is a recipe"
    if stood.workspace.patch:
        (partial / stood.workspace.patch).write_bytes(stood.patch)
    for name, content in made_by.files.items():
        (partial / "training").mkdir(exist_ok=True)
        (partial / "training" / name).write_bytes(content)
    return Proxy(
        number=one.number, checkpoint=str(PurePosixPath("/runs") / inside), note=one.measured.note,
        sha256=score.model_digest, benchmark=score.benchmark, protocol_sha256=score.protocol_digest,
        correct=score.correct, samples=score.samples, mean=score.mean, stderr=score.stderr,
        cut_short=score.cut_short, seconds=ground.facts.proxy_seconds, began_at_seconds=round(one.began, 3),
        ended_at_seconds=round(one.ended, 3), missing=None, workspace=stood.workspace, training=made_by.training,
    )  # fmt: skip


def _snapshot(ground: Ground, training: Training) -> Snapshot:
    contract = ground.attempt.task.contract
    folder = ground.away / f"source of {'shuffle' if training.shuffled else 'base'}"
    if not folder.exists():
        write(ground.shuffled if training.shuffled else ground.base, folder)
    outputs = (PurePosixPath(contract.artifacts.pattern).parent,)
    return snapshot(folder, ground.base, surface=contract.surface, outputs=outputs)


def _write_trajectory(ground: Ground, folder: Path) -> None:
    """By the product's own reader, once for all attempts in which the same was recorded."""
    identity, text = ground.attempt.identity, instruction(ground.attempt.task)
    atif = folder / "trajectory" / "atif.json"
    key = digest(
        {**tree(folder / "trajectory"), **{path.name: sha256(path) for path in folder.glob("*.jsonl")}, "": text}
    )
    if key not in _TRAJECTORIES:
        adapter, version = adapter_of(identity.harness), ground.facts.harness_version
        record_trajectory(adapter, folder, identity=identity, version=version, instruction=text)
        _TRAJECTORIES[key] = atif.read_bytes()
    atif.write_bytes(_TRAJECTORIES[key])


def _log_of(training: Training) -> str:
    lines = [f"{training.name}: {training.asked} steps asked for, save every {training.every}"]
    lines += [f"saved checkpoint-{step}" for step in training.checkpoints]
    return "\n".join([*lines, f"stopped by {training.stop} at step {training.steps}"]) + "\n"


def _write_lines(path: Path, lines: Iterator[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


def _commands(ground: Ground) -> Iterator[Mapping[str, Any]]:
    for number, turn in enumerate(one for one in ground.turns if one.command):
        at = instant(ground.facts.began + turn.at, began=ground.facts.began)
        yield {
            "at": at.utc, "monotonic": at.monotonic, "shell": 3_200 + number, "process": 3_200 + number,
            "last_exit": 0, "command": turn.command,
        }  # fmt: skip


def _desk(ground: Ground, submission: Submission) -> Iterator[Mapping[str, Any]]:
    names = ", ".join(submission.changed_paths)
    patch = f"patch of {submission.patch_bytes} bytes, sha256 {submission.patch_sha256[:12]}…: {names}"
    for number, turn in enumerate(one for one in ground.turns if one.asked):
        assert turn.asked is not None, "as was chosen"
        yield {
            "began": utc(ground.facts.began + turn.at), "ended": utc(ground.facts.began + turn.at + turn.seconds),
            "seconds": round(turn.seconds, 3), "command": turn.asked.command, "arguments": dict(turn.asked.arguments),
            "folder": "/workspace", "pid": 6_000 + number, "exit": 0,
            "said": [patch if line == "{patch}" else line for line in turn.asked.said],
        }  # fmt: skip


def _processes(ground: Ground) -> Iterator[Mapping[str, Any]]:
    identity, facts = ground.attempt.identity, ground.facts
    yield _process(facts, 1.0, _HARNESS_PID, " ".join(identity.command))
    for one in ground.course.trainings:
        yield _process(facts, one.began + 1, TRAINING_PID, process_of(one))


def _process(facts: Facts, at: float, pid: int, command: str) -> Mapping[str, Any]:
    ticks = int((at + 86_400) * 100)
    return {"at": utc(facts.began + at), "pid": pid, "start_ticks": ticks, "boot_id": BOOT, "command": command[:300]}


def _write_native(ground: Ground, logs: Path) -> None:
    """Claude Code's own record, and when its lines arrived."""
    session = f"{digest('session')[:8]}-0000-4000-8000-{digest('session')[8:20]}"
    began, model = ground.facts.began, ground.facts.model
    record, looks = b"", []
    first = {
        "type": "system", "subtype": "init", "cwd": "/workspace", "session_id": session, "model": model,
        "tools": ["Bash", "Edit", "Glob", "Grep", "Read", "TodoWrite", "Write"], "mcp_servers": [],
        "permissionMode": "bypassPermissions", "apiKeySource": "ANTHROPIC_API_KEY",
        "claude_code_version": ground.facts.harness_version.partition(" ")[0],
    }  # fmt: skip
    for at, event in [(2.0, first), *sorted(_events(ground.turns, session, model), key=lambda one: one[0])]:
        record += json.dumps(event, ensure_ascii=False).encode() + b"\n"
        looks.append({"bytes": len(record), "utc": utc(began + at)})
    (logs / "native.jsonl").write_bytes(record)
    _write_lines(logs / "times.jsonl", iter(looks))


def _events(turns: Sequence[Turn], session: str, model: str) -> Iterator[tuple[float, Mapping[str, Any]]]:
    for number, turn in enumerate(turns):
        usage = {
            "input_tokens": 4, "cache_creation_input_tokens": 900 + number,
            "cache_read_input_tokens": 21_000 + 700 * number, "output_tokens": 120 + len(turn.said) // 4,
        }  # fmt: skip
        blocks: list[dict[str, Any]] = [{"type": "text", "text": turn.said}]
        call = f"toolu_{digest([number, turn.said])[:24]}"
        if turn.command:
            blocks.append({"type": "tool_use", "id": call, "name": "Bash", "input": {"command": turn.command}})
        for block in blocks:
            message = {
                "id": f"msg_{digest([turn.said, number])[:24]}", "type": "message", "role": "assistant",
                "model": model, "content": [block], "stop_reason": None, "usage": usage,
            }  # fmt: skip
            yield (
                turn.at,
                {"type": "assistant", "message": message, "parent_tool_use_id": None, "session_id": session},
            )
        if (turn.command and turn.asked is None) or (turn.asked and turn.asked.command != "submit"):
            result = {"tool_use_id": call, "type": "tool_result", "content": turn.result, "is_error": False}
            yield (
                turn.at + turn.seconds,
                {
                    "type": "user", "message": {"role": "user", "content": [result]}, "parent_tool_use_id": None,
                    "session_id": session,
                    "tool_use_result": {"stdout": turn.result, "stderr": "", "interrupted": False},
                },
            )  # fmt: skip
