"""What a run of several ranks does when one of them is killed, stopped, slow or broken, or its folder is."""

import os
import resource
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from tests.train.ranks.processes import Rank, started, together
from tests.train.ranks.runs import go, lines, on_ranks, tables, weights

from opd.models.interfaces import Sampler
from opd.records.errors import AnswerIsNo, AskedWrongly, OpdError
from opd.records.files import is_complete, read_json, read_lines
from opd.records.metrics import RunSummary, StopCause
from opd.records.rollouts import Prompt, Rollout
from opd.train.clock import Budget
from opd.train.parts import Parts
from opd.train.ranks.gradients import fingerprint
from opd.train.ranks.joining import joined
from opd.train.recipe import Recipe
from opd.train.run import prepare, run

pytestmark = pytest.mark.patient

SOON_SECONDS = 20.0  # in which the others end
LOST_AFTER_SECONDS = 8.0  # a heart may miss some beats on a busy machine
WIDE = ("student.dtype=float64", "teacher.dtype=float64", "rollouts.prompts_per_step=5")


@dataclass
class Slow:
    """A sampler that takes its time."""

    sampler: Sampler
    seconds: float

    def follow(self, version: int) -> None:
        self.sampler.follow(version)

    def sample(self, prompts: Sequence[Prompt], *, seeds: Sequence[int]) -> list[Rollout]:
        time.sleep(self.seconds)
        return self.sampler.sample(prompts, seeds=seeds)


@dataclass
class Breaking:
    """A sampler that breaks in its second step."""

    sampler: Sampler
    steps: int = 0

    def follow(self, version: int) -> None:
        self.sampler.follow(version)

    def sample(self, prompts: Sequence[Prompt], *, seeds: Sequence[int]) -> list[Rollout]:
        self.steps += 1
        if self.steps == 2:
            raise FloatingPointError("the probabilities of 1 of 2 sequences are not finite")
        return self.sampler.sample(prompts, seeds=seeds)


def as_it_ends(recipe: Recipe, out: Path, changed: str, odd: int) -> tuple[str, str]:
    """Kind and message of what ended this rank; the parts of rank `odd` are `changed`."""
    try:
        with joined(device="cpu", lost_after_seconds=LOST_AFTER_SECONDS) as ranks:
            parts = prepare(recipe, out, ranks=ranks)
            if ranks.rank == odd:
                parts = CHANGES[changed](parts)
            run(recipe, parts, out)
    except (OpdError, FloatingPointError, OSError) as error:
        return type(error).__name__, str(error)
    return "", ""


def small_files(parts: Parts) -> Parts:
    """Tables and lines fit on its disk, and weights do not."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
    return parts


def no_rights(parts: Parts) -> Parts:
    """Its folder can no longer be written: as a disk that a fault has made read-only."""
    if os.geteuid() == 0:  # for whom no folder is read-only
        os.seteuid(65_534)
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    return parts


@dataclass
class Removing:
    """A sampler in whose second step the run's folder is taken away."""

    sampler: Sampler
    out: Path
    steps: int = 0

    def follow(self, version: int) -> None:
        self.sampler.follow(version)

    def sample(self, prompts: Sequence[Prompt], *, seeds: Sequence[int]) -> list[Rollout]:
        self.steps += 1
        if self.steps == 2:
            shutil.rmtree(self.out)
        return self.sampler.sample(prompts, seeds=seeds)


CHANGES = {
    "nothing": lambda parts: parts,
    "slow": lambda parts: replace(parts, sampler=Slow(sampler=parts.sampler, seconds=0.4)),
    "breaking": lambda parts: replace(parts, sampler=Breaking(sampler=parts.sampler)),
    "small_files": small_files,
    "no_rights": no_rights,
}


def wait_for_lines(out: Path, count: int, ranks: Sequence[Rank]) -> None:
    deadline = time.monotonic() + 60
    path = out / "metrics.jsonl"
    while not path.exists() or path.read_text().count("\n") < count:
        ended = [rank.result() for rank in ranks if not rank.process.is_alive()]
        assert not ended, "a rank ended by itself"
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("number", "lost", "shard"),
    [
        (signal.SIGKILL, 1, "none"),
        (signal.SIGKILL, 0, "optimizer"),
        (signal.SIGSTOP, 2, "none"),
        (signal.SIGKILL, 1, "full"),
    ],
)
def test_a_lost_rank_ends_the_run_with_its_last_checkpoint_whole(
    make_recipe, tmp_path: Path, number: signal.Signals, lost: int, shard: str
) -> None:
    out = tmp_path / "run"
    recipe = make_recipe(*WIDE, "budget.steps=100000", "save.every=2", f"machine.shard={shard}")
    ranks = started(3, as_it_ends, recipe, out, "nothing", -1)
    wait_for_lines(out, 5, ranks)
    assert ranks[lost].process.pid is not None
    os.kill(ranks[lost].process.pid, number)
    began = time.monotonic()
    try:
        for kind, message in (rank.result() for index, rank in enumerate(ranks) if index != lost):
            assert kind == "RankLost"
            assert_said(message, lost=lost, number=number)
        assert time.monotonic() - began < SOON_SECONDS
    finally:
        ranks[lost].process.kill()
    checkpoints = list(out.glob("checkpoint-*"))
    assert checkpoints
    assert all(map(is_complete, checkpoints))
    assert not (out / "run.json").exists()
    if lost != 0:
        assert read_json(out / "failure.json")["exceptions"][0]["kind"].endswith("RankLost")
    steps = int(read_json(next(out.glob("state/step-*")) / "state.json")["step"]) + 1
    check_goes_on(recipe.changed([f"budget.steps={steps}"]), recipe, out, tmp_path / "whole")


def assert_said(message: str, *, lost: int, number: signal.Signals) -> None:
    said = {signal.SIGKILL: f"rank {lost} is gone: its process", signal.SIGSTOP: f"rank {lost} is lost: nothing was"}
    held_the_store = lost == 0 and "the store that keeps the ranks together is gone" in message
    assert said[number] in message or held_the_store
    assert "what it has published is whole" in message


def check_goes_on(shorter: Recipe, asked: Recipe, out: Path, whole: Path) -> None:
    """The rest of the run, by two ranks, is that of the run that nothing ended, by one process."""
    # the folder's own recipe asks for more steps than the test has time for
    text = (out / "recipe.json").read_text()
    (out / "recipe.json").write_text(
        text.replace(f'"steps": {asked.budget.steps}', f'"steps": {shorter.budget.steps}')
    )
    on_ranks(shorter, out, count=2)
    go(shorter, whole)
    assert [line["step"] for line in lines(out)] == list(range(1, shorter.budget.steps + 1))
    assert lines(out)[-1]["kl"] == pytest.approx(lines(whole)[-1]["kl"], rel=1e-8)
    found, expected = tables(out), tables(whole)
    assert found.keys() == expected.keys()
    for name in found:
        assert [one.rollout.token_ids for one in found[name]] == [one.rollout.token_ids for one in expected[name]]


def test_what_breaks_one_rank_ends_the_others_in_its_words(make_recipe, tmp_path: Path) -> None:
    out = tmp_path / "run"
    recipe = make_recipe(*WIDE, "budget.steps=50", "save.every=1")
    found = together(3, as_it_ends, recipe, out, "breaking", 2)
    assert found[2] == ("FloatingPointError", "the probabilities of 1 of 2 sequences are not finite")
    for kind, message in found[:2]:
        assert kind == "RankLost"
        assert "rank 2 has ended: FloatingPointError: the probabilities of 1 of 2 sequences are not" in message
    assert is_complete(out / "checkpoint-1")
    assert read_json(out / "failure.json")["checkpoint"] == "checkpoint-1"


def test_a_disk_that_is_full_at_the_writer_ends_all_ranks_alike(make_recipe, tmp_path: Path) -> None:
    out = tmp_path / "run"
    recipe = make_recipe(*WIDE, "budget.steps=5", "save.every=2", "save.state_every=0")
    found = together(2, as_it_ends, recipe, out, "small_files", 0)
    (own, said), (others, heard) = found
    assert own == "NotWritten"
    assert others == "AnswerIsNo"
    assert said == heard
    assert "checkpoint-2 could not be saved" in said
    assert not list(out.glob("checkpoint-*"))
    assert read_json(out / "failure.json")["phase"] == "save"


def test_a_share_that_can_not_be_written_ends_all_ranks_alike(make_recipe, tmp_path: Path) -> None:
    """The disk of rank 1 is full; rank 0's is not, and its state of two steps before is whole."""
    out = tmp_path / "run"
    recipe = make_recipe(*WIDE, "machine.shard=optimizer", "budget.steps=3", "save.every=2")
    found = together(2, as_it_ends, recipe, out, "small_files", 1)
    assert {kind for kind, _ in found} == {"NotWritten"}
    assert len({message for _, message in found}) == 1
    assert "state/step-000002 could not be saved (errno 27, EFBIG" in found[0][1]
    assert "there is none before it" in found[0][1]
    assert not list(out.glob("state/*"))
    assert read_json(out / "failure.json")["errno_name"] == "EFBIG"


def test_a_folder_that_turns_read_only_ends_all_ranks(make_recipe, tmp_path: Path) -> None:
    found = together(2, as_it_ends, make_recipe(*WIDE), tmp_path / "run", "no_rights", 0)
    (own, said), (others, heard) = found
    assert own in {"PermissionError", "OSError", "NotWritten"}
    assert others in {"RankLost", "AnswerIsNo"}
    assert said in heard
    assert not (tmp_path / "run" / "run.json").exists()


def removed(recipe: Recipe, out: Path) -> tuple[str, str]:
    """What ended this rank; rank 1 takes the folder away."""
    try:
        with joined(device="cpu", lost_after_seconds=LOST_AFTER_SECONDS) as ranks:
            parts = prepare(recipe, out, ranks=ranks)
            if ranks.rank == 1:
                parts = replace(parts, sampler=Removing(sampler=parts.sampler, out=out))
            run(recipe, parts, out)
    except OpdError as error:
        return type(error).__name__, str(error)
    return "", ""


def test_a_folder_that_vanishes_ends_all_ranks(make_recipe, tmp_path: Path) -> None:
    found = together(2, removed, make_recipe(*WIDE, "budget.steps=50"), tmp_path / "run")
    assert [kind for kind, _ in found] == ["NotWritten", "AnswerIsNo"]
    assert {message for _, message in found} == {found[0][1]}
    assert f"{tmp_path / 'run'} has gone since the step before" in found[0][1]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("place", ["a file", "in use"])
def test_a_folder_that_can_not_be_written_is_refused_by_all_before_step_one(
    make_recipe, tmp_path: Path, place: str
) -> None:
    out = tmp_path / "taken" / "run" if place == "a file" else tmp_path / "taken"
    if place == "a file":
        (tmp_path / "taken").write_text("a file")
    else:
        out.mkdir()
        (out / "mine.txt").write_text("mine")
    found = together(2, as_it_ends, make_recipe(*WIDE), out, "nothing", -1)
    assert found[0] == found[1]
    kind, message = found[0]
    assert kind == "AskedWrongly"
    assert "taken" in message


def test_a_slow_rank_is_named_and_the_others_wait_for_it(make_recipe, tmp_path: Path) -> None:
    out = tmp_path / "run"
    together(3, as_it_ends, make_recipe(*WIDE, "budget.steps=3"), out, "slow", 1)
    last = list(read_lines(out / "metrics.jsonl"))[-1]["seconds_by_rank"]
    assert last["sample"]["slowest"] == 1
    assert last["sample"]["most"] >= 0.4
    assert last["sample"]["most"] > last["sample"]["mean"] > last["sample"]["least"]
    assert last["wait"]["slowest"] != 1
    assert last["wait"]["most"] - last["wait"]["least"] >= 0.1


def with_other_clocks(recipe: Recipe, out: Path) -> RunSummary:
    """Each rank has a clock of its own; that of rank 0 says stop after step 3, that of rank 1 after step 1."""
    with joined(device="cpu") as ranks:
        parts = prepare(recipe, out, ranks=ranks)
        ends = {0: 3, 1: 1, 2: 99}[ranks.rank]
        readings = iter([0.0] + [10.0] * ends + [1e6] * 99)
        budget = Budget(recipe.budget, now=lambda: next(readings))
        return run(recipe, replace(parts, budget=budget), out)


def test_the_wall_clock_of_rank_0_ends_the_run_for_all(make_recipe, tmp_path: Path) -> None:
    recipe = make_recipe(*WIDE, "budget.steps=99", "budget.max_wall_seconds=3600")
    found = together(3, with_other_clocks, recipe, tmp_path / "run")
    assert len({one.model_dump_json() for one in found}) == 1
    assert found[0].stop is StopCause.WALL_CLOCK
    assert found[0].steps == len(lines(tmp_path / "run")) < 10
    assert is_complete(tmp_path / "run" / f"checkpoint-{found[0].steps}")


def test_a_run_goes_on_on_another_number_of_ranks(make_recipe, tmp_path: Path) -> None:
    """Two steps by two ranks, two by four, and the rest by one process: the run that one process made in one go."""
    recipe = make_recipe(*WIDE, "budget.steps=6", "save.every=3", "optimizer.warmup_steps=4", "optimizer.lr=1e-2")
    out, whole = tmp_path / "run", tmp_path / "whole"
    assert {one.stop for one in on_ranks(recipe, out, count=2, interrupt_at=2)} == {StopCause.INTERRUPTED}
    assert {one.steps for one in on_ranks(recipe, out, count=4, interrupt_at=2)} == {4}
    summary = go(recipe, out)
    assert (summary.stop, summary.steps, summary.resumed_from) == (StopCause.STEPS, 6, (2, 4))
    go(recipe, whole)
    found, expected = weights(out), weights(whole)
    assert found.keys() == expected.keys() == {"checkpoint-3", "checkpoint-6", "step-000006"}
    for name, tensors in expected.items():
        torch.testing.assert_close(found[name], tensors, rtol=1e-9, atol=1e-11, msg=name)
    assert [line["kl"] for line in lines(out)] == pytest.approx([line["kl"] for line in lines(whole)], rel=1e-9)


def test_more_ranks_than_prompts_are_refused(make_recipe, tmp_path: Path) -> None:
    found = together(3, as_it_ends, make_recipe("rollouts.prompts_per_step=2"), tmp_path / "run", "nothing", -1)
    assert {kind for kind, _ in found} == {"AskedWrongly"}
    assert "prompts_per_step = 2 is fewer than the 3 ranks" in found[0][1]


def with_other_data(recipe: Recipe, out: Path, folder: Path) -> str:
    try:
        with joined(device="cpu") as ranks:
            other = recipe.changed([f"data.path={folder / 'other.jsonl'}"]) if ranks.rank else recipe
            prepare(other, out, ranks=ranks)
    except AskedWrongly as error:
        return str(error)
    return ""


def test_ranks_that_begin_from_other_files_are_refused(make_recipe, tmp_path: Path) -> None:
    text = (tmp_path / "problems.jsonl").read_text()
    (tmp_path / "other.jsonl").write_text(text.replace("Compute", "Calculate"))
    found = together(2, with_other_data, make_recipe(*WIDE), tmp_path / "run", tmp_path)
    assert found[0] == found[1]
    assert "rank 1 has recipe " in found[0]
    assert "; rank 1 has training file " in found[0]


def come_apart() -> str:
    with joined(device="cpu") as ranks:
        weights = [torch.linspace(-1, 1, 7), torch.ones(3, dtype=torch.float64)]
        if ranks.rank == 1:
            weights[0][3] = torch.nextafter(weights[0][3], torch.tensor(2.0))
        return str(len(set(ranks.everyone(fingerprint(weights)))))


def test_one_bit_of_one_weight_tells_ranks_apart() -> None:
    assert together(3, come_apart) == ["2"] * 3


def test_the_message_of_weights_that_came_apart_names_the_ranks(make_recipe, tmp_path: Path) -> None:
    found = together(3, apart, make_recipe(*WIDE, "budget.steps=3"), tmp_path / "run")
    assert found == ["the weights of ranks [2] are no longer those of rank 0"] * 3


def apart(recipe: Recipe, out: Path) -> str:
    try:
        with joined(device="cpu") as ranks:
            parts = prepare(recipe, out, ranks=ranks)
            if ranks.rank == 2:
                next(iter(parts.student.module.parameters())).data[0, 0] += 1e-12
            run(recipe, parts, out)
    except AnswerIsNo as error:
        return str(error).partition(":")[0]
    return ""
