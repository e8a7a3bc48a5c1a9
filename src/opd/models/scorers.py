"""Who scores with a teacher: transformers' own forward pass, vLLM in this process, or servers (`served/`); and how
several teachers share a step's rollouts.

    rollouts ──prompt.teacher──┬─ math ── scorer ──┐
                               ├─ code ── scorer ──┼──► scored rollouts, in the order of the rollouts
                               └─ …    ── scorer ──┘    servers are asked while teachers here compute
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import torch

from opd.models.interfaces import Scorer
from opd.models.load import LanguageModel
from opd.models.plain import PlainScorer
from opd.models.served.scorer import ServedScorer
from opd.models.vllm.scorer import VllmScorer, check_scoring
from opd.models.vllm.team import Team
from opd.records.rollouts import Rollout, ScoredRollout
from opd.records.served import TeacherServer

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
    team: Team | None = None,
) -> Scorer:
    """The scorer that was asked for, of sequences of at most `sequence_tokens`; the rest is as `PlainScorer` has it.

    Raises `AskedWrongly` when vLLM was asked for and is not here, or can't score as is asked.
    """
    if scorer == "vllm":
        check_scoring(temperature=temperature, alternatives=alternatives)
        return VllmScorer(model, sequence_tokens=sequence_tokens, sleeps=sleeps, team=team)
    return PlainScorer(
        model,
        temperature=temperature,
        largest_tokens=largest_tokens,
        chunk_tokens=chunk_tokens,
        alternatives=alternatives,
    )


class RoutedScorer:
    """A `Scorer` of several teachers: each rollout is scored by the one that its prompt names, as it sees it."""

    def __init__(self, scorers: Mapping[str, Scorer]) -> None:
        self.scorers = scorers

    def score(self, rollouts: Sequence[Rollout]) -> list[ScoredRollout]:
        """Each rollout with its own teacher's log-probability (nats) of its tokens; see `Scorer`.

        A failure of one teacher is raised after the others have ended their shares.
        """
        places = {name: [n for n, one in enumerate(rollouts) if one.prompt.teacher == name] for name in self.scorers}
        assert sum(map(len, places.values())) == len(rollouts), "a row that names no teacher of the run was refused"
        served = [name for name, scorer in self.scorers.items() if isinstance(scorer, ServedScorer)]

        def share(name: str) -> list[ScoredRollout]:
            return self.scorers[name].score([rollouts[n].seen_by_teacher for n in places[name]])

        with ThreadPoolExecutor(max(1, len(served))) as threads:
            asked = {name: threads.submit(share, name) for name in served}
            found = {name: share(name) for name in self.scorers if name not in asked}
            found |= {name: answer.result() for name, answer in asked.items()}
        scored = {n: one for name in self.scorers for n, one in zip(places[name], found[name], strict=True)}
        return [replace(scored[n], rollout=rollout) for n, rollout in enumerate(rollouts)]


class VisitingScorer:
    """A `Scorer` whose model lies in the host's memory, and is on the device only while it scores."""

    def __init__(self, scorer: Scorer, module: Any, *, device: str) -> None:
        self._scorer = scorer
        self._module = module
        self._device = torch.device(device)

    def score(self, rollouts: Sequence[Rollout]) -> list[ScoredRollout]:
        """Each rollout with the model's log-probability (nats) of its tokens; see `Scorer`."""
        if not rollouts:
            return []
        with _visiting(self._module, self._device):
            return self._scorer.score(rollouts)


def teacher_servers(scorer: Scorer) -> tuple[TeacherServer, ...]:
    """What a run keeps of the servers that this scorer asks; empty where it asks none."""
    if isinstance(scorer, ServedScorer):
        return scorer.records
    if not isinstance(scorer, RoutedScorer):
        return ()
    each = {name: teacher_servers(one) for name, one in scorer.scorers.items()}
    return tuple(one.model_copy(update={"teacher": name}) for name, some in each.items() for one in some)


def to_host_memory(module: Any) -> None:
    """The module's numbers are in the host's memory; where they were on a GPU, pinned, so that a copy is quick."""
    for one in _tensors(module):
        one.data = one.data.cpu().pin_memory() if one.is_cuda else one.data.cpu()


@contextmanager
def _visiting(module: Any, device: torch.device) -> Iterator[None]:
    """The module's numbers are on the device inside. It is frozen, so nothing has to be brought back."""
    tensors = _tensors(module)
    at_home = [one.data for one in tensors]
    try:
        for one in tensors:
            one.data = one.data.to(device, non_blocking=True)
        yield
    finally:
        for one, home in zip(tensors, at_home, strict=True):
            one.data = home


def _tensors(module: Any) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers()]
