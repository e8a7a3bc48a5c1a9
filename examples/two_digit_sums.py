"""A real language model learns two-digit sums from a better-taught copy of itself, on one CPU thread.

    .venv/bin/python examples/smollm2_directory.py models/smollm2
    .venv/bin/python examples/two_digit_sums.py runs/sums

runs/sums/
    train.jsonl  held_out.jsonl            sums; no two numbers are added in both files
    teacher/                               the model after 40 supervised steps on written answers
    distilled/                             what `opd train smollm2_sums` makes: the student after 30 steps
    scores/start  teacher  distilled       evaluations on the held-out sums

What stands is not made again: after an interruption remove `distilled` if it is unfinished, and give the same
command. More words change the recipe, as `--set` does: `budget.steps=60`. Time, memory and scores are in
docs/real-model.md.
"""

import json
import random
import sys
from itertools import product
from pathlib import Path
from typing import Any

import torch

from opd.evaluate.benchmark import Benchmark, QuestionFile
from opd.evaluate.comparison import compare
from opd.evaluate.results import read_results
from opd.evaluate.run import evaluate
from opd.evaluate.settings import Evaluation, EvaluationMachine
from opd.models.export import export
from opd.models.load import find_model, load_model
from opd.models.machine import choose_device
from opd.records.files import publish, sha256, write_text
from opd.records.places import recipe_path
from opd.records.rollouts import Prompt, Rollout, ScoredRollout, StopReason
from opd.records.scores import Score
from opd.records.settings import read
from opd.train.objective import StudentView, TokenLoss, TokenObjective
from opd.train.prompts.data import read_prompts
from opd.train.recipe import Recipe
from opd.train.run import prepare, run
from opd.train.update.batch import Batch
from opd.train.update.updater import OptimizerSettings, Updater
from opd.view.terminal.board import EvaluateBoard, TrainBoard

HELD_OUT = 128
TEACHER_STEPS = 40
ANSWERS_PER_STEP = 16


class Likelihood(TokenObjective):
    """loss = -log student. On answers that were written and not sampled, this is supervised fine-tuning."""

    def __call__(self, student: StudentView, batch: Batch) -> TokenLoss:  # noqa: ARG002
        """One value a token."""
        return TokenLoss(loss_N=-student.logp_N)


def main(out: Path, *sets: str) -> None:
    """Sums, teacher, distillation, scores, comparison; each part is in `out` afterwards."""
    places = [f"data.path={out}/train.jsonl", f"teacher.model={out}/teacher"]
    recipe = read(Recipe, recipe_path("smollm2_sums"), sets=[*places, *sets])
    write_sums(out)
    if not (out / "teacher").exists():
        make_teacher(recipe, out / "teacher")
    if not (out / "distilled/run.json").exists():
        with TrainBoard(total_steps=recipe.budget.steps) as board:
            run(recipe, prepare(recipe, out / "distilled"), out / "distilled", report=board.step)
    models = {
        "start": recipe.student.model,
        "teacher": recipe.teacher.model,
        "distilled": f"{out}/distilled/checkpoint-{recipe.budget.steps}",
    }
    scores = {name: score(recipe, model, out, name=name) for name, model in models.items()}
    for name, found in scores.items():
        print(f"{name:10} {found.correct:3}/{found.samples} = {found.mean:.3f} ± {found.stderr:.3f}")
    start, teacher, distilled = (read_results(out / "scores" / name, name=name) for name in models)
    for other in (start, teacher):
        print(compare(other, distilled).verdict)


def write_sums(out: Path) -> None:
    """`held_out.jsonl` has 128 sums, `train.jsonl` the others; 17+25 and 25+17 stand in the same file."""
    pairs = list(product(range(10, 100), repeat=2))
    random.Random(42).shuffle(pairs)
    held_out = pairs[:HELD_OUT]
    known = {frozenset(pair) for pair in held_out}
    for name, chosen in {
        "held_out": held_out,
        "train": [pair for pair in pairs if frozenset(pair) not in known],
    }.items():
        rows = [{"id": f"{a}+{b}", "problem": f"{a}+{b}", "answer": str(a + b)} for a, b in chosen]
        write_text(out / f"{name}.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))


def make_teacher(recipe: Recipe, out: Path) -> None:
    """The student after 640 written answers, as a model directory: one pass, every weight, AdamW at 5e-5."""
    torch.set_num_threads(recipe.machine.threads)
    device = choose_device(recipe.machine.device)
    model = load_model(find_model(recipe.student.model), dtype=recipe.student.dtype, device=device)
    prompts = read_prompts(recipe.data, model.tokenizer).prompts[: TEACHER_STEPS * ANSWERS_PER_STEP]
    updater = Updater(model, Likelihood(), OptimizerSettings(lr=5e-5))
    for step in range(1, TEACHER_STEPS + 1):
        lesson = prompts[(step - 1) * ANSWERS_PER_STEP : step * ANSWERS_PER_STEP]
        stats = updater.update([written(prompt, model.tokenizer) for prompt in lesson], step=step)
        print(f"teacher: step {step}/{TEACHER_STEPS}  loss {stats.loss:.3f} nats/token", flush=True)
    with publish(out) as partial:
        export(model, partial)


def written(prompt: Prompt, tokenizer: Any) -> ScoredRollout:
    """The answer that the teacher is shown, where a sampled one would stand; nobody gave it probabilities."""
    text = f"{prompt.problem.replace('+', ' + ')} = {prompt.answer}, so the answer is \\boxed{{{prompt.answer}}}."
    ids = tuple(tokenizer(text + tokenizer.eos_token, add_special_tokens=False).input_ids)
    nothing = (0.0,) * len(ids)
    rollout = Rollout(prompt=prompt, sample=0, token_ids=ids, logp=nothing, stop=StopReason.EOS)
    return ScoredRollout(rollout=rollout, teacher_logp=nothing)


def score(recipe: Recipe, model: str, out: Path, *, name: str) -> Score:
    """The model's score on the held-out sums, one sample each, asked as in training."""
    data = out / "held_out.jsonl"
    benchmark = Benchmark(
        name="two_digit_sums",
        files=(QuestionFile(data=data.name, sha256=sha256(data), rows=HELD_OUT),),
        questions=HELD_OUT,
        seeds=(42,),
        prompt=recipe.data.prompt,
        limit_tokens=recipe.rollouts.limit_tokens,
    )
    asked = Evaluation(benchmark=benchmark, machine=EvaluationMachine(dtype=recipe.student.dtype))
    with EvaluateBoard(total=HELD_OUT, title=f"score {name}") as board:
        return evaluate(asked, model, out / "scores" / name, data=data, report=board.add)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), *sys.argv[2:])
