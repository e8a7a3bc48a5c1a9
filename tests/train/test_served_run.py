"""A run whose teacher is behind servers, on loopback: its numbers, its record, its plan, the loss of servers."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.models.served.doors import Serve, serving
from tests.train.ranks.commands import called
from tests.train.ranks.runs import on_ranks

from opd.cli.main import run as command
from opd.models.load import find_model
from opd.models.served.probe import computed
from opd.models.served.server import Service
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import write_json
from opd.records.served import Agreement, TeacherServer, put_together
from opd.train.ahead.plan import make_plan
from opd.train.parts import build
from opd.train.recipe import Recipe
from opd.train.run import prepare, run

SHORT = ("machine.served.pause_seconds=0.05", "machine.served.patience_seconds=0.5")


@pytest.fixture
def serve() -> Iterator[Serve]:
    with serving() as start:
        yield start


def by(*servers, others: tuple[str, ...] = ()) -> tuple[str, ...]:
    urls = json.dumps([one.url for one in servers])
    return ("machine.scorer=served", f"machine.served.urls={urls}", *SHORT, *others)


def lines_of(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def test_a_run_has_the_numbers_of_one_that_loads_its_teacher(make_recipe, load, tmp_path: Path, serve) -> None:
    teacher = load("teacher", dtype="float32")
    first, second = serve(teacher), serve(teacher)
    found = {}
    for name, sets in (("plain", ()), ("served", by(first, second))):
        recipe = make_recipe(*sets)
        out = tmp_path / name
        run(recipe, prepare(recipe, out), out)
        found[name] = lines_of(out)
    assert len(found["plain"]) == 3
    for one, other in zip(found["plain"], found["served"], strict=True):
        for key in ("loss", "kl", "gradient_norm", "first_token_kl"):
            assert other[key] == pytest.approx(one[key], rel=1e-4, abs=1e-5)
    summary = json.loads((tmp_path / "served" / "run.json").read_text())
    assert [one["url"] for one in summary["teacher_servers"]] == [first.url, second.url]
    assert sum(one["scored"] for one in summary["teacher_servers"]) == 3 * 4
    assert all(one["agreement"]["mean"] < 1e-4 for one in summary["teacher_servers"])
    assert json.loads((tmp_path / "plain" / "run.json").read_text())["teacher_servers"] == []


@pytest.mark.patient
def test_ranks_share_the_servers_and_what_rank_0_found_of_them(make_recipe, load, tmp_path: Path, serve) -> None:
    server = serve(load("teacher", dtype="float64"))
    wide = ("student.dtype=float64", "teacher.dtype=float64", "rollouts.prompts_per_step=3", "budget.steps=2")
    on_ranks(make_recipe(*wide), tmp_path / "plain", count=1)
    server.door.pause_seconds = 0.02
    there = make_recipe(*by(server, others=(*wide, "machine.served.in_flight=2")))
    first, second = on_ranks(there, tmp_path / "served", count=2)
    assert first.teacher_servers == second.teacher_servers
    (record,) = first.teacher_servers
    assert record.scored == 2 * 3 * 2  # by both ranks
    assert server.door.most_under_way <= 2
    # known tokens and the longest; in each step rollouts, and known tokens by each rank
    assert len(server.door.requests) == 3 + 1 + 2 * (3 * 2 + 2 * 3)
    for one, other in zip(lines_of(tmp_path / "plain"), lines_of(tmp_path / "served"), strict=True):
        for key in ("loss", "kl", "gradient_norm"):
            assert other[key] == pytest.approx(one[key], rel=1e-9, abs=1e-12)


def test_nothing_of_the_teacher_is_loaded(make_recipe, load, serve) -> None:
    parts = build(make_recipe(*by(serve(load("teacher", dtype="float32")))))
    assert {one.device.type for one in parts.teachers[None].module.parameters()} == {"meta"}


def test_the_plan_leaves_the_teacher_out_and_asks_no_server(make_recipe, tmp_path: Path) -> None:
    there = ("machine.scorer=served", "machine.served.urls=['http://127.0.0.1:1']")
    names = {
        sets: {part.name for part in make_plan(make_recipe(*sets), out=tmp_path / "x").memory.parts}
        for sets in ((), there)
    }
    assert names[()] - names[there] == {"teacher's weights", "forward pass of a micro-batch"}
    assert make_plan(make_recipe(*there), out=tmp_path / "x").lacks == ()


def test_with_a_recorded_probe_the_teachers_weights_need_not_be_here(
    make_recipe, load, tmp_path: Path, serve, random_models
) -> None:
    weightless = tmp_path / "teacher"
    shutil.copytree(random_models / "teacher", weightless, ignore=shutil.ignore_patterns("*.safetensors"))
    probe = tmp_path / "probe.json"
    write_json(probe, computed(find_model(str(random_models / "teacher")), "float32").resolved())
    server = serve(load("teacher", dtype="float32"))
    elsewhere = (f"teacher.model={weightless}",)
    without = make_recipe(*by(server, others=elsewhere))
    with pytest.raises(AskedWrongly, match=r"no \*\.safetensors"):
        prepare(without, tmp_path / "run")
    assert any("safetensors" in one for one in make_plan(without, out=tmp_path / "run").lacks)
    recipe = make_recipe(*by(server, others=(*elsewhere, f"machine.served.probe={probe}")))
    assert make_plan(recipe, out=tmp_path / "run").lacks == ()
    run(recipe, prepare(recipe, tmp_path / "run"), tmp_path / "run")
    assert len(lines_of(tmp_path / "run")) == 3


def test_a_run_that_loses_all_servers_ends_with_its_last_checkpoint_whole_and_goes_on_with_others(
    make_recipe, load, tmp_path: Path, serve, capsys
) -> None:
    teacher = load("teacher", dtype="float32")
    servers = [serve(teacher), serve(teacher)]
    recipe = make_recipe(*by(*servers, others=("save.every=1", "save.state_every=1")))
    file, out = tmp_path / "r.json", tmp_path / "run"
    write_json(file, recipe.resolved())
    seen = []

    def end_all() -> None:
        seen.append(1)
        if len(seen) == 2 * 4 + 4 + 2 * 3 + 2:  # known tokens and the longest of both, and step 1; then in step 2
            for one in servers:
                one.door.statuses = [503] * 1_000

    for one in servers:
        one.door.asked = end_all
    assert command(["train", str(file), "--out", str(out), "--quiet", "--no-rehearse"]) == 1
    said = capsys.readouterr().err
    assert all(one.url in said for one in servers)
    assert "status 503" in said
    assert [one["step"] for one in lines_of(out)] == [1]
    failure = json.loads((out / "failure.json").read_text())
    assert (failure["phase"], failure["checkpoint"]) == ("score", "checkpoint-1")
    find_model(str(out / "checkpoint-1"))
    fresh = serve(teacher)
    again = ["train", "--resume", "--out", str(out), "--set", f"machine.served.urls=['{fresh.url}']", "--quiet"]
    assert command(again) == 0
    assert [one["step"] for one in lines_of(out)] == [1, 2, 3]
    summary = json.loads((out / "run.json").read_text())
    scored = {one["url"]: one["scored"] for one in summary["teacher_servers"]}
    assert sum(scored[one.url] for one in servers) == 4  # of step 1, which stood
    assert scored[fresh.url] == 2 * 4


def test_a_server_that_is_not_there_is_said_before_step_one(make_recipe, tmp_path: Path, capsys) -> None:
    recipe = make_recipe("machine.scorer=served", "machine.served.urls=['http://127.0.0.1:1']")
    write_json(tmp_path / "r.json", recipe.resolved())
    assert command(["train", str(tmp_path / "r.json"), "--out", str(tmp_path / "run"), "--quiet"]) == 2
    assert "http://127.0.0.1:1: ConnectError" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_false_answer_in_a_step_ends_the_run(make_recipe, load, tmp_path: Path, serve) -> None:
    server = serve(load("teacher", dtype="float32"))
    recipe = make_recipe(*by(server))
    parts = prepare(recipe, tmp_path / "run")
    server.door.falsify = lambda answer: {"choices": [{"prompt_logprobs": [None]}]}
    with pytest.raises(AnswerIsNo, match="nothing was updated"):
        run(recipe, parts, tmp_path / "run")
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def zeros(answer: dict) -> dict:
    for entry in answer["choices"][0]["prompt_logprobs"][1:]:
        for known in entry.values():
            known["logprob"] = 0.0
    return answer


def shifted(answer: dict) -> dict:
    """Each token has the log-probability of the one after it, as of a server that counts otherwise."""
    entries = answer["choices"][0]["prompt_logprobs"]
    values = [next(iter(entry.values()))["logprob"] for entry in entries[1:]]
    for entry, value in zip(entries[1:], [*values[1:], values[0]], strict=True):
        next(iter(entry.values()))["logprob"] = value
    return answer


def turned_in_step_2(server, how, stranger) -> None:
    """From the second request for a score of step 2 on; the first 4 requests of all are of the start."""
    seen: list[int] = []

    def count() -> None:
        seen.append(1)
        if len(seen) == 4 + (4 + 3) + 2:
            if how == "student":
                server.door.application = Service(stranger, name="teacher").application()
            else:
                server.door.falsify = how

    server.door.asked = count


@pytest.mark.parametrize("how", [zeros, shifted, "student"])
def test_a_server_that_turns_without_a_failed_request_is_not_learned_from(
    make_recipe, load, tmp_path: Path, serve, how
) -> None:
    """In the midst of step 2, and with another model under the same name too: step 2 is not made."""
    server = serve(load("teacher", dtype="float32"))
    turned_in_step_2(server, how, load("student", dtype="float32"))
    recipe, out = make_recipe(*by(server, others=("save.every=1",))), tmp_path / "run"
    with pytest.raises(AnswerIsNo, match=r"left out.*nothing was updated"):
        run(recipe, prepare(recipe, out), out)
    assert [one["step"] for one in lines_of(out)] == [1]


def test_beside_a_server_that_turns_the_others_go_on_to_the_same_numbers(
    make_recipe, load, tmp_path: Path, serve
) -> None:
    teacher = load("teacher", dtype="float32")
    turns, stays = serve(teacher), serve(teacher)
    turned_in_step_2(turns, zeros, teacher)
    numbers = {}
    for name, sets in (("plain", ()), ("served", by(turns, stays))):
        recipe, out = make_recipe(*sets), tmp_path / name
        run(recipe, prepare(recipe, out), out)
        numbers[name] = [one["kl"] for one in lines_of(out)]
    assert numbers["served"] == pytest.approx(numbers["plain"], rel=1e-4, abs=1e-5)


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (("machine.scorer=served",), "needs the servers: machine.served.urls"),
        (("rollouts.temperature=0.7",), "temperature = 0.7 with a teacher behind a server"),
        (("objective.name=reverse_kl",), 'machine.scorer = "served" with objective reverse_kl'),
    ],
)
def test_what_a_server_can_not_do_is_refused_where_the_recipe_is_read(make_recipe, sets, said: str) -> None:
    there = (
        ()
        if len(sets) == 1 and sets[0].startswith("machine")
        else by(type("There", (), {"url": "http://127.0.0.1:1"}))
    )
    with pytest.raises(AskedWrongly, match=said):
        make_recipe(*there, *sets)


def test_a_key_that_is_not_set_is_lacking(make_recipe, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    there = (
        "machine.scorer=served",
        "machine.served.urls=['http://127.0.0.1:1']",
        "machine.served.key_variable=NO_SUCH_KEY",
    )
    recipe: Recipe = make_recipe(*there)
    assert any("NO_SUCH_KEY is not set" in one for one in make_plan(recipe, out=tmp_path / "x").lacks)


@pytest.mark.patient
def test_of_several_ranks_one_says_what_happens_to_the_servers_and_why_the_run_ends(
    make_recipe, load, tmp_path: Path, serve
) -> None:
    server = serve(load("teacher", dtype="float32"))
    recipe = make_recipe(*by(server), "rollouts.prompts_per_step=4")
    write_json(tmp_path / "r.json", recipe.resolved())
    seen: list[int] = []

    def refuse() -> None:
        seen.append(1)
        if len(seen) > 4:  # of the start
            server.door.statuses = [404] * 9

    server.door.asked = refuse
    words = (str(tmp_path / "r.json"), "--quiet")
    (status, said), (other_status, other_said) = called(tmp_path / "run", words, words)
    assert (status, other_status) == (1, 1)
    both = said + other_said
    assert both.count("is left out from now on") == 1
    assert both.count("opd:") == 1
    assert "all of the teacher's servers are left out" in said
    assert "Traceback" not in both


def test_what_ranks_and_tries_have_of_a_server_is_one_record_of_it() -> None:
    agrees = Agreement(tokens=1, mean=0, largest=0, mean_rounding=0, largest_rounding=0, other_text=0)

    def record(url: str, **changes: object) -> TeacherServer:
        facts = {"url": url, "model": "m", "version": "1", "limit_tokens": None, "agreement": agrees}
        return TeacherServer(**(facts | changes))

    found = put_together(
        [
            record("a", scored=3, failures=1, last_failure="gone"),
            record("b", scored=5, teacher="math"),
            record("a", scored=4, version="2"),
            record("b", scored=6, teacher="code", last_failure="busy"),
        ]
    )
    assert found == (
        record("a", scored=7, failures=1, last_failure="gone", version="2"),
        record("b", scored=5, teacher="math"),
        record("b", scored=6, teacher="code", last_failure="busy"),
    )
