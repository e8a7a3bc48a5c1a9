"""Teachers → what scores with them: the only one's scorer, or one that gives each of several its own rollouts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opd.models.interfaces import Scorer
from opd.models.load import LanguageModel
from opd.models.scorers import RoutedScorer, VisitingScorer, choose_scorer
from opd.models.served.scorer import served_scorer
from opd.models.vllm.team import Team
from opd.records.rollouts import Prompt
from opd.train.ranks.ranks import Ranks
from opd.train.teachers import TeacherName, TeacherSettings, as_seen, section


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """What is the same for all teachers of a run."""

    temperature: float
    limit_tokens: int  # of a rollout
    largest_tokens: int  # positions of one forward pass
    chunk_tokens: int  # whose logits exist at once
    alternatives: int  # of the likeliest tokens at each place, kept beside the sampled one
    sleeps: bool  # vLLM, between two calls
    tensor_parallel: int  # ranks that one vLLM spans
    device: str  # of the run


def scorer_of(
    settings: Mapping[TeacherName, TeacherSettings],
    teachers: Mapping[TeacherName, LanguageModel],
    prompts: Sequence[Prompt],
    scoring: Scoring,
    ranks: Ranks,
) -> Scorer:
    """The scorer of a run's rollouts of these prompts; servers are proven, at the start of one of the ranks.

    Raises `AskedWrongly` for a server that is not its teacher, or for vLLM where it is not installed.
    """
    scorers = {
        name: _of_one(name, settings[name], teacher, longest_prompt(as_seen(prompts, name)), scoring, ranks)
        for name, teacher in teachers.items()
    }
    if None in scorers:
        return scorers[None]
    return RoutedScorer({name: one for name, one in scorers.items() if name is not None})


def _of_one(
    name: TeacherName,
    settings: TeacherSettings,
    teacher: LanguageModel,
    prompt_tokens: int,
    scoring: Scoring,
    ranks: Ranks,
) -> Scorer:
    sequence_tokens = prompt_tokens + scoring.limit_tokens
    if settings.scorer == "served":
        assert settings.served is not None, "a recipe without it was refused"
        return served_scorer(
            settings.served,
            teacher.path,
            dtype=settings.dtype,
            sequence_tokens=sequence_tokens,
            alternatives=scoring.alternatives,
            ranks=ranks.count,
            section=section(name),
            is_said=ranks.writes,
            first=ranks.first,
        )
    scorer = choose_scorer(
        teacher,
        scorer=settings.scorer,
        temperature=scoring.temperature,
        sequence_tokens=sequence_tokens,
        largest_tokens=scoring.largest_tokens,
        chunk_tokens=scoring.chunk_tokens,
        alternatives=scoring.alternatives,
        sleeps=scoring.sleeps,
        team=Team(ranks, size=scoring.tensor_parallel),
    )
    return VisitingScorer(scorer, teacher.module, device=scoring.device) if settings.device == "in_turn" else scorer


def longest_prompt(prompts: Sequence[Prompt]) -> int:
    """Tokens of the longest of the prompts; 1 where there are none."""
    return max((len(prompt.token_ids) for prompt in prompts), default=1)
