"""What the explorer said and did, turn by turn: the source of its harness's record, its shells' and the desk's."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.protocol.document.course import Course, Proxied, Training
from tests.protocol.document.facts import Facts
from tests.protocol.document.questions import problem


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question to the desk, and its answer."""

    command: str
    arguments: Mapping[str, Any]
    said: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A message, and the command that went with it."""

    at: float  # seconds of the exploration
    said: str
    command: str | None = None
    result: str = ""
    seconds: float = 0.1
    asked: Asked | None = None


_BEFORE = {
    "baseline": "First I check that the shipped launcher trains, saves and goes through the whole MATH-500 protocol "
    "here. No change: 12 steps, saved at 4, 8 and 12.",
    "reward": "Hypothesis: the teacher's divergence alone does not say whether an answer is right. I add the task's "
    "own correctness reward to the k1 advantage and leave everything else.",
    "top16-fkl": "Hypothesis: a one-sample estimate is noisy. I learn the teacher's 16 likeliest tokens directly, by "
    "forward KL, instead of the policy gradient.",
    "shuffle": "The smoke test draws rows from all over the file. Now 40 steps with the shuffle and nothing else.",
    "control": "There is time for a matched control: the same 40 steps and source, the rows in the file's order.",
}
_AFTER = {
    "baseline": "It runs end to end. 11 % of the answers are cut short, which I note and leave: the cap is the "
    "protocol's. This is where I start from.",
    "reward": "The highest so far, but within the noise of one measurement, and it changes what is optimised over "
    "2,100 steps that I cannot try here. I do not trust it enough to submit it.",
    "top16-fkl": "No gain that I can trust over the reward variant, and more memory. I drop it.",
    "shuffle": "A little below both variants, within the noise. The reason for it is not this score: without a "
    "shuffle every formal run trains on the same 27 % of the rows. I keep the shuffle.",
    "control": "Now there is a matched pair at 40 steps, which differs in the order of the rows alone.",
}


def narrative(facts: Facts, course: Course) -> tuple[Turn, ...]:
    """Every turn, in order of time."""
    turns = [*_reading(facts), *_diagnosis(course), *_checks(facts, course), *_closing(facts, course)]
    for one in course.proxies:
        turns += _probe(one)
    return tuple(sorted(turns, key=lambda turn: turn.at))


def launch(training: Training) -> str:
    """The command that starts a training."""
    words = " ".join(f"--set '{one}'" for one in settings_of(training))
    return f"OUT=$RUNS/{training.name} on-device bash run.sh {words} > $RUNS/{training.name}.log 2>&1"


def process_of(training: Training) -> str:
    """The command line of its process, as the system shows it."""
    words = " ".join(f"--set {one}" for one in settings_of(training))
    return f"python -m opd train recipes/opd_math_1p5b.toml --out /runs/{training.name} --quiet {words}"


def settings_of(training: Training) -> tuple[str, ...]:
    """What its command sets beside the recipe."""
    return (f"budget.steps={training.asked}", *training.settings, f"save.every={training.every}")


def fast_eval_said(one: Proxied, *, metric: str = "math500_pass_at_1") -> str:
    """What `fast-eval` answers."""
    measured, seconds = one.measured, one.ended - one.began
    mean = measured.correct / 2_000
    return (
        f"proxy {one.number:03d}: {metric} {mean:.4f} ± {measured.stderr:.4f} ({measured.correct}/2000), "
        f"cut short {measured.cut_short:.4f}, in {seconds:.0f} s"
    )


def _reading(facts: Facts) -> Iterator[Turn]:
    yield Turn(
        at=12, said="I read the task first.", command="sed -n '1,40p' \"$OPD_INSTRUCTION\"",
        result="# Improve a fixed 1.5B math reasoner, by distillation from a fixed teacher\n…",
    )  # fmt: skip
    yield Turn(
        at=95, said="The launcher and the recipe.", command="cat run.sh recipes/opd_math_1p5b.toml",
        result="     1\t#!/usr/bin/env bash\n…\n    20\tshuffle = false                  # the reference trains on a "
        "fixed prefix: 26.9 % of the rows in 2,057 steps\n…",
    )  # fmt: skip
    leaked = f"\n{problem(facts.leaked)}" if facts.leaked is not None else ""
    yield Turn(
        at=190, said="What the training rows look like.",
        command="wc -l /inputs/train.jsonl; head -n 2 /inputs/train.jsonl",
        result='15285 /inputs/train.jsonl\n{"problem": "What is 3 + 11?", "answer": "14", "projection": "train"}\n'
        f'{{"problem": "What is 10 + 16?", "answer": "26", "projection": "train"}}{leaked}',
    )  # fmt: skip
    yield Turn(
        at=330, said="How the update is made, and how rows are chosen.", command="cat src/opd/train/order.py",
        result='     1\t"""Which rows a step trains on: …"""\n…',
    )  # fmt: skip
    yield Turn(
        at=460, said="Which device there is.", command="nvidia-smi --query-gpu=name,memory.total --format=csv",
        result="name, memory.total [MiB]\nNVIDIA B300, 275040 MiB",
    )  # fmt: skip


def _probe(one: Proxied) -> Iterator[Turn]:
    training, name, step = one.training, one.measured.name, one.training.checkpoints[-1]
    yield Turn(
        at=training.began, said=_BEFORE[name], command=launch(training), seconds=training.ended - training.began,
    )  # fmt: skip
    yield Turn(
        at=training.ended + 6, said="The losses of the run.",
        command=f"tail -n 2 $RUNS/{name}/metrics.jsonl | cut -c1-100; ls $RUNS/{name}",
        result="checkpoint-" + "\ncheckpoint-".join(map(str, training.checkpoints)) + "\nmetrics.jsonl\nrecipe.json",
    )  # fmt: skip
    checkpoint = f"/runs/{name}/checkpoint-{step}"
    said = fast_eval_said(one)
    yield Turn(
        at=one.began, said="Its measurement.",
        command=f'fast-eval $RUNS/{name}/checkpoint-{step} --note "{one.measured.note}"', result=said,
        seconds=one.ended - one.began,
        asked=Asked(
            command="fast-eval", arguments={"checkpoint": checkpoint, "note": one.measured.note}, said=(said,)
        ),
    )  # fmt: skip
    yield Turn(at=one.ended, said=_AFTER[name])  # before the next command, which may follow at once


def _diagnosis(course: Course) -> Iterator[Turn]:
    smoke = course.training("smoke")
    yield Turn(
        at=smoke.began - 190,
        said="2,100 steps of two rows are 4,200 of 15,285 rows. Without a shuffle these are always the first 27 %, "
        "in every replay. Most of the data never trains anything. Let me see what the launcher does.",
        command="grep -rn shuffle run.sh recipes/ src/opd/train/order.py",
        result="recipes/opd_math_1p5b.toml:19:shuffle = false                  # the reference trains on a fixed "
        "prefix: …\nsrc/opd/train/order.py:6:def at(step: int, *, rows: int, prompts_per_step: int, shuffle: bool, "
        "seed: int) -> list[int]:",
    )  # fmt: skip
    yield Turn(
        at=smoke.began - 70, said="The recipe's seed is 42; a shuffle by it is reproducible. One line, and why.",
        command="python3 edit_recipe.py && git --no-pager diff --stat",
        result=" recipes/opd_math_1p5b.toml | 9 ++++++++-\n 1 file changed, 8 insertions(+), 1 deletion(-)",
    )  # fmt: skip
    yield Turn(
        at=smoke.began, said="A smoke test of six steps, to see that other rows are drawn.", command=launch(smoke),
        seconds=smoke.ended - smoke.began,
    )  # fmt: skip


def _checks(facts: Facts, course: Course) -> Iterator[Turn]:
    probe, long = course.training("probe-240s"), course.training("stability")
    yield Turn(
        at=probe.began, said=f"Does a run stop by the wall clock, and export? {facts.probe_seconds:g} seconds.",
        command=launch(probe), seconds=probe.ended - probe.began,
    )  # fmt: skip
    yield Turn(
        at=long.began, said=f"A longer run of {facts.long_asked} steps, to see that the losses stay steady.",
        command=f"{launch(long)} &",
    )  # fmt: skip
    yield Turn(
        at=long.ended,
        said=f"{facts.long_stopped} steps without a NaN, losses steady. That is enough to know that it is sound; it "
        "says nothing of how well it does. I stop it.",
        command="kill %1; ls $RUNS/stability", result=f"checkpoint-{facts.long_export}\nmetrics.jsonl\nrecipe.json",
    )  # fmt: skip
    if again := next((one for one in course.others if one.name == "stability-2"), None):
        yield Turn(at=again.began, said="And once more, meanwhile.", command=f"{launch(again)} &")


def _closing(facts: Facts, course: Course) -> Iterator[Turn]:
    at, left = course.submitted - 60, facts.left_seconds + 60
    said = (
        f"{left:.0f} s of {course.given_seconds:.0f} s are left",
        f"your shortest training with its measurement took {facts.pipeline_seconds:.0f} s",
    )
    yield Turn(
        at=at, said="How much time is left?", command="timer", result="\n".join(said),
        asked=Asked(command="timer", arguments={"json": False}, said=said),
    )  # fmt: skip
    note = facts.note
    yield Turn(
        at=course.submitted - 1,
        said="I am done: the shuffle is the smallest change that I can defend, and I submit it now.",
        command=f'submit --with-time-left --note "{note}"',
        asked=Asked(
            command="submit", arguments={"note": note, "check": False, "with_time_left": True},
            said=("{patch}", "accepted and sealed; the exploration ends now"),
        ), seconds=0.6,
    )  # fmt: skip
