"""How much memory vLLM is given: its copy of the weights, and keys and values of as many sequences as run at once.

vLLM would take a share of the whole GPU; the trainer has the rest of it in use, so the cache is asked for in bytes.
"""

from dataclasses import dataclass
from typing import Any

import torch

from opd.models.vllm.team import Team
from opd.records.errors import AskedWrongly

BLOCK_TOKENS = 16  # of a block of the cache
WORKSPACE_BYTES = 2 << 30  # activations of a batch of prompts, graphs
LINK_BYTES = 1 << 30  # NCCL's buffers, where vLLM spans several GPUs; assumed
GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What runs at once."""

    rows: int
    sequence_tokens: int  # of prompt and response, at the most
    batch_tokens: int = 8_192  # that pass through the model together


def cache_bytes(config: Any, *, width: int, rows: int, sequence_tokens: int, parts: int = 1) -> int:
    """Of keys and values, `width` bytes a number, of `rows` sequences in whole blocks; one block is never used.

    On each of so many GPUs, which share the heads.
    """
    heads = config.num_attention_heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    head_size = getattr(config, "head_dim", None) or config.hidden_size // heads
    of_token = int(config.num_hidden_layers * 2 * heads_here(kv_heads, parts) * head_size * width)
    blocks = rows * -(-sequence_tokens // BLOCK_TOKENS) + 1
    return blocks * BLOCK_TOKENS * of_token


def workspace_bytes(parts: int) -> int:
    """Of a vLLM on each of so many GPUs, beside weights and cache."""
    return WORKSPACE_BYTES + (LINK_BYTES if parts > 1 else 0)


def heads_here(kv_heads: int, parts: int) -> int:
    """Heads of keys and values that each of so many GPUs has; with fewer heads than GPUs some have the same."""
    return max(1, kv_heads // parts)


def memory_arguments(module: Any, size: Size, team: Team) -> dict[str, Any]:
    """The arguments of `vllm.LLM` on memory. With too little, fewer sequences run at once and the others wait.

    The same cache on every rank: as large as the one with the least room can have. Raises `AskedWrongly` when not
    even one sequence has room.
    """
    width = module.dtype.itemsize
    wanted, least = (
        cache_bytes(module.config, width=width, rows=rows, sequence_tokens=size.sequence_tokens, parts=team.size)
        for rows in (size.rows, 1)
    )
    if not torch.cuda.is_available():
        return {"kv_cache_memory_bytes": wanted}
    torch.cuda.empty_cache()  # blocks that torch keeps count as used
    free, total = torch.cuda.mem_get_info()
    weights = width * sum(one.numel() for one in module.parameters()) // team.size
    workspace = workspace_bytes(team.size)
    room = team.least(free - weights - workspace)
    if room < least:
        raise AskedWrongly(
            f"vLLM needs {(weights + workspace + least) / GIB:.1f} GiB beside the trainer for a sequence of "
            f"{size.sequence_tokens} tokens, and {free / GIB:.1f} GiB of {total / GIB:.1f} are free; lower "
            'rollouts.limit_tokens, or sample with machine.engine = "auto", which shares the trainer\'s weights'
        )
    cache = min(wanted, room)
    share = (weights + WORKSPACE_BYTES + cache) / total  # only looked at, when NCCL has its buffers
    return {"kv_cache_memory_bytes": cache, "gpu_memory_utilization": share}
