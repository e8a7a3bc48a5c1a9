"""When a run ends. The clock here is a number that the test moves."""

from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from opd.records.metrics import StopCause
from opd.train.clock import SLACK, Budget, BudgetSettings, Phases

MANY = 1_000


@dataclass
class Clock:
    seconds: float = 1_000.0  # a monotonic clock begins anywhere

    def __call__(self) -> float:
        return self.seconds


@dataclass
class FakeRun:
    """A run whose steps and saves take as long as it is told; every step saves."""

    settings: BudgetSettings
    steps: list[float]
    saves: list[float]
    step: int = 0
    cause: StopCause | None = None
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.budget = Budget(self.settings, now=self.clock)
        while self.cause is None:
            self.clock.seconds += self.steps[self.step]
            self.budget.stepped(self.steps[self.step])
            self.step += 1
            self.cause = self.budget.cause(self.step, last_step=self.settings.steps)
            self.clock.seconds += self.saves[self.step - 1]
            self.budget.saved(self.saves[self.step - 1])

    @property
    def end(self) -> float:
        """Seconds from the beginning of the run to the end of its last save."""
        return self.budget.seconds


def test_the_clock_runs_from_the_beginning_of_the_process() -> None:
    """40 s of imports and loading are gone of 100 s before the budget is made; 10 s are kept free."""
    clock = Clock()
    budget = Budget(
        BudgetSettings(steps=9, max_wall_seconds=100.0, reserve_seconds=10.0), now=clock, began=clock.seconds - 40.0
    )
    assert budget.seconds == 40.0
    assert budget.left_seconds == 50.0
    budget.stepped(41.0)
    assert budget.cause(1, last_step=9) is None  # 1.2 × 41 s fit into 50 s
    clock.seconds += 1.0
    assert budget.cause(1, last_step=9) is StopCause.WALL_CLOCK
    assert Budget(BudgetSettings(steps=9), now=clock, began=0.0).left_seconds is None


def test_without_a_wall_clock_the_steps_end_the_run() -> None:
    run = FakeRun(BudgetSettings(steps=3), steps=[1e6] * 3, saves=[1e6] * 3)
    assert (run.cause, run.step) == (StopCause.STEPS, 3)


@pytest.mark.parametrize(
    ("settings", "last", "cause"),
    [
        (BudgetSettings(steps=120), 120, StopCause.STEPS),
        (BudgetSettings(steps=120, epochs=1), 25, StopCause.EPOCHS),  # 102 rows, 4 a step: 25.5 steps
        (BudgetSettings(steps=120, epochs=2), 51, StopCause.EPOCHS),
        (BudgetSettings(steps=51, epochs=2), 51, StopCause.STEPS),
        (BudgetSettings(steps=20, epochs=2), 20, StopCause.STEPS),
    ],
)
def test_the_earlier_of_steps_and_epochs_ends_the_run(settings: BudgetSettings, last: int, cause: StopCause) -> None:
    assert settings.last_step(rows=102, prompts_per_step=4) == last
    budget = Budget(settings, now=Clock())
    assert budget.cause(last - 1, last_step=last) is None
    assert budget.cause(last, last_step=last) is cause


def test_an_epoch_shorter_than_a_step_is_one_step() -> None:
    assert BudgetSettings(steps=9, epochs=1).last_step(rows=3, prompts_per_step=8) == 1


def test_steady_steps_fill_the_wall_clock_and_leave_the_reserve() -> None:
    """Steps of 10 s, saves of 2 s, 106 s of which 20 are reserve: each further step asks for 1.2 · (10 + 2 · 2) s."""
    settings = BudgetSettings(steps=MANY, max_wall_seconds=106, reserve_seconds=20)
    run = FakeRun(settings, steps=[10.0] * 20, saves=[2.0] * 20)
    # after 5 steps and 4 saves: 58 + 16.8 < 86; after 6 and 5: 70 + 16.8 >= 86
    assert (run.cause, run.step, run.end) == (StopCause.WALL_CLOCK, 6, 72.0)


def test_the_first_step_already_counts() -> None:
    """One step of 60 s leaves no room for another in 100 s."""
    run = FakeRun(BudgetSettings(steps=MANY, max_wall_seconds=100), steps=[60.0] * 3, saves=[0.0] * 3)
    assert (run.cause, run.step) == (StopCause.WALL_CLOCK, 1)


def test_the_slowest_step_counts_and_not_the_last() -> None:
    """Quick steps after a slow one promise nothing: at 55 s another 48 don't fit into 100."""
    run = FakeRun(BudgetSettings(steps=MANY, max_wall_seconds=100), steps=[40.0] + [5.0] * 20, saves=[0.0] * 21)
    assert (run.cause, run.step, run.end) == (StopCause.WALL_CLOCK, 4, 55.0)


def within_slack(first: float, factors: list[float]) -> list[float]:
    """Times of which none is more than SLACK times the longest before it."""
    times, longest = [first], first
    for factor in factors:
        times.append(longest * factor)
        longest = max(longest, times[-1])
    return times


STEPS = 20
FACTORS = st.lists(st.floats(0.1, SLACK), min_size=STEPS - 1, max_size=STEPS - 1)
SECONDS = st.floats(0.01, 50)


@given(first_step=SECONDS, first_save=SECONDS, steps=FACTORS, saves=FACTORS, wall=st.floats(50, 999), reserve=SECONDS)
def test_the_last_save_ends_before_the_reserve_once_a_save_has_been_seen(
    first_step: float, first_save: float, steps: list[float], saves: list[float], wall: float, reserve: float
) -> None:
    """What holds: no step takes more than SLACK times the longest before it, no save more than SLACK times the first,
    and the last decision to go on was taken after that first save. Then the last save ends before the reserve begins.
    """
    settings = BudgetSettings(steps=STEPS, max_wall_seconds=wall + reserve, reserve_seconds=reserve)
    run = FakeRun(
        settings,
        steps=within_slack(first_step, steps),
        saves=[first_save, *(first_save * factor for factor in saves)],
    )
    assume(run.cause is StopCause.WALL_CLOCK and run.step >= 3)
    assert run.end < wall + 1e-9


@given(
    first_step=SECONDS, steps=FACTORS, saves=st.lists(SECONDS, min_size=STEPS, max_size=STEPS), wall=st.floats(1, 300)
)
def test_a_reserve_of_two_saves_keeps_the_wall_clock_whatever_a_save_takes(
    first_step: float, steps: list[float], saves: list[float], wall: float
) -> None:
    """What holds: steps are within SLACK as above, the reserve is two of the longest saves, and the first step
    ends before the reserve begins. Then the run, with its last save, ends within `max_wall_seconds`.
    """
    assume(first_step <= wall)
    reserve = 2 * max(saves)
    settings = BudgetSettings(steps=STEPS, max_wall_seconds=wall + reserve, reserve_seconds=reserve)
    run = FakeRun(settings, steps=within_slack(first_step, steps), saves=saves)
    assert run.end <= wall + reserve + 1e-9


def test_phases_are_added_up_under_their_names() -> None:
    phases = Phases("cpu")
    for name in ("sample", "update", "sample"):
        with phases.phase(name):
            sum(range(10_000))
    assert set(phases.seconds) == {"sample", "update"}
    assert all(seconds > 0 for seconds in phases.seconds.values())
    assert sum(phases.seconds.values()) <= phases.total()
