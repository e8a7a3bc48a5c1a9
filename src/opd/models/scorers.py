"""Who scores with the teacher: transformers' own forward pass, or vLLM."""

from typing import Literal

from opd.models.interfaces import Scorer
from opd.models.load import LanguageModel
from opd.models.plain import PlainScorer
from opd.models.vllm.scorer import VllmScorer, check_scoring

ScorerChoice = Literal["plain", "vllm"]


def choose_scorer(
    model: LanguageModel,
    *,
    scorer: ScorerChoice,
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
