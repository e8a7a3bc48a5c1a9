"""What the ranks say to each other, by real processes over gloo."""

import numpy as np
import pytest
import torch
from tests.train.ranks.processes import together

from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.train.ranks import ranks as collectives
from opd.train.ranks.joining import joined
from opd.train.ranks.ranks import ALONE, Ranks, buckets

SHAPES = ((3, 5), (7,), (2, 2, 2), (1,), (64, 9))


def of_sizes(sizes: list[int]) -> list[object]:
    """What `everyone` and `told` give of texts about as long as a message takes at once; ranks 1 and 2 say less."""
    with joined(device="cpu") as ranks:
        texts = ["x" * size if ranks.rank == 0 else "y" * (size // (1 + ranks.rank)) for size in sizes]
        return [[ranks.everyone(text), ranks.told(text)] for text in texts]


def test_a_message_is_whole_whether_it_fits_at_once_or_not() -> None:
    around = [*range(collectives.SLOT_BYTES - 40, collectives.SLOT_BYTES + 10), 3 * collectives.SLOT_BYTES]
    expected = [[["x" * size, "y" * (size // 2), "y" * (size // 3)], "x" * size] for size in around]
    assert together(3, of_sizes, around) == [expected] * 3


def everything(own: list[object]) -> dict[str, object]:
    with joined(device="cpu") as ranks:
        mine = own[ranks.rank]
        return {
            "everyone": ranks.everyone(mine),
            "told": ranks.told(mine),
            "collected": ranks.collected(mine),
            "first": ranks.first(lambda: f"rank {ranks.rank} was asked"),
            "totals": ranks.totals(ranks.rank, 10),
        }


def test_objects_of_any_size_reach_those_they_are_for() -> None:
    own = ["a", {"b": list(range(5_000))}, None]
    found = together(3, everything, own)
    assert [one["everyone"] for one in found] == [own] * 3
    assert [one["told"] for one in found] == ["a"] * 3
    assert [one["collected"] for one in found] == [own, None, None]
    assert [one["first"] for one in found] == ["rank 0 was asked"] * 3
    assert [one["totals"] for one in found] == [(3, 30)] * 3


def summed(dtype: torch.dtype, bucket_bytes: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The tensors of this rank, transposed now and then, before and after."""
    collectives.BUCKET_BYTES = bucket_bytes
    with joined(device="cpu") as ranks:
        generator = torch.Generator().manual_seed(ranks.rank)
        tensors = [torch.randn(shape, generator=generator, dtype=dtype) for shape in SHAPES]
        tensors.append(torch.randn(4, 6, generator=generator, dtype=dtype).t())  # not as it lies in memory
        before = [one.numpy().copy() for one in tensors]
        ranks.add_up(tensors)
        return before, [one.numpy() for one in tensors]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors_are_added_up_to_the_same_bits_everywhere(dtype) -> None:
    found = together(3, summed, dtype, 256)
    for index in range(len(SHAPES) + 1):
        expected = sum(before[index].astype(np.float64) for before, _ in found)
        np.testing.assert_allclose(found[0][1][index], expected, rtol=1e-6, atol=1e-6)
        assert all(np.array_equal(after[index], found[0][1][index]) for _, after in found)


def refused(kind: type[Exception]) -> tuple[str, str, bool]:
    def no() -> None:
        raise kind("the value, the rule, what to do")

    try:
        with joined(device="cpu") as ranks:
            ranks.first(no)
    except (AskedWrongly, AnswerIsNo) as error:
        return type(error).__name__, str(error), error.said_elsewhere
    return "", "", False


@pytest.mark.parametrize("kind", [AskedWrongly, AnswerIsNo])
def test_a_refusal_of_the_first_is_everybodys_and_said_once(kind) -> None:
    found = together(2, refused, kind)
    assert found == [(kind.__name__, "the value, the rule, what to do", said) for said in (False, True)]


def faulty() -> str:
    with pytest.raises(AnswerIsNo) as caught, joined(device="cpu") as ranks:
        ranks.agree(f"rank {ranks.rank} found row 7" if ranks.rank else None)
    return str(caught.value)


def test_a_fault_of_one_rank_stops_all_of_them_with_its_words() -> None:
    assert together(3, faulty) == ["rank 1 found row 7; rank 2 found row 7"] * 3


def test_one_process_has_nobody_to_ask() -> None:
    tensor = torch.ones(3)
    ALONE.add_up([tensor])
    assert tensor.tolist() == [1, 1, 1]
    assert (ALONE.everyone(5), ALONE.told(5), ALONE.collected(5), ALONE.first(lambda: 5)) == ([5], 5, [5], 5)
    assert ALONE.totals(3, 4) == (3, 4)
    with pytest.raises(ValueError, match="2 ranks without a watch"):
        Ranks(count=2)


def test_what_travels_together_is_of_one_kind_and_no_more_than_fits() -> None:
    tensors = [
        torch.zeros(size, dtype=kind)
        for size, kind in (
            (4, torch.float32),
            (4, torch.float32),
            (40, torch.float32),
            (1, torch.float64),
            (1, torch.float64),
        )
    ]
    sizes = [[len(one) for one in bucket] for bucket in buckets(tensors, largest_bytes=32)]
    assert sizes == [[4, 4], [40], [1, 1]]
