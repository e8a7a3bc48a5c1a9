"""Whether the persistent kernel can run a decoder on a machine; where it can't, the engine's graphs do.

It is made for one shape, Qwen2's at 1.5B (Qwen2.5-1.5B, Qwen2.5-Math-1.5B, DeepSeek-R1-Distill-Qwen-1.5B), and for
one chip: its work is cut for 132 SMs that are all there. Layers and vocabulary may differ.
"""

import torch

from opd.models.engine.shape import Shape
from opd.models.load import LanguageModel

ROWS = 8  # sequences of a launch
PAGE_TOKENS = 128  # of a page, which one CTA attends to at once
MOST_TOKENS = 128 * PAGE_TOKENS  # of a sequence: a thread a page merges them
MOST_PAGES = 1 << 16  # of the pools: their numbers are kept in 16 bits
SMS = 132
MADE_FOR = {"hidden": 1_536, "inner": 8_960, "heads": 12, "key_heads": 2, "head_size": 128}


def shape_misfit(shape: Shape) -> str | None:
    """Why the kernel is not made for a decoder of these sizes; None when it is."""
    for name, made_for in MADE_FOR.items():
        if (own := getattr(shape, name)) != made_for:
            return f"it is made for {name.replace('_', ' ')} = {made_for:,}, and this model has {own:,}"
    if shape.vocabulary < 16 * SMS:
        return f"each of {SMS} SMs needs 16 ids of the vocabulary, and there are {shape.vocabulary:,}"
    if abs(shape.scale * shape.head_size**0.5 - 1.0) > 1e-9:
        return "its scores are scaled by 1 / sqrt(head size) alone"
    return None


def misfit(model: LanguageModel) -> str | None:
    """The same of a model on its machine, before there is a room."""
    attention = model.module.model.layers[0].self_attn
    if model.module.dtype != torch.bfloat16:
        return f"it computes in bfloat16, and the model in {str(model.module.dtype).removeprefix('torch.')}"
    if attention.q_proj.bias is None:
        return "q, k and v need a bias"
    if hasattr(attention, "q_norm"):
        return "queries and keys with norms of their own are not among what it does"
    return device_misfit(model.device) or shape_misfit(Shape.of(model))


def device_misfit(device: torch.device) -> str | None:
    """The same of the machine."""
    if device.type != "cuda":
        return "there is no GPU"
    card = torch.cuda.get_device_properties(device)
    if (card.major, card.minor) != (9, 0):
        return f"it is made for Hopper, and {card.name} has compute capability {card.major}.{card.minor}"
    if card.multi_processor_count != SMS:
        return f"its work is cut for {SMS} SMs, and {card.name} shows {card.multi_processor_count}"
    return None


def room_misfit(*, page_tokens: int, sequence_tokens: int, pages: int, window: int) -> str | None:
    """The same of a cache."""
    if page_tokens != PAGE_TOKENS:
        return f"its pages have {PAGE_TOKENS} tokens, and these {page_tokens}"
    if pages >= MOST_PAGES:
        return f"its pools have at most {MOST_PAGES - 1:,} pages, and {pages:,} are asked for"
    return length_misfit(sequence_tokens, window=window)


def length_misfit(sequence_tokens: int, *, window: int) -> str | None:
    """The same of the longest sequence: one that has ended runs on to the end of the window."""
    if sequence_tokens + window > MOST_TOKENS:
        return f"its sequences have at most {MOST_TOKENS - window:,} tokens, and {sequence_tokens:,} are asked for"
    return None
