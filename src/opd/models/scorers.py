"""Who scores with the teacher: transformers' own forward pass, vLLM in this process, or servers (`served/`)."""

from typing import Literal

from opd.models.interfaces import Scorer
from opd.models.load import LanguageModel
from opd.models.plain import PlainScorer
from opd.models.vllm.scorer import VllmScorer, check_scoring

ScorerHere = Literal["plain", "vllm"]
ScorerChoice = Literal["plain", "vllm", "served"]


def choose_scorer(
    model: LanguageModel,
    *,
    scorer: ScorerHere,
    temperature: float,
    sequence_tokens: int,
    largest_tokens: int,
    chunk_tokens: int,
    alternatives: int = 0,
    sleeps: bool = False,
) -> Scorer:
    """The scorer that was asked for, of sequences of at most `sequence_tokens`; the rest is as `PlainScorer` has it.

    Raises `AskedWrongly` when vLLM was asked for and is not here, or can't score as is asked.
    """
    if scorer == "vllm":
        check_scoring(temperature=temperature, alternatives=alternatives)
        return VllmScorer(model, sequence_tokens=sequence_tokens, sleeps=sleeps)
    return PlainScorer(
        model,
        temperature=temperature,
        largest_tokens=largest_tokens,
        chunk_tokens=chunk_tokens,
        alternatives=alternatives,
    )
