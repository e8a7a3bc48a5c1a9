"""When what happened in the exploration, in seconds from the start of the explorer's program.

reading · baseline 12 steps ─ proxy │ reward 40 ─ proxy │ top-16 forward KL 40 ─ proxy │ diagnosis · smoke 6 ·
shuffle 40 ─ proxy │ a control, where there is one │ 240-second probe · long run, stopped by hand · nothing · submit
"""

from dataclasses import dataclass

from tests.protocol.document.facts import Facts, Measured

START_UP_SECONDS = 110.0  # of a training, before its first step
STEP_SECONDS = 20.14  # of the published task
EXPORT_SECONDS = 20.0
HAND_OVER_SECONDS = 40.0  # between a training's end and its measurement, while the explorer looks at the losses
_READING_SECONDS = 1_771.0  # to the end of the baseline's proxy
_IMPLEMENTING_SECONDS = 1_522.0  # of the forward KL, before its training
_DIAGNOSING_SECONDS = 521.0  # of the data order, the six-step smoke test included
_LAST_CHECKS_SECONDS = 2_020.0  # from the last proxy to the submission


@dataclass(frozen=True, kw_only=True)
class Training:
    """One run of the launcher."""

    name: str
    began: float
    ended: float
    steps: int  # that it made
    asked: int
    checkpoints: tuple[int, ...]
    settings: tuple[str, ...] = ()
    shuffled: bool = False
    stop: str = "steps"
    step_seconds: float = STEP_SECONDS

    @property
    def every(self) -> int:
        """Steps between two checkpoints."""
        return self.checkpoints[0] if self.checkpoints else self.asked // 2


@dataclass(frozen=True, kw_only=True)
class Proxied:
    """One measurement of a training's last checkpoint."""

    number: int
    measured: Measured
    training: Training
    began: float
    ended: float


@dataclass(frozen=True, kw_only=True)
class Course:
    """All of it."""

    proxies: tuple[Proxied, ...]
    others: tuple[Training, ...]  # that nothing measured: the smoke test, the probe, the long run
    submitted: float
    given_seconds: float

    @property
    def trainings(self) -> tuple[Training, ...]:
        """In order."""
        return tuple(sorted((*(one.training for one in self.proxies), *self.others), key=lambda one: one.began))

    def training(self, name: str) -> Training:
        """The one of this name."""
        return next(one for one in self.trainings if one.name == name)


def course(facts: Facts) -> Course:
    """How the facts lie in time. The budget is what was used and what was left: 14,400 s as the document has it."""
    rate = (facts.pipeline_seconds - facts.proxy_seconds - _around()) / 40
    proxies: list[Proxied] = []
    end = 0.0
    for number, one in enumerate(facts.trained, start=1):
        end = _end_of(one, after=end, facts=facts)
        proxies.append(_proxied(number, one, ends=end, rate=rate, facts=facts))
    shuffle = next(one for one in proxies if one.measured.name == "shuffle")
    submitted = end + _LAST_CHECKS_SECONDS
    others = [_smoke(shuffle), *_last_checks(facts, end, submitted)]
    return Course(
        proxies=tuple(proxies),
        others=tuple(others),
        submitted=submitted,
        given_seconds=submitted + facts.left_seconds,
    )


def _around() -> float:
    """Seconds of a pipeline that are neither steps nor measurement."""
    return START_UP_SECONDS + EXPORT_SECONDS + HAND_OVER_SECONDS


def _end_of(one: Measured, *, after: float, facts: Facts) -> float:
    pipeline = facts.pipeline_seconds
    before = {"top16-fkl": _IMPLEMENTING_SECONDS, "shuffle": _DIAGNOSING_SECONDS}.get(one.name, 0.0)
    return max(_READING_SECONDS, pipeline + 12.0) if after == 0 else after + before + pipeline


def _proxied(number: int, one: Measured, *, ends: float, rate: float, facts: Facts) -> Proxied:
    began = round(ends - facts.proxy_seconds, 3)
    training = Training(
        name=one.name,
        began=round(began - _around() - one.steps * rate, 3),
        ended=began - HAND_OVER_SECONDS,
        steps=one.steps,
        asked=one.steps,
        checkpoints=(4, 8, 12) if one.steps == 12 else (20, 40),
        settings=one.settings,
        shuffled=one.name in {"shuffle", "control"},
        step_seconds=rate,
    )
    return Proxied(number=number, measured=one, training=training, began=began, ended=ends)


def _smoke(shuffle: Proxied) -> Training:
    """Six steps, to see that other rows are drawn."""
    seconds = START_UP_SECONDS + 6 * STEP_SECONDS + EXPORT_SECONDS
    began = shuffle.training.began - seconds - 30
    return Training(
        name="smoke", began=began, ended=began + seconds, steps=6, asked=6, checkpoints=(6,), shuffled=True
    )


def _last_checks(facts: Facts, began: float, submitted: float) -> list[Training]:
    probe_ends = began + 60 + facts.probe_seconds + EXPORT_SECONDS
    long_began = probe_ends + 80
    found = [
        Training(
            name="probe-240s", began=began + 60, ended=probe_ends, steps=facts.probe_step, asked=2_200,
            checkpoints=(facts.probe_step,), shuffled=True, stop="wall_clock",
            settings=(f"budget.max_wall_seconds={facts.probe_seconds:g}", "budget.reserve_seconds=0"),
        ),
        Training(
            name="stability", began=long_began,
            ended=long_began + START_UP_SECONDS + facts.long_stopped * STEP_SECONDS, steps=facts.long_stopped,
            asked=facts.long_asked, checkpoints=(facts.long_export,), shuffled=True, stop="interrupted",
        ),
    ]  # fmt: skip
    if not facts.idle_at_submission:
        again = found[-1].ended + 40
        found.append(
            Training(
                name="stability-2", began=again, ended=submitted, steps=3, asked=facts.long_asked, checkpoints=(),
                shuffled=True, stop="killed",
            )
        )  # fmt: skip
    return found
