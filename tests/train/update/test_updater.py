"""One optimizer step, against a slow one written out: each rollout alone, transformers' own logits, no masks."""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from opd.models.load import LanguageModel
from opd.models.sequences import micro_batches
from opd.records.errors import AnswerIsNo
from opd.records.rollouts import ScoredRollout
from opd.train.objective import Objective, StudentView, TokenLoss, TokenObjective
from opd.train.objectives.k1_policy_gradient import K1PolicyGradient
from opd.train.update.batch import Batch
from opd.train.update.tally import UpdateStats
from opd.train.update.updater import OptimizerSettings, Updater

LENGTHS = (2, 6, 8, 3, 12, 1)
SPLITS = (1, 16, 30, 10_000)  # positions of a micro-batch
UNCLIPPED = OptimizerSettings(lr=1e-3, largest_gradient_norm=1e9)
ALL_AT_ONCE = 10_000


class TeacherAsLoss(TokenObjective):
    """The loss of a token is whatever stands as its teacher's score."""

    def __call__(self, student: StudentView, batch: Batch) -> TokenLoss:
        return TokenLoss(loss_N=batch.teacher_logp_N + 0 * student.logp_N)


class InfiniteAtThree(TokenObjective):
    """Breaks its promise for tokens that the teacher gives -3 nats."""

    def __call__(self, student: StudentView, batch: Batch) -> TokenLoss:
        return TokenLoss(loss_N=student.logp_N + torch.where(batch.teacher_logp_N == -3, math.inf, 0.0))


class FiniteWithoutSlope(TokenObjective):
    """Finite values whose derivative is not: the root at zero."""

    def __call__(self, student: StudentView, batch: Batch) -> TokenLoss:
        return TokenLoss(loss_N=(student.logp_N - student.logp_N.detach()).sqrt())


def logp_by_hand(student: LanguageModel, scored: Sequence[ScoredRollout], temperature: float = 1.0) -> list[Any]:
    """The student's log-probability of each sampled token, rollout by rollout, by the plain definition."""
    found = []
    for one in scored:
        prompt, tokens = one.rollout.prompt.token_ids, one.rollout.token_ids
        logits_TV = student.module(torch.tensor([prompt + tokens])).logits[0, :, : student.vocabulary]
        logp_TV = (logits_TV / temperature).log_softmax(-1)
        found.append(torch.stack([logp_TV[len(prompt) + i - 1, token] for i, token in enumerate(tokens)]))
    return found


def k1_gradient_by_hand(
    student: LanguageModel, scored: Sequence[ScoredRollout], *, clamp: float = 10, temperature: float = 1.0
) -> list[torch.Tensor]:
    """Gradient of sum(clamped k1, held · log student) / tokens: the policy gradient at ratio 1."""
    tokens = sum(len(one.rollout.token_ids) for one in scored)
    loss = torch.zeros((), dtype=torch.float64)
    for one, logp_T in zip(scored, logp_by_hand(student, scored, temperature), strict=True):
        k1_T = logp_T.detach() - torch.tensor(one.teacher_logp, dtype=logp_T.dtype)
        loss = loss + (k1_T.clamp(-clamp, clamp) * logp_T).sum() / tokens
    return list(torch.autograd.grad(loss, list(student.module.parameters())))


def weights(student: LanguageModel) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in student.module.parameters()]


def same(a: Sequence[torch.Tensor], b: Sequence[torch.Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def difference(a: Sequence[torch.Tensor], b: Sequence[torch.Tensor]) -> float:
    """Largest difference, relative to the largest value of its tensor; the worst tensor counts."""
    return max(float((x - y).abs().max() / y.abs().max()) for x, y in zip(a, b, strict=True))


@pytest.fixture
def first_gradient(load, optimizer_steps) -> Callable[..., tuple[list[torch.Tensor], UpdateStats]]:
    """`first_gradient(scored)`: what reaches the optimizer in the first step of a fresh student, and its stats."""

    def run(
        scored: Sequence[ScoredRollout],
        *,
        objective: Objective | None = None,
        settings: OptimizerSettings = UNCLIPPED,
        dtype: str = "float64",
        **how: Any,
    ) -> tuple[list[torch.Tensor], UpdateStats]:
        updater = Updater(load(dtype=dtype), objective or K1PolicyGradient(), settings, **how)
        with optimizer_steps() as steps:
            stats = updater.update(scored, step=1)
        return steps[0].gradients, stats

    return run


# --- the sum and the division ---------------------------------------------------------------------------------


@pytest.mark.parametrize("largest_tokens", [1, 12, 24, ALL_AT_ONCE])
def test_the_loss_is_the_mean_over_the_tokens_of_the_step_however_it_is_cut(
    load, make_scored, largest_tokens: int
) -> None:
    """E1, E5: 2, 6 and 8 tokens of loss 1, 2 and 3 are 2.375 a token; means of micro-batches would add up to 6."""
    scored = make_scored([2, 6, 8], teacher_logp=[1, 2, 3])
    updater = Updater(load(), TeacherAsLoss(), UNCLIPPED, largest_tokens=largest_tokens)
    assert updater.update(scored, step=1).loss == 2.375


def test_the_cuts_of_these_tests_are_different_ones(make_scored) -> None:
    rollouts = [one.rollout for one in make_scored(LENGTHS)]
    assert [len(micro_batches(rollouts, largest_tokens=split)) for split in SPLITS] == [6, 4, 2, 1]


@pytest.mark.parametrize("largest_tokens", SPLITS)
def test_the_gradient_is_the_one_written_out_however_the_step_is_cut(
    load, make_scored, first_gradient, largest_tokens: int
) -> None:
    """E1, E3, E5, E24, E25: float64; rollout by rollout, transformers' logits of the response, one sum."""
    scored = make_scored(LENGTHS)
    found, _ = first_gradient(scored, largest_tokens=largest_tokens)
    assert difference(found, k1_gradient_by_hand(load(), scored)) < 1e-12


def test_a_short_rollout_beside_a_long_one_weighs_by_its_tokens(load, make_scored, first_gradient) -> None:
    """E4: one token and nine, each with a forward pass of its own as on two machines, are a mean over ten."""
    scored = make_scored([1, 9])
    found, _ = first_gradient(scored, largest_tokens=1)
    short, long = (k1_gradient_by_hand(load(), [one]) for one in scored)
    found_P, short_P, long_P = (torch.cat([tensor.flatten() for tensor in one]) for one in (found, short, long))
    by_token_P, by_rollout_P = (short_P + 9 * long_P) / 10, (short_P + long_P) / 2
    assert float((found_P - by_token_P).norm() / by_token_P.norm()) < 1e-6  # Qwen2 normalises in float32
    assert float((by_rollout_P - by_token_P).norm() / by_token_P.norm()) > 0.1  # the bad condition


@pytest.mark.parametrize("largest_tokens", SPLITS[:-1])
def test_in_float32_a_cut_changes_no_more_than_rounding(make_scored, first_gradient, largest_tokens: int) -> None:
    scored = make_scored(LENGTHS)
    cut, _ = first_gradient(scored, dtype="float32", largest_tokens=largest_tokens)
    whole, _ = first_gradient(scored, dtype="float32", largest_tokens=ALL_AT_ONCE)
    flat_cut, flat_whole = (torch.cat([gradient.flatten() for gradient in one]) for one in (cut, whole))
    assert float((flat_cut - flat_whole).norm() / flat_whole.norm()) < 1e-6


def test_the_head_in_chunks_changes_nothing(make_scored, first_gradient) -> None:
    """E18."""
    scored = make_scored(LENGTHS)
    assert difference(first_gradient(scored, chunk_tokens=3)[0], first_gradient(scored)[0]) < 1e-12


def test_the_order_of_the_rollouts_changes_nothing(make_scored, first_gradient) -> None:
    scored = make_scored(LENGTHS)
    shuffled = [scored[index] for index in (4, 0, 5, 2, 1, 3)]
    found, stats = first_gradient(shuffled, largest_tokens=45)
    expected, expected_stats = first_gradient(scored, largest_tokens=45)
    assert difference(found, expected) < 1e-12
    assert stats.loss == pytest.approx(expected_stats.loss, rel=1e-14)


def test_a_step_is_divided_by_its_own_tokens_and_not_by_the_last_ones(load, make_scored, optimizer_steps) -> None:
    """E2: after a step of 100 tokens, one of 50 in two micro-batches is what a fresh process makes of it."""
    student = load()
    updater = Updater(student, K1PolicyGradient(), UNCLIPPED, largest_tokens=30)
    first, second = make_scored([25, 25, 25, 25], seed=1), make_scored([25, 25], seed=2)
    updater.update(first, step=1)
    fresh = Updater(
        replace(student, module=copy.deepcopy(student.module)),
        K1PolicyGradient(),
        UNCLIPPED,
        largest_tokens=30,
    )
    with optimizer_steps() as steps:
        continued_stats, fresh_stats = updater.update(second, step=2), fresh.update(second, step=2)
    assert same(steps[0].gradients, steps[1].gradients)
    assert continued_stats == fresh_stats
    assert continued_stats.trained_tokens == 50


# --- what is trained ------------------------------------------------------------------------------------------


def test_the_last_token_of_a_response_is_trained_like_any_other(load, make_scored, first_gradient) -> None:
    """E21, E24: a rollout of one token has a gradient."""
    scored = make_scored([1])
    found, stats = first_gradient(scored)
    assert stats.trained_tokens == 1
    assert stats.gradient_norm > 0
    assert difference(found, k1_gradient_by_hand(load(), scored)) < 1e-12


# --- what is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf])
def test_a_teacher_score_that_is_no_number_is_refused_before_the_update(load, make_scored, junk: float) -> None:
    """E15, E45: the row is named, and the weights are what they were."""
    student = load()
    before = weights(student)
    scored = make_scored([2, 3, 4], teacher_logp=[[-1.0, -1.0], [-1.0, junk, -1.0], [-1.0] * 4])
    with pytest.raises(AnswerIsNo, match=r"rows \[1\].*nothing was updated"):
        Updater(student, K1PolicyGradient(), UNCLIPPED, largest_tokens=1).update(scored, step=1)
    assert same(weights(student), before)


@pytest.mark.parametrize("largest_tokens", [1, ALL_AT_ONCE])
@pytest.mark.parametrize(
    ("objective", "message"),
    [
        (InfiniteAtThree(), r"the loss is not finite on rows \[1\]: nothing was updated; lower optimizer.lr"),
        (
            FiniteWithoutSlope(),
            r"the gradient norm of rows \[0, 1, 2\] is nan: nothing was updated; lower optimizer.lr",
        ),
    ],
)
def test_a_loss_or_gradient_that_is_no_number_is_refused_before_the_update(
    load, make_scored, objective: Objective, message: str, largest_tokens: int
) -> None:
    """The row is named, whether it has a micro-batch to itself or stands between others."""
    student = load()
    before = weights(student)
    with pytest.raises(AnswerIsNo, match=message):
        Updater(student, objective, UNCLIPPED, largest_tokens=largest_tokens).update(
            make_scored([2, 3, 11], teacher_logp=[-1, -3, -1]), step=1
        )
    assert same(weights(student), before)


def test_a_refused_step_leaves_nothing_behind_for_the_next(load, make_scored, optimizer_steps) -> None:
    """The gradients of the micro-batches before the refusal are not in the next step."""
    bad = make_scored([2, 3, 11], teacher_logp=[-1, -3, -1])
    good = make_scored([4, 5], seed=3)
    touched, fresh = (Updater(load(), InfiniteAtThree(), UNCLIPPED, largest_tokens=1) for _ in range(2))
    with pytest.raises(AnswerIsNo):
        touched.update(bad, step=1)
    with optimizer_steps() as steps:
        touched.update(good, step=1)
        fresh.update(good, step=1)
    assert same(steps[0].gradients, steps[1].gradients)


# --- two terms ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("largest_tokens", SPLITS)
@pytest.mark.parametrize("minibatches", [1, 3])
def test_the_norm_of_each_terms_gradient_is_that_of_the_term_alone(
    load, make_scored, optimizer_steps, largest_tokens: int, minibatches: int
) -> None:
    """E55: by hand, over the whole step; and measuring them moves nothing."""
    advantages = (0.5, -1.0, 0.0, 2.0, -0.25, 1.5)
    scored = [replace(one, advantage=value) for one, value in zip(make_scored(LENGTHS), advantages, strict=True)]
    by_hand = {"k1": k1_gradient_by_hand(load(), scored), "reward": reward_gradient_by_hand(load(), scored)}
    moved = []
    for every in (1, 0):
        student = load()
        settings = OptimizerSettings(lr=1e-3, term_norms_every=every, minibatches=minibatches)
        stats = Updater(student, K1PolicyGradient(), settings, largest_tokens=largest_tokens).update(scored, step=1)
        moved.append(weights(student))
        norms = {name: norm for name, norm in stats.objective.items() if name.startswith("gradient_norm_")}
        assert norms == (
            {
                f"gradient_norm_{name}": pytest.approx(
                    math.sqrt(sum(float((one**2).sum()) for one in gradients)), rel=1e-9
                )
                for name, gradients in by_hand.items()
            }
            if every
            else {}
        )
    assert same(*moved)


def reward_gradient_by_hand(student: LanguageModel, scored: Sequence[ScoredRollout]) -> list[torch.Tensor]:
    """Of -mean(advantage · log student) over the tokens of the step: the policy gradient at ratio 1."""
    logp = logp_by_hand(student, scored)
    tokens = sum(len(one) for one in logp)
    total = -sum(one.advantage * values.sum() for one, values in zip(scored, logp, strict=True)) / tokens
    return list(torch.autograd.grad(total, list(student.module.parameters())))


@pytest.mark.parametrize(("step", "advantage"), [(19, 1.0), (20, 0.0)])
def test_norms_are_measured_at_their_steps_and_only_where_there_is_a_reward(
    load, make_scored, step: int, advantage: float
) -> None:
    scored = [replace(one, advantage=advantage * (-1) ** n) for n, one in enumerate(make_scored(LENGTHS))]
    stats = Updater(load(), K1PolicyGradient(), OptimizerSettings(lr=1e-3)).update(scored, step=step)
    assert not any(name.startswith("gradient_norm_") for name in stats.objective)


# --- the optimizer --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("largest", [1e-3, 0.5, 1e9])
def test_a_gradient_beyond_the_limit_is_scaled_to_it_and_reported_as_it_was(
    make_scored, first_gradient, largest: float
) -> None:
    scored = make_scored(LENGTHS)
    whole, _ = first_gradient(scored)
    clipped, stats = first_gradient(scored, settings=OptimizerSettings(lr=1e-3, largest_gradient_norm=largest))
    norm = math.sqrt(sum(float((gradient**2).sum()) for gradient in whole))
    factor = min(1.0, largest / (norm + 1e-6))  # torch's own guard against a norm of 0
    assert stats.gradient_norm == pytest.approx(norm, rel=1e-12)
    assert difference(clipped, [gradient * factor for gradient in whole]) < 1e-12


def test_two_steps_are_those_of_adamw_written_out(load, make_scored, optimizer_steps) -> None:
    """E48, E66: float64; Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019), algorithm 2."""
    settings = OptimizerSettings(
        lr=3e-3, betas=(0.8, 0.95), epsilon=1e-6, weight_decay=0.1, warmup_steps=4, largest_gradient_norm=1e9
    )
    student = load()
    expected = weights(student)
    updater = Updater(student, K1PolicyGradient(), settings)
    mean, square = ([torch.zeros_like(weight) for weight in expected] for _ in range(2))
    with optimizer_steps() as steps:
        for step in (1, 2):
            updater.update(make_scored(LENGTHS, seed=step), step=step)
    for step, seen in enumerate(steps, start=1):
        rate = 3e-3 * step / 4
        for i, gradient in enumerate(seen.gradients):
            mean[i] = 0.8 * mean[i] + 0.2 * gradient
            square[i] = 0.95 * square[i] + 0.05 * gradient**2
            hat, square_hat = mean[i] / (1 - 0.8**step), square[i] / (1 - 0.95**step)
            expected[i] = expected[i] * (1 - rate * 0.1) - rate * hat / (square_hat.sqrt() + 1e-6)
    assert difference(weights(student), expected) < 1e-12


def test_the_rate_rises_linearly_and_then_stays(load, make_scored) -> None:
    settings = OptimizerSettings(lr=1e-3, warmup_steps=5)
    assert [settings.rate(step) for step in range(1, 8)] == pytest.approx(
        [2e-4, 4e-4, 6e-4, 8e-4, 1e-3, 1e-3, 1e-3], rel=1e-15
    )
    assert [OptimizerSettings(lr=1e-3).rate(step) for step in (1, 2, 1000)] == [1e-3] * 3


def test_the_rate_of_a_step_is_the_one_that_moves_the_weights(load, make_scored) -> None:
    """E66: Adam's first step moves no weight by more than the rate, and some by nearly all of it."""
    student = load()
    before = weights(student)
    stats = Updater(student, K1PolicyGradient(), OptimizerSettings(lr=1e-3, warmup_steps=5)).update(
        make_scored(LENGTHS), step=2
    )
    largest = max(float((now - was).abs().max()) for now, was in zip(weights(student), before, strict=True))
    assert stats.learning_rate == pytest.approx(4e-4)
    assert 0.999 * 4e-4 < largest <= 4e-4 * (1 + 1e-12)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_step_leaves_no_gradients_in_memory(load, make_scored, optimizer_steps, dtype: str) -> None:
    """They are as large as the weights, and sampling comes next."""
    student = load(dtype=dtype)
    with optimizer_steps() as steps:
        Updater(student, K1PolicyGradient(), UNCLIPPED).update(make_scored(LENGTHS), step=1)
    assert all(parameter.grad is None for parameter in [*student.module.parameters(), *steps[0].parameters])


def test_a_bfloat16_student_is_moved_in_float32(load, make_scored, optimizer_steps) -> None:
    """E52, I9: at a rate of 1e-6 every master moves, and next to none of the weights that it is rounded into."""
    student = load(dtype="bfloat16")
    before = weights(student)
    with optimizer_steps() as steps:
        Updater(student, K1PolicyGradient(), OptimizerSettings(lr=1e-6)).update(make_scored(LENGTHS), step=1)
    masters, gradients = steps[0].parameters, steps[0].gradients
    assert {tensor.dtype for tensor in masters + gradients} == {torch.float32}
    pushed = moved = rounded = 0
    for master, gradient, weight, was in zip(masters, gradients, student.module.parameters(), before, strict=True):
        has_gradient = gradient.abs() > 1e-6  # far above AdamW's epsilon of 1e-8
        pushed += int(has_gradient.sum())
        moved += int((has_gradient & (master != was.float())).sum())
        rounded += int((has_gradient & (weight != was)).sum())
        assert torch.equal(weight, master.to(torch.bfloat16))
    assert pushed > 10_000
    assert moved / pushed > 0.99
    assert rounded / pushed < 0.05


# --- what is reported -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("largest_tokens", "temperature"), [(1, 1.0), (ALL_AT_ONCE, 1.0), (45, 0.7)])
def test_the_statistics_are_those_worked_out_token_by_token(
    load, make_scored, first_gradient, largest_tokens: int, temperature: float
) -> None:
    """E16: each from the plain definition, on the weights before the update."""
    scored = make_scored(LENGTHS)
    found, stats = first_gradient(
        scored,
        objective=K1PolicyGradient(largest_k1=4),
        largest_tokens=largest_tokens,
        temperature=temperature,
    )
    student = load()
    logp = torch.cat(logp_by_hand(student, scored, temperature)).detach()
    teacher = torch.tensor([value for one in scored for value in one.teacher_logp], dtype=torch.float64)
    sampler = torch.tensor([value for one in scored for value in one.rollout.logp], dtype=torch.float64)
    k1, gap = logp - teacher, logp - sampler
    assert stats.trained_tokens == sum(LENGTHS) == len(logp)
    assert stats.kl == pytest.approx(float(k1.mean()), rel=1e-12)
    assert stats.loss == pytest.approx(float(k1.clamp(-4, 4).mean()), rel=1e-12)
    assert stats.surprise == pytest.approx(float(-logp.mean()), rel=1e-12)
    assert stats.gap.mean == pytest.approx(float(gap.abs().mean()), rel=1e-12)
    assert stats.gap.largest == pytest.approx(float(gap.abs().max()), rel=1e-12)
    assert stats.gap.k3 == pytest.approx(float((gap.exp() - 1 - gap).mean()), rel=1e-12)
    assert stats.objective["clamped"] == pytest.approx(float((k1.abs() > 4).double().mean()), rel=1e-12)
    assert 0 < stats.objective["clamped"] < 1
    assert difference(found, k1_gradient_by_hand(student, scored, clamp=4, temperature=temperature)) < 1e-12


def test_the_ratio_is_exactly_one_because_there_is_one_update(make_scored, first_gradient) -> None:
    for dtype in ("float32", "float64"):
        _, stats = first_gradient(make_scored(LENGTHS), dtype=dtype, largest_tokens=20)
        assert stats.objective["ratio"] == 1.0


def test_a_step_leaves_the_rollouts_as_they_were_and_repeats_bit_for_bit(load, make_scored) -> None:
    """E16: the second student sees the same rollouts and comes out the same."""
    scored = make_scored(LENGTHS)
    pristine = copy.deepcopy(scored)
    runs = []
    for _ in range(2):
        student = load(dtype="float32")
        stats = Updater(student, K1PolicyGradient(), UNCLIPPED, largest_tokens=45).update(scored, step=1)
        runs.append((stats, weights(student)))
    assert scored == pristine
    assert runs[0][0] == runs[1][0]
    assert same(runs[0][1], runs[1][1])
