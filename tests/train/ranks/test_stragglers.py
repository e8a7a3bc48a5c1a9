"""Where the time of a step went on each rank, worked out from what each of them says."""

from dataclasses import replace

from opd.records.metrics import Drafted, Spread
from opd.train.ranks.stragglers import RankReport, drafted_of, own_seconds, spreads


def test_what_was_waited_for_others_is_no_work_of_the_update() -> None:
    found = own_seconds({"sample": 3.0, "score": 1.0, "update": 2.5}, waited=1.75)
    assert found == {"sample": 3.0, "score": 1.0, "update": 0.75, "wait": 1.75}


def test_the_slowest_rank_of_each_phase_is_named() -> None:
    each = [(4.0, 0.25, 0.0), (1.0, 0.75, 2.0), (1.0, 0.5, 4.0)]
    reports = [
        RankReport(seconds={"sample": a, "update": b, "wait": c}, peak_bytes=1, interrupted=False) for a, b, c in each
    ]
    assert spreads(reports) == {
        "sample": Spread(least=1.0, mean=2.0, most=4.0, slowest=0),
        "update": Spread(least=0.25, mean=0.5, most=0.75, slowest=1),
        "wait": Spread(least=0.0, mean=2.0, most=4.0, slowest=2),
    }


def test_guesses_are_counted_over_all_ranks() -> None:
    report = RankReport(seconds={}, peak_bytes=1, interrupted=False)
    assert drafted_of([report, report]) is None
    each = [Drafted(steps=4, guesses=9, kept=2), Drafted(steps=6, guesses=1, kept=0)]
    found = drafted_of([replace(report, drafted=one) for one in each])
    assert found == Drafted(steps=10, guesses=10, kept=2)
    assert found.tokens_a_step == 1.2
