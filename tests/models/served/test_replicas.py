"""Which server is asked next, how long one that failed is left alone, and whose answers count."""

import asyncio
import time

import pytest

from opd.models.served.exchange import MayPass, Refused, WrongReply
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
        assert len(asked) == len(lengths), "after the last answer"
        return server

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
    """Of two requests under way the first fails and the second is answered: then comes the proof.

    One more comes after its last answer.
    """
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
    assert proven == [only.facts.url] * 2
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
    with pytest.raises(AnswerIsNo, match="all of the teacher's servers are left out"):
        asyncio.run(step.scored([3, 3]))


class Turning:
    """Two servers, of which `a` gives -1 for every rollout until it turns, and -7 from then on; `b` is well."""

    def __init__(self, *, turns_after: int, fails: list[Exception] | None = None) -> None:
        self.asked: list[tuple[str, int]] = []
        self.proven: list[str] = []
        self._turns_after = turns_after
        self._fails = fails

    @property
    def has_turned(self) -> bool:
        return sum(name == "a" for name, _ in self.asked) > self._turns_after

    async def ask(self, server: TeacherServer, index: int) -> Scores:
        self.asked.append((server.url[7], index))
        await asyncio.sleep(0.001)
        wrong = server.url[7] == "a" and self.has_turned
        return Scores(logp=(-7.0 if wrong else -1.0,), texts=(None,), alternatives=None)

    async def prove(self, server: TeacherServer) -> TeacherServer:
        self.proven.append(server.url[7])
        if server.url[7] == "a" and self._fails is not None:
            if self._fails:
                raise self._fails.pop(0)
        elif server.url[7] == "a" and self.has_turned:
            raise Refused("it does not serve the teacher")
        return server

    def step(self, *names: str, patience_seconds: float = 5.0) -> Step:
        each = [replica(name) for name in names]
        for one in each:
            one.first_pause_seconds = 0.01
        return Step(replicas=each, in_flight=1, patience_seconds=patience_seconds, ask=self.ask, prove=self.prove)


def test_what_a_server_answered_before_it_failed_its_proof_is_asked_of_the_others() -> None:
    """It turns in the midst of the step: none of its answers stays, and the other's are not asked for again."""
    turning = Turning(turns_after=2)
    step = turning.step("a", "b")
    found = asyncio.run(step.scored([3] * 8))
    assert {one.logp for one in found} == {(-1.0,)}
    first, second = step.replicas
    assert (first.scored, second.scored) == (0, 8)
    assert first.refused
    of_a = {index for name, index in turning.asked if name == "a"}
    assert len(turning.asked) == 8 + len(of_a)
    assert turning.proven.count("b") == 2  # after its own, and after those that were the other's


def test_a_turned_server_that_is_the_only_one_ends_the_step() -> None:
    step = Turning(turns_after=0).step("a", patience_seconds=3_600.0)
    with pytest.raises(AnswerIsNo, match=r"left out.*nothing was updated(.|\n)*does not serve the teacher"):
        asyncio.run(step.scored([3, 3]))


def test_a_server_is_proven_once_a_step_and_not_at_all_where_it_answered_nothing() -> None:
    turning = Turning(turns_after=99)
    step = turning.step("a", "b")
    asyncio.run(step.scored([3] * 6))
    assert sorted(turning.proven) == ["a", "b"]
    asyncio.run(turning.step("a", "b").scored([3]))
    assert sorted(turning.proven) == ["a", "a", "b"]


def test_a_proof_that_may_pass_is_asked_for_again_and_one_that_is_busy_as_long_as_patience_lasts() -> None:
    for fails in ([MayPass("gone")] * 2, [MayPass("full", busy=True)] * 6):
        turning = Turning(turns_after=99, fails=list(fails))
        step = turning.step("a")
        asyncio.run(step.scored([3, 3]))
        assert turning.proven == ["a"] * (len(fails) + 1)
        assert len(turning.asked) == 2
        assert step.replicas[0].out_since is None


def test_answers_that_no_proof_follows_are_never_taken() -> None:
    """It answers, and each proof after it fails: before each new round it is proven, for it was out."""
    turning = Turning(turns_after=99, fails=[])
    step = turning.step("a", patience_seconds=0.3)

    async def prove_before_answers_only(server: TeacherServer) -> TeacherServer:
        if step.replicas[0].out_since is not None and not step._lanes[0].unproven:
            return server
        raise MayPass("status 500")

    step.prove = prove_before_answers_only
    before = time.monotonic()
    with pytest.raises(AnswerIsNo, match=r"no server was proven after what it answered(.|\n)*status 500"):
        asyncio.run(step.scored([3]))
    assert time.monotonic() - before < 10


def test_a_server_whose_answer_is_no_score_is_left_out_with_its_other_answers() -> None:
    turning = Turning(turns_after=99)
    step = turning.step("a", "b")
    well = turning.ask

    async def wrong_at_last(server: TeacherServer, index: int) -> Scores:
        found = await well(server, index)
        if server.url[7] == "a" and sum(name == "a" for name, _ in turning.asked) == 3:
            raise WrongReply("about other ids")
        return found

    step.ask = wrong_at_last
    found = asyncio.run(step.scored([3] * 8))
    assert len(found) == 8
    assert [one.scored for one in step.replicas] == [0, 8]
    assert step.replicas[0].last == "about other ids"
