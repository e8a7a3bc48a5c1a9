"""How many tokens a step has with guesses, for a real model: by temperature, and by the rows of a step.

    python benchmarks/bench_drafts.py MODEL QUESTIONS.jsonl [--answers 8] [--tokens 384]
                                                            [--temperatures 1.0,0.6,0]

MODEL is a directory (`examples/smollm2_directory.py` makes one), a line of QUESTIONS.jsonl has a `problem`. Answers
are sampled without guesses, then gone through again: at each step, what would have been guessed, and how much of it
was drawn. `surprise` is the mean of -log p of the sampled tokens, nats; at temperature 0 the likeliest are taken, and
p is that at 1. Minutes on one CPU thread.
"""

import argparse
import json
from pathlib import Path

import torch

from opd.models.engine.drafts.operations import following
from opd.models.engine.sampler import EngineSampler
from opd.models.interfaces import Sampling
from opd.models.load import LanguageModel, load_model
from opd.records.rollouts import Prompt, Rollout

ROWS = (8, 4, 2)  # of a step, as one, two and four sequences have them
ASKED = "\nPlease reason step by step, and put your final answer within \\boxed{}."


def main() -> None:
    """A JSON line for each temperature."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--answers", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=384, help="of an answer, at most")
    parser.add_argument("--temperatures", default="1.0,0.6,0")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    model = load_model(asked.model, dtype="float32", device="cpu")
    prompts = prompts_of(model, asked.questions, count=asked.answers)
    for temperature in map(float, asked.temperatures.split(",")):
        how = {"temperature": temperature} if temperature else {"top_k": 1}
        sampling = Sampling(limit_tokens=asked.tokens, **how)
        rollouts = EngineSampler(model, sampling).sample(prompts, seeds=[0])
        tokens = sum(len(one.token_ids) for one in rollouts)
        steps = {rows: sum(steps_with_guesses(one, rows) for one in rollouts) for rows in ROWS}
        line = {
            "temperature": temperature,
            "tokens": tokens,
            "surprise": round(-sum(sum(one.raw_logp or one.logp) for one in rollouts) / tokens, 3),
            **{f"tokens_a_step_of_{rows}": round(tokens / steps[rows], 3) for rows in ROWS},
        }
        print(json.dumps(line), flush=True)


def prompts_of(model: LanguageModel, questions: Path, *, count: int) -> list[Prompt]:
    """So many of the questions, evenly from all of them, each as one user turn."""
    problems = [json.loads(line)["problem"] for line in questions.read_text(encoding="utf-8").splitlines()]
    prompts = []
    for row, problem in enumerate(problems[:: max(1, len(problems) // count)][:count]):
        turn = [{"role": "user", "content": problem + ASKED}]
        ids = model.tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=True, return_dict=False)
        prompts.append(Prompt(row=row, problem=problem, answer="", token_ids=tuple(ids)))
    return prompts


def steps_with_guesses(rollout: Rollout, rows: int) -> int:
    """In how many steps of so many rows the rollout would have been drawn."""
    ids = torch.tensor([[*rollout.prompt.token_ids, *rollout.token_ids]])
    position, steps = len(rollout.prompt.token_ids) - 1, 0
    padded = torch.nn.functional.pad(ids, (0, rows))
    while position < ids.shape[1] - 1:
        guessed, known = following(padded, torch.tensor([position]), count=rows - 1)
        right = (guessed[0] == padded[0, position + 1 : position + rows]).long().cumprod(0).sum()
        position += 1 + int(right if known else 0)
        steps += 1
    return steps


if __name__ == "__main__":
    main()
