"""Scores over real HTTP on loopback, beside those of the model that is served; slow, broken and false servers."""

import asyncio
import json
import math
import threading
import time
from typing import Any

import pytest
from tests.models.served.conftest import SEQUENCE_TOKENS, rollouts_of

from opd.models.plain import PlainScorer
from opd.models.served.scorer import run_here
from opd.records.errors import AnswerIsNo, AskedWrongly

LENGTHS = (1, 7, 70, 20, 33, 2)


def assert_scored_by(model, scored, rollouts) -> None:
    for found, expected in zip(scored, PlainScorer(model).score(rollouts), strict=True):
        assert found.rollout is expected.rollout
        assert found.teacher_logp == pytest.approx(expected.teacher_logp, abs=1e-5)


def test_scores_are_those_of_the_served_model_in_the_order_of_the_rollouts(serve, make_scorer, teacher) -> None:
    server = serve(teacher)
    rollouts = rollouts_of(*LENGTHS)
    scorer = make_scorer(server, in_flight=1)  # or some overtake others
    assert_scored_by(teacher, scorer.score(rollouts), rollouts)
    asked = server.door.requests[-len(rollouts) - 3 : -3]  # then the known tokens
    assert [len(one["prompt"]) for one in asked] == sorted((len(one["prompt"]) for one in asked), reverse=True)
    for one in asked:
        assert (one["temperature"], one["max_tokens"], one["add_special_tokens"]) == (1.0, 1, False)
    assert scorer.score([]) == []


def test_alternatives_are_the_teachers_likeliest_whether_or_not_the_token_is_one(serve, make_scorer, teacher) -> None:
    rollouts = rollouts_of(*LENGTHS)
    scored = make_scorer(serve(teacher), alternatives=3).score(rollouts)
    expected = PlainScorer(teacher, alternatives=3).score(rollouts)
    for found, one in zip(scored, expected, strict=True):
        assert found.teacher_logp == pytest.approx(one.teacher_logp, abs=1e-5)
        assert found.alternatives.ids == one.alternatives.ids
        assert list(found.alternatives.logp) == pytest.approx(list(one.alternatives.logp), abs=1e-5)


def test_more_alternatives_than_a_server_gives_are_refused_at_the_start(serve, make_scorer, teacher) -> None:
    with pytest.raises(AskedWrongly, match=r"prompt_logprobs = 30 is more.*--max-logprobs 30, or set save.alternat"):
        make_scorer(serve(teacher, largest_logprobs=20), alternatives=30)


def test_a_server_never_has_more_requests_under_way_than_it_may(serve, make_scorer, teacher) -> None:
    servers = [serve(teacher), serve(teacher)]
    scorer = make_scorer(*servers, in_flight=3)
    for one, pause_seconds in zip(servers, (0.3, 0.05), strict=True):
        one.door.pause_seconds, one.door.most_under_way = pause_seconds, 0
    scorer.score(rollouts_of(*[5] * 24))
    assert [one.door.most_under_way for one in servers] == [3, 3]


def test_a_slow_server_gets_less_to_do_and_holds_nobody_up(serve, make_scorer, teacher) -> None:
    slow, quick = serve(teacher), serve(teacher)
    scorer = make_scorer(slow, quick, in_flight=1)
    slow.door.pause_seconds = 0.6
    before = time.monotonic()
    rollouts = rollouts_of(*[6] * 20)
    assert_scored_by(teacher, scorer.score(rollouts), rollouts)
    took = time.monotonic() - before
    first, second = (one.scored for one in scorer.records)
    assert first + second == 20
    assert first < second
    assert took < 0.6 * 10  # what half of the rollouts would take there


def test_what_is_busy_at_first_is_asked_again(serve, make_scorer, teacher) -> None:
    server = serve(teacher)
    scorer = make_scorer(server)
    server.door.statuses = [429, 429, 503, 500]
    rollouts = rollouts_of(*LENGTHS)
    assert_scored_by(teacher, scorer.score(rollouts), rollouts)
    (record,) = scorer.records
    assert record.failures == 4
    assert "status 500" in record.last_failure or "status 503" in record.last_failure


def test_a_server_with_a_full_queue_is_not_taken_for_broken(serve, make_scorer, teacher) -> None:
    server = serve(teacher, queue=1)
    scorer = make_scorer(server, in_flight=4)
    rollouts = rollouts_of(*[70] * 12)
    assert_scored_by(teacher, scorer.score(rollouts), rollouts)
    assert "429" in scorer.records[0].last_failure


def test_a_step_goes_on_when_a_server_is_lost_in_the_midst_of_it(serve, make_scorer, teacher) -> None:
    lost, stays = serve(teacher), serve(teacher)
    scorer = make_scorer(lost, stays, in_flight=2)
    lost.door.pause_seconds = stays.door.pause_seconds = 0.1
    seen = len(lost.door.requests)

    def end_at_the_third() -> None:
        if len(lost.door.requests) == seen + 3:
            threading.Thread(target=lost.stop).start()

    lost.door.asked = end_at_the_third
    rollouts = rollouts_of(*[9] * 20)
    assert_scored_by(teacher, scorer.score(rollouts), rollouts)
    first, second = scorer.records
    assert first.failures >= 1
    assert "Error" in first.last_failure
    assert second.failures == 0


def test_a_server_that_comes_back_is_proven_and_asked_again(serve, make_scorer, teacher) -> None:
    server, other = serve(teacher), serve(teacher)
    scorer = make_scorer(server, other, in_flight=1)
    server.stop()
    scorer.score(rollouts_of(*[9] * 6))
    assert scorer.records[0].scored == 0
    again = serve(teacher, port=server.port)
    other.door.pause_seconds = 0.2
    time.sleep(0.2)  # longer than its pause
    scorer.score(rollouts_of(*[9] * 6))
    assert scorer.records[0].scored > 0
    known = [tuple(one["prompt"]) for one in again.door.requests[:3]]
    assert known == [one.token_ids[:SEQUENCE_TOKENS] for one in scorer._needs.reference.sequences]


def test_a_server_that_comes_back_with_another_model_is_left_out_for_good(serve, make_scorer, teacher, stranger):
    server, other = serve(teacher), serve(teacher)
    scorer = make_scorer(server, other, in_flight=1)
    server.stop()
    scorer.score(rollouts_of(*[9] * 6))
    serve(stranger, port=server.port)
    other.door.pause_seconds = 0.1
    time.sleep(0.2)
    rollouts = rollouts_of(*[9] * 8)
    assert_scored_by(teacher, scorer.score(rollouts), rollouts)
    assert scorer.records[0].scored == 0
    assert "does not serve the teacher" in scorer.records[0].last_failure


def test_with_all_servers_lost_a_step_ends_with_the_last_word_of_each(serve, make_scorer, teacher) -> None:
    servers = [serve(teacher), serve(teacher)]
    scorer = make_scorer(*servers, patience_seconds=0.5)
    servers[0].stop()
    servers[1].door.statuses = [500] * 1_000
    before = time.monotonic()
    with pytest.raises(AnswerIsNo) as error:
        scorer.score(rollouts_of(*LENGTHS))
    assert time.monotonic() - before < 10
    lines = str(error.value).splitlines()
    assert "nothing was updated" in lines[0]
    assert servers[0].url in lines[1]
    assert "ConnectError" in lines[1]
    assert servers[1].url in lines[2]
    assert "status 500" in lines[2]


def test_a_refusal_of_the_last_server_ends_the_step_at_once(serve, make_scorer, teacher) -> None:
    server = serve(teacher)
    scorer = make_scorer(server, patience_seconds=600.0)
    server.door.statuses = [404] * 100
    with pytest.raises(AnswerIsNo, match="status 404"):
        scorer.score(rollouts_of(*LENGTHS))


def test_a_server_that_never_answers_is_not_waited_for(serve, make_scorer, teacher) -> None:
    hangs, answers = serve(teacher), serve(teacher)
    scorer = make_scorer(hangs, answers, timeout_seconds=1.0)
    hangs.door.pause_seconds = 60.0
    rollouts = rollouts_of(*LENGTHS)
    assert_scored_by(teacher, scorer.score(rollouts), rollouts)
    assert scorer.records[0].last_failure == "nothing came within 1 s"


def test_an_answer_that_trickles_is_none(serve, make_scorer, teacher) -> None:
    """Something comes all the time, and would for ten seconds."""
    trickles, answers = serve(teacher), serve(teacher)
    scorer = make_scorer(trickles, answers, timeout_seconds=1.0)
    trickles.door.trickle_seconds = 0.1
    before = time.monotonic()
    rollouts = rollouts_of(*LENGTHS)
    assert_scored_by(teacher, scorer.score(rollouts), rollouts)
    assert time.monotonic() - before < 6
    assert scorer.records[0].last_failure == "nothing came within 1 s"


def entries(answer: Any) -> Any:
    return answer["choices"][0]["prompt_logprobs"]


def with_other_id(answer: Any) -> Any:
    (token, known), *_ = entries(answer)[-1].items()
    entries(answer)[-1] = {str((int(token) + 1) % 312): known}
    return answer


def with_value(value: Any):
    def change(answer: Any) -> Any:
        (known,) = entries(answer)[-1].values()
        known["logprob"] = value
        return answer

    return change


def with_entry(value: Any):
    def change(answer: Any) -> Any:
        entries(answer)[-1] = value
        return answer

    return change


def without_last(answer: Any) -> Any:
    entries(answer).pop()
    return answer


def with_one_more(answer: Any) -> Any:
    entries(answer)[-1]["7"] = entries(answer)[-1]["8"] = {"logprob": -1.0}
    return answer


@pytest.mark.parametrize(
    ("falsify", "said"),
    [
        (with_other_id, "about other ids"),
        (with_entry(None), "no log-probability came back, but None"),
        (with_entry({}), "no log-probability came back"),
        (with_value(math.nan), "its log-probability is nan"),
        (with_value(-math.inf), "its log-probability is -inf"),
        (with_value(-9999.0), "its log-probability is -9999"),
        (with_value(0.5), "its log-probability is 0.5"),
        (with_value("-1"), "its log-probability is '-1'"),
        (with_value(None), "its log-probability is None"),
        (with_value(True), "its log-probability is True"),
        (without_last, "came back for"),
        (with_one_more, "ids came back"),
        (lambda answer: {"choices": [{"text": ""}]}, "no prompt_logprobs"),
        (lambda answer: {"choices": []}, "no prompt_logprobs"),
        (lambda answer: [], "no prompt_logprobs"),
    ],
)
def test_an_answer_about_anything_else_ends_the_step_and_becomes_no_score(
    serve, make_scorer, teacher, falsify, said
) -> None:
    """E45: never a zero, and never asked again until one comes out right."""
    server = serve(teacher)
    scorer = make_scorer(server)
    asked = len(server.door.requests)
    server.door.falsify = falsify
    with pytest.raises(AnswerIsNo, match=said) as error:
        scorer.score(rollouts_of(6))
    assert server.url in str(error.value)
    assert len(server.door.requests) == asked + 1


def all_of(value: float):
    def change(answer: Any) -> Any:
        for entry in entries(answer)[1:]:
            for known in entry.values():
                known["logprob"] = value
        return answer

    return change


@pytest.mark.parametrize("value", [0.0, -0.0, -1e-7, 1e-7])
def test_zeros_for_every_token_of_a_longer_answer_are_no_score(serve, make_scorer, teacher, value: float) -> None:
    """E45. Of fifteen tokens they may be: then the known tokens tell."""
    server = serve(teacher)
    for length, said in ((16, "all 16 log-probabilities are zero"), (15, "of known tokens, all")):
        server.door.falsify = None
        scorer = make_scorer(server)
        server.door.falsify = all_of(value)
        with pytest.raises(AnswerIsNo, match=said):
            scorer.score(rollouts_of(length))


def test_an_answer_that_breaks_off_is_asked_for_again(serve, make_scorer, teacher) -> None:
    server = serve(teacher)
    scorer = make_scorer(server)
    broken = [True]

    def once(answer: Any) -> Any:
        return json.dumps(answer).encode()[:-20] if broken and broken.pop() else answer

    server.door.falsify = once
    rollouts = rollouts_of(6)
    assert_scored_by(teacher, scorer.score(rollouts), rollouts)
    assert "no JSON" in scorer.records[0].last_failure


def test_a_key_goes_into_the_header_and_into_no_message(serve, make_scorer, teacher, monkeypatch) -> None:
    monkeypatch.setenv("TEACHER_KEY", "open-sesame-17")
    server = serve(teacher, key="open-sesame-17")
    rollouts = rollouts_of(6)
    scorer = make_scorer(server, key_variable="TEACHER_KEY")
    assert_scored_by(teacher, scorer.score(rollouts), rollouts)
    server.door.application = echoing_key
    with pytest.raises(AnswerIsNo, match="holds the API key, and is not shown") as error:
        scorer.score(rollouts)
    assert "open-sesame" not in str(error.value) + repr(scorer.records)


async def echoing_key(scope: Any, receive: Any, send: Any) -> None:
    given = dict(scope["headers"])[b"authorization"]
    await send({"type": "http.response.start", "status": 400, "headers": []})
    await send({"type": "http.response.body", "body": b"who is " + given})


def test_without_its_key_a_server_is_refused_at_the_start(serve, make_scorer, teacher, monkeypatch) -> None:
    server = serve(teacher, key="open-sesame-17")
    with pytest.raises(AskedWrongly, match="status 401"):
        make_scorer(server)
    monkeypatch.delenv("TEACHER_KEY", raising=False)
    with pytest.raises(AskedWrongly, match="TEACHER_KEY is not set"):
        make_scorer(server, key_variable="TEACHER_KEY")


def test_in_a_notebook_whose_loop_is_running_it_scores_too(serve, make_scorer, teacher) -> None:
    scorer = make_scorer(serve(teacher))
    rollouts = rollouts_of(6)

    async def cell() -> Any:
        return scorer.score(rollouts)

    assert_scored_by(teacher, asyncio.run(cell()), rollouts)


def test_run_here_gives_what_the_coroutine_gives() -> None:
    async def seven() -> int:
        return 7

    assert run_here(seven()) == 7
