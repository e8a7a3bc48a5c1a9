"""What the addresses of the API give, over real connections."""

import hashlib
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import pytest
from tests.view.server.asking import served

from opd.evaluate.score import build_score
from opd.records.files import COMPLETE, digest, write_json
from opd.records.scores import Comparison, Verdict
from opd.view.server import rollouts, samples
from opd.view.server.programs import Programs


def publish(folder, weights=b"weights"):
    """A checkpoint as the install leaves it; the digest by which a score names it."""
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(weights)
    files = {"model.safetensors": hashlib.sha256(weights).hexdigest()}
    write_json(folder / COMPLETE, {"files": files})
    return digest(files)


def about(score, model_digest, model="elsewhere/checkpoint-40", mean=0.75):
    values = json.loads((score / "score.json").read_text())
    write_json(score / "score.json", values | {"model_digest": model_digest, "model": model, "mean": mean})


READERS = {  # what reads the files that a page is about
    "/score/{score}": (samples, "_indexed"),
    "/compare?a={score}&b={other}": (samples, "_indexed"),
    "/rollouts/{run}?step=1": (rollouts, "read_table"),
    "/rollouts/{run}": (rollouts, "read_table"),
}


@pytest.mark.parametrize("page", READERS)
def test_a_page_that_was_sent_has_its_files_read_before_it_asks(tmp_path, make_train, make_score, monkeypatch, page):
    make_train(tmp_path / "run", steps=1)
    for name in ("score", "other"):
        make_score(tmp_path / name)
    read: SimpleQueue[Path] = SimpleQueue()
    module, name = READERS[page]
    real = getattr(module, name)
    with served(tmp_path) as ask:
        ids = {name: row["id"] for name, row in ask.rows().items()}
        monkeypatch.setattr(module, name, lambda file, *rest: read.put(file.path) or real(file, *rest))
        assert ask(page.format(**ids)).status == 200
        early = {read.get(timeout=30).parent for name in ids if f"{{{name}}}" in page}  # nobody asked for it
        for address in ("/api/runs/{score}/questions", "/api/runs/{other}/questions", "/api/runs/{run}/rollouts/1"):
            assert ask(address.format(**ids)).status == 200
    assert early.isdisjoint(read.get().parent for _ in range(read.qsize()))


def test_a_training_run_has_the_score_of_its_newest_checkpoint_and_names_it(tmp_path, make_train, make_score):
    run = make_train(tmp_path / "run")
    about(make_score(tmp_path / "s40"), publish(run / "checkpoint-40", b"forty"))
    about(make_score(tmp_path / "s9"), publish(run / "checkpoint-9", b"nine"), mean=0.9)  # 9 sorts after 40 as text
    about(make_score(tmp_path / "other"), "f" * 64, mean=1.0)
    about(
        make_score(tmp_path / "gone"), "e" * 64, model=str(run / "checkpoint-20"), mean=0.6
    )  # its checkpoint is no more
    with served(tmp_path) as ask:
        rows = ask.rows()
        found = ask(f"/api/runs/{rows['run']['id']}").json()
    assert (rows["run"]["mean"], rows["run"]["scored"], rows["run"]["score_id"]) == (
        0.75,
        "checkpoint-40",
        rows["s40"]["id"],
    )
    assert {name: row["trained_steps"] for name, row in rows.items() if row["kind"] == "score"} == {
        "s40": 40,
        "s9": 9,
        "other": None,
        "gone": 20,
    }
    assert {row["run_id"] for name, row in rows.items() if name in {"s40", "s9", "gone"}} == {rows["run"]["id"]}
    assert [(one["step"], [s["mean"] for s in one["scores"]]) for one in found["checkpoints"]] == [
        (9, [0.9]),
        (40, [0.75]),
    ]
    assert [(one["step"], one["mean"]) for one in found["scores"]] == [(9, 0.9), (20, 0.6), (40, 0.75)]
    assert {one["protocol_digest"] for one in found["scores"]} == {rows["s9"]["protocol_digest"]}


def test_the_list_says_in_what_the_recipes_differ(tmp_path, make_train):
    make_train(tmp_path / "a", steps=1, lr=1e-6)
    make_train(tmp_path / "b", steps=1, lr=2e-6)
    with served(tmp_path) as ask:
        found = ask("/api/runs").json()
    assert found["varying"] == ["optimizer.lr"]
    assert {row["name"]: row["varies"] for row in found["runs"]} == {
        "a": {"optimizer.lr": 1e-6},
        "b": {"optimizer.lr": 2e-6},
    }


def test_a_run_is_told_in_full(tmp_path, make_train, metrics_of):
    run = make_train(tmp_path / "run", steps=3)
    with (run / "metrics.jsonl").open("a") as file:
        for step, texts in ((4, ["the gap is large", "loops"]), (5, []), (6, ["again"])):
            file.write(json.dumps(metrics_of(step).resolved() | {"warnings": texts}) + "\n")
    (run / "events.jsonl").write_text('{"event": "sink_dropped", "step": 2}\nnot json\n')
    write_json(run / "failure-1.json", {"phase": "save", "exceptions": [{"kind": "OSError", "message": "full"}]})
    write_json(run / "failure-2.json", {"phase": "update", "exceptions": []})
    (run / "failure.json").write_text("{cut")
    publish(run / "checkpoint-6")
    (run / "checkpoint-3").mkdir()
    with served(tmp_path) as ask:
        found = ask(f"/api/runs/{ask.id('run')}").json()
    assert found["warnings"] == {
        "count": 3,
        "newest": [
            {"step": 6, "text": "again"},
            {"step": 4, "text": "loops"},
            {"step": 4, "text": "the gap is large"},
        ],
    }
    assert found["events"] == [{"event": "sink_dropped", "step": 2}]
    assert [one["file"] for one in found["failures"]] == ["failure.json", "failure-2.json", "failure-1.json"]
    assert found["failures"][2]["phase"] == "save"
    assert [(one["name"], one["complete"]) for one in found["checkpoints"]] == [
        ("checkpoint-3", False),
        ("checkpoint-6", True),
    ]
    assert {"key": "optimizer.lr", "value": 6e-4} in found["recipe"]
    used = {one["what"]: (one["asked"], one["used"]) for one in found["budget"]}
    assert used["steps"] == (40, 6)
    assert used["rows"] == (None, 96)
    assert found["metrics"]["last"] == 6
    assert found["rollouts"] == {"tables": 1, "first": 1, "last": 1}


PLAN = "import json, sys; print(json.dumps(sys.argv[1:]))"


def test_the_plan_is_the_install_s_beside_what_was_measured(tmp_path, make_train, metrics_of):
    run = make_train(tmp_path / "run", steps=4)
    with served(tmp_path, programs=Programs([sys.executable, "-c", PLAN])) as ask:
        found = ask(f"/api/runs/{ask.id('run')}/plan").json()
    assert found["plan"] == ["plan", "--json", "--", str(run / "recipe.json")]
    assert (found["reality"]["steps"], found["reality"]["peak_bytes"]) == (4, 812_000_000)
    assert found["reality"]["seconds"]["update"] == pytest.approx(0.172)
    steps = [metrics_of(step) for step in range(1, 5)]
    assert found["reality"]["rows_seen"] == steps[-1].rows_seen
    assert found["reality"]["rollout_tokens"] == pytest.approx(sum(one.rollouts * one.mean_tokens for one in steps))


def test_what_an_explorer_asks_for_is_never_given_to_the_planner(tmp_path, make_train, make_attempt):
    attempt = make_attempt(tmp_path / "attempt", tries={"explore/attempt-001": {"outcome.json": "{}"}})
    (attempt / "explore" / "attempt-001" / "runs").mkdir()
    make_train(attempt / "explore" / "attempt-001" / "runs" / "x", steps=2)
    with served(tmp_path, programs=Programs([sys.executable, "-c", PLAN])) as ask:
        (part,) = ask(f"/api/runs/{ask.id('attempt')}").json()["parts"]
        found = ask(f"/api/runs/{part['id']}/plan").json()
        assert (part["role"], part["kind"], found["plan"], found["reality"]["steps"]) == (
            "exploration",
            "train",
            None,
            2,
        )
        assert "not planned" in found["missing"]
    with served(tmp_path) as ask:  # a link to a part leads there in a server that has not shown its attempt yet
        assert ask(f"/api/runs/{part['id']}").json()["row"]["parent"] == ask.id("attempt")
        assert part["id"] not in {row["id"] for row in ask.rows().values()}


def test_a_score_that_is_still_made_is_shown_as_far_as_it_is(tmp_path, make_score, sample_of):
    score = make_score(tmp_path / "score", questions=2)
    (score / "score.json").unlink()
    with served(tmp_path) as ask:
        id_ = ask.id("score")
        found = ask(f"/api/runs/{id_}").json()
        assert (found["row"]["state"], found["lines"], found["score"], found["verdicts"]) == (
            "left",
            4,
            None,
            {"correct": 4},
        )
        with (score / "samples.jsonl").open("a") as file:
            file.write(json.dumps(sample_of(9, 0).resolved()) + '\n{"torn": ')
        found = ask(f"/api/runs/{id_}").json()
        assert (found["lines"], found["trouble"]) == (5, [])
        assert ask(f"/api/runs/{id_}/samples?limit=1&offset=4").json()["rows"][0]["question"] == "arith-final-0009"


def test_two_scores_are_compared_by_the_install_and_counted_by_question(tmp_path, make_score, sample_of):
    make_score(tmp_path / "a", questions=4)
    make_score(tmp_path / "b", lines=[sample_of(n, k).resolved() for n in (3, 1, 7) for k in range(2)])
    code = "import json, sys; print(json.dumps({'of': sys.argv[1:], 'pid': __import__('os').getpid()}))"
    with served(tmp_path, programs=Programs([sys.executable, "-c", code])) as ask:
        a, b = ask.id("a"), ask.id("b")
        quick = ask(f"/api/compare?a={a}&b={b}&part=questions").json()
        found = ask(f"/api/compare?a={a}&b={b}").json()
        again = ask(f"/api/compare?a={a}&b={b}").json()
        turned = ask(f"/api/compare?a={b}&b={a}").json()
        assert (quick["comparison"], quick["questions"]) == (None, ["arith-final-0001", "arith-final-0003"])
        assert found["comparison"]["of"] == ["compare", "--json", "--", str(tmp_path / "a"), str(tmp_path / "b")]
        assert again["comparison"] == found["comparison"]  # not asked twice
        assert turned["comparison"]["of"][-2:] == [str(tmp_path / "b"), str(tmp_path / "a")]
        (tmp_path / "b" / "samples.jsonl").write_text("")
        assert ask(f"/api/compare?a={a}&b={b}").json()["comparison"]["pid"] != found["comparison"]["pid"]


@pytest.mark.patient
def test_the_install_s_own_comparison_is_what_is_shown(tmp_path, make_score, score_of, sample_of):
    """Questions 0 to 3, two samples each: all right in the one, and all but those of question 0 in the other."""
    like = {"questions": 4, "samples_per_question": 2, "seeds": (0, 1)}
    protocol = score_of("x", 0.5).protocol.model_copy(update=like)
    for name, wrong in (("a", set()), ("b", {0})):
        verdicts = {n: Verdict.WRONG if n in wrong else Verdict.CORRECT for n in range(4)}
        samples = [sample_of(n, k, verdicts[n]) for n in range(4) for k in range(2)]
        score = build_score(samples, protocol=protocol, model=name, model_digest="0" * 64, seconds=1.0, machine={})
        write_json(
            make_score(tmp_path / name, lines=[one.resolved() for one in samples]) / "score.json", score.resolved()
        )
    with served(tmp_path) as ask:
        a, b, _ = ask.id("a"), ask.id("b"), make_score(tmp_path / "odd")
        found = ask(f"/api/compare?a={a}&b={b}").json()
        while "odd" not in ask.rows():
            time.sleep(0.05)
        refused = ask(f"/api/compare?a={a}&b={ask.id('odd')}").json()
    assert found["comparison"]["difference"] == -0.25
    assert Comparison.model_validate_json(json.dumps(found["comparison"])).questions == 4
    assert (found["a_right"], found["b_right"]) == ([2, 2, 2, 2], [0, 2, 2, 2])
    assert refused["comparison"] is None
    assert refused["missing"].startswith(f"{tmp_path / 'odd'}: 3 questions have samples; 500 are declared")


def test_asking_for_what_a_run_is_not_is_answered_by_a_sentence(tmp_path, make_train, make_score):
    make_train(tmp_path / "run", steps=1)
    make_score(tmp_path / "score")
    with served(tmp_path) as ask:
        run, score = ask.id("run"), ask.id("score")
        for path, status in {
            f"/api/runs/{run}/samples": 404,
            f"/api/runs/{score}/metrics": 404,
            f"/api/runs/{score}/log": 404,
            f"/api/compare?a={run}&b={score}": 409,
            f"/api/compare?a={score}": 400,
            f"/api/runs/{score}/samples?limit=201": 400,
            f"/api/runs/{score}/samples?offset=-1": 400,
            f"/api/runs/{score}/samples?offset={'9' * 5000}": 400,
            f"/api/runs/{score}/samples?verdict=great": 400,
            f"/api/runs/{score}/samples?sort=%00": 400,
            f"/api/runs/{score}/samples/%D9%A1": 400,  # a digit, and not one of ours
            f"/api/runs/{run}/rollouts/1?filter=wrongg": 400,
            f"/api/runs/{run}/rollouts/x": 400,
            f"/api/runs/{run}/metrics?points=1": 400,
            "/api/nothing": 404,
            "/api/runs/": 404,
        }.items():
            answered = ask(path)
            assert (path, answered.status) == (path, status)
            assert answered.json()["error"]


def test_everything_a_model_wrote_reaches_the_reader_as_json(tmp_path, make_score, sample_of):
    nasty = "</script><img src=x onerror=alert(1)>\u202e\0\x1b[2J" + "a" * 1_000_000
    lines = [sample_of(0, 0).resolved() | {"response": nasty, "question": nasty[:50]}]
    score = make_score(tmp_path / "score", lines=lines)
    with (score / "samples.jsonl").open("a") as file:
        half = json.dumps(sample_of(1, 0).resolved() | {"response": "\ud83d", "gold": "\ude00"})
        assert "\\ud83d" in half  # valid JSON that no UTF-8 can hold
        file.write(half + "\n")
        file.write(json.dumps(sample_of(2, 0).resolved() | {"seed": float("nan")}) + "\n")
    with served(tmp_path) as ask:
        base = f"/api/runs/{ask.id('score')}"
        assert ask(f"{base}/samples/0?count=200000&from=900000").json()["response"] == nasty[900_000:]
        assert ask(f"{base}/samples/1").json()["response"] == "⟨U+D83D⟩"
        assert ask(f"{base}/samples/2").json()["sample"]["seed"] is None
        assert ask(f"{base}/samples").json()["rows"][1]["gold"] == "⟨U+DE00⟩"
        for path in (base, f"{base}/questions", "/api/runs"):
            answered = ask(path)
            answered.json()
            assert answered.headers["content-type"] == "application/json"


def test_many_who_ask_at_once_are_told_the_same(tmp_path, make_train, make_score):
    make_train(tmp_path / "run", steps=200)
    make_score(tmp_path / "score", questions=50)
    with served(tmp_path) as ask:
        run, score = ask.id("run"), ask.id("score")
        paths = [f"/api/runs/{run}{rest}" for rest in ("", "/metrics", "/rollouts/1", "/rollouts/1/0")]
        paths += [f"/api/runs/{score}{rest}" for rest in ("", "/questions", "/samples", "/samples/7")]
        alone = {path: ask(path).body for path in paths}
        with ThreadPoolExecutor(16) as pool:
            together = list(pool.map(lambda path: (path, ask(path)), paths * 8))
        assert all((one.status, one.body) == (200, alone[path]) for path, one in together)
    with served(tmp_path) as ask, ThreadPoolExecutor(16) as pool:  # and nothing was read yet
        assert all(one.body == alone[path] for path, one in pool.map(lambda path: (path, ask(path)), paths * 4))
