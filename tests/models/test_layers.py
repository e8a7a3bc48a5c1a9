"""Layers that are compiled, or computed again: the same numbers, and less kept."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

from opd.models.layers import compile_layers, missing_compiler, recompute_layers
from opd.models.load import LanguageModel, load_model
from opd.models.logprobs import token_logp
from opd.models.sequences import pack
from opd.records.errors import AskedWrongly

# torch's compiler imports what torch calls deprecated, and looks at gradients that torch warns of
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.script_method.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]

CPU = torch.device("cpu")
PAIRS = [((305, 308, 7), (21, 9, 33, 306)), ((305,), (44, 3)), ((2, 3), (306,))]


def values_and_gradients(model: LanguageModel, pairs: Any = PAIRS) -> list[torch.Tensor]:
    model.module.zero_grad()
    logp_N = token_logp(model, pack(pairs, device=CPU))
    (logp_N * torch.arange(1, len(logp_N) + 1)).sum().backward()
    return [logp_N.detach(), *(one.grad.clone() for one in model.module.parameters())]


def kept_numbers(model: LanguageModel) -> int:
    """How many numbers autograd keeps of a forward pass, weights and all."""
    kept: list[int] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        token_logp(model, pack(PAIRS, device=CPU))
    return sum(kept)


def test_computed_again_a_layer_has_the_same_gradients_bit_for_bit_and_keeps_less(either):
    plain, again = (load_model(either, dtype="float64", device="cpu") for _ in range(2))
    recompute_layers(again.module)
    for one, right in zip(values_and_gradients(again), values_and_gradients(plain), strict=True):
        assert torch.equal(one, right)
    assert kept_numbers(again) < kept_numbers(plain) / 2


def test_without_gradients_nothing_is_kept_or_computed_again(either):
    model = load_model(either, dtype="float64", device="cpu")
    calls = []
    layer = model.module.get_decoder().layers[0]
    forward = layer.forward
    layer.forward = lambda *given, **named: calls.append(1) or forward(*given, **named)
    recompute_layers(model.module)
    with torch.no_grad():
        token_logp(model, pack(PAIRS, device=CPU))
    assert len(calls) == 1
    values_and_gradients(model)
    assert len(calls) == 3


@pytest.mark.parametrize("shape", [compile_layers, recompute_layers])
def test_a_decoder_without_layers_in_a_row_is_refused(bigram, shape: Callable[[Any], None]):
    with pytest.raises(AskedWrongly, match="BigramModule has no layers in a row; set it to false"):
        shape(bigram(torch.zeros(3, 3)).module)


def test_what_compiling_lacks_is_said_before_it_is_tried(monkeypatch, tmp_path):
    for variable in ("CC", "CXX"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "neither g++ nor clang++ on the PATH: install one, or set machine.compile = false" in missing_compiler(
        "cpu"
    )
    program = tmp_path / "clang++"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert missing_compiler("cpu") is None
    monkeypatch.setenv("CXX", "g++-99")
    assert "no CXX = g++-99" in missing_compiler("cpu")
    monkeypatch.setitem(sys.modules, "triton", None)
    assert missing_compiler("cuda") == (
        "machine.compile needs triton: pip install triton, or set machine.compile = false"
    )


@pytest.mark.slow
@pytest.mark.parametrize("recomputed", [False, True])
def test_compiled_layers_give_the_same_numbers_and_are_compiled_once_for_rows_of_any_length(either, recomputed):
    from torch._dynamo.utils import counters

    plain, compiled = (load_model(either, dtype="float64", device="cpu") for _ in range(2))
    compile_layers(compiled.module)
    if recomputed:
        recompute_layers(compiled.module)
    graphs = []
    for length in (4, 9, 30, 17, 5):
        pairs = [*PAIRS, ((2,), (7,) * length)]
        for one, right in zip(values_and_gradients(compiled, pairs), values_and_gradients(plain, pairs), strict=True):
            # a norm computes in float32 whatever it is given, and a compiler adds in another order
            torch.testing.assert_close(one, right, rtol=1e-5, atol=1e-5 * float(right.abs().max()))
        graphs.append(counters["stats"]["unique_graphs"])
    assert graphs[0] > 0
    assert graphs[-1] == graphs[1]
