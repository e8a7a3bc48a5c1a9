"""Which server is asked next, and how long one that failed is left alone."""

import asyncio

import pytest

from opd.models.served.exchange import MayPass, Refused
from opd.models.served.replicas import Replica, Step
from opd.models.served.reply import Scores
from opd.records.errors import AnswerIsNo
from opd.records.served import Agreement, TeacherServer

AGREES = Agreement(tokens=1, mean=0, largest=0, mean_rounding=0, largest_rounding=0, other_text=0)


def replica(name: str) -> Replica:
    facts = TeacherServer(url=f"http://{name}.example", model="m", version=None, limit_tokens=None, agreement=AGREES)
    return Replica(facts=facts, first_pause_seconds=2.0)


def scores(index: int) -> Scores:
    return Scores(logp=(-float(index),), texts=(None,), alternatives=None)


def test_the_next_goes_to_whoever_has_the_fewest_tokens_under_way_and_room() -> None:
    """By hand: a has 60, so that b gets tens until it has four of them and no room; the other two are a's."""
    asked: list[tuple[str, int]] = []
    lengths = [10, 10, 10, 60, 10, 10, 10]

    async def ask(server: TeacherServer, index: int) -> Scores:
        asked.append((server.url[7], lengths[index]))
        while len(asked) < len(lengths):
            await asyncio.sleep(0)
        return scores(index)

    async def prove(server: TeacherServer) -> TeacherServer:
        raise AssertionError("none was out")

    step = Step(replicas=[replica("a"), replica("b")], in_flight=4, patience_seconds=1, ask=ask, prove=prove)
    found = asyncio.run(step.scored(lengths))
    assert asked == [("a", 60), ("b", 10), ("b", 10), ("b", 10), ("b", 10), ("a", 10), ("a", 10)]
    assert [one.logp for one in found] == [(-float(index),) for index in range(7)]


def test_pauses_double_up_to_a_minute_give_or_take_half_and_a_longer_wish_is_respected() -> None:
    one, now = replica("a"), 100.0
    for expected in (2, 4, 8, 16, 32):
        one.failed(MayPass("no"), now=now)
        assert 0.5 * expected - 1e-6 <= one.back_at - now <= min(1.5 * expected, 60) + 1e-6
        now = one.back_at
    for _ in range(2_000):
        one.failed(MayPass("no"), now=now)
        assert one.back_at - now <= 60 + 1e-6
        now = one.back_at
    other = replica("b")
    other.failed(MayPass("busy", pause_seconds=7, busy=True), now=100.0)
    assert other.back_at == 107
    assert other.out_since is None
    other.failed(MayPass("busy", pause_seconds=900, busy=True), now=107.0)
    assert other.back_at == 167


def test_several_requests_that_fail_together_are_one_outage() -> None:
    one = replica("a")
    for _ in range(8):
        one.failed(MayPass("gone"), now=100.0)
    assert one.back_at <= 103
    assert (one.failures, one.out_since) == (8, 100.0)


def test_a_server_that_is_lost_while_it_is_busy_has_to_be_proven_too() -> None:
    one = replica("a")
    one.failed(MayPass("busy", busy=True), now=100.0)
    one.failed(MayPass("gone"), now=100.5)
    assert one.out_since == 100.5


def test_one_answer_of_before_does_not_bring_a_server_back_unproven() -> None:
    """Of two requests under way the first fails and the second is answered: then comes the proof."""
    proven: list[str] = []
    asked: list[int] = []
    only = replica("a")
    only.first_pause_seconds = 0.01

    async def ask(server: TeacherServer, index: int) -> Scores:
        asked.append(index)
        if len(asked) == 1:
            await asyncio.sleep(0.01)  # by then the other is under way
            raise MayPass("gone")
        await asyncio.sleep(0.02)
        return scores(index)

    async def prove(server: TeacherServer) -> TeacherServer:
        proven.append(server.url)
        return server

    step = Step(replicas=[only], in_flight=2, patience_seconds=5, ask=ask, prove=prove)
    asyncio.run(step.scored([3, 3]))
    assert proven == [only.facts.url]
    assert only.out_since is None


def test_a_rollout_that_fails_everywhere_ends_the_step_after_its_patience() -> None:
    """Each server does well otherwise, so that none is lost: the rollout is what can't be scored."""

    async def ask(server: TeacherServer, index: int) -> Scores:
        if index == 1:
            raise MayPass("status 500: poison")
        return scores(index)

    async def prove(server: TeacherServer) -> TeacherServer:
        return server

    both = [replica("a"), replica("b")]
    for one in both:
        one.first_pause_seconds = 0.01
    step = Step(replicas=both, in_flight=2, patience_seconds=0.2, ask=ask, prove=prove)
    with pytest.raises(AnswerIsNo, match="a rollout could not be scored") as error:
        asyncio.run(step.scored([3, 3, 3]))
    assert str(error.value).count("poison") == 2


def test_when_all_have_refused_nobody_waits() -> None:
    async def ask(server: TeacherServer, index: int) -> Scores:
        raise Refused(f"status 404 of {server.url[7]}")

    async def prove(server: TeacherServer) -> TeacherServer:
        return server

    step = Step(replicas=[replica("a"), replica("b")], in_flight=1, patience_seconds=3_600, ask=ask, prove=prove)
    with pytest.raises(AnswerIsNo, match="none of the teacher's servers answers"):
        asyncio.run(step.scored([3, 3]))
