"""What a package's `tests/test.sh` runs: the formal part of the protocol, on what an agent left in its workspace.

    python -I -m opd.protocol.packages.verdict --task /tests --workspace /workspace --inputs /inputs --out /logs

The workspace is a patch or nothing: it is derived and checked, and trained anew in a fresh checkout from the fixed
student; the checkpoints of that run are validated and scored. `reward.json` is written last, whole, when nothing of
the candidate runs any more; without a valid score there is none, for a missing result is no zero.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from opd.protocol.attempts.creating import Explorer, base_of, create
from opd.protocol.attempts.lease import held
from opd.protocol.attempts.running import run
from opd.protocol.packages.catalogue import read_task
from opd.protocol.patches.patch import derive
from opd.protocol.patches.refusals import Refused
from opd.protocol.phases import INPUTS, input_places
from opd.protocol.sandbox.ladder import climb
from opd.protocol.stages.submission import submit_outside
from opd.records.attempts import Official, Stage, Status
from opd.records.errors import AnswerIsNo, OpdError
from opd.records.files import write_json

REWARDS = ("reward.json", "reward.txt")
_JUDGED = (Stage.FORMAL, Stage.VALIDATION, Stage.FINAL)


def verdict(task: Path, workspace: Path, inputs: Path, out: Path, *, work: Path, sandbox: str = "auto") -> Official:
    """The official score, which `out/reward.json` holds then; `work` is a folder for the attempt.

    Raises `Refused` for a workspace that is no patch, and `AnswerIsNo` where the attempt comes to no score; no reward
    is there then, whoever wrote one before.
    """
    out.mkdir(parents=True, exist_ok=True)
    _remove(out)
    attempt = create(task, work, Explorer(harness="harbor", command=("harbor",)), given=_given(task, inputs))
    derived = derive(workspace, base_of(attempt))
    if derived.refusals:
        raise Refused(derived.refusals)
    patch = work / "candidate.patch"
    patch.write_bytes(derived.patch)
    with held(attempt.folder) as holder:
        submit_outside(attempt, holder, patch, note="the workspace at the end of a Harbor trial")
        status = run(attempt, holder, climb(sandbox), stages=_JUDGED, say=_say, cancelled=lambda: False)
    _remove(out)
    write_json(out / "status.json", status.resolved())
    official = _official(status)
    write_json(out / "reward.json", rewards(official))
    return official


def rewards(official: Official) -> dict[str, float | int]:
    """Flat and finite, as Harbor reads it; `reward` is the official score."""
    return {
        "reward": official.mean,
        "correct": official.correct,
        "samples": official.samples,
        "step": official.step,
        "best_of": official.of,
    }


def main(words: Sequence[str]) -> int:
    """The exit code: 0 with a reward, 1 without one, 2 for a question that can't be answered."""
    parser = argparse.ArgumentParser(prog="opd.protocol.packages.verdict", description=__doc__.partition("\n")[0])
    for name in ("task", "workspace", "inputs", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    asked = parser.parse_args(words)
    try:
        with tempfile.TemporaryDirectory(prefix="opd-verdict-") as work:
            official = verdict(asked.task, asked.workspace, asked.inputs, asked.out, work=Path(work))
    except OpdError as error:
        _say(f"no reward: {error}")
        return error.exit_code
    _say(f"reward {official.mean:.6f}: step {official.step}, {official.correct}/{official.samples}")
    return 0


def _given(task: Path, inputs: Path) -> dict[str, Path]:
    """Where the fixed inputs lie that were mounted; the rest is looked for as everywhere."""
    places = {
        role: inputs / place.relative_to(INPUTS) for role, place in input_places(read_task(task).contract).items()
    }
    return {role: place for role, place in places.items() if place.exists()}


def _official(status: Status) -> Official:
    if status.official is None:
        raise AnswerIsNo(status.missing or status.waits_for or "the attempt came to no score")
    return status.official


def _remove(out: Path) -> None:
    for name in REWARDS:
        (out / name).unlink(missing_ok=True)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
