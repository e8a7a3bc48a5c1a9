"""`fast-eval` with all that is its own but the evaluation: what is sealed of a measurement, and what it survives."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from opd.protocol.clock import Stopwatch, now
from opd.protocol.explorer import aside
from opd.protocol.explorer.desk import Question
from opd.protocol.explorer.lock import DeviceLock
from opd.protocol.explorer.proxy import Proxies, Proxy, pipelines
from opd.protocol.explorer.snapshot import Snapshot, snapshot
from opd.protocol.packages import catalogue
from opd.protocol.patches.source import SourceFile, digest_of, write
from opd.records.errors import AnswerIsNo
from opd.records.receipts import NO_HEAD, faults, is_sealed
from opd.records.settings import read
from opd.records.tasks import Surface

TINY = catalogue.find("arith_tiny")[0].contract.proxy.model_copy(update={"questions": 8})
BASE = {PurePosixPath("run.sh"): SourceFile(content=b"exit 0\n", executable=True)}


class Bench:
    """A workspace with a changed line, a run of two checkpoints, and a desk to ask at."""

    def __init__(self, folder: Path, evaluated: Callable[..., Any], look: Callable[[], Snapshot] | None) -> None:
        self.evaluated = evaluated
        self.folder, self.workspace, self.runs = folder / "proxy", folder / "workspace", folder / "runs"
        write(BASE, self.workspace)
        (self.workspace / "run.sh").write_text("exit 1\n")
        for step in (20, 40):
            checkpoint = self.runs / "shuffle" / f"checkpoint-{step}"
            checkpoint.mkdir(parents=True)
            (checkpoint / "model.safetensors").write_text(f"weights {step}")
        (self.runs / "shuffle" / "recipe.json").write_text('{"seed": 42}')
        self.hits = [3, 4, 2, 3, 4, 1, 0, 4]
        self.told: list[Sequence[Proxy]] = []
        self.said: list[str] = []
        (folder / "state").mkdir()
        self.proxies = Proxies(
            self.folder,
            measure=TINY,
            evaluate=self.evaluate,
            lock=DeviceLock(folder / "state"),
            on_host=lambda inside: (self.runs, inside.relative_to("/runs")),
            largest_bytes=1 << 20,
            watch=Stopwatch(),
            events=lambda: NO_HEAD,
            made_from={},
            look=look or self.look,
            measured=self.told.append,
        )

    def look(self) -> Snapshot:
        return snapshot(self.workspace, BASE, surface=Surface(editable=("**",)), outputs=())

    def evaluate(self, model: Path, out: Path) -> None:
        if not self.hits:
            raise AnswerIsNo("the evaluation ended by deadline")
        self.evaluated(out, self.hits)

    def measure(self, checkpoint: str) -> int:
        asked = {"checkpoint": checkpoint, "note": None}
        question = Question(command="fast-eval", arguments=asked, folder="/workspace", pid=1)
        return self.proxies.fast_eval(question, self.said.append)


@pytest.fixture
def new_bench(tmp_path: Path, evaluated: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Bench]:
    monkeypatch.setattr(aside, "WAIT_SECONDS", 60.0)  # no test here is about how long that may take
    return lambda look=None: Bench(tmp_path, evaluated, look)


@pytest.fixture
def bench(new_bench: Callable[..., Bench]) -> Bench:
    return new_bench()


def test_a_measurement_is_sealed_with_the_source_and_the_training_that_it_is_of(bench: Bench) -> None:
    assert bench.measure("/runs/shuffle/checkpoint-40") == 0, bench.said
    place = bench.folder / "001"
    assert is_sealed(place)
    assert faults(place) == ()
    held = read(Proxy, place / "outcome.json")
    changed = {PurePosixPath("run.sh"): SourceFile(content=b"exit 1\n", executable=True)}
    assert held.workspace is not None
    assert held.workspace.tree_sha256 == digest_of(changed)
    assert b"+exit 1" in (place / "workspace.patch").read_bytes()
    assert held.training is not None
    assert (held.training.folder, held.training.step, held.training.seed) == ("/runs/shuffle", 40, 42)
    assert (place / "training" / "recipe.json").read_text() == '{"seed": 42}'
    assert (held.correct, held.samples) == (21, 32)
    assert bench.told == [(held,)]


def test_the_source_is_that_of_the_beginning_not_of_the_end(bench: Bench) -> None:
    taken = bench.look()

    def changes_meanwhile(model: Path, out: Path) -> None:
        (bench.workspace / "run.sh").write_text("exit 2\n")
        bench.evaluated(out, bench.hits)

    bench.proxies._evaluate = changes_meanwhile
    bench.proxies._look = lambda: taken  # the thread's own moment, whenever it runs
    bench.measure("/runs/shuffle/checkpoint-40")
    patch = (bench.folder / "001" / "workspace.patch").read_bytes()
    assert b"exit 1" in patch
    assert b"exit 2" not in patch


def test_a_snapshot_that_fails_is_recorded_and_the_measurement_counts(new_bench: Callable[..., Bench]) -> None:
    def fails() -> Snapshot:
        raise OSError(5, "Input/output error")

    bench = new_bench(look=fails)
    assert bench.measure("/runs/shuffle/checkpoint-40") == 0
    held = read(Proxy, bench.folder / "001" / "outcome.json")
    assert held.mean is not None
    assert held.workspace is not None
    assert "Input/output error" in (held.workspace.missing or "")
    assert not (bench.folder / "001" / "workspace.patch").exists()


def test_a_measurement_without_a_score_keeps_its_source_too_and_advises_nobody(bench: Bench) -> None:
    bench.hits = []
    assert bench.measure("/runs/shuffle/checkpoint-40") == 1
    held = read(Proxy, bench.folder / "001" / "outcome.json")
    assert (held.mean, held.missing) == (None, "the evaluation ended by deadline")
    assert held.workspace is not None
    assert held.workspace.changed_paths == ("run.sh",)
    assert bench.told == []
    assert pipelines(bench.proxies.done) == ()


def test_a_record_of_before_there_were_snapshots_is_still_read(bench: Bench, tmp_path: Path) -> None:
    bench.measure("/runs/shuffle/checkpoint-40")
    values = json.loads((bench.folder / "001" / "outcome.json").read_text())
    del values["workspace"], values["training"]
    (tmp_path / "old.json").write_text(json.dumps(values))
    old = read(Proxy, tmp_path / "old.json")
    assert (old.workspace, old.training) == (None, None)


@pytest.mark.parametrize("other_recipe", [False, True])
def test_a_further_checkpoint_of_one_training_is_no_training_of_its_own(bench: Bench, other_recipe: bool) -> None:
    """Two checkpoints of one run, measured in a row: the second took a measurement's time, and no training."""
    bench.proxies._watch = Stopwatch(read=lambda: now().model_copy(update={"monotonic": now().monotonic + 100.0}))
    bench.proxies._watch.began = now()  # a hundred seconds went by before the first
    bench.measure("/runs/shuffle/checkpoint-20")
    if other_recipe:  # the same folder, used again for another training
        (bench.runs / "shuffle" / "recipe.json").write_text('{"seed": 43}')
    bench.measure("/runs/shuffle/checkpoint-40")
    assert [one.proxy for one in pipelines(bench.proxies.done)] == [1, 2]
    shortest = bench.proxies.shortest_pipeline_seconds
    assert shortest is not None
    assert (shortest < 100.0) is other_recipe
