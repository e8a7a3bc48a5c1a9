"""A judge at a server, against a server on this machine that does what a test tells it to."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from opd.evaluate.judge import JudgeCase, open_judge
from opd.evaluate.judges.exchange import Asked, JudgeModel, NoReply, Reply
from opd.evaluate.judges.server import ServerBackend
from opd.evaluate.judges.settings import JudgeSettings, ServerJudge
from opd.records.errors import AskedWrongly
from opd.records.scores import Verdict
from opd.records.settings import validated

KEY = "sk-test-0123456789abcdef"
TURNS = [Asked(key=str(n), turn=f"turn {n}") for n in range(6)]


@dataclass
class Answer:
    """What the server sends back."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    wait_seconds: float = 0.0
    trickle_seconds: float = 0.0  # between two bytes
    drop: bool = False  # the connection, without an answer


def says(content: Any, **choice: Any) -> Answer:
    return Answer(body=json.dumps({"choices": [{"message": {"content": content}, **choice}]}).encode())


@dataclass
class Loopback:
    """A server on 127.0.0.1; `answer(request)` decides, and what it was sent is kept."""

    url: str
    answer: Callable[[dict[str, Any]], Answer] = lambda _: says("A", finish_reason="stop")
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def settings(self, **changes: Any) -> ServerJudge:
        values: dict[str, Any] = {"timeout_seconds": 5.0, "backoff_seconds": 0.001, "limit_tokens": 8}
        return ServerJudge(**({"url": self.url, "model": "some/Judge-7B"} | values | changes))

    def replies(self, turns: list[Asked] = TURNS[:1], **changes: Any) -> list[Reply | NoReply]:
        backend = ServerBackend(self.settings(**changes))
        try:
            return backend.replies(turns)
        finally:
            backend.close()


@pytest.fixture
def server() -> Iterator[Loopback]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with loopback.lock:
                loopback.requests.append(json.loads(body))
                loopback.keys.append(self.headers.get("Authorization"))
                loopback.paths.append(self.path)
                loopback.under_way += 1
                loopback.most_under_way = max(loopback.most_under_way, loopback.under_way)
            answer = loopback.answer(json.loads(body))
            time.sleep(answer.wait_seconds)
            with loopback.lock:
                loopback.under_way -= 1
            if answer.drop:
                self.close_connection = True
                return
            try:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                for start in range(len(answer.body)) if answer.trickle_seconds else ():
                    self.wfile.write(answer.body[start : start + 1])
                    time.sleep(answer.trickle_seconds)
                if not answer.trickle_seconds:
                    self.wfile.write(answer.body)
            except (BrokenPipeError, ConnectionResetError):  # the client gave up waiting
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    loopback = Loopback(url=f"http://127.0.0.1:{httpd.server_port}/v1")
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield loopback
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def one_by_one(*answers: Answer) -> Callable[[dict[str, Any]], Answer]:
    """The answers in turn, the last one again and again."""
    left = list(answers)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def reason(replies: list[Reply | NoReply]) -> str:
    (reply,) = replies
    assert isinstance(reply, NoReply), reply
    return reply.reason


def test_a_request_is_one_user_turn_at_temperature_zero(server: Loopback) -> None:
    assert server.replies() == [Reply(text="A")]
    assert server.requests == [
        {
            "model": "some/Judge-7B",
            "messages": [{"role": "user", "content": "turn 0"}],
            "temperature": 0,
            "max_tokens": 8,
        }
    ]
    assert server.paths == ["/v1/chat/completions"]
    assert server.keys == [None]


def test_a_slash_at_the_end_of_the_url_changes_nothing(server: Loopback) -> None:
    server.replies(url=server.url + "/")
    assert server.paths == ["/v1/chat/completions"]


def test_replies_come_back_in_the_order_of_the_turns(server: Loopback) -> None:
    def backwards(request: dict[str, Any]) -> Answer:
        number = int(request["messages"][0]["content"].split()[1])
        answer = says(f"reply {number}")
        answer.wait_seconds = 0.05 * (5 - number)
        return answer

    server.answer = backwards
    assert server.replies(TURNS) == [Reply(text=f"reply {n}") for n in range(6)]


@pytest.mark.parametrize("concurrency", [1, 3])
def test_no_more_requests_are_under_way_than_allowed(server: Loopback, concurrency: int) -> None:
    def slow(_: dict[str, Any]) -> Answer:
        answer = says("A")
        answer.wait_seconds = 0.1
        return answer

    server.answer = slow
    server.replies(TURNS, concurrency=concurrency)
    assert server.most_under_way == concurrency


def test_what_may_pass_is_tried_again(server: Loopback) -> None:
    server.answer = one_by_one(
        Answer(status=503), Answer(status=429), Answer(status=500), Answer(drop=True), says("B")
    )
    assert server.replies() == [Reply(text="B")]
    assert len(server.requests) == 5


def test_pauses_double_and_a_longer_wish_of_the_server_is_respected_up_to_a_minute(server: Loopback) -> None:
    slept: list[float] = []
    server.answer = one_by_one(
        Answer(status=500),
        Answer(status=429, headers={"Retry-After": "7"}),
        Answer(status=500, headers={"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}),
        Answer(status=503, headers={"Retry-After": "86400"}),
        says("A"),
    )
    backend = ServerBackend(server.settings(backoff_seconds=2.0), sleep=slept.append)
    assert backend.replies(TURNS[:1]) == [Reply(text="A")]
    backend.close()
    assert slept == [2.0, 7.0, 8.0, 60.0]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_is_not_tried_again(server: Loopback, status: int) -> None:
    server.answer = one_by_one(Answer(status=status, body=b'{"error": "no such model"}'), says("A"))
    said = reason(server.replies())
    assert f"status {status}" in said
    assert "no such model" in said
    assert len(server.requests) == 1


def test_a_redirect_is_not_followed(server: Loopback) -> None:
    server.answer = one_by_one(Answer(status=307, headers={"Location": server.url + "/elsewhere"}), says("A"))
    assert "status 307" in reason(server.replies())
    assert len(server.requests) == 1


def test_a_server_that_stays_broken_is_a_failure_with_its_last_reason(server: Loopback) -> None:
    server.answer = one_by_one(Answer(status=502, body=b"<html>Bad Gateway</html>"))
    assert reason(server.replies(tries=3)) == (
        "no reply after 3 tries: the server answered with status 502: '<html>Bad Gateway</html>'"
    )
    assert len(server.requests) == 3


def test_nobody_at_the_other_end_is_a_failure() -> None:
    """H48: the judge was never there."""
    nobody = Loopback(url="http://127.0.0.1:1/v1")
    assert "no reply after one try: ConnectError" in reason(nobody.replies(tries=1))


def test_a_request_that_takes_too_long_is_a_failure(server: Loopback) -> None:
    slow = says("A")
    slow.wait_seconds = 0.6
    server.answer = one_by_one(slow)
    assert reason(server.replies(timeout_seconds=0.2, tries=2)) == (
        "no reply after 2 tries: nothing came within 0.2 s"
    )


def test_a_body_that_trickles_past_the_time_is_a_failure(server: Loopback) -> None:
    """Each byte comes in time, and all of them together don't."""
    slow = says("A")
    slow.trickle_seconds = 0.05
    assert len(slow.body) * slow.trickle_seconds > 1.0
    server.answer = one_by_one(slow)
    assert "not complete in time" in reason(server.replies(timeout_seconds=0.3, tries=1))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"{",
        b"[]",
        b"{}",
        b"null",
        b'{"choices": []}',
        b'{"choices": {}}',
        b'{"choices": [7]}',
        b'{"choices": [{"message": null}]}',
        b'{"choices": [{"message": {"content": null}}]}',
        b'{"choices": [{"message": {"content": ["A"]}}]}',
        b'{"error": {"message": "overloaded"}}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_garbage_is_a_failure_and_no_reply(server: Loopback, body: bytes) -> None:
    """H48: what comes with status 200 need not be a reply."""
    server.answer = one_by_one(Answer(body=body))
    assert "the server's answer" in reason(server.replies())


def test_an_empty_text_and_one_that_the_limit_cut_off_come_back_as_such(server: Loopback) -> None:
    server.answer = one_by_one(says("", finish_reason="stop"), says("A", finish_reason="length"))
    assert server.replies(TURNS[:2], concurrency=1) == [Reply(text=""), Reply(text="A", cut_short=True)]


def test_an_answer_without_end_is_a_failure(server: Loopback) -> None:
    server.answer = one_by_one(says("A" * 5_000_000))
    assert "longer than 4,194,304 bytes" in reason(server.replies(tries=1))


def test_one_failure_fails_no_other_turn(server: Loopback) -> None:
    def all_but_one(request: dict[str, Any]) -> Answer:
        return Answer(status=400) if request["messages"][0]["content"] == "turn 2" else says("A")

    server.answer = all_but_one
    replies = server.replies(TURNS)
    assert [isinstance(reply, Reply) for reply in replies] == [True, True, False, True, True, True]


# --- the key --------------------------------------------------------------------------------------------


def test_the_key_comes_from_the_environment_and_goes_into_the_header(
    server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_KEY", KEY + "\n")
    assert server.replies(key_variable="JUDGE_KEY") == [Reply(text="A")]
    assert server.keys == [f"Bearer {KEY}"]


def test_a_key_that_is_not_set_is_said_before_anything_is_asked(
    server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JUDGE_KEY", raising=False)
    for value in (None, "", "  "):
        if value is not None:
            monkeypatch.setenv("JUDGE_KEY", value)
        with pytest.raises(AskedWrongly, match="JUDGE_KEY is not set"):
            server.replies(key_variable="JUDGE_KEY")
    assert server.requests == []


def test_a_key_that_the_server_does_not_take_is_a_failed_judge(
    server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H48: no key, no verdict."""
    monkeypatch.setenv("JUDGE_KEY", "expired")
    server.answer = one_by_one(Answer(status=401, body=b'{"error": "invalid key"}'))
    judge = open_judge(JudgeSettings(server=server.settings(key_variable="JUDGE_KEY")))
    with judge:
        (outcome,) = judge.judged([JudgeCase(question="q", gold="1", response="2")])
    assert outcome.verdict is Verdict.JUDGE_FAILED
    assert "401" in outcome.reason


@pytest.mark.parametrize(
    "echo",
    [
        lambda key: says(f"A {key}"),
        lambda key: Answer(status=401, body=f"Incorrect API key provided: {key}".encode()),
        lambda key: Answer(status=500, body=f"header was {key}".encode()),
        lambda key: Answer(body=f"not json {key}".encode()),
    ],
)
def test_an_answer_that_holds_the_key_is_dropped(
    server: Loopback, monkeypatch: pytest.MonkeyPatch, echo: Callable[[str], Answer]
) -> None:
    """H44: what would be published is scanned for the known value; it is dropped, not masked."""
    monkeypatch.setenv("JUDGE_KEY", KEY)
    server.answer = one_by_one(echo(KEY))
    assert KEY in server.answer({}).body.decode()  # the bad condition
    said = reason(server.replies(key_variable="JUDGE_KEY", tries=1))
    assert KEY not in said
    assert "holds the API key" in said


def test_the_key_stands_in_no_repr_no_identity_and_no_recording(
    server: Loopback, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JUDGE_KEY", KEY)
    record = tmp_path / "replies.jsonl"
    asked = JudgeSettings(server=server.settings(key_variable="JUDGE_KEY"), record=str(record))
    with open_judge(asked) as judge:
        (outcome,) = judge.judged([JudgeCase(question="q", gold="1", response="1.0")])
        texts = [repr(judge), repr(judge._backend), judge.identity(), repr(asked), repr(outcome), record.read_text()]
    assert server.keys == [f"Bearer {KEY}"]
    assert all(KEY not in text for text in texts)


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8000/v1",
        "ftp://127.0.0.1/v1",
        "http://",
        "http://127.0.0.1:0/v1",
        "http://127.0.0.1:99999/v1",
        "http://[::1/v1",
        "http://a..example/v1",
        "",
        "http://user.example:secret@127.0.0.1/v1",
        "http://127.0.0.1/v1?key=secret",
    ],
)
def test_a_url_that_is_none_or_holds_a_secret_is_refused_without_repeating_the_secret(url: str) -> None:
    with pytest.raises(AskedWrongly) as refused:
        validated(ServerJudge, {"url": url, "model": "m"}, source="judge.toml")
    assert "judge.toml" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_server_is_known_by_the_name_of_its_model_and_the_limit(server: Loopback) -> None:
    backend = ServerBackend(server.settings())
    backend.close()
    assert backend.model == JudgeModel(name="some/Judge-7B", limit_tokens=8)


def test_without_its_client_a_judge_at_a_server_is_asked_wrongly(tmp_path: Path) -> None:
    (tmp_path / "httpx2.py").write_text("raise ModuleNotFoundError('no httpx2 here')")
    program = (
        "from opd.evaluate.judges.server import ServerBackend; from opd.evaluate.judges.settings import ServerJudge;"
        "ServerBackend(ServerJudge(url='http://127.0.0.1:1/v1', model='m'))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert "AskedWrongly: a judge at a server needs httpx2: pip install 'opd[judge]'" in done.stderr
