"""What to lower when the memory of a device ran out, by the arithmetic of the plan."""

from collections.abc import Sequence

from opd.records.rollouts import Prompt
from opd.train.ahead.memory import GIB, Load, Part, further_sharing, loads_of, look, memory_parts
from opd.train.recipe import Recipe


def relief(recipe: Recipe, *, prompts: Sequence[Prompt], phase: str | None, device: str, ranks: int = 1) -> str:
    """What the plan finds in this phase, the largest part first, and the settings that these parts shrink with.

    Of a phase that the plan does not have, what is always there; on several ranks what one of them holds, and what
    more they can share.
    """
    load, scored = loads_of(recipe, prompts)
    student = look(recipe.student)
    teachers = {name: look(one) for name, one in recipe.all_teachers.items()}
    parts = memory_parts(recipe, load, device=device, student=student, teachers=teachers, scored=scored, ranks=ranks)
    ordered = sorted(parts, key=lambda part: -part.bytes)
    kept = [part for part in ordered if part.phase == "always"]
    added = [part for part in ordered if part.phase == phase]
    keys = dict.fromkeys(
        key for part in (*added, *kept) for key in _settings(part, scored if part.phase == "score" else load)
    )
    told = f"by the plan {_total(kept)} are always there{' on a rank' if ranks > 1 else ''}"
    if added:
        told += f" and this phase adds {_total(added)}: {', '.join(f'{one.name} {_size(one)}' for one in added)}"
    lower = ", ".join(f"{key} = {_value(recipe, key)}" for key in keys)
    again = "" if recipe.machine.recompute_layers else ", or set machine.recompute_layers = true"
    shared = "".join(f", or {what}" for what in further_sharing(recipe, ranks=ranks))
    return f"{told}; lower {lower}{again if phase == 'update' else ''}{shared}"


def _settings(part: Part, load: Load) -> tuple[str, ...]:
    """The settings that the part shrinks with."""
    # a sequence that is longer than a micro-batch goes alone, and then its length is what counts
    alone = load.micro_batch_tokens == load.sequence_tokens
    batch = ("rollouts.limit_tokens",) if alone else ("machine.micro_batch_tokens",)
    return {
        "KV cache": ("rollouts.largest_batch", "rollouts.limit_tokens"),
        "vLLM's KV cache": ("rollouts.largest_batch", "rollouts.limit_tokens"),
        "logits of a position": ("rollouts.largest_batch",),
        "forward pass of a micro-batch": batch,
        "activations of a micro-batch": batch,
        "logits of a chunk": ("machine.head_chunk_tokens",),
    }.get(part.name, ())


def _total(parts: list[Part]) -> str:
    return f"{sum(part.bytes for part in parts) / GIB:.2f} GiB"


def _size(part: Part) -> str:
    return f"{part.bytes / GIB:.2f}"


def _value(recipe: Recipe, key: str) -> object:
    section, _, name = key.partition(".")
    return getattr(getattr(recipe, section), name)
