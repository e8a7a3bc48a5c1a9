"""Several teachers share the rollouts, and one that lies in the host's memory scores as one that stays."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.models.served.conftest import rollouts_of
from tests.models.served.doors import Serve, serving

from opd.models.load import LanguageModel, load_model
from opd.models.plain import PlainScorer
from opd.models.scorers import RoutedScorer, VisitingScorer, teacher_servers, to_host_memory
from opd.models.served.probe import computed
from opd.models.served.scorer import ServedScorer
from opd.models.served.settings import ServedSettings
from opd.records.rollouts import Rollout


@pytest.fixture(scope="module")
def math(random_models: Path) -> LanguageModel:
    return load_model(random_models / "teacher", dtype="float64", device="cpu")


@pytest.fixture(scope="module")
def code(untied_model: Path) -> LanguageModel:
    return load_model(untied_model, dtype="float64", device="cpu")


@pytest.fixture
def serve() -> Iterator[Serve]:
    with serving() as start:
        yield start


def routed(*teachers: str, seen: dict[str, tuple[int, ...]] | None = None) -> list[Rollout]:
    """Rollouts of these teachers, in this order; `seen` is the prompt as a teacher sees it."""
    plain = rollouts_of(*range(3, 3 + len(teachers)))
    return [
        replace(one, prompt=replace(one.prompt, teacher=name, teacher_ids=(seen or {}).get(name)))
        for one, name in zip(plain, teachers, strict=True)
    ]


def by_hand(model: LanguageModel, prompt: tuple[int, ...], response: tuple[int, ...]) -> list[float]:
    """Transformers' own logits of one sequence."""
    logits = model.module(torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1, : model.vocabulary]
    return logits.log_softmax(-1)[range(len(response)), list(response)].tolist()


def test_each_rollout_has_the_score_of_its_own_teacher_after_the_prompt_that_it_sees(math, code) -> None:
    rollouts = routed("math", "code", "code", "math", "code", seen={"code": (9, 8, 7)})
    scorer = RoutedScorer({"code": PlainScorer(code, largest_tokens=20), "math": PlainScorer(math)})
    scored = scorer.score(rollouts)
    assert [one.rollout for one in scored] == rollouts  # as the student saw them, in their order
    for one in scored:
        of_code = one.rollout.prompt.teacher == "code"
        prompt = (9, 8, 7) if of_code else one.rollout.prompt.token_ids
        expected = by_hand(code if of_code else math, prompt, one.rollout.token_ids)
        assert one.teacher_logp == pytest.approx(expected, abs=1e-12)


def test_a_teacher_without_a_rollout_is_asked_nothing(math, code) -> None:
    scored = RoutedScorer({"code": PlainScorer(code), "math": PlainScorer(math)}).score(routed("math"))
    assert len(scored) == 1
    assert RoutedScorer({"code": PlainScorer(code), "math": PlainScorer(math)}).score([]) == []


class Waiting:
    """A scorer that begins once something has happened, which it waits for ten seconds."""

    def __init__(self, model: LanguageModel, happened: threading.Event) -> None:
        self.scorer = PlainScorer(model)
        self.happened = happened

    def score(self, rollouts):
        assert self.happened.wait(10), "the server was not asked meanwhile"
        return self.scorer.score(rollouts)


def test_servers_are_asked_while_a_teacher_here_computes_and_their_records_name_theirs(
    math, random_models, serve
) -> None:
    teacher = load_model(random_models / "student", dtype="float32", device="cpu")
    server, happened = serve(teacher), threading.Event()
    served = ServedScorer(
        ServedSettings(urls=(server.url,)), reference=computed(teacher.path, "float32"), sequence_tokens=80
    )
    served.start()
    server.door.asked = happened.set
    scorer = RoutedScorer({"here": Waiting(math, happened), "there": served})
    scored = scorer.score(routed("here", "there", "here"))
    alone = PlainScorer(teacher).score([scored[1].rollout])
    assert scored[1].teacher_logp == pytest.approx(alone[0].teacher_logp, abs=1e-4)
    (record,) = teacher_servers(scorer)
    assert (record.teacher, record.scored, record.url) == ("there", 1, server.url)
    assert teacher_servers(served)[0].teacher is None
    assert teacher_servers(PlainScorer(math)) == ()


def test_a_model_that_visits_scores_as_one_that_stays_and_lies_where_it_lay(random_models, math) -> None:
    model = load_model(random_models / "teacher", dtype="float64", device="cpu")
    model.module.requires_grad_(False)
    to_host_memory(model.module)
    places = [one.data_ptr() for one in model.module.parameters()]
    scored = VisitingScorer(PlainScorer(model), model.module, device="cpu").score(rollouts_of(3, 9))
    assert scored == PlainScorer(math).score(rollouts_of(3, 9))
    assert [one.data_ptr() for one in model.module.parameters()] == places


@pytest.mark.gpu
def test_on_a_gpu_a_visitor_takes_memory_only_while_it_scores(random_models) -> None:
    staying = load_model(random_models / "teacher", dtype="bfloat16", device="cuda")
    expected = PlainScorer(staying).score(rollouts_of(3, 9))
    model = load_model(random_models / "teacher", dtype="bfloat16", device="cuda")
    model.module.requires_grad_(False)
    before = torch.cuda.memory_allocated()
    to_host_memory(model.module)
    size = sum(one.nbytes for one in model.module.parameters())
    assert before - torch.cuda.memory_allocated() >= size
    assert all(one.is_pinned() for one in model.module.parameters())
    at_rest = torch.cuda.memory_allocated()
    scorer = VisitingScorer(PlainScorer(model), model.module, device="cuda")
    for _ in range(2):
        torch.cuda.reset_peak_memory_stats()
        assert scorer.score(rollouts_of(3, 9)) == expected
        assert torch.cuda.max_memory_allocated() - at_rest >= size
        assert torch.cuda.memory_allocated() == at_rest
        assert model.device.type == "cpu"


def test_a_teacher_that_breaks_off_ends_the_step(math, code) -> None:
    class Broken:
        def score(self, rollouts):
            raise FloatingPointError("row 1: the score of token 0 is nan; nothing was updated")

    with pytest.raises(FloatingPointError, match="row 1"):
        RoutedScorer({"math": PlainScorer(math), "code": Broken()}).score(routed("math", "code"))
