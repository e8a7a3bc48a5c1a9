"""What the server has no right to read is named in its answers, and nothing is said to be none for it."""

import pytest
from tests.view.rights import bound_by_modes
from tests.view.server.asking import served

WHY = "can't be read: Permission denied"


@pytest.fixture
def ask_closed(tmp_path):
    """`ask_closed(path …)` is a server over the folder of the test that has no right to these; rights come back."""
    modes = {}

    def asking(*paths):
        for path in paths:
            modes[path] = path.stat().st_mode
            path.chmod(0)
        return served(tmp_path)

    with bound_by_modes():
        yield asking
    for path, mode in modes.items():
        path.chmod(mode)


def test_a_closed_folder_stands_in_the_list_and_hides_no_run(tmp_path, make_train, make_score, ask_closed):
    closed = make_train(tmp_path / "closed")
    make_score(tmp_path / "score")
    with ask_closed(closed) as ask:
        found = ask("/api/runs").json()
    assert [row["name"] for row in found["runs"]] == ["score"]
    assert found["closed"] == [{"path": str(closed), "why": "Permission denied"}]


def test_closed_samples_are_unknown_and_their_pages_say_why(tmp_path, make_score, ask_closed):
    samples = make_score(tmp_path / "score") / "samples.jsonl"
    with ask_closed(samples) as ask:
        run = f"/api/runs/{ask.id('score')}"
        whole = ask(run).json()
        parts = [ask(f"{run}/{part}") for part in ("questions", "samples", "samples/0")]
    assert (whole["lines"], whole["verdicts"], whole["trouble"]) == (None, None, [f"{samples} {WHY}"])
    assert whole["row"]["trouble"] == f"{samples} {WHY}"
    assert [(one.status, one.json()["error"]) for one in parts] == 3 * [(409, f"{samples} {WHY}")]


def test_a_closed_part_of_a_training_run_is_named_and_the_rest_is_shown(tmp_path, make_train, ask_closed):
    run = make_train(tmp_path / "run")
    with ask_closed(run / "metrics.jsonl", run / "rollouts") as ask:
        base = f"/api/runs/{ask.id('run')}"
        whole = ask(base).json()
        parts = {part: ask(f"{base}/{part}") for part in ("metrics", "rollouts", "rollouts/1")}
    assert whole["trouble"] == [f"{run / name} {WHY}" for name in ("metrics.jsonl", "rollouts")]
    assert whole["rollouts"]["tables"] is None
    assert {one["what"]: one["used"] for one in whole["budget"]}["steps"] is None
    assert {"key": "optimizer.lr", "value": 6e-4} in whole["recipe"]
    assert {part: one.status for part, one in parts.items()} == dict.fromkeys(parts, 409)
    assert parts["metrics"].json()["error"] == f"{run / 'metrics.jsonl'} {WHY}"


def test_a_closed_stage_and_a_closed_mark_are_no_stage_without_tries(tmp_path, make_attempt, ask_closed):
    attempt = make_attempt(tmp_path / "attempt", tries={"explore/attempt-001": {}, "formal/attempt-001": {}})
    with ask_closed(attempt / "formal", attempt / "explore" / "attempt-001" / ".complete") as ask:
        base = f"/api/runs/{ask.id('attempt')}"
        answered = ask(base)
    found = answered.json()
    assert answered.status == 200, found
    assert [(one["name"], one["liveness"]) for one in found["tries"]] == [("explore/attempt-001", "damaged")]
    assert f"{attempt / 'formal'} {WHY}" in found["trouble"]
