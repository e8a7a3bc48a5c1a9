"""What a plan says of several ranks: each one's memory, and what they send each other."""

from dataclasses import replace
from pathlib import Path

import pytest

from opd.models.load import load_model
from opd.records.files import read_json
from opd.train.ahead.lacks import look_at_teachers, missing_here
from opd.train.ahead.memory import Shape, layers_parameters, least_bytes, look, read_shape, teachers_weights
from opd.train.ahead.plan import make_plan
from opd.train.ranks.cost import Sizes, reduction_of
from opd.train.ranks.sharing import Sharing

SEVEN = Shape(
    layers=28,
    hidden=3_584,
    inner=18_944,
    heads=28,
    kv_heads=4,
    head_size=128,
    rows=152_064,
    context_tokens=32_768,
)


def gradients(size: int) -> Sizes:
    """Of so many bytes, none of them a layer's."""
    return Sizes(layers_gradients=0, layers_weights=0, around_gradients=size, around_weights=size // 2)


def ring(values: list[list[float]]) -> tuple[list[list[float]], list[int]]:
    """A ring all-reduce by hand: the sums at each rank, and how many numbers each has sent."""
    ranks = len(values)
    size = len(values[0]) // ranks
    held = [[list(one[part * size : (part + 1) * size]) for part in range(ranks)] for one in values]
    sent = [0] * ranks
    for round_ in range(2 * (ranks - 1)):
        adds = round_ < ranks - 1
        moving = [(rank, (rank - round_ + (0 if adds else 1 + ranks - 1)) % ranks) for rank in range(ranks)]
        carried = [(rank, part, list(held[rank][part])) for rank, part in moving]
        for rank, part, numbers in carried:
            there = held[(rank + 1) % ranks]
            there[part] = [a + b for a, b in zip(there[part], numbers, strict=True)] if adds else numbers
            sent[rank] += len(numbers)
    return [[number for part in one for number in part] for one in held], sent


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_what_is_sent_is_what_a_ring_sends(ranks: int) -> None:
    values = [[float(rank * 100 + place) for place in range(4 * ranks)] for rank in range(ranks)]
    sums, sent = ring(values)
    assert sums == [[sum(column) for column in zip(*values, strict=True)]] * ranks
    reduction = reduction_of(gradients(4 * 4 * ranks), ranks=ranks, updates=1, device="cpu")
    assert {reduction.sent_bytes} == {4 * count for count in sent}


def test_the_reference_recipe_sends_ten_gigabytes_a_step_on_four_gpus() -> None:
    found = reduction_of(gradients(4 * 1_777_088_000), ranks=4, updates=1, device="cuda")
    assert found.sent_bytes == 10_662_528_000  # 2 * 3/4 of 7.1 GB
    assert found.seconds == pytest.approx(0.0355, rel=1e-2)
    assert reduction_of(gradients(10), ranks=4, updates=3, device="cuda").sent_bytes == 45
    across = reduction_of(gradients(4 * 1_777_088_000), ranks=16, updates=1, device="cuda")
    assert (across.link, across.bytes_per_second) == ("machines with one port of 400 Gb/s each", 5e10)


@pytest.mark.parametrize(
    ("shard", "sent"),
    [
        ("none", 2 * 2 * (400 + 40) * 3 / 4),  # added up everywhere, twice
        ("optimizer", 2 * (400 + 40 + 200 + 20) * 3 / 4),  # into shares, and weights put together
        # 3 passes of each of 2 updates, and 3 × 2 before them; then the layers whole, and what stands around, twice
        ("full", (6 * (200 + 200 + 400) + 6 * 200 + 200 + 2 * (40 + 20)) * 3 / 4),
    ],
)
def test_what_is_sent_depends_on_what_is_shared(shard: Sharing, sent: float) -> None:
    sizes = Sizes(layers_gradients=400, layers_weights=200, around_gradients=40, around_weights=20)
    found = reduction_of(sizes, ranks=4, shard=shard, updates=2, passes=3, device="cuda", measured=100.0)
    assert (found.sent_bytes, found.seconds, found.measured) == (sent, sent / 100, True)


def test_the_memory_of_a_share_is_that_of_the_tensors_that_a_rank_has(make_recipe, tmp_path: Path) -> None:
    """By the numbers of the model's own parameters, a name at a time; the tiny student's biases aren't counted."""
    asked = ("student.dtype=bfloat16", "rollouts.prompts_per_step=4", "machine.engine=plain")
    made = {
        how: make_plan(make_recipe(*asked, f"machine.shard={how}"), out=tmp_path / "run", ranks=4)
        for how in ("none", "optimizer", "full")
    }
    parts = {how: {part.name: part.bytes for part in plan.memory.parts} for how, plan in made.items()}
    student = load_model(Path(make_recipe().student.model), dtype="bfloat16", device="cpu")
    named = {name: one.numel() for name, one in student.module.named_parameters()}
    whole = sum(named.values())
    layers = sum(size for name, size in named.items() if ".layers." in name and not name.endswith(".bias"))
    shape = read_shape(read_json(student.path / "config.json"))
    assert shape is not None
    assert layers == layers_parameters(shape)
    for how in ("optimizer", "full"):
        assert parts[how]["master weights, a share"] == whole * 4 // 4
        assert parts[how]["AdamW's two moments, a share"] == 2 * whole * 4 // 4
    assert parts["none"]["gradients"] == parts["optimizer"]["gradients"] == 4 * whole
    assert parts["full"]["gradients"] == 4 * (whole - layers) + layers
    assert parts["none"]["student's weights"] == parts["optimizer"]["student's weights"] == 2 * whole
    assert parts["full"]["student's weights"] == 2 * (whole - layers)
    assert parts["full"]["student's layers, whole"] == 2 * layers
    whole_when = [part.phase for part in made["full"].memory.parts if part.name == "student's layers, whole"]
    assert whole_when == ["sample", "score", "save"]
    assert [made[how].reduction.shard for how in made if made[how].reduction] == list(made)


def test_who_is_sent_the_weights_needs_no_layer_whole(make_recipe, tmp_path: Path) -> None:
    """Four tensors of the largest kind are on their way at most, as `test_loading.py` counts."""
    recipe = make_recipe("student.dtype=bfloat16", "rollouts.prompts_per_step=4", "machine.shard=full")
    sent = make_plan(recipe.changed(["machine.engine=vllm"]), out=tmp_path / "run", ranks=4).memory.parts
    student = load_model(Path(recipe.student.model), dtype="bfloat16", device="cpu")
    largest = max(one.nbytes for name, one in student.module.named_parameters() if ".layers." in name)
    assert not [part for part in sent if part.name == "student's layers, whole"]
    on_its_way = [part for part in sent if part.name == "a tensor on its way"]
    assert [(part.phase, part.bytes) for part in on_its_way] == [("sample", 4 * largest), ("save", 4 * largest)]


@pytest.mark.parametrize(
    ("sets", "fits", "advice"),
    [
        ((), False, 'share more of it: machine.shard = "optimizer"'),
        (("machine.shard=optimizer",), False, 'share more of it: machine.shard = "full"'),
        (
            ("machine.shard=full",),
            False,
            'with machine.engine = "vllm" and machine.tensor_parallel = N they are whole',
        ),
        (("machine.shard=full", "machine.engine=vllm"), True, ""),
    ],
)
def test_a_student_that_fits_by_shares_alone_is_refused_on_the_rungs_below(
    make_recipe, monkeypatch: pytest.MonkeyPatch, sets: tuple[str, ...], fits: bool, advice: str
) -> None:
    """Before anything is loaded, with what to set. Of the sizes of Qwen2.5 7B, with memory for the last alone."""
    recipe = make_recipe("student.dtype=bfloat16", "rollouts.prompts_per_step=16", *sets)
    teachers = look_at_teachers(recipe)
    student = replace(look(recipe.student), parameters=7_615_616_512, shape=SEVEN)
    last = recipe.changed(["machine.shard=full", "machine.engine=vllm"])
    room = least_bytes(last, student, ranks=16)
    room += sum(part.bytes for part in teachers_weights(recipe, teachers, device="cpu"))
    monkeypatch.setattr("opd.train.ahead.lacks.memory_bytes", lambda _: room)
    faults = [fault for fault in missing_here(recipe, student, teachers, ranks=16) if fault.startswith("memory: ")]
    assert (faults == []) == fits
    assert all(fault.startswith("memory: weights, optimizer state and gradients take ") for fault in faults)
    assert all(advice in fault for fault in faults)


def test_ranks_that_share_rehearse_together_and_links_may_be_measured(make_recipe, tmp_path: Path) -> None:
    recipe = make_recipe("machine.shard=optimizer", "machine.link_bytes_per_second=2e11")
    made = make_plan(recipe, out=tmp_path / "run", ranks=2, rehearsed=True)
    assert made.lacks == (
        "rehearsal: ranks that have shares rehearse together: torchrun … -m opd train … --rehearse",
    )
    assert made.reduction is not None
    assert (made.reduction.bytes_per_second, made.reduction.measured) == (2e11, True)


def test_each_rank_needs_what_its_share_of_the_prompts_needs(make_recipe, tmp_path: Path) -> None:
    recipe = make_recipe("rollouts.prompts_per_step=6", "machine.engine=plain")
    alone, three = (make_plan(recipe, out=tmp_path / "run", ranks=ranks) for ranks in (1, 3))
    share = make_plan(make_recipe("rollouts.prompts_per_step=2", "machine.engine=plain"), out=tmp_path / "run")
    cache = {part.name: part.bytes for part in three.memory.parts}
    assert cache["KV cache"] == next(part.bytes for part in share.memory.parts if part.name == "KV cache")
    assert cache["KV cache"] * 3 == next(part.bytes for part in alone.memory.parts if part.name == "KV cache")
    assert (alone.reduction, alone.ranks, three.ranks) == (None, 1, 3)
    assert three.reduction is not None
    assert cache["gradients on their way"] == three.reduction.gradient_bytes == cache["gradients"]
    assert (three.rows_seen, three.steps, three.rollout_tokens) == (
        alone.rows_seen,
        alone.steps,
        alone.rollout_tokens,
    )
    assert three.disk.parts == alone.disk.parts


def test_more_ranks_than_prompts_are_in_the_way(make_recipe, tmp_path: Path) -> None:
    made = make_plan(make_recipe(), out=tmp_path / "run", ranks=3)
    assert any("prompts_per_step = 2 is fewer than the 3 ranks" in fault for fault in made.lacks)


def test_the_rehearsal_is_of_one_rank_and_the_forecast_counts_the_sum(make_recipe, tmp_path: Path) -> None:
    recipe = make_recipe("rollouts.prompts_per_step=6", "budget.steps=1000")
    made = make_plan(recipe, out=tmp_path / "run", ranks=3, rehearsed=True)
    assert made.rehearsal is not None
    assert made.forecast is not None
    assert made.reduction is not None
    saves = 50 * made.rehearsal.save_seconds
    steps = 1000 * (made.rehearsal.seconds + made.reduction.seconds)
    assert made.forecast.seconds == pytest.approx(made.rehearsal.start_seconds + steps + saves)
