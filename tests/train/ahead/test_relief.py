"""What is said when memory runs out: the plan's own numbers, and the settings that the largest parts shrink with."""

import pytest

from opd.records.rollouts import Prompt
from opd.train.ahead import relief as module
from opd.train.ahead.memory import GIB, Found, Shape, load_of, look, memory_parts, peak
from opd.train.ahead.relief import relief

SHAPE = Shape(
    layers=28, hidden=1536, inner=8960, heads=12, kv_heads=2, head_size=128, rows=151_936, context_tokens=131_072
)
KNOWN = Found(folder=None, fault=None, parameters=1_777_088_000, shape=SHAPE)


@pytest.fixture
def reference(monkeypatch) -> None:
    """Student and teacher are of the reference recipe's size."""
    monkeypatch.setattr(module, "look", lambda _: KNOWN)


def of(tokens: int) -> list[Prompt]:
    return [Prompt(row=0, problem="", answer="", token_ids=(1,) * tokens)]


def said(recipe, phase: str | None, *, device: str = "cuda", ranks: int = 1) -> str:
    return relief(recipe, prompts=of(1_024), phase=phase, device=device, ranks=ranks)


SIZES = ("student.dtype=bfloat16", "teacher.dtype=bfloat16", "rollouts.limit_tokens=7168", "rollouts.per_prompt=4")


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize("phase", ["sample", "score", "update"])
def test_the_numbers_are_the_plans_largest_first(make_recipe, phase: str) -> None:
    recipe = make_recipe(*SIZES)
    load = load_of(recipe, prompt_tokens=1_024)
    parts = memory_parts(recipe, load, device="cuda", student=KNOWN, teachers={None: KNOWN})
    here = sorted((part for part in parts if part.phase == phase), key=lambda part: -part.bytes)
    always = sum(part.bytes for part in parts if part.phase == "always")
    text = said(recipe, phase)
    assert text.startswith(f"by the plan {always / GIB:.2f} GiB are always there and this phase adds ")
    assert ", ".join(f"{part.name} {part.bytes / GIB:.2f}" for part in here) in text


@pytest.mark.usefixtures("reference")
def test_each_phase_names_what_its_parts_shrink_with(make_recipe) -> None:
    recipe = make_recipe(*SIZES, "machine.micro_batch_tokens=32768")
    assert said(recipe, "update").endswith(
        "; lower machine.micro_batch_tokens = 32768, machine.head_chunk_tokens = 128, rollouts.largest_batch = 256, "
        "rollouts.limit_tokens = 7168, or set machine.recompute_layers = true"
    )
    assert "; lower rollouts.largest_batch = 256, rollouts.limit_tokens = 7168" in said(recipe, "sample")
    assert "; lower machine.micro_batch_tokens = 32768, machine.head_chunk_tokens = 128" in said(recipe, "score")
    assert "adds" not in said(recipe, "save")
    assert said(recipe, "save").endswith("; lower rollouts.largest_batch = 256, rollouts.limit_tokens = 7168")


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize(("shard", "more"), [("none", "optimizer"), ("optimizer", "full")])
def test_ranks_are_told_what_one_of_them_holds_and_what_more_they_can_share(make_recipe, shard: str, more: str):
    recipe = make_recipe(*SIZES, f'machine.shard="{shard}"')
    load = load_of(recipe, prompt_tokens=1_024)
    parts = memory_parts(recipe, load, device="cuda", student=KNOWN, teachers={None: KNOWN}, ranks=4)
    always = sum(part.bytes for part in parts if part.phase == "always")
    text = said(recipe, "update", ranks=4)
    assert text.startswith(f"by the plan {always / GIB:.2f} GiB are always there on a rank and this phase adds ")
    assert text.endswith(f', or share more of it: machine.shard = "{more}"')


@pytest.mark.usefixtures("reference")
def test_a_micro_batch_of_one_sequence_can_only_be_shortened(make_recipe) -> None:
    """8,192 tokens have a micro-batch to themselves, whatever the setting says."""
    text = said(make_recipe(*SIZES, "machine.micro_batch_tokens=4096", "machine.recompute_layers=true"), "update")
    assert "micro_batch_tokens =" not in text
    assert "; lower rollouts.limit_tokens = 7168" in text
    assert "recompute_layers" not in text


def test_lowering_what_is_named_lowers_what_is_planned(make_recipe) -> None:
    """The advice is followed, setting by setting, and each time the phase takes less."""
    base = make_recipe("rollouts.limit_tokens=400", "rollouts.per_prompt=8", "machine.micro_batch_tokens=4096")
    model = look(base.student)

    def needed(*sets: str, phase: str) -> int:
        recipe = base.changed(sets)
        load = load_of(recipe, prompt_tokens=64)
        parts = memory_parts(recipe, load, device="cpu", student=model, teachers={None: model})
        return peak([part for part in parts if part.phase in (phase, "always")], device="cpu")

    for phase in ("sample", "score", "update"):
        text = relief(base, prompts=of(64), phase=phase, device="cpu")
        named = text.rpartition("; lower ")[2].partition(", or set")[0].split(", ")
        assert named
        for setting in named:
            key, _, value = setting.partition(" = ")
            assert needed(f"{key}={int(value) // 64 or 1}", phase=phase) < needed(phase=phase), (phase, setting)
