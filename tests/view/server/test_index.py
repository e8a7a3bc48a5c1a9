"""Runs are found, remembered while nothing changes, and seen to change, come and go."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from tests.view.server.asking import served

from opd.records.files import write_json
from opd.view.runs.folders import State, opened
from opd.view.runs.summaries import summary
from opd.view.server.answers import Gone
from opd.view.server.index import Index


class Clock:
    """A clock that a test moves; every look is due again when it has."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def index(tmp_path, clock):
    (tmp_path / "runs").mkdir()
    return Index([tmp_path / "runs"], clock=clock)


def looked(index, clock):
    clock.now += 100
    return {one.name: one for one in index.entries()}


def test_training_runs_scores_and_attempts_are_found_wherever_they_lie(
    index, clock, tmp_path, make_train, make_score, make_attempt
):
    make_train(tmp_path / "runs" / "a", steps=2)
    make_score(tmp_path / "runs" / "deep" / "er" / "score")
    make_attempt(tmp_path / "runs" / "attempts" / "x", tries={})
    found = looked(index, clock)
    assert {name: one.kind for name, one in found.items()} == {
        "a": "train",
        "deep/er/score": "score",
        "attempts/x": "attempt",
    }
    assert len({one.id for one in found.values()}) == 3


def test_a_given_path_may_itself_be_a_run_and_another_lie_in_it(tmp_path, make_train, make_score):
    run = make_train(tmp_path / "run", steps=2)
    make_score(run / "scores" / "step-40")
    found = Index([run, run, tmp_path / "run" / "scores"]).entries()
    assert sorted(one.name for one in found) == ["run", "scores/step-40"]


def test_an_id_stays_the_same_tomorrow(tmp_path, make_train):
    make_train(tmp_path / "a", steps=2)
    assert Index([tmp_path]).entries()[0].id == Index([tmp_path / "." / "a" / ".."]).entries()[0].id


def test_nothing_is_parsed_again_while_no_file_changes_and_one_that_grew_is(index, clock, tmp_path, make_train):
    make_train(tmp_path / "runs" / "a", steps=2)
    make_train(tmp_path / "runs" / "b", steps=2)
    first = looked(index, clock)
    again = looked(index, clock)
    assert all(again[name] is first[name] for name in ("a", "b"))  # the very objects
    with (tmp_path / "runs" / "a" / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": 3, "seconds": {"total": 1.0}}) + "\n")
    after = looked(index, clock)
    assert after["b"] is first["b"]
    assert (first["a"].summary.step, after["a"].summary.step) == (2, 3)


def test_a_run_that_has_not_ended_was_at_work_for_as_long_as_its_steps(
    index, clock, tmp_path, make_train, metrics_of
):
    run = make_train(tmp_path / "runs" / "a", steps=0)
    assert looked(index, clock)["a"].summary.seconds is None  # not known, and not zero
    made = [metrics_of(step) for step in (1, 2, 3)]
    with (run / "metrics.jsonl").open("a") as file:
        for one in made:
            file.write(json.dumps(one.resolved()) + "\n")
            file.flush()
            seconds = looked(index, clock)["a"].summary.seconds
            assert seconds == pytest.approx(sum(other.seconds["total"] for other in made[: one.step]))
            assert seconds == pytest.approx(summary(opened(run)).seconds)  # as on the terminal


def test_a_file_that_is_written_again_at_the_same_length_is_seen(index, clock, tmp_path, make_train):
    recipe = make_train(tmp_path / "runs" / "a", steps=2, lr=1e-6) / "recipe.json"
    before, status = looked(index, clock)["a"], recipe.stat()
    with recipe.open("r+") as file:
        text = file.read().replace("1e-06", "2e-06")
        file.seek(0)
        file.write(text)
    os.utime(
        recipe, ns=(status.st_atime_ns, status.st_mtime_ns + 1)
    )  # whatever the clock of the file system can tell
    assert (recipe.stat().st_size, recipe.stat().st_ino) == (status.st_size, status.st_ino)
    after = looked(index, clock)["a"]
    assert (before.summary.recipe["optimizer.lr"], after.summary.recipe["optimizer.lr"]) == (1e-6, 2e-6)


def test_a_look_is_taken_at_most_once_a_second_however_many_ask(index, clock, tmp_path, make_train):
    looked(index, clock)
    make_train(tmp_path / "runs" / "a", steps=2)
    clock.now += 0.5
    assert index.entries() == []
    clock.now += 0.6
    assert len(index.entries()) == 1


def test_where_looking_takes_long_it_is_done_less_often(tmp_path, make_train):
    class Slow(Clock):
        def __call__(self):
            self.now += 3.0  # seconds between two questions: a look that takes that long
            return self.now

    make_train(tmp_path / "a", steps=2)
    slow = Slow()
    index = Index([tmp_path], clock=slow)
    index.entries()
    (tmp_path / "b").mkdir()
    write_json(tmp_path / "b" / "recipe.json", {})
    seen = [len(index.entries()) for _ in range(12)]
    assert seen.index(2) == 9  # ten times three seconds later


def changes(index, clock, version):
    clock.now += 100
    found = index.since(version)
    return found.version, {
        name: getattr(found, name) for name in ("changed", "added", "gone") if getattr(found, name)
    }


def test_it_tells_what_came_changed_and_went(index, clock, tmp_path, make_train):
    runs = tmp_path / "runs"
    make_train(runs / "a", steps=2)
    a = looked(index, clock)["a"].id
    version, told = changes(index, clock, index.version)
    assert told == {}
    make_train(runs / "b", steps=2)
    second, told = changes(index, clock, version)
    b = looked(index, clock)["b"].id
    assert told == {"added": (b,)}
    (runs / "a" / "events.jsonl").write_text("{}\n")
    third, told = changes(index, clock, second)
    assert told == {"changed": (a,)}
    shutil.rmtree(runs / "b")
    last, told = changes(index, clock, third)
    assert told == {"gone": (b,)}
    assert changes(index, clock, second)[1] == {"changed": (a,), "gone": (b,)}
    assert changes(index, clock, version)[1] == {"changed": (a,), "gone": (b,)}
    assert last > third > second > version


def test_a_run_that_came_and_then_grew_is_new_to_who_saw_neither(index, clock, tmp_path, make_train):
    looked(index, clock)
    version = index.version
    run = make_train(tmp_path / "runs" / "a", steps=2)
    looked(index, clock)
    (run / "events.jsonl").write_text("{}\n")
    assert changes(index, clock, version)[1] == {"added": (looked(index, clock)["a"].id,)}


@pytest.mark.parametrize("version", [0, 7, 10**9])
def test_who_comes_with_a_version_of_another_server_is_told_everything(index, clock, version):
    looked(index, clock)
    assert index.since(version).everything
    assert not index.since(index.version).everything


SECRET = '{"secret": "what nobody shall read"}'


@pytest.mark.parametrize("name", ["metrics.jsonl", "run.json", "failure.json"])
def test_a_link_in_a_run_is_not_followed_and_is_named(index, clock, tmp_path, make_train, name):
    run = make_train(tmp_path / "runs" / "a", steps=2)
    (tmp_path / "outside").write_text(SECRET)
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(tmp_path / "outside")
    assert "secret" in (run / name).read_text()
    one = looked(index, clock)["a"]
    assert (one.summary.state, one.summary.trouble) == (
        State.DAMAGED,
        f"{name} is a link, and links are not followed",
    )
    with served(tmp_path / "runs") as ask:
        for path in ("/api/runs", f"/api/runs/{one.id}", f"/api/runs/{one.id}/metrics"):
            assert b"what nobody" not in ask(path).body


def test_a_run_that_is_a_link_is_not_found(index, clock, tmp_path, make_train):
    make_train(tmp_path / "elsewhere", steps=2)
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "elsewhere")
    assert looked(index, clock) == {}


def test_a_run_that_is_removed_while_it_is_shown_is_gone_and_the_others_stay(tmp_path, make_train):
    runs = tmp_path / "runs"
    for name in "ab":
        make_train(runs / name, steps=2)
    with served(runs) as ask:
        ids = {name: ask.id(name) for name in "ab"}
        version = ask("/api/runs").json()["version"]
        shutil.rmtree(runs / "a")
        for rest in ("", "/metrics", "/rollouts", "/rollouts/1", "/rollouts/1/0"):
            answered = ask(f"/api/runs/{ids['a']}{rest}")
            assert answered.status in {200, 404}  # the index may not have looked yet; then there is nothing in it
            assert answered.headers["content-type"] == "application/json"
            answered.json()
            assert ask(f"/api/runs/{ids['b']}{rest}").status == 200
        while not (told := ask(f"/api/events?since={version}").json())["gone"]:
            time.sleep(0.05)
        assert told["gone"] == [ids["a"]]
        assert ask(f"/api/runs/{ids['a']}").status == 404
        shutil.rmtree(runs)
        while ask("/api/runs").json()["runs"]:
            time.sleep(0.05)


def test_what_is_damaged_is_said_and_hides_nothing(index, clock, tmp_path, make_train, make_score, make_attempt):
    runs = tmp_path / "runs"
    make_train(runs / "good", steps=2)
    for name, text in {
        "cut": '{"optimizer": {',
        "list": "[]",
        "bytes": "\udcff\udcfe",
        "deep": "[" * 100_000,
        "empty": "",
    }.items():
        for kind, file in (("train", "recipe.json"), ("score", "score.json"), ("attempt", "run.json")):
            folder = runs / f"{kind}-{name}"
            folder.mkdir()
            (folder / file).write_bytes(os.fsencode(text))
            (folder / "task.lock.json").write_text("{}") if kind == "attempt" else None
    found = looked(index, clock)
    assert len(found) == 16
    assert {one.summary.state for name, one in found.items() if name != "good"} == {State.DAMAGED}
    with served(runs) as ask:
        rows = ask.rows()
        for name, row in rows.items():
            assert ask(f"/api/runs/{row['id']}").status == 200, name
            assert bool(row["trouble"]) == (name != "good")


@pytest.mark.parametrize("name", ["benchmark", "model", "model_digest", "protocol_digest"])
@pytest.mark.parametrize("value", [None, [1], {"a": {}}, 5, "a" * 100_000])
def test_no_value_of_a_stranger_s_score_hides_the_others(tmp_path, make_train, make_score, name, value):
    make_train(tmp_path / "run", steps=1)
    path = make_score(tmp_path / "score") / "score.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
    with served(tmp_path) as ask:
        rows = ask.rows()
        assert rows["run"]["state"] == "left"
        assert all(ask(f"/api/runs/{row['id']}").status == 200 for row in rows.values())


@pytest.mark.parametrize("depth", [300, 600, 900, 960, 980])
def test_sections_in_sections_without_end_hide_nothing(tmp_path, make_train, depth):
    """Each depth is the end for another reader: for the parser of JSON, for what flattens it, for what writes it."""
    make_train(tmp_path / "good", steps=1)
    deep = '{"a":' * depth + "1" + "}" * depth + "\n"
    for name in ("recipe.json", "run.json", "failure.json", "events.jsonl", "metrics.jsonl"):
        (make_train(tmp_path / name.partition(".")[0], steps=1) / name).write_text(deep)
    with served(tmp_path) as ask:
        rows = ask.rows()
        assert len(rows) == 6
        assert rows["good"]["state"] == "left"
        for row in rows.values():
            answered = ask(f"/api/runs/{row['id']}")
            assert answered.status in {200, 409}
            answered.json()


def test_an_unknown_run_is_gone(index):
    with pytest.raises(Gone):
        index.entry("0" * 12)


def test_the_index_writes_nothing(index, clock, tmp_path, make_train):
    make_train(tmp_path / "runs" / "a", steps=2)
    before = {path: path.stat().st_mtime_ns for path in Path(tmp_path).rglob("*")}
    looked(index, clock)
    assert {path: path.stat().st_mtime_ns for path in Path(tmp_path).rglob("*")} == before
