"""What still fits: the arithmetic of the reference case, by hand, and read from a running exploration's files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opd.protocol.attempts.attempt import Attempt
from opd.protocol.clock import Instant, now
from opd.protocol.explorer.claims import Training
from opd.protocol.explorer.designs import Design
from opd.protocol.explorer.outlook import Outlook, outlook, running_outlook
from opd.protocol.explorer.proxy import Proxy, pipelines
from opd.protocol.packages import catalogue
from opd.records.attempts import Stage
from opd.records.files import write_json
from opd.records.power_report import PowerReport, PowerRow
from opd.records.receipts import NO_HEAD, Receipt, begin, seal

TINY = catalogue.find("arith_tiny")[0].contract.proxy.model_copy(update={"questions": 8})


def training(folder: str, *, step: int, seconds: float | None = None, recipe: str = "a" * 64) -> Training:
    return Training(
        folder=folder, step=step, last_step=step, asked_steps=None, seed=42, seconds=seconds, rows_seen=None,
        stop="steps", recipe_sha256=recipe, files={}, left_out={},
    )  # fmt: skip


def proxy(number: int, mean: float | None, *, began: float, ended: float, of: Training | None = None) -> Proxy:
    return Proxy(
        number=number, checkpoint=f"/runs/{number}/checkpoint-40", note=None, sha256=None, benchmark=TINY.benchmark,
        protocol_sha256=None, correct=None, samples=None, mean=mean, stderr=None, cut_short=None,
        seconds=ended - began, began_at_seconds=began, ended_at_seconds=ended,
        missing=None if mean is not None else "it broke", training=of,
    )  # fmt: skip


def power(detectable: float, unpaired: float) -> PowerReport:
    row = PowerRow(
        true_spread=0.0, stderr=detectable / 2.8, detectable=detectable, detectable_samples=1.0,
        power_at_difference=None, questions_needed=None, samples_needed=None,
    )  # fmt: skip
    return PowerReport(
        source="x", questions=500, samples_a=4, samples_b=4, within_a=0.1, within_b=0.1, alpha=0.05, alpha_each=0.05,
        power=0.8, candidates=1, difference=None, rows=(row,), unpaired_detectable=unpaired, pocock=(),
        obrien_fleming=(), notes=(),
    )  # fmt: skip


# the reference case: three trainings to step 40, each with a full measurement; the shortest took 1,759 s together
DONE = (
    proxy(1, 0.8345, began=2_000.0, ended=2_672.5, of=training("/runs/reward", step=40)),
    proxy(2, 0.8320, began=3_758.98, ended=4_431.5, of=training("/runs/topk", step=40)),
    proxy(3, 0.8295, began=8_000.0, ended=8_700.0, of=training("/runs/shuffle", step=40)),
)
PAIR = Design(after=3, beside=1, power=power(0.0404, 0.0571), missing=None)


def seen(left: float, done: tuple[Proxy, ...] = DONE, design: Design | None = PAIR, **changes: Any) -> Outlook:
    measure = TINY.model_copy(update=changes)
    return outlook(left_seconds=left, given_seconds=14_400.0, done=done, design=design, measure=measure)


def test_the_reference_case_had_room_for_a_matched_control() -> None:
    """faults H45: 3,289 s were left, and one training to step 40 with its measurement took 1,759 s."""
    here = seen(3_289.0)
    assert here.shortest is not None
    assert (here.shortest.proxy, here.shortest.seconds) == (2, 1_759.0)
    assert here.shorter_trainings == 1
    assert here.measurements == 4, "3,289 / 672.5"
    assert here.like is not None
    assert (here.like.proxy, here.trainings) == (1, 1), "the best so far took 2,672.5 s"
    left, shortest, fits, finds = here.sentences()
    assert left == "3,289 s of 14,400 s are left"
    assert shortest == "your shortest training with its measurement took 1,759 s"
    assert fits == (
        "that fits 1 training to step 40 with its measurement (2,672 s, as proxy 001): a matched control or a second "
        "seed, or 4 measurements of checkpoints that you have (672 s each; the same checkpoint again draws the same "
        "samples)"
    )
    assert finds == (
        "a true difference of 0.040 between two such runs is found four times in five, a smaller one less often "
        "(paired by question, from proxies 001 and 003; 0.057 unpaired)"
    )


def test_with_less_left_than_it_takes_nothing_fits_and_with_more_more() -> None:
    assert "no training to step 40 with its measurement" in seen(600.0).sentences()[2]
    assert "or no measurement of" in seen(600.0).sentences()[2]
    assert seen(-5.0).left_seconds == 0.0
    two = seen(5_400.0)
    assert (two.trainings, two.shorter_trainings) == (2, 3)
    assert "2 trainings to step 40 with its measurement (2,672 s each, as proxy 001): matched controls" in two.fits()
    assert "or 3 trainings to step 40 with its measurement (1,759 s each, as proxy 002)" in two.fits()


def test_before_anything_was_measured_nothing_is_promised() -> None:
    here = seen(9_000.0, done=(proxy(1, None, began=1.0, ended=2.0),), design=None)
    assert (here.like, here.shortest, here.trainings, here.measurements) == (None, None, 0, 0)
    assert here.sentences()[1] == "nothing was measured yet, so what still fits is not known"


def test_a_second_measurement_of_one_training_does_not_make_trainings_look_cheap() -> None:
    """Step 20 and step 40 of one run, measured in a row: 672 s between the ends are no training."""
    first = proxy(1, 0.80, began=2_000.0, ended=2_672.0, of=training("/runs/a", step=20))
    again = proxy(2, 0.83, began=2_672.0, ended=3_344.0, of=training("/runs/a", step=40))
    assert again.ended_at_seconds - first.ended_at_seconds == 672.0
    assert [one.seconds for one in pipelines((first, again))] == [2_672.0, 2_672.0]
    other = again.model_copy(update={"training": training("/runs/b", step=40)})
    assert [one.seconds for one in pipelines((first, other))] == [2_672.0, 672.0]


def test_a_training_that_went_on_is_counted_whole_and_without_what_was_done_in_between() -> None:
    """By hand: a trained 2,000 s to step 20 and 500 s more to step 40; between them lies all of b."""
    a = training("/runs/a", step=20), training("/runs/a", step=40)
    done = (
        proxy(1, 0.80, began=2_000.0, ended=2_600.0, of=a[0]),
        proxy(2, 0.81, began=3_600.0, ended=4_200.0, of=training("/runs/b", step=40)),
        proxy(3, None, began=4_200.0, ended=4_250.0, of=a[1]),
        proxy(4, 0.82, began=4_700.0, ended=5_300.0, of=a[1]),
    )
    assert [(one.proxy, one.seconds) for one in pipelines(done)] == [
        (1, 2_600.0), (2, 1_600.0), (4, 2_000.0 + 500.0 + 600.0),
    ]  # fmt: skip


def test_a_training_that_ran_beside_another_costs_what_it_says_it_took() -> None:
    """Two trained at once, then measured in a row: the second came 672 s after the first, and took 1,900 s more."""
    first = proxy(1, 0.80, began=2_000.0, ended=2_672.0, of=training("/runs/a", step=40, seconds=1_900.0))
    beside = proxy(2, 0.83, began=2_672.0, ended=3_344.0, of=training("/runs/b", step=40, seconds=1_900.0))
    here = seen(2_500.0, done=(first, beside))
    assert here.like is not None
    assert (here.like.seconds, here.like.cost_seconds) == (672.0, 2_572.0)
    assert here.trainings == 0
    boastful = beside.model_copy(update={"training": training("/runs/b", step=40, seconds=1e8)})
    assert pipelines((first, boastful))[1].cost_seconds == 2_672.0 + 672.0, "no more than had gone by when it began"


def test_where_less_is_better_the_least_is_the_best() -> None:
    here = seen(3_289.0, direction="minimize")
    assert here.like is not None
    assert here.like.proxy == 3


@pytest.mark.parametrize(
    ("design", "says"),
    [
        (None, "what difference that could find is not known yet"),
        (Design(after=1, beside=None, power=None, missing="it broke"), "is not known yet"),
        (Design(after=1, beside=None, power=power(0.0397, 0.0571), missing=None), "0.057 between two such runs"),
    ],
)
def test_what_is_not_known_is_not_said(design: Design | None, says: str) -> None:
    here = seen(3_289.0, design=design)
    assert here.detectable is None
    assert says in here.sentences()[-1]


def test_it_is_read_from_a_running_explorations_files(new_lab: Callable[..., Any]) -> None:
    lab = new_lab("command__arith_tiny__none__none", explore_seconds=100.0)
    place = lab.attempt.next(Stage.EXPLORE)
    assert running_outlook(Attempt(lab.folder), now()) is None
    with lab.trying(place, {"base": lab.attempt.identity.base_sha256}) as this:
        assert running_outlook(Attempt(lab.folder), now()) is None, "its program has not started"
        this.say("started", mark="x")
        began = next(event.at for event in lab.attempt.events.read() if event.kind == "started")
        seal_proxy(this.folder / "proxy" / "001", proxy(1, 0.5, began=1.0, ended=5.0))
        begin(this.folder / "proxy" / "002")  # a measurement that is under way
        for design in (PAIR.model_copy(update={"after": 1}), PAIR):
            write_json(this.folder / "designs" / f"{design.after:03d}.json", design.resolved())
        here = running_outlook(Attempt(lab.folder), later(began, 8.0))
        assert here is not None
        assert (here.left_seconds, here.given_seconds) == (92.0, 100.0)
        assert (here.trainings, here.measurements, here.pair) == (18, 23, (1, 3))
        this.end("submitted")
    assert running_outlook(Attempt(lab.folder), now()) is None, "it is over"


def later(at: Instant, seconds: float) -> Instant:
    moved = {name: getattr(at, name) + seconds for name in ("realtime", "monotonic", "boottime")}
    return at.model_copy(update=moved)


def seal_proxy(place: Path, record: Proxy) -> None:
    partial = begin(place)
    write_json(partial / "outcome.json", record.resolved())
    seal(
        place,
        Receipt(
            kind="proxy", outcome="scored", because=None, began_utc=now().utc, ended_utc=now().utc,
            active_seconds=0.0, opd_version="0", made_from={}, events=NO_HEAD, files=(),
        ),
    )  # fmt: skip
