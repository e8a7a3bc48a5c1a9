"""Whether sampler and trainer form the same sums on this chip: asked before step one, for no maker promises it.

Shapes: N rows, H hidden, A attended, I inner, V the tokenizer's ids, R rows of the head.

    by_products   rows of the first layer's products and of the head's, as the trainer has them among many, and as the
                  sampler has them among few
    by_sampling   tokens that the sampler draws, and the trainer's log-probabilities of the same tokens
"""

from collections.abc import Callable
from typing import Any

import torch

from opd.models.engine.persistent.program import LaunchFailed
from opd.models.engine.sampler import EngineSampler
from opd.models.exact.order import Value
from opd.models.interfaces import Sampler, Sampling
from opd.models.load import LanguageModel
from opd.models.logprobs import token_logp
from opd.models.sequences import packed
from opd.records.rollouts import Prompt

ROWS = (600, 300, 40, 8)  # of a product, by each kind of tile: `chained/operations.py`
PROMPTS = (3, 150)  # tokens: in one page, and in two
LIMIT_TOKENS = 16


@torch.no_grad()
def by_products(model: LanguageModel, *, product: Value, gate: Value, gate_of_steps: Value) -> str | None:
    """None when rows of every product are the same to the last bit in either way; else what differs.

    `gate` is the trainer's, of a gate and an up that are made one by one; `gate_of_steps`, of h_NH and both matrices
    in one, is the sampler's. The down-projection and the head are the same product in both.
    """
    for name, (columns, trainers, samplers) in _products(model, product, gate, gate_of_steps).items():
        numbers = torch.Generator(model.device).manual_seed(0)
        x_NK = torch.randn(ROWS[0], columns, generator=numbers, device=model.device).to(model.module.dtype)
        many = trainers(x_NK)
        for rows in ROWS:
            if not torch.equal(samplers(x_NK[:rows]), many[:rows]):
                return (
                    "this chip's instructions for large tiles and for small ones don't sum alike: "
                    f"{name}, {rows} rows of {ROWS[0]}"
                )
    return None


def _products(
    model: LanguageModel, product: Value, gate: Value, gate_of_steps: Value
) -> dict[str, tuple[int, Callable[[torch.Tensor], torch.Tensor], Callable[[torch.Tensor], torch.Tensor]]]:
    """The products of a model by name: columns, the trainer's way, and the sampler's."""
    layer: Any = model.module.get_decoder().layers[0]
    attention, mlp = layer.self_attn, layer.mlp
    qkv = (attention.q_proj, attention.k_proj, attention.v_proj)
    weight_EH = torch.cat([one.weight for one in qkv])
    bias_E = None if attention.q_proj.bias is None else torch.cat([one.bias for one in qkv])
    gate_IH, up_IH = mlp.gate_proj.weight, mlp.up_proj.weight
    weight_2IH = torch.cat([gate_IH, up_IH])
    head_RH: torch.Tensor = model.module.get_output_embeddings().weight

    def over(weight: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda x_NK: product(x_NK, weight, wide=True)

    return {
        "queries, keys and values": (
            weight_EH.shape[1],
            lambda h_NH: torch.cat([product(h_NH, one.weight, one.bias, wide=True) for one in qkv], dim=-1),
            lambda h_NH: product(h_NH, weight_EH, bias_E, wide=True),
        ),
        "the output projection": (attention.o_proj.weight.shape[1], *2 * (over(attention.o_proj.weight),)),
        "gate and up": (
            weight_2IH.shape[1],
            lambda h_NH: gate(product(h_NH, gate_IH), product(h_NH, up_IH)),
            lambda h_NH: gate_of_steps(h_NH, weight_2IH),
        ),
        "down": (mlp.down_proj.weight.shape[1], *2 * (over(mlp.down_proj.weight),)),
        "the head": (
            head_RH.shape[1],
            lambda h_NH: product(h_NH, head_RH, wide=True)[:, : model.vocabulary],
            over(head_RH[: model.vocabulary]),
        ),
    }


@torch.no_grad()
def by_sampling(
    model: LanguageModel, sampler_of: Callable[[LanguageModel, Sampling], Sampler] = EngineSampler
) -> str | None:
    """None when each log-probability that comes with a sampled token is the trainer's, to the last bit.

    Of an exact model: its own weights, all layers, prefill, steps and head. Two prompts of random ids, one across the
    end of a page, and 16 tokens of each. What no two prompts can show is not asked: longer sequences, other tokens.
    """
    numbers = torch.Generator().manual_seed(0)
    prompts = [
        Prompt(
            row=row,
            problem="",
            answer="",
            token_ids=tuple(torch.randint(model.vocabulary, (tokens,), generator=numbers).tolist()),
        )
        for row, tokens in enumerate(min(length, model.context_tokens - LIMIT_TOKENS) for length in PROMPTS)
    ]
    try:
        rollouts = sampler_of(model, Sampling(limit_tokens=LIMIT_TOKENS)).sample(prompts, seeds=[0])
    except LaunchFailed as error:
        return f"the persistent kernel can't be started: {error}"
    samplers = [logp for one in rollouts for logp in one.logp]
    trainers = token_logp(model, packed(rollouts, device=model.device)).tolist()
    apart = [abs(one - other) for one, other in zip(samplers, trainers, strict=True) if one != other]
    if not apart:
        return None
    return (
        "this chip's instructions for large tiles and for small ones don't sum alike: sampler and trainer are up to "
        f"{max(apart):.2g} nats apart in {len(apart)} of {len(samplers)} tokens"
    )
