"""`submit` and `no-candidate`, beside a real workspace and a real base; only the measurements are stood in for."""

from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from opd.protocol.explorer.desk import Question
from opd.protocol.explorer.handing_in import Candidate, HandingIn
from opd.protocol.explorer.outlook import Outlook
from opd.protocol.explorer.proxy import Pipeline
from opd.protocol.patches.source import SourceFile, write
from opd.records.attempts import Explored
from opd.records.errors import AskedWrongly
from opd.records.tasks import Surface

BASE = {PurePosixPath("run.sh"): SourceFile(content=b"exit 0\n", executable=True)}


def looking(pipeline: float | None, left: float) -> Outlook:
    """What is left after one training that took so long with its measurement, or after none."""
    one = None if pipeline is None else Pipeline(
        proxy=1, checkpoint="/runs/a/checkpoint-40", step=40, seconds=pipeline, measurement_seconds=672.52,
        claimed_training_seconds=None,
    )  # fmt: skip
    return Outlook(
        left_seconds=left, given_seconds=14_400.0, like=one, shortest=one, trainings=0, shorter_trainings=0,
        measurements=0, pair=(1, 2), detectable=0.0404, unpaired_detectable=0.0561,
    )  # fmt: skip


class Bench:
    """A workspace in which one line was changed."""

    def __init__(self, folder: Path, *, pipeline: float | None, left: float) -> None:
        self.accepted: list[Candidate] = []
        self.said: list[str] = []
        write(BASE, folder)
        (folder / "run.sh").write_text("exit 1\n")
        self.handing_in = HandingIn(
            workspace=folder,
            base=BASE,
            surface=Surface(editable=("**",)),
            outputs=(PurePosixPath("checkpoints"),),
            explored_in="explore/attempt-001",
            outlook=lambda: looking(pipeline, left),
            left_seconds=lambda: left,
            processes=lambda: ("sleep 9",),
            accept=self.accepted.append,
        )

    def ask(self, command: str, **arguments: Any) -> int:
        question = Question(command=command, arguments=arguments, folder="/workspace", pid=1)
        answer = self.handing_in.submit if command == "submit" else self.handing_in.no_candidate
        return answer(question, self.said.append)


def test_who_has_time_for_another_measurement_has_to_say_that_it_is_known(tmp_path: Path) -> None:
    """faults H45, with the figures of the reference case: 3,289 s left, 1,759 s for training and measurement."""
    bench = Bench(tmp_path / "workspace", pipeline=1759.0, left=3289.0)
    assert bench.ask("submit") == 1
    *_, room, way_out = bench.said
    assert "3289 s are left" in room
    assert "took 1759 s: 1 more would fit, for a matched control or a second seed" in room
    assert "a true difference of 0.040 between two such runs is found four times in five" in room
    assert "--with-time-left" in way_out
    assert not bench.accepted
    assert not bench.handing_in.over.is_set()
    bench.said.clear()
    assert bench.ask("submit", with_time_left=True, note="known") == 0
    assert room in bench.said, "who submits all the same is told, for the record, what that leaves unused"
    (candidate,) = bench.accepted
    assert (candidate.submission.remaining_seconds, candidate.submission.note) == (3289.0, "known")
    assert candidate.submission.processes == ("sleep 9",)
    assert bench.handing_in.over.is_set()


@pytest.mark.parametrize(("pipeline", "left"), [(1759.0, 1758.0), (None, 14_000.0)])
def test_who_has_none_or_has_measured_nothing_is_not_asked(
    tmp_path: Path, pipeline: float | None, left: float
) -> None:
    bench = Bench(tmp_path / "workspace", pipeline=pipeline, left=left)
    assert bench.ask("submit") == 0
    assert len(bench.accepted) == 1
    assert not any("are left" in line for line in bench.said)


def test_there_is_one_ending_and_none_after_the_end(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "workspace", pipeline=None, left=10.0)
    assert bench.ask("no-candidate", because="nothing  beat\nthe start") == 0
    assert bench.handing_in.ending is not None
    assert (bench.handing_in.ending.outcome, bench.handing_in.ending.because) == (
        Explored.NO_CANDIDATE, "nothing beat the start",
    )  # fmt: skip
    with pytest.raises(AskedWrongly, match="the exploration is over: no_candidate"):
        bench.ask("submit")
    late = Bench(tmp_path / "late", pipeline=None, left=10.0)
    late.handing_in.close()
    with pytest.raises(AskedWrongly, match="its time was up"):
        late.ask("submit")
    assert not late.accepted


def test_a_reason_is_asked_for(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "workspace", pipeline=None, left=10.0)
    for because in ("", "  \n", None, 7):
        with pytest.raises(AskedWrongly, match="say why there is nothing to submit"):
            bench.ask("no-candidate", because=because)
