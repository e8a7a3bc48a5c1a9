"""What every objective promises, over all that there are: a new file in `train/objectives/` is tested by being there.

Shapes: N tokens of several rollouts, V = 7 ids. The student is a bigram model: a table of logits, a row for the
token before.
"""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from opd.records.settings import validated
from opd.train.objective import StudentView, TokenLoss, TokenObjective, find, names
from opd.train.recipe import Recipe
from opd.train.update.batch import Batch

V = 7
N = 45
TOKEN_OBJECTIVES = [name for name in names() if issubclass(find(name), TokenObjective)]
KNOWN = ("behaviour_logp_N", "teacher_logp_N", "advantage_N", "weight_N")


class Whitened(TokenObjective):
    """Breaks the contract on purpose: each token feels all the others through the mean and the spread."""

    def __call__(self, student: StudentView, batch: Batch) -> TokenLoss:
        k1_N = student.logp_N.detach() - batch.teacher_logp_N
        return TokenLoss(loss_N=(k1_N - k1_N.mean()) / k1_N.std() * student.ratio_N)


class DirectK1(TokenObjective):
    """Breaks the contract on purpose: k1 back-propagated, in which the teacher is a constant."""

    def __call__(self, student: StudentView, batch: Batch) -> TokenLoss:
        return TokenLoss(loss_N=student.logp_N - batch.teacher_logp_N)


@pytest.fixture(params=TOKEN_OBJECTIVES)
def objective(request: pytest.FixtureRequest) -> TokenObjective:
    return find(request.param)()


def batch_of(seed: int = 0, *, dtype: torch.dtype = torch.float64) -> tuple[StudentView, Batch]:
    """Random tokens; the student has moved a little since they were sampled."""
    numbers = torch.Generator().manual_seed(seed)

    def uniform(low: float, high: float) -> torch.Tensor:
        return (torch.rand(N, generator=numbers, dtype=torch.float64) * (high - low) + low).to(dtype)

    logp_N = uniform(-6, -0.1)
    batch = Batch(
        behaviour_logp_N=logp_N + uniform(-0.05, 0.05),
        teacher_logp_N=uniform(-14, -0.1),
        advantage_N=uniform(-1, 1),
        weight_N=torch.ones(N, dtype=dtype),
        raw_logp_N=logp_N.clone(),
    )
    return StudentView(logp_N=logp_N.requires_grad_(True), old_logp_N=logp_N.detach() + uniform(-0.1, 0.1)), batch


def gradient(objective: TokenObjective, student: StudentView, batch: Batch) -> torch.Tensor:
    """Derivative of the sum by the student's log-probability of each token."""
    (found,) = torch.autograd.grad(objective(student, batch).loss_N.sum(), student.logp_N)
    return found


def jacobian(objective: TokenObjective, student: StudentView, batch: Batch) -> torch.Tensor:
    """[loss of a token, log-probability of a token]."""

    def losses(logp_N: torch.Tensor) -> torch.Tensor:
        return objective(replace(student, logp_N=logp_N), batch).loss_N

    return torch.autograd.functional.jacobian(losses, student.logp_N.detach())


def feels_neighbours(objective: TokenObjective) -> bool:
    """Whether any other token's loss or gradient changes, in its last bit, when one token's inputs do."""
    student, batch = batch_of()
    jacobian_NN = jacobian(objective, student, batch)
    if not torch.equal(jacobian_NN, torch.diag(jacobian_NN.diagonal())):
        return True
    loss_N, gradient_N = objective(student, batch).loss_N, gradient(objective, student, batch)
    others_N = torch.ones(N, dtype=torch.bool)
    others_N[22] = False
    for moved_student, moved_batch in moved(student, batch, token=22):
        again_N = objective(moved_student, moved_batch).loss_N
        gradient_again_N = gradient(objective, moved_student, moved_batch)
        if not torch.equal(again_N[others_N], loss_N[others_N]):
            return True
        if not torch.equal(gradient_again_N[others_N], gradient_N[others_N]):
            return True
    return False


def moved(student: StudentView, batch: Batch, *, token: int) -> list[tuple[StudentView, Batch]]:
    """Copies in which one thing that is known of one token is another."""

    def other(x_N: torch.Tensor) -> torch.Tensor:
        x_N = x_N.detach().clone()
        x_N[token] -= 1.7
        return x_N

    return [
        (replace(student, logp_N=other(student.logp_N).requires_grad_(True)), batch),
        (replace(student, old_logp_N=other(student.old_logp_N)), batch),
        *((student, replace(batch, **{name: other(getattr(batch, name))})) for name in KNOWN),
    ]


def test_every_token_has_one_finite_value(objective: TokenObjective) -> None:
    student, batch = batch_of()
    extremes = torch.tensor([0.0, -1e-6, -40.0, -800.0])
    logp_N, teacher_N = torch.cartesian_prod(extremes, extremes).unbind(dim=-1)
    wide = Batch(
        behaviour_logp_N=logp_N.clone(),
        teacher_logp_N=teacher_N.clone(),
        advantage_N=torch.zeros_like(teacher_N),
        weight_N=torch.ones_like(teacher_N),
    )
    unmoved = StudentView(logp_N=logp_N.clone().requires_grad_(True), old_logp_N=logp_N.clone())
    for view, tokens in ((student, batch), (unmoved, wide)):
        loss_N = objective(view, tokens).loss_N
        assert loss_N.shape == view.logp_N.shape
        assert loss_N.dtype == view.logp_N.dtype
        assert loss_N.isfinite().all()
        assert gradient(objective, view, tokens).isfinite().all()


def test_a_token_does_not_feel_its_neighbours(objective: TokenObjective) -> None:
    """E1, E5: what makes every split of a batch exact."""
    assert not feels_neighbours(objective)


def test_a_batch_that_is_whitened_would_be_noticed() -> None:
    assert feels_neighbours(Whitened())


def test_every_token_gets_a_gradient(objective: TokenObjective) -> None:
    """E8, E24: what a batch holds are response tokens, and none of them is without effect."""
    student, batch = batch_of()
    assert (gradient(objective, student, batch) != 0).all()


@settings(max_examples=25)
@given(groups=st.lists(st.integers(0, 3), min_size=N, max_size=N), seed=st.integers(0, 99))
@pytest.mark.parametrize("name", TOKEN_OBJECTIVES)
def test_how_a_batch_is_cut_changes_no_gradient(name: str, groups: list[int], seed: int) -> None:
    """E1, E2, E5: tokens dealt to micro-batches in any way; float64, to 1e-12."""
    objective = find(name)()
    numbers = torch.Generator().manual_seed(seed)
    table_VV = torch.randn(V, V, generator=numbers, dtype=torch.float64)
    before_N, ids_N = torch.randint(V, (2, N), generator=numbers)
    _, batch = batch_of(seed)

    def accumulated(parts: list[list[int]]) -> torch.Tensor:
        weight_VV = table_VV.clone().requires_grad_(True)
        for part in parts:
            view = bigram_view(weight_VV, before_N[part], ids_N[part])
            (objective(view, some(batch, part)).loss_N.sum() / N).backward()
        return weight_VV.grad

    whole_VV = accumulated([list(range(N))])
    cut_VV = accumulated([[n for n in range(N) if groups[n] == group] for group in sorted(set(groups))])
    assert whole_VV.abs().max() > 0
    torch.testing.assert_close(cut_VV, whole_VV, rtol=1e-12, atol=1e-15)


def some(batch: Batch, tokens: list[int]) -> Batch:
    return Batch(**{name: getattr(batch, name)[tokens] for name in Batch.__dataclass_fields__})


def bigram_view(table_VV: torch.Tensor, before_N: torch.Tensor, ids_N: torch.Tensor) -> StudentView:
    """What the table makes of the tokens, each of which has one before it."""
    logp_N = table_VV.log_softmax(-1)[before_N, ids_N]
    return StudentView(logp_N=logp_N, old_logp_N=logp_N.detach())


@pytest.mark.parametrize("name", [name for name in TOKEN_OBJECTIVES if find(name).terms])
def test_its_terms_are_named_and_their_sum_is_the_loss(name: str) -> None:
    student, batch = batch_of()
    found = find(name)()(student, batch)
    assert tuple(found.terms_N) == find(name).terms
    torch.testing.assert_close(sum(found.terms_N.values()), found.loss_N, rtol=1e-15, atol=0)


def follows_the_teacher(objective: TokenObjective) -> bool:
    student, batch = batch_of()
    another = replace(batch, teacher_logp_N=batch.teacher_logp_N.roll(1))
    return not torch.equal(gradient(objective, student, batch), gradient(objective, student, another))


def test_another_teacher_is_another_gradient(objective: TokenObjective) -> None:
    """E6: the teacher must be in the gradient, not only in the value."""
    assert follows_the_teacher(objective)


def test_a_teacher_without_effect_would_be_noticed() -> None:
    """I2, E6: the value of k1 depends on the teacher and its own gradient does not."""
    assert not follows_the_teacher(DirectK1())


def test_metrics_are_finite_values_a_token_without_gradient(objective: TokenObjective) -> None:
    student, batch = batch_of()
    for name, value_N in objective(student, batch).metrics_N.items():
        assert value_N.shape == (N,), name
        assert not value_N.requires_grad, name
        assert value_N.isfinite().all(), name


def test_nothing_is_changed_in_place_and_twice_gives_the_same(objective: TokenObjective) -> None:
    """E16, E19: a metric that is computed from the same tensors afterwards is what it was before."""
    student, batch = batch_of()
    before = {name: getattr(batch, name).clone() for name in Batch.__dataclass_fields__}
    logp_N, old_N = student.logp_N.detach().clone(), student.old_logp_N.clone()
    first, second = objective(student, batch), objective(student, batch)
    first.loss_N.sum().backward()
    assert all(torch.equal(getattr(batch, name), value) for name, value in before.items())
    assert torch.equal(student.logp_N, logp_N)
    assert torch.equal(student.old_logp_N, old_N)
    assert torch.equal(first.loss_N, second.loss_N)


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
        before_N, ids_N = ids_BT[:, :-1].flatten(), ids_BT[:, 1:].flatten()
        view = bigram_view(table_VV, before_N, ids_N)
        batch = Batch(
            behaviour_logp_N=view.old_logp_N,
            teacher_logp_N=teacher_VV[before_N, ids_N],
            advantage_N=torch.zeros_like(view.old_logp_N),
            weight_N=torch.ones_like(view.old_logp_N),
        )
        loss = objective(view, batch).loss_N.mean()
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
