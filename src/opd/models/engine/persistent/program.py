"""What a launch is given, as C sees it; `Params` of cuda/shape.cuh, field by field."""

import ctypes
from typing import Any

import torch

from opd.models.engine.persistent.build import NotBuilt, library
from opd.models.engine.persistent.cut import Cut

POINTERS = (
    *("weights", "embedding", "norms", "head_norms", "bias", "cos", "sin", "keys", "values", "table", "stop"),
    *("x_mixed", "x_down", "query", "mixed", "gated", "new_key", "new_value", "part", "part_mass", "down_part"),
    *("head_part", "logits", "unwritten", "counter"),
    *("ids", "position", "left", "active", "uniform", "token", "logp", "raw_logp", "tick"),
)
NUMBERS = (
    *("layers", "positions", "most_pages", "steps", "rows", "table_width", "pages", "nobodys", "vocabulary"),
    *("board_width", "in_flight", "in_flight_waiting", "draws", "logits_tile", "logits_row"),
)


class Params(ctypes.Structure):
    """The argument of the kernel."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in POINTERS),
        ("unwritten_bytes", ctypes.c_ulonglong),
        *((name, ctypes.c_int) for name in NUMBERS),
        ("epsilon", ctypes.c_float),
        ("coldness", ctypes.c_float),
        ("span", ctypes.c_int),
    ]


class LaunchFailed(Exception):
    """CUDA refused a launch; the message is its own."""

    steps: int = 0  # of the window that were done before


class Program:
    """The functions of a cut's library, on torch's current stream."""

    def __init__(self, cut: Cut) -> None:
        """Raises `NotBuilt` where there is no library, or the device can't hold the kernel."""
        self._library = library(cut)
        if self._library.opd_params_bytes() != ctypes.sizeof(Params):
            raise NotBuilt("the library has other parameters than this package; remove it from the cache")
        if reason := self._library.opd_fits():
            raise NotBuilt("the card has another number of SMs" if reason == 1 else "a CTA does not fit into an SM")
        self._library.opd_error.restype = ctypes.c_char_p

    def decode(self, params: Params) -> None:
        """Starts the steps. Raises `LaunchFailed` when not all CTAs can be resident."""
        self._check(self._library.opd_decode(ctypes.byref(params), _stream()))

    def lay_out(
        self,
        matrices: torch.Tensor,
        blocks: torch.Tensor,
        head: torch.Tensor,
        order: torch.Tensor,
        to: torch.Tensor,
        *,
        layers: int,
    ) -> None:
        """Weights are in the kernel's order; `matrices`: addresses, four a layer; `order`: of the head's blocks."""
        pointers = (ctypes.c_void_p(one.data_ptr()) for one in (matrices, blocks, head, order, to))
        self._check(self._library.opd_lay_out(*pointers, layers, len(head), _stream()))

    def turn(
        self, keys: torch.Tensor, values: torch.Tensor, listed: torch.Tensor, tokens: torch.Tensor, **how: Any
    ) -> None:
        """The listed pages go from rows to fragments, or back; `how`: `pages`, `layers`, `to_fragments`."""
        pointers = (ctypes.c_void_p(one.data_ptr()) for one in (keys, values, listed, tokens))
        numbers = (len(listed), how["pages"], how["layers"], int(how["to_fragments"]))
        self._check(self._library.opd_turn_pages(*pointers, *numbers, _stream()))

    def _check(self, code: int) -> None:
        if code:
            raise LaunchFailed(self._library.opd_error(code).decode())


def _stream() -> ctypes.c_void_p:
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
