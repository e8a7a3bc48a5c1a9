"""The checks of `opd doctor`: each is right on what is right, and each notices its fault when one is planted."""

import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from opd.models.load import LanguageModel, find_model, load_model, load_tokenizer
from opd.models.plain import PlainSampler, PlainScorer
from opd.models.scorers import RoutedScorer
from opd.records.rollouts import Rollout
from opd.train import objective as objectives
from opd.train.identities import (
    Check,
    identity_checks,
    reverse_gradient,
    same_gradients,
    tail_gradient,
    tail_values,
    teacher_matters,
    two_token_oracle,
    zero_at_the_teacher,
)
from opd.train.objective import Divergence, StudentView, TokenLoss, TokenObjective
from opd.train.objectives.forward_kl import ForwardKL
from opd.train.objectives.k1_policy_gradient import K1PolicyGradient
from opd.train.objectives.k2 import K2
from opd.train.objectives.reverse_kl import ReverseKL
from opd.train.objectives.topk_forward_kl import TopKForwardKL
from opd.train.selfcheck import (
    STUDENT,
    TEACHER,
    canary,
    eos_credit,
    identity_teacher,
    micro_batches,
    own_teacher,
    sampled,
    sampler_gap,
    self_check,
    shipped_files,
    template_lint,
)
from opd.train.update.updater import Updater


def model(name: str = STUDENT, dtype: str = "float64") -> LanguageModel:
    return load_model(find_model(name), dtype=dtype, device="cpu")


@pytest.fixture(scope="module")
def rollouts() -> list[Rollout]:
    from opd.models.interfaces import Sampling

    student = model(dtype="float32")
    return sampled(PlainSampler(student, Sampling(limit_tokens=64)), student)


class Flipped(K1PolicyGradient):
    """Moves away from the teacher."""

    def __call__(self, student: StudentView, batch):
        return TokenLoss(loss_N=-super().__call__(student, batch).loss_N)


class BackPropagated(TokenObjective):
    """k1 as a loss: no teacher in its gradient (I2)."""

    def __call__(self, student: StudentView, batch):
        return TokenLoss(loss_N=student.logp_N - batch.teacher_logp_N)


class K3(TokenObjective):
    """Estimates the reverse KL and descends the forward one (I4)."""

    def __call__(self, student: StudentView, batch):
        k1_N = student.logp_N - batch.teacher_logp_N
        return TokenLoss(loss_N=torch.exp(-k1_N) - 1 + k1_N)


class NoTail(Divergence):
    """Top-k without the rest (I7)."""

    def __call__(self, student_logp_NV, teacher_logp_NV):
        ids_NK = teacher_logp_NV.topk(min(3, teacher_logp_NV.shape[-1] - 1)).indices
        q_NK, p_NK = student_logp_NV.gather(-1, ids_NK), teacher_logp_NV.gather(-1, ids_NK)
        return (p_NK.exp() * (p_NK - q_NK)).sum(-1)


class Shifted(Divergence):
    """A constant beside the divergence, which no gradient shows."""

    def __call__(self, student_logp_NV, teacher_logp_NV):
        return ReverseKL()(student_logp_NV, teacher_logp_NV) + 0.001


def test_every_check_holds_here_and_names_what_it_looked_at() -> None:
    checks = self_check("cpu", expected_digests=_recorded())
    assert [check.name for check in checks if not check.ok] == []
    assert len({check.name for check in checks}) == len(checks) >= 18
    assert all(check.looked_at for check in checks)


@pytest.mark.gpu
def test_every_check_holds_on_the_gpu() -> None:
    checks = self_check("cuda", expected_digests=_recorded())
    assert [(check.name, check.number) for check in checks if not check.ok] == []


@pytest.mark.parametrize(
    "check",
    [
        lambda: reverse_gradient(Flipped()),
        lambda: reverse_gradient(K3()),
        lambda: reverse_gradient(BackPropagated()),
        lambda: teacher_matters(BackPropagated()),
        lambda: same_gradients(K1PolicyGradient(largest_k1=5.0), K2()),  # another clamp
        lambda: same_gradients(Flipped(), K2()),
        lambda: two_token_oracle(K2(), ForwardKL()),
        lambda: two_token_oracle(K2(largest_k1=0.5), ReverseKL()),
        lambda: tail_gradient(NoTail()),
        lambda: tail_gradient(ForwardKL()),
        lambda: tail_values(TopKForwardKL(k=2), NoTail()),  # not floored
        lambda: tail_values(TopKForwardKL(k=2, tail="none"), TopKForwardKL(k=2, tail="none")),
        lambda: zero_at_the_teacher(Shifted()),
    ],
)
def test_a_planted_objective_is_caught(check: Callable[[], Check]) -> None:
    assert not check().ok


def test_a_flipped_sign_in_the_folder_fails_the_identities_and_nothing_else() -> None:
    def find(name: str):
        return Flipped if name == "k1_policy_gradient" else objectives.find(name)

    failed = [check.name for check in identity_checks(find) if not check.ok]
    assert [name.split()[0] for name in failed] == ["I1", "I3"]


def test_a_number_that_is_none_is_never_ok() -> None:
    assert not Check(name="x", looked_at="y", number=math.nan, at_most=1).ok
    assert not Check(name="x", looked_at="y", number=math.nan, at_least=1).ok


def test_a_changed_or_missing_file_is_found_and_no_files_are_no_proof() -> None:
    recorded = _recorded()
    assert shipped_files(recorded).ok
    changed = recorded | {"opd:arith_tiny/proxy.jsonl": "0" * 64, "opd:arith_tiny/none.jsonl": "1" * 64}
    check = shipped_files(changed)
    assert (check.ok, check.number) == (False, 2)
    assert "none.jsonl" in check.looked_at
    assert not shipped_files({}).ok


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{{ bos_token }}", ""),
        ("{{ bos_token }}", "{{ bos_token }}{{ bos_token }}"),
        ("<User>", "<User>{{ bos_token }}"),
        ("<think>", ""),
    ],
)
def test_a_template_with_another_beginning_or_end_is_caught(old: str, new: str) -> None:
    """E35."""
    tokenizer = load_tokenizer(find_model(STUDENT))
    assert template_lint(tokenizer, name="x").ok
    tokenizer.chat_template = tokenizer.chat_template.replace(old, new)
    assert not template_lint(tokenizer, name="x").ok


def test_the_canary_notices_other_weights_and_lost_ones() -> None:
    """E39: lost weights score every token -ln V."""
    teacher = model(TEACHER, "float32")
    assert canary(PlainScorer(teacher), teacher).ok
    assert not canary(PlainScorer(model(dtype="float32")), teacher).ok
    assert not canary(PlainScorer(teacher, temperature=1.01), teacher).ok
    for parameter in teacher.module.parameters():
        parameter.data.zero_()
    assert not canary(PlainScorer(teacher), teacher).ok


def test_a_gap_between_sampler_and_scorer_is_caught(rollouts) -> None:
    student = model(dtype="float32")
    assert sampler_gap(PlainScorer(student), rollouts).ok
    assert not sampler_gap(PlainScorer(student, temperature=1.01), rollouts).ok
    assert not sampler_gap(PlainScorer(model(TEACHER, "float32")), rollouts).ok


def test_a_score_of_another_teacher_or_of_another_row_is_caught(rollouts) -> None:
    """E20."""
    scorers = {"one": PlainScorer(model(TEACHER, "float32")), "other": PlainScorer(model(dtype="float32"))}

    class InTheOrderOfTeachers(RoutedScorer):
        def score(self, rollouts):
            return sorted(super().score(rollouts), key=lambda one: one.rollout.prompt.teacher)

    def swapped(given):
        return RoutedScorer({"one": given["other"], "other": given["one"]})

    assert own_teacher(scorers, rollouts).ok
    assert not own_teacher(scorers, rollouts, routed=swapped).ok
    same_lengths = [one for one in rollouts if len(one.token_ids) == len(rollouts[0].token_ids)] * 2
    assert not own_teacher(scorers, same_lengths, routed=InTheOrderOfTeachers).ok


class OwnDivisor(Updater):
    """Each micro-batch is divided by its own tokens (E1)."""

    def __init__(self, *given, **named) -> None:
        super().__init__(*given, **named)
        whole = self._passes

        def learn(part, **how):
            own = sum(one.trained_tokens for one in part.scored)
            return whole.learn(part, **how | {"trained_tokens": own})

        self._passes = SimpleNamespace(learn=learn)


def test_a_divisor_that_depends_on_the_micro_batch_is_caught(rollouts) -> None:
    """E1."""
    scored = PlainScorer(model(TEACHER)).score(rollouts)
    assert micro_batches(model, scored).ok
    assert not micro_batches(model, scored, updater=OwnDivisor).ok


def test_an_update_that_moves_nothing_proves_nothing(rollouts) -> None:
    own = PlainScorer(model()).score(rollouts)
    still = [replace(one, weights=(0.0,) * len(one.teacher_logp)) for one in own]
    assert not micro_batches(model, still).ok


def test_a_teacher_that_is_not_the_student_has_a_distance(rollouts) -> None:
    assert identity_teacher(model, rollouts).ok
    assert not identity_teacher(model, rollouts, scorer=lambda own: PlainScorer(own, temperature=1.001)).ok


def test_an_end_of_sequence_token_that_is_masked_is_caught(rollouts) -> None:
    """E21: a mask of ids that differ from the padding's, where both are one token."""
    assert eos_credit(model, rollouts).ok
    end = model().tokenizer.eos_token_id

    def masked(rollout: Rollout) -> tuple[float, ...]:
        return tuple(float(token != end) for token in rollout.token_ids)

    assert not eos_credit(model, rollouts, credit=masked).ok
    assert not eos_credit(model, []).ok


def _recorded() -> dict[str, str]:
    import json
    from pathlib import Path

    import opd

    path = Path(opd.__file__).parent / "tasks" / "arith_tiny" / "provenance.json"
    weights = json.loads(path.read_text(encoding="utf-8"))["weights_sha256"]
    return {f"opd:{name}/model.safetensors": digest for name, digest in weights.items()}
