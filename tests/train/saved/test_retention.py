"""Which checkpoints stay, against the definition worked out from all lines at once, whatever a run went through."""

import random
from dataclasses import dataclass, field
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.records.metrics import StepMetrics
from opd.train.saved.retention import Means, Retention, means_of

# --- the means -------------------------------------------------------------------------------------------


def test_a_checkpoint_is_judged_by_the_lines_since_the_one_before_it(make_line) -> None:
    lines = [make_line(step, kl=kl, loss=-kl) for step, kl in enumerate([1.0, 2.0, 4.0, 0.5, 0.0], start=1)]
    assert means_of(lines, every=2) == {
        2: Means(first_step=1, kl=1.5, loss=-1.5, reward=None),
        4: Means(first_step=3, kl=2.25, loss=-2.25, reward=None),
        5: Means(first_step=5, kl=0.0, loss=-0.0, reward=None),  # where the run ended
    }


def test_steps_whose_grader_failed_are_left_out_of_the_mean_reward(make_line) -> None:
    rewards = [1.0, None, 0.0, None, None, None]
    lines = [make_line(step, reward=reward) for step, reward in enumerate(rewards, start=1)]
    assert [one.reward for one in means_of(lines, every=3).values()] == [0.5, None]


# --- the best --------------------------------------------------------------------------------------------


def best(lines: list[StepMetrics], retention: Retention) -> list[int]:
    """The best of the checkpoints after each of these steps."""
    return retention.best([one.step for one in lines], means=means_of(lines, every=1))


@pytest.mark.parametrize(("by", "expected"), [("kl", [2, 3]), ("loss", [2, 3]), ("reward", [4, 1])])
def test_less_kl_and_loss_are_better_and_more_reward(make_line, by: str, expected: list[int]) -> None:
    lines = [make_line(step, **{by: value}) for step, value in enumerate([3.0, -1.0, 1.0, 9.0], start=1)]
    assert best(lines, Retention(keep=1, keep_best=2, best_by=by)) == expected


def test_of_equals_the_newer_is_better_by_number() -> None:
    """H26: as text, 9 comes after 10 and 100."""
    means = dict.fromkeys([9, 10, 100], Means(first_step=1, kl=0.5, loss=0.0, reward=None))
    assert Retention(keep=1, keep_best=2).best([9, 10, 100], means=means) == [100, 10]


def test_a_checkpoint_without_a_reward_is_none_of_the_best(make_line) -> None:
    lines = [make_line(step, reward=reward) for step, reward in enumerate([0.0, None, 1.0], start=1)]
    assert best(lines, Retention(keep=1, keep_best=3, best_by="reward")) == [3, 1]


def test_where_a_try_ended_pushes_nothing_out(make_line) -> None:
    """E64: 47 would have been the best, and at 60 the uninterrupted run still has 20."""
    lines = [make_line(step, kl=0.0 if step > 40 else 1.0) for step in range(1, 48)]
    retention = Retention(keep=1, every=20, keep_best=1)
    assert retention.staying({20, 40, 47}, newest=47, means=means_of(lines, every=20)) == {40, 47}


# --- a run, whatever it goes through ---------------------------------------------------------------------


@dataclass
class Disk:
    """The folder of a run as far as retention goes: which checkpoints are there, and where a state is."""

    retention: Retention
    state_every: int
    lines: list[StepMetrics]
    saved: set[int] = field(default_factory=set)
    state: int = 0
    resumed: bool = False

    @property
    def last(self) -> int:
        return len(self.lines)

    def go(self, until: int, *, killed: str | None) -> None:
        """Steps from the state on; `killed` is where in the step `until` the process ends."""
        for step in range(self.state + 1, until + 1):
            ends = step == self.last or (step == until and killed is None)
            if step == until and killed == "before the save":
                return
            if ends or step % self.retention.every == 0:
                self.saved.add(step)
                if step == until and killed == "before older ones go":
                    return
                self.retire(step)
            if ends or step % self.state_every == 0:
                self.state = step

    def retire(self, newest: int) -> None:
        means = means_of(self.lines[:newest], every=self.retention.every)
        beyond = set() if self.resumed else {step for step in self.saved if step > newest}
        self.saved = self.retention.staying(self.saved, newest=newest, means=means) | beyond


def by_definition(retention: Retention, kl: list[Fraction]) -> set[int]:
    """From all lines at once, as if nothing was ever removed."""
    last, every = len(kl), retention.every
    multiples = range(every, last + 1, every)
    saved = [*multiples, *([] if last % every == 0 else [last])]
    mean = {step: sum(kl[step - every : step]) / every for step in multiples}
    ranked = sorted(multiples, key=lambda step: (mean[step], -step))
    milestones = [] if retention.keep_every is None else [one for one in saved if one % retention.keep_every == 0]
    return {*saved[-retention.keep :], *milestones, *ranked[: retention.keep_best]}


KILLS = [None, "before the save", "before older ones go", "after all"]


@given(seed=st.integers(0, 2**32), tries=st.integers(0, 12))
def test_a_run_keeps_the_same_ones_however_often_it_was_stopped_or_killed(make_line, seed: int, tries: int) -> None:
    """E63, E64, H26: newest, milestones and best, with states rarer than checkpoints and ties among the values."""
    numbers = random.Random(seed)
    every = numbers.randint(1, 4)
    retention = Retention(
        keep=numbers.randint(1, 3),
        every=every,
        keep_every=numbers.choice([None, every * numbers.randint(1, 4)]),
        keep_best=numbers.randint(0, 4),
    )
    kl = [Fraction(numbers.randint(-3, 3), 4) for _ in range(numbers.randint(1, 40))]
    lines = [make_line(step, kl=float(value)) for step, value in enumerate(kl, start=1)]
    disk = Disk(retention=retention, state_every=numbers.randint(1, 9), lines=lines)
    for _ in range(tries):
        if disk.state == disk.last:
            break
        disk.go(numbers.randint(disk.state + 1, disk.last), killed=numbers.choice(KILLS))
        disk.resumed = True
    if disk.state < disk.last or disk.last not in disk.saved:
        disk.go(disk.last, killed=None)
    assert disk.saved == by_definition(retention, kl)


def test_counted_among_the_best_the_end_of_a_try_would_cost_a_checkpoint(make_line) -> None:
    """E64: the bad condition exists; with every step counted, as `every = 1` does, 47 takes the place of 40."""
    lines = [make_line(step, kl=0.0 if step > 40 else 1.0) for step in range(1, 48)]
    careless = Retention(keep=1, every=1, keep_best=1)
    assert 40 not in careless.staying({20, 40, 47}, newest=47, means=means_of(lines, every=20))
