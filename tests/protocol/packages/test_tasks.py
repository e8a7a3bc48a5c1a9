"""What task.toml says, and what it may not say.

The figures of `opd_math_1p5b` are set down here a second time, from the document that the task reproduces.
"""

import hashlib
import os
import subprocess
import tomllib
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opd.protocol.packages.catalogue import begin, find, names
from opd.protocol.packages.problems import choose
from opd.protocol.phases import phases, variables
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import read_lines
from opd.records.settings import validated
from opd.records.tasks import Surface, Task, matches

TASKS = Path(__file__).parents[3] / "src/opd/tasks"


def values_of(name: str) -> dict[str, Any]:
    return tomllib.loads((TASKS / name / "task.toml").read_text(encoding="utf-8"))


def task_with(changes: dict[str, Any], name: str = "arith_tiny") -> Task:
    """The task after `a.b.c` of its contract is set; None takes the key away."""
    values = values_of(name)
    for key, value in changes.items():
        *above, last = key.split(".")
        table = values["metadata"]["opd"]
        for part in above:
            table = table.setdefault(part, {})
        if value is None:
            table.pop(last)
        else:
            table[last] = value
    return validated(Task, values, source="task.toml")


def test_the_document_s_task_has_every_figure_of_the_document():
    task, _ = find("opd_math_1p5b")
    contract = task.contract
    assert task.short_name == "opd_math_1p5b"
    assert (contract.student.source, contract.student.revision[:8]) == (
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "ad9f0ae0",
    )  # fmt: skip
    assert (contract.teacher.source, contract.teacher.revision[:8]) == ("hbx/JustRL-DeepSeek-1.5B", "0637e409")
    assert {one.parameters for one in (contract.student, contract.teacher)} == {1_777_088_000}
    assert {one.architecture for one in (contract.student, contract.teacher)} == {"Qwen2ForCausalLM"}
    assert contract.data.rows == 15_285
    assert contract.data.where == {"projection": "train"}
    assert "opd-dapo-aime-zero-overlap-v2" in contract.data.description
    assert "bdaa2806" in contract.data.description
    budgets = contract.budgets
    assert (budgets.explore_seconds, budgets.formal_seconds) == (14_400, 43_200)
    assert (budgets.reserve_seconds, budgets.final_seconds) == (1_200, 9_000)
    assert contract.needs.gpus == 1
    assert contract.artifacts.pattern == "checkpoints/checkpoint-*"
    assert contract.artifacts.most == 3
    tools = {tool.value for tool in contract.tools}
    assert tools == {"fast-eval", "timer", "submit", "no-candidate"} | {"note"}, (
        "the document's four, and one of ours"
    )


def test_the_document_s_measures_are_those_of_the_document():
    contract = find("opd_math_1p5b")[0].contract
    prompt = "{problem} Please reason step by step, and put your final answer within \\boxed{}."
    proxy, final = contract.proxy, contract.final
    assert (proxy.metric, proxy.questions, proxy.samples_per_question, proxy.samples) == (
        "math500_pass_at_1", 500, 4, 2_000,
    )  # fmt: skip
    assert (proxy.limit_tokens, proxy.context_tokens, proxy.judged) == (12_288, 13_312, False)
    assert proxy.seeds == tuple(42 + sample for sample in range(4))
    assert (final.metric, final.questions, final.samples_per_question, final.samples) == (
        "aime24_25_at32", 60, 32, 1_920,
    )  # fmt: skip
    assert (final.limit_tokens, final.context_tokens, final.judged) == (31_744, 32_768, True)
    for measure in (proxy, final):
        assert (measure.temperature, measure.top_p, measure.prompt) == (0.7, 0.9, prompt)
        assert measure.direction == "maximize"
    assert contract.verifier is not None
    assert contract.verifier.source.endswith("/CompassVerifier-3B")
    known = {(one.of, one.correct, one.score, one.stderr, one.cut_short) for one in contract.references}
    assert known == {
        ("final", 484, 0.252083, None, None),
        ("final", 820, 0.427083, 0.051615, None),
        ("proxy", None, 0.8410, 0.0138, 0.0645),
    }


def test_the_document_s_task_and_its_recipe_name_the_same_models_and_data():
    recipe = tomllib.loads((TASKS.parents[2] / "recipes/opd_math_1p5b.toml").read_text(encoding="utf-8"))
    contract = find("opd_math_1p5b")[0].contract
    for role in ("student", "teacher"):
        of_task = getattr(contract, role)
        for key, value in (
            ("model", of_task.source),
            ("revision", of_task.revision),
            ("parameters", of_task.parameters),
        ):
            assert recipe[role][key] == value
    assert recipe["data"]["path"] == contract.data.source
    assert recipe["data"]["sha256"] == contract.data.sha256
    assert recipe["data"]["where"] == contract.data.where
    assert recipe["budget"]["max_wall_seconds"] == contract.budgets.formal_seconds
    assert recipe["budget"]["reserve_seconds"] == contract.budgets.reserve_seconds


def test_the_embedded_task_pins_the_bytes_that_ship():
    contract = find("arith_tiny")[0].contract
    folder = TASKS / "arith_tiny"
    for file in (contract.data, *contract.proxy.files, *contract.final.files):
        content = (folder / file.source.removeprefix("opd:arith_tiny/")).read_bytes()
        assert hashlib.sha256(content).hexdigest() == file.sha256
        assert content.count(b"\n") == file.rows
    for one in (contract.student, contract.teacher):
        place = folder / one.source.removeprefix("opd:arith_tiny/")
        digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in place.iterdir()}
        text = "{" + ",".join(f'"{name}":"{digests[name]}"' for name in sorted(digests)) + "}"
        assert hashlib.sha256(text.encode()).hexdigest() == one.files_sha256


def test_the_phases_of_the_document_s_task_get_only_the_rows_of_the_projection(shared, tmp_path):
    data = find("opd_math_1p5b")[0].contract.data
    source = shared / "data/dapo_math_unique.jsonl"
    kinds = [row["projection"] for row in read_lines(source)]
    assert len(set(kinds)) > 1  # there are rows to be kept out
    choose(data, source, tmp_path / "train.jsonl")
    kept = list(read_lines(tmp_path / "train.jsonl"))
    assert len(kept) == kinds.count("train") == 15_285
    assert {row["projection"] for row in kept} == {"train"}
    choose(data, tmp_path / "train.jsonl", tmp_path / "again.jsonl")  # of nothing but these rows, all are taken
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "train.jsonl").read_bytes()


def test_a_file_that_is_not_the_pinned_one_gives_no_rows(tmp_path):
    data = find("arith_tiny")[0].contract.data
    (tmp_path / "train.jsonl").write_bytes((TASKS / "arith_tiny/train.jsonl").read_bytes() + b"\n")
    with pytest.raises(AnswerIsNo, match="task pins 8db27da8"):
        choose(data, tmp_path / "train.jsonl", tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_rows_that_are_not_those_that_the_task_chose_are_not_handed_on(tmp_path):
    source = tmp_path / "all.jsonl"
    source.write_text('{"part": "a"}\n{"part": "b"}\n', encoding="utf-8")
    said = {"data.source": str(source), "data.sha256": hashlib.sha256(source.read_bytes()).hexdigest()}
    said |= {"data.where": {"part": "a"}, "data.rows": 1}
    right = hashlib.sha256(b'{"part": "a"}\n').hexdigest()
    choose(task_with(said | {"data.chosen_sha256": right}).contract.data, source, tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_text(encoding="utf-8") == '{"part": "a"}\n'
    with pytest.raises(AnswerIsNo, match="correct the task"):
        choose(task_with(said | {"data.chosen_sha256": "0" * 64}).contract.data, source, tmp_path / "other.jsonl")
    assert not (tmp_path / "other.jsonl").exists()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"budgets.reserve_seconds": 150}, "leaves nothing of formal_seconds = 150"),
        ({"budgets.formal_seconds": 0}, "greater than 0"),
        ({"budgets.explore_minutes": 7}, "unknown key 'metadata.opd.budgets.explore_minutes'"),
        ({"budgets.final_seconds": None}, "'metadata.opd.budgets.final_seconds' is required"),
        ({"artifacts.most": None}, "'metadata.opd.artifacts.most' is required"),
        ({"artifacts.pattern": "checkpoints/*"}, "artifacts.pattern"),
        ({"artifacts.pattern": "../checkpoint-*"}, "no .. in it"),
        ({"surface.editable": ["/etc/**"]}, "relative"),
        ({"surface.editable": ["src/../../x"]}, "no .. in it"),
        ({"surface.editable": ["src/**.py"]}, "between slashes"),
        ({"surface.editable": []}, "at least 1 item"),
        ({"final.judged": True}, "no [metadata.opd.verifier]"),
        ({"workspace": "folder"}, "run is the text of run.sh"),
        ({"run": None}, "run is the text of run.sh"),
        ({"needs.network": True}, "needs.network"),
        ({"data.where": {"part": "a"}}, "go together"),
        ({"student.revision": "main"}, "student.revision"),
        ({"forbidden": []}, "at least 1 item"),
    ],
)
def test_a_contract_that_can_t_hold_is_refused_with_its_key(changes, says):
    task_with({})  # holds as it is
    with pytest.raises(AskedWrongly) as refused:
        task_with(changes)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "name", ["sums", "acme/", "/sums", "acme/su ms", "acme/../sums", ".acme/sums", "a/b/c", "acme/.x"]
)
def test_a_name_that_harbor_would_not_take_is_refused(name):
    values = values_of("arith_tiny")
    values["task"]["name"] = name
    with pytest.raises(AskedWrongly, match="organisation/name"):
        validated(Task, values, source="task.toml")


def test_harbor_s_tables_are_kept_with_whatever_they_hold():
    values = values_of("arith_tiny")
    values["task"]["authors"] = [{"name": "A. Author"}]
    values["agent"] = {"timeout_sec": 420.0, "something new": [1, {"a": True}]}
    values["metadata"]["other"] = {"kept": "as it is"}
    kept = validated(Task, values, source="task.toml").resolved()
    assert kept["agent"] == values["agent"]
    assert kept["metadata"]["other"] == {"kept": "as it is"}
    assert kept["task"]["authors"] == [{"name": "A. Author"}]


def leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not parts:
        yield place
    for key, inner in parts:
        yield from leaves(inner, (*place, key))


def test_the_digest_covers_every_value_of_the_file():
    values = values_of("arith_tiny") | {"agent": {"user": "explorer"}}
    seen = {validated(Task, values, source="task.toml").digest}
    alone = {("schema_version",), ("metadata", "opd", "workspace")}  # one value; goes with `run`
    places = [place for place in leaves(values) if place not in alone]
    assert len(places) > 80
    for place in places:
        changed = deepcopy(values)
        *above, last = place
        table = changed
        for part in above:
            table = table[part]
        table[last] = another(place, table[last])
        digest = validated(Task, changed, source="task.toml").digest
        assert digest not in seen, place
        seen.add(digest)


def another(place: tuple[Any, ...], value: Any) -> Any:
    """A value that is allowed in the same place; which one depends on the place, so that no two changes agree."""
    word = hashlib.sha256(repr(place).encode()).hexdigest()
    if place[-1] == "of":
        return "final" if value == "proxy" else "proxy"
    if isinstance(value, str):
        return word if len(value) == 64 else f"{word[:8]}{value}" if "**" in value else f"{value}{word[:8]}"
    return value / 2 if isinstance(value, float) else value + 1


def test_a_task_is_found_by_name_and_by_folder(tmp_path, monkeypatch):
    assert {"arith_tiny", "opd_math_1p5b"} <= set(names())
    assert find("arith_tiny") == (find(TASKS / "arith_tiny")[0], TASKS / "arith_tiny")
    monkeypatch.chdir(tmp_path)
    begin("acme/sums", like=TASKS / "arith_tiny", out=Path("arith_tiny"))  # a folder of the name of one that ships
    assert find("arith_tiny")[0].name == "opd/arith_tiny"
    assert find("./arith_tiny")[0].name == "acme/sums"
    with pytest.raises(AskedWrongly, match="one of arith_tiny"):
        find("no_such_task")
    (tmp_path / "empty").mkdir()
    with pytest.raises(AskedWrongly, match=r"empty/task.toml does not exist"):
        find("empty")


def test_a_new_task_is_the_old_one_under_another_name_with_its_comments(tmp_path):
    folder = begin("acme/sums", like=TASKS / "arith_tiny", out=tmp_path / "sums")
    old, new = (
        (path / "task.toml").read_text(encoding="utf-8").splitlines() for path in (TASKS / "arith_tiny", folder)
    )
    differing = [(was, now) for was, now in zip(old, new, strict=True) if was != now]
    assert differing == [('name = "opd/arith_tiny"', 'name = "acme/sums"')]
    assert any(line.startswith("#") for line in new)
    with pytest.raises(AskedWrongly, match="never overwritten"):
        begin("acme/sums", like=TASKS / "arith_tiny", out=tmp_path / "sums")


@pytest.mark.parametrize("name", ["arith_tiny", "opd_math_1p5b"])
def test_run_sh_trains_by_nothing_but_the_five_variables(name, tmp_path):
    """A `python` that writes down how it was called stands for training."""
    contract = find(name)[0].contract
    assert contract.run is not None
    (tmp_path / "run.sh").write_text(contract.run, encoding="utf-8")
    stand_in = tmp_path / "bin/python"
    stand_in.parent.mkdir()
    stand_in.write_text(
        '#!/bin/sh\necho "$PYTHONPATH"; pwd; for one in "$@"; do echo "$one"; done\n', encoding="utf-8"
    )
    stand_in.chmod(0o755)
    given = variables(contract) | {"PATH": f"{stand_in.parent}:{os.defpath}"}
    formal = subprocess.run(["bash", "run.sh"], cwd=tmp_path, env=given, capture_output=True, text=True, check=True)
    path, place, *words = formal.stdout.splitlines()
    assert (path, place) == ("src", str(tmp_path))
    assert words[:6] == ["-m", "opd", "train", f"recipes/{name}.toml", "--out", "checkpoints"]
    sets = dict(word.split("=", 1) for word in words if "=" in word)
    assert sets.pop("data.sha256", contract.data.given_sha256) == contract.data.given_sha256
    assert (
        sets.pop("data.shuffle", "false") == "false"
    )  # as the reference's launcher does; said in the recipe or here
    assert sets == {
        "student.model": "/inputs/student",
        "teacher.model": "/inputs/teacher",
        "data.path": "/inputs/train.jsonl",
        "budget.max_wall_seconds": f"{contract.budgets.formal_seconds:g}",
        "budget.reserve_seconds": f"{contract.budgets.reserve_seconds:g}",
    }
    del given["MAX_WALL_TIME_SECONDS"], given["DEADLINE_RESERVE_SECONDS"]
    probe = subprocess.run(
        ["bash", "run.sh", "--set", "budget.steps=20"], cwd=tmp_path, env=given | {"OUT": "probe 1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "--out\nprobe 1\n" in probe.stdout
    assert probe.stdout.endswith("--set\nbudget.steps=20\n")
    del given["STUDENT_MODEL"]
    assert (
        subprocess.run(["bash", "run.sh"], cwd=tmp_path, env=given, capture_output=True, check=False).returncode != 0
    )


def test_no_phase_before_the_last_has_the_final_questions():
    for name in names():
        contract = find(name)[0].contract
        *before, last = phases(contract)
        assert [phase.name for phase in (*before, last)] == ["explore", "formal", "validation", "final"]
        assert any(contract.final.metric in given.what for given in last.given)
        for phase in before:
            assert not any(contract.final.metric in given.what for given in phase.given)
            assert {str(given.place) for given in phase.given if given.writable} <= {"/workspace", "/runs"}


def matches_slowly(glob: str, path: str) -> bool:
    """The definition, letter by letter."""
    if not glob:
        return not path
    if glob.startswith("**/"):
        rest = glob[3:]
        cuts = [0] + [
            index + 1 for index, letter in enumerate(path) if letter == "/" and index and path[index - 1] != "/"
        ]
        return any(matches_slowly(rest, path[cut:]) for cut in cuts)
    if glob.startswith("**"):
        return any(matches_slowly(glob[2:], path[cut:]) for cut in range(len(path) + 1))
    if glob.startswith("*"):
        lengths = range((path + "/").index("/") + 1)
        return any(matches_slowly(glob[1:], path[length:]) for length in lengths)
    return (
        bool(path)
        and (glob[0] == path[0] or (glob[0] == "?" and path[0] != "/"))
        and matches_slowly(glob[1:], path[1:])
    )


PARTS = st.just("**") | st.lists(st.sampled_from(["a", "b", "*", "?", "."]), min_size=1, max_size=3).map("".join)


@given(
    st.lists(PARTS.filter(lambda part: part == "**" or "**" not in part), min_size=1, max_size=4).map("/".join),
    st.lists(st.sampled_from(["a", "b", "ab", ".", "a.b"]), min_size=1, max_size=4).map("/".join),
)
def test_a_glob_names_what_its_definition_says(glob, path):
    assert matches(glob, path) == matches_slowly(glob, path)


@pytest.mark.parametrize(
    ("path", "covered"),
    [
        ("src/opd/train/loop.py", True),
        ("src/opd/train/objectives/new.py", True),
        ("recipes/arith_tiny.toml", True),
        ("run.sh", True),
        ("src/opd/training/loop.py", False),
        ("src/opd/evaluate/run.py", False),
        ("src/opd/__init__.py", False),
        ("x/run.sh", False),
        ("run.sh/x", False),
    ],
)
def test_the_surface_of_the_embedded_task_is_training_and_no_more(path, covered):
    assert find("arith_tiny")[0].contract.surface.covers(path) is covered


def test_what_is_frozen_is_not_covered_whatever_is_editable():
    surface = Surface(editable=("src/**",), frozen=("src/judge/**",))
    assert surface.covers("src/judges.py")
    assert not surface.covers("src/judge/score.py")
