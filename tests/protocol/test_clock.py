import pytest

from opd.protocol.clock import Deadline, Instant, Stopwatch, now, utc


class Clocks:
    """Three clocks that a test moves: by activity, by sleep, by hand."""

    def __init__(self) -> None:
        self.monotonic = self.boottime = 1000.0
        self.realtime = 1_800_000_000.0

    def work(self, seconds: float) -> None:
        self.monotonic += seconds
        self.boottime += seconds
        self.realtime += seconds

    def sleep(self, seconds: float) -> None:
        self.boottime += seconds
        self.realtime += seconds

    def set(self, seconds: float) -> None:
        self.realtime += seconds

    def read(self) -> Instant:
        return Instant(
            utc=utc(self.realtime),
            realtime=self.realtime,
            monotonic=self.monotonic,
            boottime=self.boottime,
            boot_id="b",
        )


def test_sleep_is_recorded_and_not_charged() -> None:
    """faults H9, H11: five seconds of sleep with three left, and the run goes on."""
    clocks = Clocks()
    watch = Stopwatch(read=clocks.read)
    deadline = Deadline(watch, seconds=10)
    clocks.work(7)
    assert watch.tick() == ()
    assert deadline.left() == pytest.approx(3)
    clocks.sleep(5)
    clocks.work(0.5)
    (gap,) = watch.tick()
    assert (gap.kind, gap.seconds) == ("suspended", pytest.approx(5))
    assert deadline.left() == pytest.approx(2.5)
    assert watch.suspended_seconds == pytest.approx(5)
    clocks.work(3)
    assert deadline.left() < 0


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
def test_a_clock_that_somebody_set_buys_no_time(seconds: float) -> None:
    clocks = Clocks()
    watch = Stopwatch(read=clocks.read)
    clocks.work(1)
    clocks.set(seconds)
    (gap,) = watch.tick()
    assert (gap.kind, gap.seconds) == ("clock_step", pytest.approx(seconds))
    assert watch.active_seconds == pytest.approx(1)
    assert watch.suspended_seconds == 0


def test_drift_is_no_event() -> None:
    clocks = Clocks()
    watch = Stopwatch(read=clocks.read)
    clocks.work(100)
    clocks.set(1.9)
    assert watch.tick() == ()


def test_seconds_between_two_starts_of_the_machine_are_the_calendars() -> None:
    clocks = Clocks()
    before = clocks.read()
    clocks.work(10)
    assert before.seconds_until(clocks.read()) == pytest.approx(10)
    clocks.monotonic = 3.0
    after = clocks.read().model_copy(update={"boot_id": "c"})
    assert before.seconds_until(after) == pytest.approx(10)


def test_a_moment_is_utc_to_the_millisecond() -> None:
    assert utc(0.0) == "1970-01-01T00:00:00.000Z"
    assert utc(1_767_225_600.25) == "2026-01-01T00:00:00.250Z"
    assert now().boottime >= now().monotonic - 1
