"""An attempt's tries, receipts, device, audits and reports, as their files say; what is not sealed does not count."""

import hashlib
import json
import sys

import pytest
from tests.view.server.asking import served

from opd.view.server.programs import Programs

DEVICE = "".join(
    json.dumps(
        {
            "monotonic": 100.0 + at,
            "utc": f"t{at}",
            "processes": 2,
            "cpu_share": 0.5,
            "evaluating": at < 3,
            "gpus": [{"busy": at}],
        }
    )
    + "\n"
    for at in range(20)
)
AUDIT = {"findings": [{"check": "x", "verdict": "confirmed", "sentence": "It is so."}], "advice": []}
PAGE = "<!doctype html><script>top.location='http://evil.example'</script><p>a report"
RENDERED = json.dumps({"files": ["index.html", "brief.md", "../../run.json", "/etc/passwd", "gone.md"]})
TRIES = {
    "explore/attempt-001": {"device.jsonl": DEVICE, "desk.jsonl": '{"command": "timer", "said": ["x"]}\n'},
    "submission": {"outcome.json": '{"note": "' + "n" * 30_000 + '"}'},
    "formal/attempt-001": {f"{n:03}.txt": "x" * n for n in range(300)},
    "audit/attempt-001": {"outcome.json": json.dumps(AUDIT)},
    "report/attempt-001": {"index.html": PAGE, "brief.md": "# Brief", "outcome.json": RENDERED},
}


@pytest.fixture(scope="module")
def ask(tmp_path_factory, make_attempt):
    place = tmp_path_factory.mktemp("runs")
    attempt = make_attempt(place / "attempt", tries=TRIES)
    (attempt / "formal" / "attempt-002.partial").mkdir()
    (attempt / "formal" / "attempt-003").mkdir()  # in place, and without its mark
    damaged = make_attempt(place / "damaged", tries={"formal/attempt-001": {}})
    receipt = damaged / "formal" / "attempt-001" / "receipt.json"
    text = receipt.read_text().replace('"completed"', '"failed"')
    receipt.unlink()
    receipt.write_text(text)
    code = "import json, sys; print(json.dumps({'state': 'x', 'asked': sys.argv[1:]})); sys.exit(1)"
    with served(place, programs=Programs([sys.executable, "-c", code])) as asking:
        yield asking


@pytest.fixture
def base(ask):
    return f"/api/runs/{ask.id('attempt')}"


def test_the_tries_stand_in_order_with_what_their_receipts_say(ask, base):
    tries = ask(base).json()["tries"]
    assert [(one["folder"], one["liveness"], one["outcome"]) for one in tries] == [
        ("explore/attempt-001", "sealed", "completed"),
        ("submission", "sealed", "completed"),
        ("formal/attempt-001", "sealed", "completed"),
        ("formal/attempt-002.partial", "filling", None),
        ("formal/attempt-003", "unmarked", None),
        ("audit/attempt-001", "sealed", "completed"),
        ("report/attempt-001", "sealed", "completed"),
    ]
    assert (tries[2]["files"], tries[2]["bytes"]) == (300, sum(range(300)))
    assert tries[1]["outcome_json"] == {"note": "n" * 20_000 + "…"}


def test_a_try_that_is_being_filled_has_the_time_that_events_and_lease_tell(tmp_path, make_attempt):
    attempt = make_attempt(tmp_path / "attempt", tries={})
    for number in (1, 2):
        (attempt / "explore" / f"attempt-00{number}.partial").mkdir(parents=True)
    begun = {"utc": "2026-01-31T10:00:00.000Z", "monotonic": 100.0, "boot_id": "b", "realtime": 1e9}
    event = {"kind": "began", "actor": "explore/attempt-002", "data": {"name": "explore/attempt-002"}, "at": begun}
    (attempt / "events.jsonl").write_text(json.dumps(event) + "\n")
    (attempt / "lease.json").write_text(json.dumps({"heard": begun | {"monotonic": 165.0}}))
    with served(tmp_path) as ask:
        unknown, known = ask(f"/api/runs/{ask.id('attempt')}").json()["tries"]
        assert ask.rows()["attempt"]["seconds"] is None  # of one of them nothing is known
    assert (unknown["began_utc"], unknown["active_seconds"]) == (None, None)
    assert (known["began_utc"], known["active_seconds"]) == ("2026-01-31T10:00:00.000Z", 65.0)


def test_a_receipt_that_its_mark_does_not_fit_is_not_believed(ask):
    (one,) = ask(f"/api/runs/{ask.id('damaged')}").json()["tries"]
    assert (one["liveness"], one["outcome"], one["files"]) == ("damaged", None, 0)
    found = ask(f"/api/runs/{ask.id('damaged')}/receipt?try=formal/attempt-001").json()
    assert (found["receipt"], "damaged" in found["missing"]) == (None, True)


def test_a_receipt_comes_with_its_files_page_by_page(ask, base):
    pages = [ask(f"{base}/receipt?try=formal/attempt-001&offset={offset}&limit=200").json() for offset in (0, 200)]
    assert pages[0]["receipt"]["made_from"] == {"task": "0" * 64}
    assert "files" not in pages[0]["receipt"]
    rows = [row for page in pages for row in page["files"]["rows"]]
    assert [(row["path"], row["bytes"]) for row in rows] == [(f"{n:03}.txt", n) for n in range(300)]
    assert pages[0]["files"]["total"] == 300


def test_the_device_is_told_from_the_first_second_on(ask, base):
    found = ask(f"{base}/device?try=explore/attempt-001&points=10").json()
    assert (found["began_utc"], found["seconds"]) == ("t0", 19)
    assert found["buckets"]["first"] == list(range(0, 20, 2))
    assert found["series"]["gpus/0/busy"]["high"] == list(range(1, 20, 2))
    assert found["series"]["evaluating"]["mean"][:3] == [1, 0.5, 0]
    assert ask(f"{base}/device?try=formal/attempt-001").status == 404
    assert ask(f"{base}/desk?try=explore/attempt-001").json() == {
        "rows": [{"command": "timer", "said": ["x"]}],
        "total": 1,
    }


def test_the_log_and_its_head(ask, base):
    assert ask(base).json()["events"] == {"count": 2, "head_sha256": hashlib.sha256(b'{"seq": 2}').hexdigest()}
    assert ask(f"{base}/log?offset=1&limit=5").json() == {"total": 2, "offset": 1, "rows": [{"seq": 2}]}


def test_an_audit_is_shown_as_it_was_sealed(ask, base):
    assert ask(base).json()["audits"] == ["audit/attempt-001"]
    assert ask(f"{base}/audit?try=audit/attempt-001").json() == {"audit": AUDIT, "missing": None}
    assert ask(f"{base}/audit?try=formal/attempt-003").json()["audit"] is None


def test_where_it_stands_is_the_install_s_word_even_where_that_is_a_no(ask, base):
    found = ask(f"{base}/status").json()
    assert found["status"]["asked"][:4] == ["attempt", "status", "--json", "--"]
    assert found["missing"] is None


@pytest.mark.parametrize(
    "name",
    ["", "formal", "formal/", "formal/attempt-009", "formal/..", "formal/../explore/attempt-001", "base", "../x"],
)
@pytest.mark.parametrize("address", ["receipt", "device", "desk", "audit"])
def test_only_the_tries_that_there_are_can_be_asked_for(ask, base, name, address):
    assert ask(f"{base}/{address}?try={name}").status in {400, 404}


def test_a_report_is_shown_with_no_script_of_its_own_and_names_only_its_own_files(ask, base):
    (report,) = ask(base).json()["reports"]
    assert [one["name"] for one in report["files"]] == ["index.html", "brief.md"]
    answered = ask(report["url"])
    assert answered.body.decode() == PAGE
    policy = dict(rule.partition(" ")[::2] for rule in answered.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'self'"
    assert "script-src" not in policy  # so that default-src holds
    assert "allow-scripts" not in policy["sandbox"]
    assert "allow-top-navigation" not in policy["sandbox"]
    assert ask(report["files"][1]["url"]).headers["content-type"].startswith("text/plain")


def test_the_runs_inside_are_named_by_what_they_are_to_the_attempt(tmp_path, make_attempt, make_train, make_score):
    tries = {"explore/attempt-001": {"outcome.json": "{}"}, "formal/attempt-001": {}, "final/step-000040": {}}
    attempt = make_attempt(tmp_path / "deep" / "explore" / "attempt", tries=tries)
    make_train(attempt / "explore" / "attempt-001" / "runs" / "baseline", steps=1)
    make_train(attempt / "explore" / "attempt-001" / "workspace" / "proxy", steps=1)  # an explorer's own affair
    make_score(attempt / "explore" / "attempt-001" / "proxy" / "001" / "evaluation")
    make_train(attempt / "formal" / "attempt-001" / "checkout" / "checkpoints", steps=1)
    make_score(attempt / "final" / "step-000040" / "evaluation")
    with served(tmp_path) as ask:
        parts = ask(f"/api/runs/{ask.id('deep/explore/attempt')}").json()["parts"]
        assert [(one["role"], one["kind"], one["try"]) for one in parts] == [
            ("proxy", "score", "explore/attempt-001"),
            ("exploration", "train", "explore/attempt-001"),
            ("final", "score", "final/step-000040"),
            ("formal", "train", "formal/attempt-001"),
        ]
        for one in parts:
            assert ask(f"/api/runs/{one['id']}").json()["row"]["kind"] == one["kind"]
