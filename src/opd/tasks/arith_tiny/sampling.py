"""Answers of a model at temperature 1, by transformers' own `generate`, and the share that is right.

A small check for the program that makes the models; `opd evaluate` is what scores are reported from.
"""

import re
import statistics
from collections.abc import Sequence

import torch
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM

from opd.records.settings import Settings
from opd.tasks.arith_tiny.problems import Chain
from opd.tasks.arith_tiny.tokenizer import prompt_text
from opd.tasks.arith_tiny.training import seeded

LIMIT_TOKENS = 64  # the longest exact response takes 40
RESPONSES_PER_BATCH = 500


class PassRate(Settings):
    """The share of right answers with its error bar."""

    mean: float
    stderr: float
    """Clustered by question: the standard deviation of the questions' shares / sqrt(questions)."""
    questions: int
    samples_per_question: int
    cut_short: float
    """Share of responses that the limit of 64 tokens ended."""


def pass_rate(
    model: Qwen2ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    chains: Sequence[Chain],
    *,
    samples_per_question: int,
    seed: int,
) -> PassRate:
    """The model's score on two or more problems, sampled at temperature 1."""
    asked = [chain for chain in chains for _ in range(samples_per_question)]
    with seeded(seed):
        responses = [
            response
            for start in range(0, len(asked), RESPONSES_PER_BATCH)
            for response in _responses(model, tokenizer, asked[start : start + RESPONSES_PER_BATCH])
        ]
    right = [boxed(text) == str(chain.answer) for chain, text in zip(asked, responses, strict=True)]
    shares = [
        statistics.fmean(right[first : first + samples_per_question])
        for first in range(0, len(right), samples_per_question)
    ]
    return PassRate(
        mean=statistics.fmean(shares),
        stderr=statistics.stdev(shares) / len(shares) ** 0.5,
        questions=len(chains),
        samples_per_question=samples_per_question,
        cut_short=statistics.fmean(tokenizer.eos_token not in text for text in responses),
    )


def boxed(response: str) -> str | None:
    """What stands in the last box; None without a box, or where it is empty or never closed (faults E72)."""
    _, box, last = response.rpartition("\\boxed{")
    closed = re.match(r"([^{}]+)\}", last)
    return closed.group(1) if box and closed else None


@torch.no_grad()
def _responses(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, chains: Sequence[Chain]) -> list[str]:
    """One sampled response for each chain, with its special tokens but without padding."""
    prompts = [prompt_text(tokenizer, chain.problem) for chain in chains]
    inputs = tokenizer(prompts, return_tensors="pt", padding=True, add_special_tokens=False)
    written_BT = model.generate(
        **inputs,
        max_new_tokens=LIMIT_TOKENS,
        do_sample=True,
        temperature=1.0,
        top_k=0,  # left out, it would be 50: another distribution than the model's
        top_p=1.0,
    )[:, inputs.input_ids.shape[1] :]
    texts: list[str] = tokenizer.batch_decode(written_BT)
    return [text.replace(tokenizer.pad_token, "") for text in texts]
