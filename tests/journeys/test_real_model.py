"""A real pretrained model and real problems: the commands of docs/real-model.md, in small.

The slow tests need models/smollm2, which examples/smollm2_directory.py makes, and the files of ../shared/data;
the others take the embedded pair in its place.
"""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from transformers import AutoModelForCausalLM

from opd.cli.main import run
from opd.models.load import load_model
from opd.records.files import is_complete, read_lines
from opd.records.places import locate
from opd.records.rollout_table import read_table, table_path
from opd.records.scores import Score
from opd.records.settings import read
from opd.train.prompts.data import read_prompts
from opd.train.recipe import Recipe

ROOT = Path(__file__).parents[2]
TINY = "opd:arith_tiny/student"


@pytest.fixture(scope="module")
def smollm2() -> Path:
    folder = ROOT / "models" / "smollm2"
    if not (folder / "model.safetensors").is_file():
        pytest.skip("there is no models/smollm2; examples/smollm2_directory.py makes it")
    return folder


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """examples/two_digit_sums.py, with a teacher of two steps."""
    spec = importlib.util.spec_from_file_location("two_digit_sums", ROOT / "examples" / "two_digit_sums.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "TEACHER_STEPS", 2)
    return module


def opd(*arguments: str) -> str:
    """What the command prints on its standard output."""
    done = subprocess.run([sys.executable, "-m", "opd", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- the commands, on the real thing ---------------------------------------------------------------------


@pytest.mark.slow
def test_a_real_model_answers_two_questions_of_math500(smollm2: Path, shared: Path, tmp_path: Path) -> None:
    out, data = tmp_path / "score", shared / "data" / "math500.jsonl"
    asked = ["--questions", "2", "--samples", "1", "--set", "benchmark.limit_tokens=32"]
    opd("evaluate", "math500", "--model", str(smollm2), "--data", str(data), "--out", str(out), *asked)
    score = read(Score, out / "score.json")
    assert (score.questions, score.samples, sum(score.verdicts.values())) == (2, 2, 2)
    samples = list(read_lines(out / "samples.jsonl"))
    first_two = [json.loads(line)["id"] for line in data.read_text().splitlines()[:2]]
    assert [sample["question"] for sample in samples] == first_two
    assert all(1 <= sample["tokens"] <= 32 for sample in samples)
    assert sum(sample["tokens"] for sample in samples) == score.tokens


@pytest.mark.slow
def test_a_real_model_makes_a_step_on_real_problems(smollm2: Path, shared: Path, tmp_path: Path) -> None:
    """A forward pass of transformers alone says the same of the sampled tokens as the sampler did (E25 to E28)."""
    out = tmp_path / "run"
    sets = {
        "student.model": smollm2,
        "teacher.model": smollm2,
        "data.path": shared / "data" / "dapo_math_unique.jsonl",
        "rollouts.limit_tokens": 16,
        "budget.steps": 1,
    }
    flags = [part for key, value in sets.items() for part in ("--set", f"{key}={value}")]
    opd("train", "smollm2_dapo", "--out", str(out), "--quiet", *flags)
    (line,) = read_lines(out / "metrics.jsonl")
    assert line["trained_tokens"] <= 8 * 16
    assert line["gap"]["largest"] < 1e-3  # both in float32
    assert abs(line["kl"]) < 0.1  # the teacher differs from the student by rounding to bfloat16 alone
    assert line["kl"] != 0.0

    rollout = read_table(table_path(out, 1))[0].rollout
    logp_T = independent_logp(smollm2, rollout.prompt.token_ids, rollout.token_ids)
    torch.testing.assert_close(torch.tensor(rollout.logp), logp_T, atol=1e-3, rtol=0)

    assert is_complete(out / "checkpoint-1")
    before, after = (
        load_model(path, dtype="float32", device="cpu").module.state_dict()
        for path in (smollm2, out / "checkpoint-1")
    )
    assert before.keys() == after.keys()
    moved = max(float((after[name] - before[name]).abs().max()) for name in before)
    assert 0 < moved < 1.1e-5  # AdamW's first step moves a weight by the learning rate at most


def independent_logp(folder: Path, prompt: tuple[int, ...], response: tuple[int, ...]) -> torch.Tensor:
    """Log-probability of each token of the response, nats, written out without anything of opd's."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    with torch.no_grad():
        logits_TV = model(input_ids=torch.tensor([prompt + response])).logits[0]
    logp_TV = torch.log_softmax(logits_TV, dim=-1)
    return torch.stack([logp_TV[len(prompt) + t - 1, token] for t, token in enumerate(response)])


# --- what is said where the real thing is missing --------------------------------------------------------


@pytest.mark.parametrize(
    ("recipe", "missing"),
    [
        (
            "smollm2_dapo",
            ["student: model './models/smollm2'", "teacher: model './models/smollm2'", "dapo_math_unique"],
        ),
        ("smollm2_sums", ["student: model './models/smollm2'", "runs/sums/teacher", "runs/sums/train.jsonl"]),
        ("opd_math_1p5b", ["DeepSeek-R1-Distill-Qwen-1.5B@ad9f0ae0", "JustRL-DeepSeek-1.5B", "dapo_math_unique"]),
    ],
)
def test_a_recipe_names_all_that_is_missing_before_anything_is_made(
    recipe: str,
    missing: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["train", recipe, "--out", "run"]) == 2
    said = capsys.readouterr().err
    for what in ("student: ", "teacher: ", "training data: ", *missing):
        assert what in said
    assert "Traceback" not in said
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what is missing where there is no CUDA device")
def test_the_reference_recipe_asks_for_a_gpu_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["train", "opd_math_1p5b", "--out", "run"]) == 2
    assert "a CUDA device with at least 33 GiB; this machine has none" in capsys.readouterr().err


# --- examples/two_digit_sums.py --------------------------------------------------------------------------


def test_no_two_numbers_are_added_both_in_training_and_in_the_held_out_sums(sums: ModuleType, tmp_path: Path) -> None:
    sums.write_sums(tmp_path)
    train, held_out = (list(read_lines(tmp_path / f"{name}.jsonl")) for name in ("train", "held_out"))
    for row in train + held_out:
        a, b = addends(row)
        assert 10 <= a <= b <= 99
        assert row["answer"] == str(a + b)
    assert len(held_out) == len({row["id"] for row in held_out}) == 128
    of_train, of_held_out = ({addends(row) for row in rows} for rows in (train, held_out))
    assert not of_train & of_held_out
    assert len(of_train | of_held_out) == 90 * 91 // 2  # nothing was lost on the way


def addends(row: dict[str, str]) -> tuple[int, int]:
    """The two numbers of a sum, the smaller first."""
    a, b = sorted(map(int, row["problem"].split("+")))
    return a, b


def test_the_answer_that_the_teacher_is_shown_ends_itself_and_is_right(sums: ModuleType) -> None:
    from opd.grading.grader import Grader

    tokenizer = load_model(locate(TINY), dtype="float32", device="cpu").tokenizer
    prompt = sums.Prompt(row=0, problem="17+25", answer="42", token_ids=(1,))
    rollout = sums.written(prompt, tokenizer).rollout
    assert rollout.token_ids[-1] == tokenizer.eos_token_id
    assert rollout.token_ids.count(tokenizer.eos_token_id) == 1
    with Grader() as grader:
        (judgement,) = grader.grade([(tokenizer.decode(rollout.token_ids[:-1]), "42", False)])
    assert judgement.verdict.correct


def test_the_likelihood_of_written_answers_is_their_mean_surprise(sums: ModuleType, tmp_path: Path) -> None:
    """The loss of the supervised step equals transformers' own for the same ids and labels."""
    sums.write_sums(tmp_path)
    model = load_model(locate(TINY), dtype="float32", device="cpu")
    recipe = sums_recipe(tmp_path)
    prompts = read_prompts(recipe.data, model.tokenizer).prompts[:4]
    lesson = [sums.written(prompt, model.tokenizer) for prompt in prompts]
    losses, tokens = [], 0
    with torch.no_grad():
        for prompt, one in zip(prompts, lesson, strict=True):
            ids = torch.tensor([prompt.token_ids + one.rollout.token_ids])
            labels = ids.clone()
            labels[:, : len(prompt.token_ids)] = -100
            losses.append(float(model.module(input_ids=ids, labels=labels).loss) * len(one.rollout.token_ids))
            tokens += len(one.rollout.token_ids)
    updater = sums.Updater(model, sums.Likelihood(), sums.OptimizerSettings(lr=5e-5))
    assert updater.update(lesson, step=1).loss == pytest.approx(sum(losses) / tokens, rel=1e-5)


def test_the_example_goes_from_nothing_to_a_comparison_and_makes_nothing_twice(
    sums: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sums, "HELD_OUT", 8)
    sets = [f"student.model={TINY}", "student.dtype=float32", "teacher.dtype=float32", "budget.steps=1"]
    sums.main(tmp_path / "sums", *sets)
    said = capsys.readouterr().out
    assert "teacher: step 2/2" in said
    for name in ("start", "teacher", "distilled"):
        assert read(Score, tmp_path / "sums" / "scores" / name / "score.json").questions == 8
    assert is_complete(tmp_path / "sums" / "distilled" / "checkpoint-1")
    assert "on questions like these" in said

    sums.main(tmp_path / "sums", *sets)
    again = capsys.readouterr().out
    assert "teacher: step" not in again
    assert again.splitlines() == said.splitlines()[-len(again.splitlines()) :]


def sums_recipe(out: Path) -> Recipe:
    from opd.records.places import recipe_path

    return read(Recipe, recipe_path("smollm2_sums"), sets=[f"data.path={out}/train.jsonl"])
