"""What every objective promises, over all that there are: a new file in `train/objectives/` is tested by being there.

Shapes: B rollouts, T positions, V = 7 tokens. The student is a bigram model: a table of logits, a row for the
token before.
"""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from opd.records.settings import validated
from opd.train.batch import Batch, masked_sum
from opd.train.objective import StudentView, TokenLoss, TokenObjective, find, names
from opd.train.recipe import Recipe

V = 7
B, T = 5, 9
TOKEN_OBJECTIVES = [name for name in names() if issubclass(find(name), TokenObjective)]
KNOWN = ("behaviour_logp_BT", "teacher_logp_BT", "advantage_BT")


class Whitened(TokenObjective):
    """Breaks the contract on purpose: each token feels all the others through the mean and the spread."""

    def __call__(self, student: StudentView, batch: Batch) -> TokenLoss:
        k1_BT = student.logp_BT.detach() - batch.teacher_logp_BT
        return TokenLoss(loss_BT=(k1_BT - k1_BT.mean()) / k1_BT.std() * student.ratio_BT)


class DirectK1(TokenObjective):
    """Breaks the contract on purpose: k1 back-propagated, in which the teacher is a constant."""

    def __call__(self, student: StudentView, batch: Batch) -> TokenLoss:
        return TokenLoss(loss_BT=student.logp_BT - batch.teacher_logp_BT)


@pytest.fixture(params=TOKEN_OBJECTIVES)
def objective(request: pytest.FixtureRequest) -> TokenObjective:
    return find(request.param)()


def batch_of(seed: int = 0, *, dtype: torch.dtype = torch.float64) -> tuple[StudentView, Batch]:
    """Random tokens of which about two in three are trained; the student has moved a little since the rollout."""
    numbers = torch.Generator().manual_seed(seed)

    def uniform(low: float, high: float) -> torch.Tensor:
        return (torch.rand(B, T, generator=numbers, dtype=torch.float64) * (high - low) + low).to(dtype)

    logp_BT = uniform(-6, -0.1)
    batch = Batch(
        ids_BT=torch.randint(V, (B, T), generator=numbers),
        keep_BT=uniform(0, 1) < 0.67,
        behaviour_logp_BT=logp_BT + uniform(-0.05, 0.05),
        teacher_logp_BT=uniform(-14, -0.1),
        advantage_BT=uniform(-1, 1),
        weight_BT=torch.ones(B, T, dtype=dtype),
    )
    return StudentView(logp_BT=logp_BT.requires_grad_(True), old_logp_BT=logp_BT.detach() + uniform(-0.1, 0.1)), batch


def gradient(objective: TokenObjective, student: StudentView, batch: Batch) -> torch.Tensor:
    """Derivative of the masked sum by the student's log-probability of each token."""
    (found,) = torch.autograd.grad(masked_sum(objective(student, batch).loss_BT, batch.keep_BT), student.logp_BT)
    return found


def jacobian(objective: TokenObjective, student: StudentView, batch: Batch) -> torch.Tensor:
    """[loss of a token, log-probability of a token], both flat."""

    def losses(logp_BT: torch.Tensor) -> torch.Tensor:
        return objective(replace(student, logp_BT=logp_BT), batch).loss_BT.flatten()

    full = torch.autograd.functional.jacobian(losses, student.logp_BT.detach())
    return full.reshape(B * T, B * T)


def feels_neighbours(objective: TokenObjective) -> bool:
    """Whether any other token's loss or gradient changes, in its last bit, when one token's inputs do."""
    student, batch = batch_of()
    jacobian_NN = jacobian(objective, student, batch)
    if not torch.equal(jacobian_NN, torch.diag(jacobian_NN.diagonal())):
        return True
    loss_BT, gradient_BT = objective(student, batch).loss_BT, gradient(objective, student, batch)
    others_BT = torch.ones(B, T, dtype=torch.bool)
    others_BT[2, 4] = False
    for moved_student, moved_batch in moved(student, batch, b=2, t=4):
        again_BT = objective(moved_student, moved_batch).loss_BT
        gradient_again_BT = gradient(objective, moved_student, moved_batch)
        if not torch.equal(again_BT[others_BT], loss_BT[others_BT]):
            return True
        if not torch.equal(gradient_again_BT[others_BT], gradient_BT[others_BT]):
            return True
    return False


def moved(student: StudentView, batch: Batch, *, b: int, t: int) -> list[tuple[StudentView, Batch]]:
    """Copies in which one thing that is known of the token at [b, t] is another."""

    def other(x_BT: torch.Tensor) -> torch.Tensor:
        x_BT = x_BT.detach().clone()
        x_BT[b, t] -= 1.7
        return x_BT

    keep_BT = batch.keep_BT.clone()
    keep_BT[b, t] = ~keep_BT[b, t]
    return [
        (replace(student, logp_BT=other(student.logp_BT).requires_grad_(True)), batch),
        (replace(student, old_logp_BT=other(student.old_logp_BT)), batch),
        (student, replace(batch, keep_BT=keep_BT)),
        *((student, replace(batch, **{name: other(getattr(batch, name))})) for name in KNOWN),
    ]


def test_every_token_has_one_finite_value(objective: TokenObjective) -> None:
    student, batch = batch_of()
    extremes = torch.tensor([0.0, -1e-6, -40.0, -800.0])
    logp_BT, teacher_BT = torch.meshgrid(extremes, extremes, indexing="ij")
    wide = Batch(
        ids_BT=torch.zeros(4, 4, dtype=torch.long),
        keep_BT=torch.ones(4, 4, dtype=torch.bool),
        behaviour_logp_BT=logp_BT.clone(),
        teacher_logp_BT=teacher_BT.clone(),
        advantage_BT=torch.zeros_like(teacher_BT),
        weight_BT=torch.ones_like(teacher_BT),
    )
    unmoved = StudentView(logp_BT=logp_BT.clone().requires_grad_(True), old_logp_BT=logp_BT.clone())
    for view, tokens in ((student, batch), (unmoved, wide)):
        loss_BT = objective(view, tokens).loss_BT
        assert loss_BT.shape == tokens.ids_BT.shape
        assert loss_BT.dtype == view.logp_BT.dtype
        assert loss_BT.isfinite().all()
        assert gradient(objective, view, tokens).isfinite().all()


def test_a_token_does_not_feel_its_neighbours(objective: TokenObjective) -> None:
    """E1, E5: what makes every split of a batch exact."""
    assert not feels_neighbours(objective)


def test_a_batch_that_is_whitened_would_be_noticed() -> None:
    assert feels_neighbours(Whitened())


def test_untrained_positions_get_no_gradient(objective: TokenObjective) -> None:
    """E24: and each trained one does get some."""
    student, batch = batch_of()
    gradient_BT = gradient(objective, student, batch)
    assert (gradient_BT[~batch.keep_BT] == 0).all()
    assert (gradient_BT[batch.keep_BT] != 0).any(), "no trained token has a gradient (E8)"


@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf, 1e10])
def test_junk_at_untrained_positions_stays_out(objective: TokenObjective, junk: float) -> None:
    """E15: the loss and the gradients of the trained tokens are the same to the last bit."""
    student, batch = batch_of()
    spoilt = replace(
        batch,
        **{name: torch.where(batch.keep_BT, getattr(batch, name), torch.tensor(junk).double()) for name in KNOWN},
    )
    clean, dirty = (masked_sum(objective(student, one).loss_BT, batch.keep_BT) for one in (batch, spoilt))
    assert dirty.isfinite()
    assert torch.equal(clean, dirty)
    keep_BT = batch.keep_BT
    assert torch.equal(gradient(objective, student, spoilt)[keep_BT], gradient(objective, student, batch)[keep_BT])


@settings(max_examples=25)
@given(groups=st.lists(st.integers(0, 3), min_size=B, max_size=B), seed=st.integers(0, 99))
@pytest.mark.parametrize("name", TOKEN_OBJECTIVES)
def test_how_a_batch_is_cut_changes_no_gradient(name: str, groups: list[int], seed: int) -> None:
    """E1, E2, E5: rollouts dealt to micro-batches in any way; float64, to 1e-12."""
    objective = find(name)()
    table_VV = torch.randn(V, V, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    _, batch = batch_of(seed)
    trained_tokens = int(batch.keep_BT.sum())

    def accumulated(parts: list[list[int]]) -> torch.Tensor:
        weight_VV = table_VV.clone().requires_grad_(True)
        for part in parts:
            view, piece = bigram_view(weight_VV, rows(batch, part))
            (masked_sum(objective(view, piece).loss_BT, piece.keep_BT) / trained_tokens).backward()
        return weight_VV.grad

    whole_VV = accumulated([list(range(B))])
    cut_VV = accumulated([[b for b in range(B) if groups[b] == group] for group in sorted(set(groups))])
    assert whole_VV.abs().max() > 0
    torch.testing.assert_close(cut_VV, whole_VV, rtol=1e-12, atol=1e-15)


def rows(batch: Batch, some: list[int]) -> Batch:
    return Batch(**{name: getattr(batch, name)[some] for name in Batch.__dataclass_fields__})


def bigram_view(table_VV: torch.Tensor, batch: Batch) -> tuple[StudentView, Batch]:
    """What the table makes of the tokens; the first of a rollout has nothing before it and is not trained."""
    logp_BT = table_VV.log_softmax(-1)[batch.ids_BT[:, :-1], batch.ids_BT[:, 1:]]
    logp_BT = torch.nn.functional.pad(logp_BT, (1, 0))
    keep_BT = batch.keep_BT.clone()
    keep_BT[:, 0] = False
    return StudentView(logp_BT=logp_BT, old_logp_BT=logp_BT.detach()), replace(batch, keep_BT=keep_BT)


def follows_the_teacher(objective: TokenObjective) -> bool:
    student, batch = batch_of()
    another = replace(batch, teacher_logp_BT=batch.teacher_logp_BT.roll(1, dims=0))
    return not torch.equal(gradient(objective, student, batch), gradient(objective, student, another))


def test_another_teacher_is_another_gradient(objective: TokenObjective) -> None:
    """E6: the teacher must be in the gradient, not only in the value."""
    assert follows_the_teacher(objective)


def test_a_teacher_without_effect_would_be_noticed() -> None:
    """I2, E6: the value of k1 depends on the teacher and its own gradient does not."""
    assert not follows_the_teacher(DirectK1())


def test_metrics_are_finite_values_a_token_without_gradient(objective: TokenObjective) -> None:
    student, batch = batch_of()
    for name, value_BT in objective(student, batch).metrics_BT.items():
        assert value_BT.shape == batch.ids_BT.shape, name
        assert not value_BT.requires_grad, name
        assert value_BT.isfinite().all(), name


def test_nothing_is_changed_in_place_and_twice_gives_the_same(objective: TokenObjective) -> None:
    """E16, E19: a metric that is computed from the same tensors afterwards is what it was before."""
    student, batch = batch_of()
    before = {name: getattr(batch, name).clone() for name in Batch.__dataclass_fields__}
    logp_BT, old_BT = student.logp_BT.detach().clone(), student.old_logp_BT.clone()
    first, second = objective(student, batch), objective(student, batch)
    first.loss_BT.sum().backward()
    assert all(torch.equal(getattr(batch, name), value) for name, value in before.items())
    assert torch.equal(student.logp_BT, logp_BT)
    assert torch.equal(student.old_logp_BT, old_BT)
    assert torch.equal(first.loss_BT, second.loss_BT)


def test_its_settings_survive_a_recipe(objective: TokenObjective) -> None:
    """Each number doubled, written as a recipe, resolved, and read again: the same objective, another digest."""
    numbers = {key: value * 2 for key, value in objective.resolved().items() if isinstance(value, float)}
    changed = type(objective)(**numbers)
    recipe = recipe_with({"name": objective.name, **numbers})
    again = validated(Recipe, recipe.resolved(), source="recipe.json")
    assert recipe.objective == again.objective == changed
    assert type(again.objective) is type(objective)
    assert again.digest == recipe.digest
    assert not numbers or recipe.digest != recipe_with({"name": objective.name}).digest


def recipe_with(objective: dict[str, object]) -> Recipe:
    values = {
        "student": {"model": "s"},
        "teacher": {"model": "t"},
        "data": {"path": "d"},
        "rollouts": {"prompts_per_step": 1, "per_prompt": 1, "limit_tokens": 8},
        "objective": objective,
        "optimizer": {"lr": 1e-6},
        "budget": {"steps": 1},
    }
    return validated(Recipe, values, source="the test's recipe")


def test_its_name_is_its_file_and_its_docstring_says_what_it_is(objective: TokenObjective) -> None:
    assert objective.name in names()
    assert type(objective).__doc__ != TokenObjective.__doc__
    assert len((type(objective).__doc__ or "").splitlines()[0]) > 20


def test_a_bigram_student_is_brought_to_a_bigram_teacher(objective: TokenObjective) -> None:
    """The exact KL, over all seven states, is at least halved in 150 steps of the student's own samples."""
    numbers = torch.Generator().manual_seed(11)
    teacher_VV = torch.randn(V, V, generator=numbers, dtype=torch.float64).mul(1.5).log_softmax(-1)
    table_VV = torch.randn(V, V, generator=numbers, dtype=torch.float64).mul(1.5).requires_grad_(True)
    optimizer = torch.optim.Adam([table_VV], lr=0.03)
    before = mean_reverse_kl(table_VV, teacher_VV)
    for _ in range(150):
        ids_BT = walk(table_VV, rollouts=16, length=12, numbers=numbers)
        teacher_BT = torch.nn.functional.pad(teacher_VV[ids_BT[:, :-1], ids_BT[:, 1:]], (1, 0))
        batch = Batch(
            ids_BT=ids_BT,
            keep_BT=torch.ones_like(ids_BT, dtype=torch.bool),
            behaviour_logp_BT=torch.zeros_like(teacher_BT),
            teacher_logp_BT=teacher_BT,
            advantage_BT=torch.zeros_like(teacher_BT),
            weight_BT=torch.ones_like(teacher_BT),
        )
        view, batch = bigram_view(table_VV, batch)
        batch = replace(batch, behaviour_logp_BT=view.old_logp_BT)
        loss = masked_sum(objective(view, batch).loss_BT, batch.keep_BT) / int(batch.keep_BT.sum())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert before > 0.5
    assert mean_reverse_kl(table_VV, teacher_VV) < before / 2


def walk(table_VV: torch.Tensor, *, rollouts: int, length: int, numbers: torch.Generator) -> torch.Tensor:
    """Token ids that the bigram model samples, from a start drawn evenly."""
    probability_VV = table_VV.detach().softmax(-1)
    columns = [torch.randint(V, (rollouts,), generator=numbers)]
    for _ in range(length):
        columns.append(torch.multinomial(probability_VV[columns[-1]], 1, generator=numbers).squeeze(-1))
    return torch.stack(columns, dim=-1)


def mean_reverse_kl(table_VV: torch.Tensor, teacher_VV: torch.Tensor) -> float:
    logp_VV = table_VV.detach().log_softmax(-1)
    return float((logp_VV.exp() * (logp_VV - teacher_VV)).sum(-1).mean())
