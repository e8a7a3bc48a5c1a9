"""A model's hidden states for sequences that stand end to end in one row: no position is computed for nothing.

Shapes: P positions of all sequences, S of them in a rectangle, T positions of its longest, A attention heads, D size
of a head, H hidden.

Everything in a transformer but attention treats each position by itself, so a row of sequences costs what its tokens
cost. Attention gets the lengths and keeps the sequences apart:

    CUDA, bf16    flash attention of torch, over the row as it stands
    otherwise     neighbours of like length as small rectangles: padding costs a little attention, and nothing else

Attention is hooked in through transformers' own registry (`AttentionInterface`). Whether an architecture takes it is
tried out, not assumed: `learn_packing` looks whether a sequence feels its neighbour. One that can't (windows, sinks,
recurrent layers, positions of its own) runs as one rectangle that is padded on the right.
"""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

import torch
from torch.nn.attention.varlen import varlen_attn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from opd.models.sequences import Sequences, pack

NAME = "opd_packed"
LONGEST_OVER_SHORTEST = 2  # of the sequences in one rectangle
LARGEST_HEAD = 256  # that flash attention takes
_UNKNOWN = ("sliding_window", "softcap", "s_aux", "position_bias")  # would change attention, and are not done here
# torch 2.11 takes fewer heads of keys than of queries without being told
_grouped: Any = {"enable_gqa": True} if "enable_gqa" in inspect.signature(varlen_attn).parameters else {}
_flash: Any = partial(varlen_attn, **_grouped)
_TRIED = ((0, 3, 1, 2, 3), (2, 1, 0, 3), (1, 3, 0, 1, 2, 2, 1))  # three sequences of different lengths
_OTHER = (3, 3, 0, 0, 1)  # in place of the first


@dataclass(frozen=True, slots=True, kw_only=True)
class Rectangle:
    """Neighbouring sequences of a row as attention sees them."""

    index_ST: torch.Tensor  # position in the row; that of the sequence's last token where it has ended
    real_ST: torch.Tensor | None  # whether a token stands there; None: everywhere


@dataclass(slots=True, kw_only=True)  # frozen, torch.compile would look into it, and compile for every set of lengths
class Packing:
    """Where each sequence of a row begins and ends."""

    lengths: tuple[int, ...]
    edges: torch.Tensor  # int32 [sequences + 1], for flash attention
    rectangles: tuple[Rectangle, ...]  # empty on a GPU that attends in half precision
    attended: int = 0  # layers that kept the sequences apart so far
    tiles: Any = None  # how an exact attention shares the queries out (`exact/order.py`); made by the first layer


def hidden_states(module: Any, sequences: Sequences, *, packs: bool) -> torch.Tensor:
    """hidden_PH: the decoder's output at every position of the row, each sequence as if it stood alone."""
    if not packs:
        return _in_a_rectangle(module, sequences)
    return _in_a_row(module, sequences, _packing(sequences, half_on_gpu=_half_on_gpu(module)))


def learn_packing(module: Any) -> str | None:
    """None when the model now takes sequences end to end; else why it does not, and it is as it was."""
    before = module.config._attn_implementation
    try:
        module.set_attn_implementation(NAME)
        fault = _crosstalk(module)
    except (NotImplementedError, TypeError, ValueError) as error:  # an argument or an attention that it does not have
        fault = f"{type(error).__name__}: {error}".splitlines()[0]
    if fault is not None:
        module.set_attn_implementation(before)
    return fault


def rectangles(lengths: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """First and last (exclusive) of the neighbours whose attention is computed together."""
    first = 0
    for index, length in enumerate(lengths):
        together = lengths[first : index + 1]
        if max(together) > LONGEST_OVER_SHORTEST * min(together):
            yield first, index
            first = index
        assert length > 0, "a sequence has a token"
    yield first, len(lengths)


def _in_a_row(module: Any, sequences: Sequences, packing: Packing) -> torch.Tensor:
    hidden_1PH: torch.Tensor = module.get_decoder()(
        input_ids=sequences.ids_P[None], position_ids=sequences.position_P[None], use_cache=False, packing=packing
    ).last_hidden_state
    return hidden_1PH[0]


def _in_a_rectangle(module: Any, sequences: Sequences) -> torch.Tensor:
    """Padded on the right, so that a causal model needs neither a mask nor positions (faults E26, E27)."""
    (whole,) = (_rectangle(sequences.lengths, start=0, device=sequences.ids_P.device),)
    hidden_STH = module.get_decoder()(input_ids=sequences.ids_P[whole.index_ST], use_cache=False).last_hidden_state
    return _real(hidden_STH, whole)


def _packing(sequences: Sequences, *, half_on_gpu: bool) -> Packing:
    device, lengths = sequences.ids_P.device, sequences.lengths
    edges = (0, *accumulate(lengths))
    return Packing(
        lengths=lengths,
        edges=torch.tensor(edges, dtype=torch.int32).to(device, non_blocking=True),
        rectangles=()
        if half_on_gpu
        else tuple(
            _rectangle(lengths[first:last], start=edges[first], device=device) for first, last in rectangles(lengths)
        ),
    )


def _rectangle(lengths: tuple[int, ...], *, start: int, device: torch.device) -> Rectangle:
    length_S1 = torch.tensor(lengths)[:, None]
    start_S1 = start + length_S1.cumsum(dim=0) - length_S1
    position_T = torch.arange(max(lengths))
    index_ST = start_S1 + torch.minimum(position_T, length_S1 - 1)
    real_ST = position_T < length_S1
    return Rectangle(
        index_ST=index_ST.to(device), real_ST=None if min(lengths) == max(lengths) else real_ST.to(device)
    )


def _real(values_ST: torch.Tensor, rectangle: Rectangle) -> torch.Tensor:
    """The values of the tokens, without the padding, in the order of the row."""
    if rectangle.real_ST is None:
        return values_ST.flatten(0, 1)
    return values_ST[rectangle.real_ST]


def _attention(
    module: torch.nn.Module,
    query_1APD: torch.Tensor,
    key_1APD: torch.Tensor,
    value_1APD: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    packing: Packing | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Attention's output [1, P, A, D], as transformers asks for it. Without a packing it is transformers' own."""
    if packing is None:
        plain: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query_1APD, key_1APD, value_1APD, attention_mask, scaling=scaling, **others
        )
        return plain
    for name in _UNKNOWN:
        if others.get(name) is not None:
            raise NotImplementedError(f"attention with {name}")
    if attention_mask is not None:
        raise NotImplementedError("attention with a mask or bias of its own")
    return _apart(query_1APD, key_1APD, value_1APD, packing, scaling), None


# Compiled, it would be made anew for every set of lengths.
@torch.compiler.disable(recursive=True)  # type: ignore[untyped-decorator]
def _apart(
    query_1APD: torch.Tensor,
    key_1APD: torch.Tensor,
    value_1APD: torch.Tensor,
    packing: Packing,
    scaling: float | None,
) -> torch.Tensor:
    """attended_1PAD, each sequence by itself."""
    packing.attended += 1
    query_PAD, key_PAD, value_PAD = (one[0].transpose(0, 1) for one in (query_1APD, key_1APD, value_1APD))
    return attend_apart(query_PAD, key_PAD, value_PAD, packing, scaling)[None]


def attend_apart(
    query_PAD: torch.Tensor, key_PAD: torch.Tensor, value_PAD: torch.Tensor, packing: Packing, scaling: float | None
) -> torch.Tensor:
    """attended_PAD: each query over the keys of its own sequence up to itself."""
    attend = _by_rectangles if packing.rectangles else _by_flash
    return attend(query_PAD, key_PAD, value_PAD, packing, scaling)


def _half_on_gpu(module: Any) -> bool:
    if module.device.type != "cuda" or module.dtype not in {torch.bfloat16, torch.float16}:
        return False
    config = module.config
    head_size = getattr(config, "head_dim", None) or config.hidden_size // getattr(config, "num_attention_heads", 1)
    return bool(head_size <= LARGEST_HEAD)


def _by_flash(
    query_PAD: torch.Tensor, key_PAD: torch.Tensor, value_PAD: torch.Tensor, packing: Packing, scaling: float | None
) -> torch.Tensor:
    edges, longest = packing.edges, max(packing.lengths)
    attended_PAD: torch.Tensor = _flash(
        query_PAD, key_PAD, value_PAD, edges, edges, longest, longest, scale=scaling, window_size=(-1, 0)
    )
    return attended_PAD


def _by_rectangles(
    query_PAD: torch.Tensor, key_PAD: torch.Tensor, value_PAD: torch.Tensor, packing: Packing, scaling: float | None
) -> torch.Tensor:
    pieces = []
    for rectangle in packing.rectangles:
        query_SATD, key_SATD, value_SATD = (
            one_PAD[rectangle.index_ST].transpose(1, 2) for one_PAD in (query_PAD, key_PAD, value_PAD)
        )
        attended_SATD = scaled_dot_product_attention(
            query_SATD,
            key_SATD,
            value_SATD,
            is_causal=True,
            scale=scaling,
            enable_gqa=query_SATD.shape[1] != key_SATD.shape[1],
        )
        pieces.append(_real(attended_SATD.transpose(1, 2), rectangle))
    return torch.cat(pieces)


def _mask(
    *, batch_size: int, q_length: int, kv_length: int, attention_mask: torch.Tensor | None = None, **others: Any
) -> torch.Tensor | None:
    """None for one row that is read from its beginning: attention is causal by itself there."""
    if batch_size == 1 and q_length == kv_length and attention_mask is None:
        return None
    mask: torch.Tensor | None = sdpa_mask(
        batch_size=batch_size, q_length=q_length, kv_length=kv_length, attention_mask=attention_mask, **others
    )
    return mask


@torch.no_grad()
def _crosstalk(module: Any) -> str | None:
    """None when three sequences have the hidden states that each has alone, and none feels what another holds."""
    together, attended = _tried(module, _TRIED)
    if not attended:
        return "its attention can't be replaced"
    decoder, device = module.get_decoder(), module.device
    alone = torch.cat(
        [decoder(input_ids=torch.tensor([one], device=device), use_cache=False)[0][0] for one in _TRIED]
    )
    tolerance = 32 * torch.finfo(alone.dtype).eps * float(alone.abs().max())
    apart = float((together - alone).abs().max())
    if not apart <= tolerance:
        return f"hidden states in a row lie {apart:.2g} from those alone"
    changed, _ = _tried(module, (_OTHER, *_TRIED[1:]))
    felt = (changed - together).abs()
    if not float(felt[len(_OTHER) :].max()) <= tolerance:
        return "a sequence feels the one before it"
    if not float(felt[: len(_OTHER)].max()) > tolerance:
        return "its hidden states don't depend on its tokens"
    return None


def _tried(module: Any, rows: tuple[tuple[int, ...], ...]) -> tuple[torch.Tensor, int]:
    """hidden_PH of these ids in a row, and how many layers kept them apart."""
    sequences = pack([(row, ()) for row in rows], device=module.device)
    packing = _packing(sequences, half_on_gpu=_half_on_gpu(module))
    return _in_a_row(module, sequences, packing), packing.attended


AttentionInterface.register(NAME, _attention)
AttentionMaskInterface.register(NAME, _mask)
