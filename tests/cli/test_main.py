"""The command line: what a mistake looks like, and that help is quick."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from opd.cli.main import run

TRAIN = ["train", "arith_tiny", "--quiet"]


def said(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured.err


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["evaluate", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys; from opd.cli.main import run; run(sys.argv[1:]);"
        "print(sorted({'torch', 'transformers', 'scipy', 'pyarrow', 'matplotlib', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tran"], "Did you mean 'train'"),
        (["train", "nowhere.toml"], "nowhere.toml does not exist"),
        (["train", "no-such-recipe"], "arith_tiny"),
        ([*TRAIN, "--set", "optimizer.learning_rate=1e-3"], "unknown key 'optimizer.learning_rate'"),
        ([*TRAIN, "--set", "optimizr.lr=1e-3"], "did you mean 'optimizer'"),
        ([*TRAIN, "--set", "optimizer.lr=fast"], "optimizer.lr"),
        ([*TRAIN, "--set", "budget.steps=1.5"], "budget.steps"),
        ([*TRAIN, "--set", "budget.steps"], "section.key=value"),
        ([*TRAIN, "--set", "objective.name=k9"], "k1_policy_gradient"),
        ([*TRAIN, "--set", "objective.clipp=0.1"], "did you mean 'clip'"),
        ([*TRAIN, "--set", "student.model=/no/such/model"], "no such directory"),
        ([*TRAIN, "--set", "student.model=opd:arith_tiny/pupil"], "not part of this install"),
        ([*TRAIN, "--set", "data.path=/no/such/file.jsonl"], "no such file"),
        ([*TRAIN, "--set", "data.limit_prompt_tokens=10"], "the limit is 10"),
        ([*TRAIN, "--set", "rollouts.limit_tokens=600"], "context of 512"),
        ([*TRAIN, "--set", "rollouts.top_p=0.9"], "top_p"),
        ([*TRAIN, "--set", "data.prompt=Solve"], "{problem}"),
    ],
)
def test_a_mistake_is_a_line_that_names_it_and_nothing_is_made(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    code = run([*arguments, *(["--out", str(out)] if arguments[0] == "train" else [])])
    assert code == 2
    assert words in said(capsys)
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["evaluate", "gsm9k", "--model", "opd:arith_tiny/student"], "arith_tiny"),
        (["evaluate", "arith_tiny", "--model", "/no/such/model"], "no such directory"),
        (["evaluate", "arith_tiny", "--model", "opd:arith_tiny/student", "--questions", "501"], "between 1 and 500"),
        (["evaluate", "arith_tiny", "--model", "opd:arith_tiny/student", "--samples", "0"], "between 1 and 4"),
        (["evaluate", "math500", "--model", "opd:arith_tiny/student", "--data", "/no/file"], "does not exist"),
        (
            ["evaluate", "arith_tiny", "--model", "opd:arith_tiny/student", "--set", "benchmark.limit_token=9"],
            "did you mean 'limit_tokens'",
        ),
        (
            ["evaluate", "arith_tiny", "--model", "opd:arith_tiny/student", "--set", "benchmark.limit_tokens=600"],
            "context of 512",
        ),
    ],
)
def test_an_evaluation_that_is_asked_wrongly_leaves_no_score(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run([*arguments, "--out", str(out), "--quiet"]) == 2
    assert words in said(capsys)
    assert not (out / "score.json").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        TRAIN,
        ["evaluate", "arith_tiny", "--model", "opd:arith_tiny/student", "--quiet"],
        ["demo", "--quiet", "--no-attempt"],
    ],
)
@pytest.mark.parametrize("place", ["file/inside", "file", "link/inside", "x" * 300])
def test_a_place_that_can_be_no_folder_is_refused_before_anything_is_loaded(
    arguments: list[str], place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert run([*arguments, "--out", str(tmp_path / place)]) == 2
    assert "name another place" in (message := said(capsys)) or "name a new folder" in message
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("optimizer.lr=1e300", "optimizer.lr"),
        ("machine.threads=1000000", "machine.threads"),
        ("rollouts.per_prompt=1000000000000", "rollouts.per_prompt"),
        ("machine.head_chunk_tokens=100000000000000000000000000", "machine.head_chunk_tokens"),
        ("rollouts.temperature=1e30", "rollouts.temperature"),
        ("seed=" + "9" * 5000, "seed"),
        ("seed=" + "[" * 5000, "seed"),
        ("machine.device=tpu", "machine.device"),
    ],
)
def test_a_number_beyond_all_reason_is_refused(
    setting: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run([*TRAIN, "--out", str(out), "--set", setting]) == 2
    assert words in said(capsys)
    assert not out.exists()


def test_a_run_never_writes_over_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "metrics.jsonl").write_text("precious\n")
    assert run([*TRAIN, "--out", str(tmp_path)]) == 2
    assert "never writes over another" in said(capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]
    assert (tmp_path / "metrics.jsonl").read_text() == "precious\n"


def test_the_reference_recipe_says_everything_that_is_missing_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = run(["train", "opd_math_1p5b", "--out", "run", "--set", "machine.device=cuda"])
    message = said(capsys)
    assert code == 2
    assert "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B@ad9f0ae0" in message
    assert "hbx/JustRL-DeepSeek-1.5B@0637e409" in message
    assert "dapo_math_unique.jsonl" in message
    assert not (tmp_path / "run").exists()


def test_show_prints_a_recipe_that_reads_back_to_the_same_digest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["show", "recipe", "arith_tiny"]) == 0
    first = capsys.readouterr()
    (tmp_path / "again.json").write_text(first.out)
    assert run(["show", "recipe", str(tmp_path / "again.json")]) == 0
    second = capsys.readouterr()
    assert json.loads(first.out) == json.loads(second.out)
    assert first.err == second.err


def test_show_keys_explains_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "keys"]) == 0
    printed = capsys.readouterr().out.splitlines()
    keys = [number for number, line in enumerate(printed) if line.startswith("  ") and not line.startswith("   ")]
    assert len(keys) > 30
    assert [printed[number] for number in keys if not printed[number + 1].strip()] == []
