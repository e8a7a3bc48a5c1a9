"""Tasks that others made: the public AI4AI-Bench layout, any Harbor task; and folders that mean harm."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from opd.protocol.packages.explain.explanation import Explanation
from opd.protocol.packages.explain.folder import explain
from opd.protocol.packages.explain.literals import NotLiteral, Record, names_of
from opd.protocol.packages.folders import LARGEST_TEXT_BYTES, MOST_NAMES
from opd.records.errors import AskedWrongly
from opd.records.trees import entries, tree_digest

BENCH = """
schema_version = "1.5"
name = "toy"
[task]
name = "example/toy"
[agent]
timeout_sec = 1800
[verifier]
timeout_sec = 5400
[x-ai4ai.formal]
retrain_budget_sec = 3600
artifact_limit = 3
[assets]
"models/student" = "example/student@aaaa"
"data/final" = "score only"
[metadata]
fast_metric = "toy_proxy"
"""
PHASES = """
from dataclasses import replace
from container import Phase, validation

RESERVE = 2 * 60
STUDENT = ("asset:models/student", "/assets/models/student", True)
EXPLORE = Phase(name="explore", timeout_sec=1800, command=("bash",), mounts=(STUDENT, ("run:out", "/out", False)))
RETRAIN = Phase(name="retrain", timeout_sec=3600, reserve_sec=RESERVE, mounts=(STUDENT,), artifact_limit=3)
SCORE = Phase(name="score", timeout_sec=900, mounts=(("asset:data/final", "/assets/data/final", True),))
MOCK = replace(SCORE, name="mock", mounts=())
PHASES: dict[str, Phase] = {
    "explore": EXPLORE, "retrain": RETRAIN, "score": SCORE, "mock": MOCK, "check": validation(SCORE),
}
"""


@pytest.fixture
def bench(tmp_path) -> Path:
    folder = tmp_path / "toy"
    folder.mkdir()
    (folder / "task.toml").write_text(BENCH, encoding="utf-8")
    (folder / "declaration.py").write_text(PHASES, encoding="utf-8")
    return folder


def titles(explanation: Explanation) -> list[str]:
    return [section.title for section in explanation.sections]


def test_the_sample_of_the_public_layout_is_explained(shared):
    said = explain(shared / "cases/foreign_task")
    assert (said.kind, said.name) == ("AI4AI-Bench", "example/toy-sort-distill")
    assert dict(said.section("budgets")) == {
        "exploration": "1,800 s (30 min)",
        "formal training": "3,600 s (1 h)",
        "of it in reserve": "120 s (2 min)",
        "a final evaluation": "900 s (15 min)",
        "the verifier in all": "5,400 s (90 min)",
        "free disk before training, GiB": "5",
    }
    assert dict(said.section("proxy")) == {
        "metric": "sort_proxy_pass_at_1",
        "direction": "max",
        "protocol": "200 questions by 4 samples, 64-token cap",
    }
    assert said.section("final")["metric"] == "sort_final_at8"
    assert said.section("artifacts") == {
        "found as": "checkpoints/checkpoint-*",
        "at most": "3",
        "official": "best_valid_of_up_to_3",
        "kind": "model",
    }
    assert said.section("fixed assets")["models/teacher"].startswith("example/toy-teacher@bbbb")
    assert dict(said.section("exploration can't see")) == {"data/final": "mounted in score alone"}
    assert said.section("disagreements") == {}
    explore, retrain, score = (said.section(f"phase {name}") for name in ("explore", "retrain", "score"))
    assert explore["/out"] == "run:out, writable"
    assert explore["/assets/data/proxy"] == "asset:data/proxy"
    assert retrain["runs"] == "bash /workspace/run.sh"
    assert retrain["$TRAIN_DATA"] == "/assets/data/train.parquet"
    assert "/assets/data/proxy" not in retrain
    assert score["read_only_root"] == "yes"
    assert said.section("phase checkpoint-validate")["says"] == (
        'not a literal: checkpoint_validation_phase(SCORE, "toy_sort_distill")'
    )


def test_names_sums_replacements_and_annotations_are_followed_and_calls_are_not(bench):
    said = explain(bench)
    assert said.section("budgets")["of it in reserve"] == "120 s (2 min)"
    assert said.section("phase explore")["/assets/models/student"] == "asset:models/student"
    assert said.section("phase mock") == {"time": "900 s (15 min)"}
    assert said.section("phase check") == {"says": "not a literal: validation(SCORE)"}
    assert dict(said.section("exploration can't see")) == {"data/final": "mounted in score alone"}


def test_where_the_two_files_differ_both_are_shown(bench):
    text = (bench / "declaration.py").read_text(encoding="utf-8")
    text = text.replace("timeout_sec=1800", "timeout_sec=1801").replace("asset:models/student", "asset:models/other")
    (bench / "declaration.py").write_text(text, encoding="utf-8")
    assert dict(explain(bench).section("disagreements")) == {
        "agent.timeout_sec": "1800 in task.toml, 1801 as timeout_sec of explore",
        "explore mounts models/other": "which [assets] does not name",
        "retrain mounts models/other": "which [assets] does not name",
    }


def test_mounts_that_only_running_would_tell_leave_it_open_what_exploration_sees(bench):
    text = PHASES.replace("mounts=(STUDENT, (", "mounts=(make(), (")
    (bench / "declaration.py").write_text(text, encoding="utf-8")
    said = explain(bench)
    assert "can't be read" in said.section("exploration can't see")["unknown"]
    assert "not a literal: make()" in said.section("phase explore")["mounts"]


@pytest.mark.parametrize("effect", ["open(MARK, 'w')", "__import__('os').mkdir(MARK)", "raise SystemExit(3)"])
def test_nothing_of_a_declaration_is_run(effect, bench, tmp_path):
    mark = tmp_path / "it ran"
    harm = f"MARK = {str(mark)!r}\nclass Phase:\n    def __init__(self, **given): {effect}\n{PHASES}"
    harm = harm.replace("from container import Phase, validation\n", "validation = Phase\n")
    (bench / "declaration.py").write_text(harm, encoding="utf-8")
    before = dict(os.environ), sys.path[:], set(sys.modules)
    said = explain(bench)
    assert not mark.exists()
    assert (dict(os.environ), sys.path) == before[:2]
    assert not {name for name in set(sys.modules) - before[2] if not name.startswith(("opd", "encodings"))}
    assert said.section("budgets")["exploration"] == "1,800 s (30 min)"
    ran = subprocess.run([sys.executable, bench / "declaration.py"], capture_output=True, check=False)
    assert mark.exists() or ran.returncode == 3  # run, it does its harm


# --- Python read as data ---


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("X = 1", 1),
        ("X = -2.5", -2.5),
        ("X = 4 * 3600 + 60 - 1", 14_459),
        ("X = ('a', [1, None], {'k': True})", ("a", (1, None), {"k": True})),
        ("X = 'a' 'b'", "ab"),
        ("A = (1,)\nX = A + (2,)", (1, 2)),
        ("A = 3\nB = A\nX = B", 3),
        ("X: int = 7", 7),
        ("X = 1\ndef f():\n    Y = 2", 1),
    ],
)
def test_what_is_a_literal_is_read_as_python_reads_it(source, value):
    namespace: dict[str, object] = {}
    exec(source, namespace)
    assert names_of(source)["X"] == value
    assert str(namespace["X"]).replace("[", "(").replace("]", ")") == str(value).replace("[", "(").replace("]", ")")


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("X = f()", "f()"),
        ("X = f'{1}'", "f'{1}'"),
        ("X = [i for i in (1, 2)]", "[i for i in (1, 2)]"),
        ("X = 1 if Y else 2", "1 if Y else 2"),
        ("X = missing", "missing"),
        ("A = 1\nA = 2\nX = A", "A"),
        ("A = 1\nA += 1\nX = A", "A"),
        ("A = 1\nif Y:\n    A = 2\nX = A", "A"),
        ("A = {}\nA['k'] = 1\nX = A", "A"),
        ("A = {}\nA.update(k=1)\nX = A", "A"),
        ("A = 1\ndef f():\n    global A\n    A = 2\nX = A", "A"),
        ("A = 1\nimport A\nX = A", "A"),
        ("A = 1\ndel A\nX = A", "A"),
        ("A = 1\nfor A in (2, 3): pass\nX = A", "A"),
        ("X = X", "X"),
        ("A = B\nB = A\nX = A", "A"),
        ("X = 10 ** 9", "10 ** 9"),
        ("X = 'a' * 1000000000", "'a' * 1000000000"),
        ("X = 1000000000 * 1000000000", "1000000000 * 1000000000"),
        ("X = f(*a)", "f(*a)"),
        ("X = f(**a)", "f(**a)"),
        ("X = b'bytes'", "b'bytes'"),
        ("X = (1,\n  f(\n2))", None),
        ("é = f(1); X = g(2)", "g(2)"),
        ("# \x0c\u2028\nX = g(2)", "g(2)"),  # line ends to str.splitlines, and not to Python
    ],
)
def test_what_only_running_would_tell_is_shown_as_source(source, shown):
    value = names_of(source)["X"]
    if shown is None:
        assert isinstance(value, tuple)
        assert str(value[1]) == "not a literal: f(…"
        return
    while isinstance(value, NotLiteral) and value.source != shown:
        value = names_of(source)[value.source]  # a name that leads to the one that can't be read
    assert isinstance(value, NotLiteral | Record)
    assert str(value) == f"not a literal: {shown}"


def test_replace_is_only_that_of_dataclasses():
    source = "A = P(x=1)\nX = replace(A, x=2)"
    assert names_of(source)["X"].function == "replace"
    read = names_of(f"from dataclasses import replace\n{source}")["X"]
    assert (read.function, read.keywords) == ("P", {"x": 2})


@pytest.mark.parametrize(
    "source",
    [
        "x" * 1_000_000 + " = (",
        "X = " + "(" * 5_000,
        "X = " + "-" * 200_000 + "1",
        "X = a" + ".b" * 200_000,
        "X = " + "[" * 150 + "]" * 150,
        "X = 1\x00",
        "X = " + "9" * 100_000,
        "A0 = (1, 1)\n" + "".join(f"A{n + 1} = (A{n}, A{n})\n" for n in range(60)) + "X = A60",
        "A0 = (1, 1)\n" + "".join(f"A{n + 1} = A{n} + A{n}\n" for n in range(60)) + "X = A60",
        "X = " + " + ".join(["1"] * 50_000),
        "\ud800",
    ],
    ids=range(11),
)
def test_a_source_that_means_to_exhaust_its_reader_is_refused_or_read_in_a_moment(source):
    began = time.monotonic()
    with contextlib.suppress(AskedWrongly):
        names_of(source)
    assert time.monotonic() - began < 10


def test_a_source_that_is_not_python_is_refused_in_one_line():
    for source in ("X = (", "X = 1\x00", "X = " + "(" * 5_000):
        with pytest.raises(AskedWrongly, match="not Python that can be read") as refused:
            names_of(source)
        assert "\n" not in str(refused.value)
        assert len(str(refused.value)) < 300


# --- folders that mean harm ---


def huge(folder: Path, name: str) -> None:
    with (folder / name).open("wb") as file:
        file.truncate(1 << 42)  # four terabytes, none of them on the disk


def out(folder: Path, name: str) -> None:
    (folder / name).symlink_to("/etc/hostname")


def pipe(folder: Path, name: str) -> None:
    os.mkfifo(folder / name)  # whoever opens it waits for a writer


def folder_instead(folder: Path, name: str) -> None:
    (folder / name).mkdir()


def no_text(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"\xff\xfe\x00")


def to_itself(folder: Path, name: str) -> None:
    (folder / name).symlink_to(name)


HARM = [huge, out, pipe, folder_instead, no_text, to_itself]


@pytest.mark.parametrize("harm", HARM)
def test_a_declaration_that_can_t_be_read_is_named_and_the_rest_is_explained(harm, bench):
    (bench / "declaration.py").unlink()
    harm(bench, "declaration.py")
    began = time.monotonic()
    said = explain(bench)
    assert time.monotonic() - began < 5
    assert said.section("task")["declaration.py"].startswith(str(bench / "declaration.py"))
    assert said.section("budgets")["exploration"] == "1,800 s (30 min)"


@pytest.mark.parametrize("harm", HARM)
def test_a_task_file_that_can_t_be_read_is_refused_in_one_line(harm, tmp_path):
    harm(tmp_path, "task.toml")
    with pytest.raises(AskedWrongly) as refused:
        explain(tmp_path)
    assert str(tmp_path / "task.toml") in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_folder_too_large_to_be_digested_is_explained_without_a_digest(bench):
    assert len(explain(bench).section("folder")["digest"]) == 64
    huge(bench, "more")
    assert explain(bench).section("folder")["digest"].startswith("none: the folder has more than")


def test_links_and_devices_in_a_folder_are_named(bench):
    out(bench, "hostname")
    pipe(bench, "pipe")
    about = explain(bench).section("folder")
    assert about["hostname"] == "is a link that leads out of the task, to /etc/hostname"
    assert about["pipe"] == "is neither a file nor a folder"


def test_a_deep_folder_and_one_of_many_names_are_looked_at_in_part(bench):
    deep = bench / "/".join(["d"] * 60)
    deep.mkdir(parents=True)
    many = bench / "many"
    many.mkdir()
    for number in range(MOST_NAMES):
        (many / str(number)).touch()
    about = explain(bench).section("folder")
    assert any("folders deep" in value for value in about.values())
    assert any(f"after {MOST_NAMES:,} other names" in value for value in about.values())
    assert about["digest"].startswith("none: ")


def test_what_a_stranger_wrote_moves_no_cursor(bench):
    text = BENCH.replace('name = "example/toy"', 'name = "example/toy"\ndescription = "\\u001b[2Jgone\\u0007\\u202e"')
    (bench / "task.toml").write_text(text, encoding="utf-8")
    said = explain(bench)
    assert said.section("task")["description"] == "\\x1b[2Jgone\\x07\\u202e"
    shown = said.model_dump_json()
    assert not [one for one in shown if not one.isprintable()]


def test_long_values_are_cut(bench):
    (bench / "task.toml").write_text(BENCH + f'note = "{"x" * (LARGEST_TEXT_BYTES // 2)}"\n', encoding="utf-8")
    assert explain(bench).section("more metadata")["note"].endswith("… (524,288 characters)")


# --- any Harbor task ---

HARBOR = """
schema_version = "1.4"
artifacts = ["/app/answer.txt", {source = "/app/log", destination = "log"}]
[task]
name = "org/hello"
[agent]
timeout_sec = 90.0
[verifier]
environment_mode = "separate"
network_mode = "no-network"
[environment]
cpus = 2
[metadata]
difficulty = "easy"
"""


@pytest.fixture
def harbor(tmp_path) -> Path:
    (tmp_path / "task.toml").write_text(HARBOR, encoding="utf-8")
    (tmp_path / "instruction.md").write_text("Say hello.\n", encoding="utf-8")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test.sh").write_text("echo 1 > /logs/verifier/reward.txt\n", encoding="utf-8")
    (tmp_path / "environment").mkdir()
    (tmp_path / "environment/Dockerfile").write_text(
        "FROM --platform=linux/amd64 python:3.12 AS one\n", encoding="utf-8"
    )
    return tmp_path


def test_any_harbor_task_is_explained(harbor):
    said = explain(harbor)
    assert (said.kind, said.name) == ("Harbor", "org/hello")
    assert dict(said.section("budgets")) == {
        "agent": "90 s", "verifier": "600 s (10 min)", "building the image": "600 s (10 min)",
    }  # fmt: skip
    assert dict(said.section("network")) == {
        "environment": "public", "agent": "public, as the environment", "verifier": "no-network",
    }  # fmt: skip
    assert said.section("verifier")["gets from the agent"] == "/app/answer.txt, /app/log"
    assert said.section("machine")["image is made from"] == "python:3.12"
    assert said.section("exploration can't see") == {"tests/": "copied in when the agent has ended"}
    assert said.section("parts")["solution/solve.sh"] == "missing"
    assert said.section("metadata") == {"difficulty": "easy"}
    assert said.section("task")["instruction"] == "Say hello."


def test_a_separate_verifier_without_artifacts_is_said_to_lose_honest_work(harbor):
    """H36: a separate verifier gave an honest agent 0, since nothing of its output was declared."""
    (harbor / "task.toml").write_text(HARBOR.replace("artifacts = [", "unused = ["), encoding="utf-8")
    assert "honest work would be lost" in explain(harbor).section("verifier")["gets from the agent"]


def test_a_shared_verifier_is_said_to_run_beside_what_the_agent_left(harbor):
    (harbor / "task.toml").write_text(HARBOR.replace('environment_mode = "separate"', ""), encoding="utf-8")
    said = explain(harbor).section("verifier")
    assert said["environment"] == "shared"
    assert "whatever the agent left running" in said["gets from the agent"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "x = 1",
        "[task]\nname = 3\n[agent]\ntimeout_sec = 'long'\nartifacts = 5\n",
        "[environment]\nallow_internet = 'sometimes'\n",
        "[environment]\nallow_internet = ['a.example']\n",
    ],
)
def test_odd_task_files_are_explained_without_a_crash(content, tmp_path):
    (tmp_path / "task.toml").write_text(content, encoding="utf-8")
    said = explain(tmp_path)
    assert said.kind == "Harbor"
    assert said.section("folder")["digest"] == tree_digest(entries(tmp_path))
