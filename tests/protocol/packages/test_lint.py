"""What is found wrong with a task: each fault is put into a sound one, and named with its rule, file and line."""

import hashlib
import json
import os
import re
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opd.evaluate import benchmark
from opd.protocol.packages.catalogue import begin, find
from opd.protocol.packages.lint.check import check
from opd.protocol.packages.lint.findings import Report, Rule
from opd.protocol.packages.lint.lines import lines_of
from opd.protocol.packages.package import build

TASKS = Path(__file__).parents[3] / "src/opd/tasks"
FIRST_FINAL = "Compute 97-5+3-7-5."


@pytest.fixture(scope="module")
def lint() -> Callable[..., Report]:
    declared = {name: benchmark.find(name).resolved() for name in benchmark.names()}
    return lambda folder, **more: check(folder, **({"benchmarks": declared} | more))


@pytest.fixture
def source(tmp_path) -> Path:
    """A task of one's own; a test changes it."""
    return begin("acme/sums", like=TASKS / "arith_tiny", out=tmp_path / "sums")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "arith_tiny"
    build(*find("arith_tiny"), folder)
    return folder


@pytest.fixture
def package(built, tmp_path) -> Path:
    """A rendered package; a test changes it."""
    return Path(shutil.copytree(built, tmp_path / "package"))


def put(folder: Path, old: str, new: str) -> None:
    path = folder / "task.toml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def found(report: Report) -> list[tuple[str, str]]:
    return [(str(one.rule), one.path) for one in report.findings]


@pytest.mark.parametrize("name", ["arith_tiny", "opd_math_1p5b"])
def test_nothing_is_wrong_with_a_task_that_ships_nor_with_its_package(name, lint, shared, tmp_path):
    task, folder = find(name)
    report = lint(folder, data=shared / "data")
    assert report.findings == ()
    assert report.unchecked == ()
    build(task, folder, tmp_path / "package")
    assert lint(tmp_path / "package", data=shared / "data") == report


FAULTS: list[tuple[str, str, Rule, str]] = [
    ("explore_seconds = 420", "explore_seconds = 0", Rule.INVALID_TASK, "explore_seconds"),
    ("reserve_seconds = 15", "reserve_seconds = 150", Rule.INVALID_TASK, "[metadata.opd.budgets]"),
    ("most = 3\n", "", Rule.INVALID_TASK, "[metadata.opd.artifacts]"),
    ("most = 3\n", "most = 30\n", Rule.LOOSE_ARTIFACTS, "most"),
    ("final_seconds = 90", "final_seconds = 90\nlast_seconds = 1", Rule.UNKNOWN_KEY, "last_seconds"),
    ("[metadata]", "[agent]\ntimeout = 1\n[metadata]", Rule.UNKNOWN_KEY, "timeout"),
    ("[metadata]", "[agent]\ntimeout_sec = 421\n[metadata]", Rule.DISAGREES, "timeout_sec"),
    ("[metadata]", '[environment]\nnetwork_mode = "public"\n[metadata]', Rule.DISAGREES, "network_mode"),
    ("[metadata]", '[verifier]\nenvironment_mode = "shared"\n[metadata]', Rule.DISAGREES, "environment_mode"),
    ('files_sha256 = "8785', '# "8785', Rule.UNPINNED_INPUT, "source"),
    ('files_sha256 = "8785', 'files_sha256 = "9785', Rule.ANOTHER_INPUT, "files_sha256"),
    ('sha256 = "8db2', 'sha256 = "9db2', Rule.ANOTHER_INPUT, "sha256"),
    ('"src/opd/models/**", ', '"src/opd/**", ', Rule.FROZEN_SURFACE, "editable"),
    ('"src/opd/models/**", ', '"src/opd/modles/**", ', Rule.UNREACHABLE_SURFACE, "editable"),
    ('benchmark = "arith_tiny_final"', 'benchmark = "arith_tiny"', Rule.SAME_QUESTIONS, "benchmark"),
    ("limit_tokens = 64", "limit_tokens = 65", Rule.PROXY_BEYOND_FINAL, "limit_tokens"),
    ("limit_tokens = 64", "limit_tokens = 63", Rule.ANOTHER_BENCHMARK, "limit_tokens"),
    ("seeds = [42, 43, 44, 45]", "seeds = [42, 43, 44, 46]", Rule.ANOTHER_BENCHMARK, "seeds"),
    ('benchmark = "arith_tiny"', 'benchmark = "arith_huge"', Rule.ANOTHER_BENCHMARK, "benchmark"),
    ("correct = 917", "correct = 918", Rule.REFERENCE_ARITHMETIC, "score"),
    ("samples = 2_000", "samples = 2_001", Rule.REFERENCE_ARITHMETIC, "samples"),
    ("[[metadata.opd.references]]", "[metadata.opd.refs]", Rule.UNKNOWN_KEY, "[metadata.opd.refs]"),
]


def test_nothing_is_wrong_with_what_the_other_tests_spoil(lint, source, package):
    assert lint(source).findings == lint(package).findings == ()


@pytest.mark.parametrize(("old", "new", "rule", "key"), FAULTS)
def test_a_fault_is_named_with_its_rule_and_the_line_of_its_key(old, new, rule, key, lint, source):
    put(source, old, new)
    findings = [one for one in lint(source).findings if one.rule is rule]
    assert findings, lint(source).findings
    lines = (source / "task.toml").read_text(encoding="utf-8").splitlines()
    assert {one.path for one in findings} == {"task.toml"}
    assert any(one.line and lines[one.line - 1].startswith(key) for one in findings), findings


def test_a_blank_brief_tells_the_explorer_nothing(lint, source):
    text = (source / "task.toml").read_text(encoding="utf-8")
    text = re.sub(r'brief = """.*?"""', 'brief = " \\\\n"', text, count=1, flags=re.DOTALL)
    (source / "task.toml").write_text(text, encoding="utf-8")
    assert found(lint(source)) == [("empty-instruction", "task.toml")]


def test_several_faults_are_found_at_once(lint, source):
    put(source, "final_seconds = 90", "final_seconds = -1\nlast_seconds = 1")
    assert {rule for rule, _ in found(lint(source))} == {"invalid-task", "unknown-key"}


@pytest.mark.parametrize("content", ["", "a = ", "[metadata]\nopd = 1\n", "schema_version = '9'\n", "\x00"])
def test_a_file_that_is_no_task_is_a_finding_and_no_crash(content, lint, tmp_path):
    (tmp_path / "task.toml").write_text(content, encoding="utf-8")
    report = lint(tmp_path)
    assert report.findings
    assert {one.rule for one in report.findings} <= {Rule.INVALID_TASK, Rule.UNKNOWN_KEY}


def test_a_folder_without_a_task_file_says_so(lint, tmp_path):
    assert found(lint(tmp_path)) == [("invalid-task", "task.toml")]


# --- final questions where the explorer can read them ---


def test_the_embedded_final_is_not_in_what_the_explorer_gets_and_a_planted_question_is_found(lint, source):
    put(source, 'brief = """\n', f'brief = """\nFor instance: {FIRST_FINAL}\n')
    assert found(lint(source)) == [
        ("holds-final-questions", "instruction.md"),
        ("holds-final-questions", "task.toml"),
    ]
    assert "1 of the final's 500 questions" in lint(source).findings[0].message


PROBLEM = (
    "A circle with radius $6$ lies inside a triangle whose sides have lengths $13$, $37$ and $40$. "
    "How far is the circle's centre from the longest side at least, given that it touches no side twice?"
)


@pytest.fixture
def long_question(source) -> Path:
    """The task with a final of one long question, in a file of its own."""
    questions = source.parent / "long.jsonl"
    questions.write_text(json.dumps({"id": "1", "problem": PROBLEM, "answer": "1"}) + "\n", encoding="utf-8")
    digest = hashlib.sha256(questions.read_bytes()).hexdigest()
    put(source, 'source = "opd:arith_tiny/final.jsonl"', f'source = "{questions}"')
    put(source, "d5588d0c131c04befde47d063451ada87b137b0286c811172c2e7319ec2a921b", digest)
    return source


CARRIERS = {
    "as it is": PROBLEM,
    "wrapped": textwrap.fill(PROBLEM, 40),
    "a diff": textwrap.indent(textwrap.fill(PROBLEM, 60), "+"),
    "comments": textwrap.indent(textwrap.fill(PROBLEM, 60), "# "),
    "other blanks": PROBLEM.replace(" ", "\u00a0 "),
    "capitals": PROBLEM.upper(),
    "wide letters": "".join(chr(ord(one) + 0xFEE0) if one.isalnum() else one for one in PROBLEM),
    "bold": PROBLEM.replace("$", "**"),
}


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_question_is_found_however_it_is_written_down(carrier, lint, long_question):
    before = [one for one in lint(long_question).findings if one.rule is Rule.HOLDS_FINAL_QUESTIONS]
    assert before == []
    put(long_question, 'brief = """\n', f'brief = """\n{CARRIERS[carrier]}\n')
    held = {path for rule, path in found(lint(long_question)) if rule == "holds-final-questions"}
    assert held == {"instruction.md", "task.toml"}


def test_training_problems_that_are_questions_of_the_final_are_found(lint, source):
    put(source, "arith_tiny/train.jsonl", "arith_tiny/final.jsonl")
    held = [one for one in lint(source).findings if one.rule is Rule.HOLDS_FINAL_QUESTIONS]
    assert [one.message.split(" stand")[0] for one in held] == ["500 of the final's 500 questions"]


def test_sums_with_the_same_numbers_and_other_signs_are_other_questions(lint, source):
    put(source, 'brief = """\n', f'brief = """\n{FIRST_FINAL.replace("+", "-")}\n')
    assert lint(source).findings == ()


def test_a_question_in_any_file_that_the_explorer_may_read_is_found(lint, package):
    planted = {"README.md", "environment/workspace/recipes/arith_tiny.toml", "solution/run.sh"}
    for name in planted | {"tests/workspace/run.sh"}:  # what judges may know the question
        path = package / name
        path.write_text(f"{path.read_text(encoding='utf-8')}# {FIRST_FINAL}\n", encoding="utf-8")
    assert {path for rule, path in found(lint(package)) if rule == "holds-final-questions"} == planted


def test_what_is_not_at_hand_is_said_to_be_unchecked(lint, source, monkeypatch):
    monkeypatch.chdir(source)
    put(source, 'source = "opd:arith_tiny/final.jsonl"', 'source = "elsewhere.jsonl"')
    report = lint(source)
    assert [sentence.split(" ")[0] for sentence in report.unchecked] == ["elsewhere.jsonl"]
    data = source / "data"
    data.mkdir()
    shutil.copy(TASKS / "arith_tiny/final.jsonl", data / "elsewhere.jsonl")
    assert lint(source).unchecked == ()
    monkeypatch.chdir(source.parent)
    assert lint(source, data=data).unchecked == ()


# --- folders ---


def link_out(folder: Path) -> None:
    (folder / "notes").symlink_to("/etc")


def link_out_by_a_link_inside(folder: Path) -> None:
    (folder / "a").mkdir()
    (folder / "a/up").symlink_to("../..")


def circle(folder: Path) -> None:
    (folder / "one").symlink_to("two")
    (folder / "two").symlink_to("one")


def link_to_its_own_folder(folder: Path) -> None:
    (folder / "a").mkdir()
    (folder / "a/again").symlink_to("../a")


def leads_nowhere(folder: Path) -> None:
    (folder / "gone").symlink_to("nothing")


def fifo(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


@pytest.mark.parametrize(
    "spoil", [link_out, link_out_by_a_link_inside, circle, link_to_its_own_folder, leads_nowhere, fifo]
)
def test_what_leads_out_of_a_task_or_never_ends_is_found(spoil, lint, source):
    spoil(source)
    assert {rule for rule, _ in found(lint(source))} == {"escaping-path"}


def test_a_link_that_stays_inside_is_no_fault_of_a_source(lint, source):
    (source / "LICENSE").write_text("free\n", encoding="utf-8")
    (source / "COPYING").symlink_to("LICENSE")
    assert lint(source).findings == ()


def change_a_figure(folder: Path) -> str:
    path = folder / "instruction.md"
    path.write_text(path.read_text(encoding="utf-8").replace("420 s", "421 s"), encoding="utf-8")
    return "instruction.md"


def change_a_budget(folder: Path) -> str:
    put(folder, "explore_seconds = 420", "explore_seconds = 840")
    return "instruction.md"


def change_the_judge(folder: Path) -> str:
    (folder / "tests/test.sh").write_text("echo 1 > /logs/verifier/reward.txt\n", encoding="utf-8")
    return "tests/test.sh"


def change_the_judge_s_base(folder: Path) -> str:
    (folder / "tests/workspace/run.sh").write_text("exit 0\n", encoding="utf-8")
    return "tests/workspace/run.sh"


def change_a_mode(folder: Path) -> str:
    (folder / "solution/solve.sh").chmod(0o644)
    return "solution/solve.sh"


def add_a_file(folder: Path) -> str:
    (folder / "conftest.py").write_text("\n", encoding="utf-8")
    return "conftest.py"


def add_an_empty_folder(folder: Path) -> str:
    (folder / "tests/more").mkdir()
    return "tests/more"


def remove_a_file(folder: Path) -> str:
    (folder / "README.md").unlink()
    return "README.md"


def put_a_link_for_a_file(folder: Path) -> str:
    (folder / "README.md").unlink()
    (folder / "README.md").symlink_to("instruction.md")
    return "README.md"


@pytest.mark.parametrize(
    "spoil",
    [
        change_a_figure, change_a_budget, change_the_judge, change_the_judge_s_base, change_a_mode, add_a_file,
        add_an_empty_folder, remove_a_file, put_a_link_for_a_file,
    ],
)  # fmt: skip
def test_a_package_that_is_not_what_its_task_renders_to_is_stale(spoil, lint, package):
    path = spoil(package)
    assert ("stale-package", path) in found(lint(package))


def test_a_package_without_instruction_tells_the_explorer_nothing(lint, package):
    (package / "instruction.md").unlink()
    assert ("empty-instruction", "instruction.md") in found(lint(package))


# --- lines ---


def test_lines_are_those_of_keys_and_not_of_what_looks_like_one():
    text = 'a = 1\n[t.u]\nrun = """\nb = 2\n[x]\n"""\nb = 3\n'
    text += "[[t.v]]\nc = 4\n[[t.v]]\n\"c d\" = '''one line'''\ne.f = 5\n"
    places: dict[Any, int] = lines_of(text)
    assert places == {
        ("a",): 1,
        ("t", "u"): 2,
        ("t", "u", "run"): 3,
        ("t", "u", "b"): 7,
        ("t", "v", 0): 8,
        ("t", "v", 0, "c"): 9,
        ("t", "v", 1): 10,
        ("t", "v", 1, "c d"): 11,
        ("t", "v", 1, "e", "f"): 12,
    }
