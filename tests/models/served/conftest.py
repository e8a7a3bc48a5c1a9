"""Servers on loopback, the teacher that they serve, and rollouts to score."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.models.served.doors import Running, Serve, serving

from opd.models.load import LanguageModel, load_model
from opd.models.served.probe import Probe, computed
from opd.models.served.scorer import ServedScorer
from opd.models.served.settings import ServedSettings
from opd.records.rollouts import Prompt, Rollout, StopReason

SEQUENCE_TOKENS = 80
MakeScorer = Callable[..., ServedScorer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """`serve(model)`: a server of it on loopback, stopped after the test."""
    with serving() as start:
        yield start


@pytest.fixture(scope="session")
def teacher(random_models: Path) -> LanguageModel:
    """In float32, for reading only."""
    return load_model(random_models / "teacher", dtype="float32", device="cpu")


@pytest.fixture(scope="session")
def stranger(random_models: Path) -> LanguageModel:
    """Another model with the same tokenizer."""
    return load_model(random_models / "student", dtype="float32", device="cpu")


@pytest.fixture(scope="session")
def reference(teacher: LanguageModel) -> Probe:
    """What the teacher gives known tokens."""
    return computed(teacher.path, "float32")


@pytest.fixture
def make_scorer(reference: Probe) -> MakeScorer:
    """`make_scorer(server, other, in_flight=2)`: a scorer by these servers, that is started unless `start=False`."""

    def make(*servers: Running, start: bool = True, alternatives: int = 0, **settings: object) -> ServedScorer:
        given = ServedSettings.model_validate(
            {"urls": tuple(one.url for one in servers), "pause_seconds": 0.05, "patience_seconds": 20.0} | settings
        )
        scorer = ServedScorer(given, reference=reference, sequence_tokens=SEQUENCE_TOKENS, alternatives=alternatives)
        if start:
            scorer.start()
        return scorer

    return make


def rollouts_of(*lengths: int) -> list[Rollout]:
    """Rollouts of so many random tokens after prompts of one to five."""
    numbers = random.Random(0)

    def ids(count: int) -> tuple[int, ...]:
        return tuple(numbers.randrange(312) for _ in range(count))

    return [
        Rollout(
            prompt=Prompt(row=row, problem="", answer="", token_ids=ids(1 + row % 5)),
            sample=0,
            token_ids=ids(length),
            logp=(0.0,) * length,
            stop=StopReason.LENGTH,
        )
        for row, length in enumerate(lengths)
    ]
