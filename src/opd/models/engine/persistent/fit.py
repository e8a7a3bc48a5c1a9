"""Whether the persistent kernel can run a decoder on a machine; where it can't, the engine's graphs do.

It is made for the sizes in cut.py, and for one chip: its work is cut for 132 SMs that are all there. Layers and
vocabulary may differ.
"""

import torch

from opd.models.engine.persistent.cut import CTAS, CUTS, TILE, Cut, cut_with
from opd.models.engine.shape import Shape
from opd.models.load import LanguageModel

ROWS = 8  # sequences of a launch
PAGE_TOKENS = 128  # of a page, which one CTA attends to at once
MOST_TOKENS = 128 * PAGE_TOKENS  # of a sequence and what it runs beyond its end: a thread a page merges them
MOST_PAGES = 1 << 16  # of the pools: their numbers are kept in 16 bits


def cut_of(model: LanguageModel) -> Cut:
    """How a model without a misfit is cut."""
    cut = cut_for(Shape.of(model))
    assert cut is not None, "asked only of a model without a misfit"
    return cut


def cut_for(shape: Shape) -> Cut | None:
    """The one of its sizes, where the kernel is made for them."""
    return cut_with(
        hidden=shape.hidden,
        inner=shape.inner,
        heads=shape.heads,
        key_heads=shape.key_heads,
        head=shape.head_size,
    )


def shape_misfit(shape: Shape, *, normed: bool) -> str | None:
    """Why the kernel is not made for a decoder of these sizes; None when it is."""
    cut = cut_for(shape)
    if cut is None:
        return (
            f"it is made for {', '.join(CUTS)}, and this model has hidden size {shape.hidden:,}, inner size "
            f"{shape.inner:,}, {shape.heads} heads, {shape.key_heads} of keys, head size {shape.head_size}"
        )
    if cut.normed != normed:
        has = "" if cut.normed else "no "
        return f"queries and keys have {has}norms of their own in what it is made for of this size, unlike here"
    if shape.vocabulary < TILE * CTAS:
        return f"each of {CTAS} SMs needs {TILE} ids of the vocabulary, and there are {shape.vocabulary:,}"
    if abs(shape.scale * shape.head_size**0.5 - 1.0) > 1e-9:
        return "its scores are scaled by 1 / sqrt(head size) alone"
    return None


def misfit(model: LanguageModel) -> str | None:
    """The same of a model on its machine, before there is a room."""
    if model.module.dtype != torch.bfloat16:
        return f"it computes in bfloat16, and the model in {str(model.module.dtype).removeprefix('torch.')}"
    normed = hasattr(model.module.model.layers[0].self_attn, "q_norm")
    return device_misfit(model.device) or shape_misfit(Shape.of(model), normed=normed)


def device_misfit(device: torch.device) -> str | None:
    """The same of the machine."""
    if device.type != "cuda":
        return "there is no GPU"
    card = torch.cuda.get_device_properties(device)
    if (card.major, card.minor) != (9, 0):
        return f"it is made for Hopper, and {card.name} has compute capability {card.major}.{card.minor}"
    if card.multi_processor_count != CTAS:
        return f"its work is cut for {CTAS} SMs, and {card.name} shows {card.multi_processor_count}"
    return None


def room_misfit(*, page_tokens: int, sequence_tokens: int, pages: int, window: int) -> str | None:
    """The same of a cache."""
    if page_tokens != PAGE_TOKENS:
        return f"its pages have {PAGE_TOKENS} tokens, and these {page_tokens}"
    if pages >= MOST_PAGES:
        return f"its pools have at most {MOST_PAGES - 1:,} pages, and {pages:,} are asked for"
    return length_misfit(sequence_tokens, window=window)


def length_misfit(sequence_tokens: int, *, window: int) -> str | None:
    """The same of the longest sequence, prompt and response together."""
    if sequence_tokens > (most := most_tokens(window=window)):
        return f"its sequences have at most {most:,} tokens, and {sequence_tokens:,} are asked for"
    return None


def most_tokens(*, window: int) -> int:
    """Of a sequence: one that has ended runs on to the end of the window."""
    return MOST_TOKENS - window
