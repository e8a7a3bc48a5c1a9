"""Supervised steps on written-out solutions, and where the students branch off.

One run makes all the models. A branch is a copy of the weights and of the optimizers' memory at some step,
annealed to a learning rate of zero by itself. Without that annealing a snapshot is a poor student: any kind
of further training would take the noise of the large learning rate out of it, and look like a success.

    step 0 ───────── 220 ─────────── 400 ──────────────────────── 700   teacher: exact solutions
                      └── 60         └── 60
                       knows less,    knows more, but was
                       exact          shown sloppy solutions

Shapes: B solutions, T positions.
"""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_
from torch.optim import AdamW, Muon
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from opd.tasks.arith_tiny.problems import sloppy_solution, stream, unseen
from opd.tasks.arith_tiny.tokenizer import LARGEST_CONTEXT, prompt_text

SOLUTIONS_PER_STEP = 32
MATRIX_LR = 0.03  # Muon, for the matrices inside the layers: learns this task twice as fast as AdamW alone
MATRIX_DECAY = 0.1
OTHER_LR = 6e-3  # AdamW, for embeddings, norms and biases
OTHER_DECAY = 0.01
LARGEST_GRADIENT_NORM = 1.0
IGNORED = -100  # a label that the loss leaves out

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A student: when it leaves the teacher's run, for how long it is annealed, and on what."""

    name: str
    leaves_at: int  # step of the teacher's run
    steps: int
    slip_share: float  # probability that a step of a solution is wrong; 0 for exact solutions


@dataclass(slots=True, kw_only=True)
class Learner:
    """A model with the optimizers that move it; changed in place by `_learn`."""

    model: Qwen2ForCausalLM
    optimizers: tuple[Muon, AdamW]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Inside, torch's generator for the CPU starts from the seed; outside, it is where it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def new_model(tokenizer: PreTrainedTokenizerFast, *, seed: int) -> Qwen2ForCausalLM:
    """A Qwen2 of a third of a million parameters with random weights."""
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=96,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=LARGEST_CONTEXT,
        tie_word_embeddings=True,
        initializer_range=0.04,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with seeded(seed):
        return Qwen2ForCausalLM(config)


def train_lineage(
    tokenizer: PreTrainedTokenizerFast,
    *,
    teacher_steps: int,
    branches: Sequence[Branch],
    seed: int,
    report: Report,
) -> dict[str, Qwen2ForCausalLM]:
    """The teacher, under that name, and each branch under its own; takes 0.1 s a step on one thread.

    Raises `ValueError` for a branch that would leave after the end of the run.
    """
    late = [branch.name for branch in branches if branch.leaves_at >= teacher_steps]
    if late:
        raise ValueError(f"{', '.join(late)} would leave a run of {teacher_steps} steps after its end")
    made: dict[str, Qwen2ForCausalLM] = {}
    learner = _learner(new_model(tokenizer, seed=seed))
    course = lessons(tokenizer, name=f"models/{seed}/teacher", slip_share=0.0)
    for step in range(teacher_steps):
        scale = _cosine(step / teacher_steps)
        for branch in branches:
            if branch.leaves_at == step:
                made[branch.name] = _annealed(learner, tokenizer, branch=branch, seed=seed, scale=scale)
                report(f"{branch.name}: left the run at step {step}, annealed for {branch.steps} steps")
        loss = _learn(learner, next(course), scale=scale)
        if (step + 1) % 100 == 0:
            report(f"teacher: step {step + 1} of {teacher_steps}, loss {loss:.3f} nats a token")
    return {"teacher": learner.model, **made}


def _annealed(
    learner: Learner, tokenizer: PreTrainedTokenizerFast, *, branch: Branch, seed: int, scale: float
) -> Qwen2ForCausalLM:
    """A copy of the learner's model after the branch's own steps, their learning rate going down to zero."""
    own = copy.deepcopy(learner)
    course = lessons(tokenizer, name=f"models/{seed}/{branch.name}", slip_share=branch.slip_share)
    for step in range(branch.steps):
        _learn(own, next(course), scale=scale * (1 - step / branch.steps))
    return own.model


def _learner(model: Qwen2ForCausalLM) -> Learner:
    inside = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    others = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
    return Learner(
        model=model,
        optimizers=(
            Muon(inside, lr=MATRIX_LR, weight_decay=MATRIX_DECAY),
            AdamW(others, lr=OTHER_LR, weight_decay=OTHER_DECAY),
        ),
    )


def _learn(learner: Learner, lesson: tuple[Tensor, Tensor], *, scale: float) -> float:
    """The loss before the step, in nats a token; the weights have moved at `scale` times the full rate."""
    ids_BT, labels_BT = lesson
    # padding stands to the right, where no earlier position sees it: no mask is needed
    logits_BTV = learner.model(input_ids=ids_BT, use_cache=False).logits[:, :-1]
    loss = cross_entropy(logits_BTV.flatten(0, 1), labels_BT[:, 1:].flatten(), ignore_index=IGNORED)
    torch.autograd.backward(loss)
    clip_grad_norm_(learner.model.parameters(), LARGEST_GRADIENT_NORM)
    for optimizer, rate in zip(learner.optimizers, (MATRIX_LR, OTHER_LR), strict=True):
        optimizer.param_groups[0]["lr"] = rate * scale
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


def lessons(tokenizer: PreTrainedTokenizerFast, *, name: str, slip_share: float) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches without end: ids and labels, [B, T], padded on the right; only responses have labels.

    A response ends with the end-of-sequence token, and no problem stands in the final or the proxy set.
    """
    slips = stream(f"{name}/slips")
    problems = unseen(f"{name}/problems")
    while True:
        chains = list(islice(problems, SOLUTIONS_PER_STEP))
        prompts = [prompt_text(tokenizer, chain.problem) for chain in chains]
        responses = [
            sloppy_solution(chain, rng=slips, slip_share=slip_share) + tokenizer.eos_token for chain in chains
        ]
        yield _padded(_ids(tokenizer, prompts), _ids(tokenizer, responses), pad_id=tokenizer.pad_token_id)


def _padded(prompts: list[list[int]], responses: list[list[int]], *, pad_id: int) -> tuple[Tensor, Tensor]:
    rows = list(zip(prompts, responses, strict=True))
    longest = max(len(prompt) + len(response) for prompt, response in rows)
    ids_BT = torch.full((len(rows), longest), pad_id)
    labels_BT = torch.full((len(rows), longest), IGNORED)
    for row, (prompt, response) in enumerate(rows):
        end = len(prompt) + len(response)
        ids_BT[row, :end] = torch.tensor(prompt + response)
        labels_BT[row, len(prompt) : end] = torch.tensor(response)
    return ids_BT, labels_BT


def _ids(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> list[list[int]]:
    ids: list[list[int]] = tokenizer(texts, add_special_tokens=False).input_ids
    return ids


def _cosine(done: float) -> float:
    """The share of the full learning rate after this share of the run: 1 at its start, 0 at its end."""
    return (1 + math.cos(math.pi * done)) / 2
