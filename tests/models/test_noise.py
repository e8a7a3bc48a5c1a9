"""Numbers that follow from (seed, row, epoch, position), and tokens that follow from a number."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from opd.models.noise import draw, uniforms

LARGEST_BELOW_ONE = np.nextafter(1.0, 0.0)


@pytest.mark.parametrize(
    ("key", "first_three"),
    [
        ({"seed": 0, "row": 0, "epoch": 0}, [0.014067035665647709, 0.2577672456246177, 0.47156538101528966]),
        ({"seed": 42, "row": 7, "epoch": 3}, [0.43179070975358, 0.9731388757253926, 0.8237418651024324]),
        (
            {"seed": 2**31 - 2, "row": 15_284, "epoch": 0},
            [0.4238499001472974, 0.1681399781425137, 0.3114704620165293],
        ),
    ],
)
def test_the_same_key_gives_the_recorded_numbers_with_every_version_of_numpy(key, first_three):
    """Recorded once; where these move, no earlier run or evaluation can be repeated."""
    numbers = uniforms(**key, tokens=3)
    assert numbers.dtype is torch.float64
    assert numbers.tolist() == first_three


def test_a_longer_limit_leaves_the_numbers_of_the_first_positions():
    key = {"seed": 1, "row": 2, "epoch": 3}
    assert uniforms(**key, tokens=5).equal(uniforms(**key, tokens=500)[:5])


def test_a_change_in_any_part_of_the_key_gives_other_numbers():
    """Also when two parts change places: (1, 2, 3) is another key than (2, 1, 3)."""
    keys = [(1, 2, 3), (2, 1, 3), (1, 3, 2), (3, 2, 1), (1, 2, 4), (1, 3, 3), (2, 2, 3), (12, 3, 0), (1, 23, 0)]
    drawn = {tuple(uniforms(seed=seed, row=row, epoch=epoch, tokens=4).tolist()) for seed, row, epoch in keys}
    assert len(drawn) == len(keys)


def test_the_numbers_of_neighbouring_keys_are_uniform_and_independent():
    """4,000 first numbers of consecutive rows: Kolmogorov and Smirnov's test, and no echo of the row before."""
    from scipy import stats

    numbers = np.array([uniforms(seed=5, row=row, epoch=0, tokens=1).item() for row in range(4000)])
    assert stats.kstest(numbers, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 4 / np.sqrt(len(numbers))
    assert numbers.min() >= 0
    assert numbers.max() < 1


# --- drawing --------------------------------------------------------------------------------------------


def by_inversion(probability_V: np.ndarray, uniform: float) -> int:
    """The slow definition: the first token at which the running sum exceeds uniform × total."""
    target, total = uniform * float(np.cumsum(probability_V)[-1]), 0.0
    for token, probability in enumerate(probability_V):
        total += float(probability)
        if total > target:
            return token
    return int(np.flatnonzero(probability_V)[-1])  # the product was rounded up to the total


WEIGHTS = st.lists(st.one_of(st.just(0.0), st.floats(1e-12, 1.0)), min_size=1, max_size=12).filter(any)
UNIFORM = st.floats(0, LARGEST_BELOW_ONE) | st.sampled_from([0.0, LARGEST_BELOW_ONE])


@given(WEIGHTS, UNIFORM)
def test_a_token_is_the_inverse_of_the_cumulative_probability(weights, uniform):
    probability_V = np.array(weights) / sum(weights)
    token = draw(torch.from_numpy(probability_V).unsqueeze(0), torch.tensor([uniform], dtype=torch.float64)).item()
    assert token == by_inversion(probability_V, uniform)
    assert probability_V[token] > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("uniform", [0.0, 5e-324, 0.5, LARGEST_BELOW_ONE])
def test_a_token_of_probability_zero_is_never_drawn_even_at_the_ends(uniform, dtype):
    """At 0 the first token with a share is drawn, just below 1 the last one; whatever surrounds them."""
    probability_BV = torch.tensor([[0, 0, 0.25, 0, 0.75, 0, 0], [0, 0.1, 0.2, 0, 0.7, 0, 0]], dtype=dtype)
    uniform_B = torch.full((2,), uniform, dtype=torch.float64)
    expected = {0.0: [2, 1], 5e-324: [2, 1], 0.5: [4, 4], LARGEST_BELOW_ONE: [4, 4]}
    assert draw(probability_BV, uniform_B).tolist() == expected[uniform]


def test_small_probabilities_behind_a_large_one_lose_nothing():
    """A thousand tokens of 1e-9 each behind one of 1: a running sum in float32 would not move at all."""
    probability_BV = torch.cat([torch.ones(1, 1), torch.full((1, 1000), 1e-9)], dim=-1)
    small = probability_BV[0, 1].double().item()
    for token in (0, 1, 499, 999):
        uniform = (1 + (token + 0.5) * small) / (1 + 1000 * small)
        assert draw(probability_BV, torch.tensor([uniform], dtype=torch.float64)).item() == 1 + token


def test_rows_are_drawn_each_with_its_own_number():
    probability_BV = torch.tensor([[0.5, 0.5], [0.5, 0.5], [0.9, 0.1]])
    uniform_B = torch.tensor([0.4, 0.6, 0.6], dtype=torch.float64)
    assert draw(probability_BV, uniform_B).tolist() == [0, 1, 0]


@pytest.mark.parametrize("bad", [[0.5, float("nan")], [float("nan")] * 2, [0.0, 0.0], [float("inf"), 0.0]])
def test_nothing_is_drawn_from_what_is_no_distribution(bad):
    """E45: not the last token, nor an index beyond it."""
    probability_BV = torch.tensor([[0.5, 0.5], bad])
    with pytest.raises(FloatingPointError, match="of 1 of 2 sequences are not finite"):
        draw(probability_BV, torch.tensor([0.5, 0.5], dtype=torch.float64))
