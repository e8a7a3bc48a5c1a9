"""Small random decoders of every kind that the engine runs, and what a test asks of a sampler.

Shapes: B sequences, T positions, V the tokenizer's ids.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from opd.models.interfaces import Sampler
from opd.models.load import LanguageModel
from opd.records.rollouts import Prompt, Rollout
from opd.tasks.arith_tiny.tokenizer import make_tokenizer

RAGGED = ((305, 308, 7), (44,), (305, 308, 250, 251, 17, 309, 310), (305, 21, 306, 4), (9, 9))
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "qwen2": (Qwen2ForCausalLM, Qwen2Config, {"tie_word_embeddings": True}),  # biases of q, k and v
    "qwen2-untied": (Qwen2ForCausalLM, Qwen2Config, {"tie_word_embeddings": False, "num_key_value_heads": 4}),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, {"tie_word_embeddings": False, "head_dim": 16}),  # norms of q and k
    "llama": (LlamaForCausalLM, LlamaConfig, {"tie_word_embeddings": False, "num_key_value_heads": 1}),
    "llama-llama3": (LlamaForCausalLM, LlamaConfig, {"tie_word_embeddings": True, "rope_parameters": LLAMA3}),
    "llama-linear": (LlamaForCausalLM, LlamaConfig, {"rope_parameters": {"rope_type": "linear", "factor": 4.0}}),
    "qwen2-yarn": (
        Qwen2ForCausalLM,
        Qwen2Config,
        {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}},
    ),
}


@pytest.fixture(scope="session")
def make_decoder() -> Callable[..., LanguageModel]:
    """`make_decoder("qwen3", "float32", **settings)`: a fresh random model; two of one kind are alike.

    320 rows for 312 token ids, so that 8 rows are padding. Biases and norms are random too.
    """

    def make(kind: str, dtype: str = "float32", **settings: Any) -> LanguageModel:
        architecture, configuration, own = KINDS[kind]
        rope = {"rope_parameters": {"rope_theta": 10_000.0} | own.get("rope_parameters", {"rope_type": "default"})}
        sizes = {
            "vocab_size": 320,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 512,
            "initializer_range": 0.3,
        }
        config = configuration(
            **(sizes | own | rope | settings), bos_token_id=305, eos_token_id=306, pad_token_id=307
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(sorted(KINDS).index(kind))
            module = architecture(config).eval()
            with torch.no_grad():
                for parameter in module.parameters():
                    if parameter.dim() == 1:
                        parameter.add_(0.3 * torch.randn_like(parameter))
        tokenizer = make_tokenizer()
        return LanguageModel(
            module=module.to(getattr(torch, dtype)),
            tokenizer=tokenizer,
            path=Path(kind),
            vocabulary=len(tokenizer),
            stop_ids=frozenset({306}),
        )

    return make


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    """The name of each kind of decoder in turn."""
    return str(request.param)


@pytest.fixture(scope="session")
def prompts() -> Callable[..., list[Prompt]]:
    """`prompts((1, 2), (3,))`: prompts of these ids, a row each; ragged ones by default."""

    def make(*ids: tuple[int, ...], epoch: int = 0) -> list[Prompt]:
        return [
            Prompt(row=row, problem="", answer="", token_ids=one, epoch=epoch)
            for row, one in enumerate(ids or RAGGED)
        ]

    return make


@pytest.fixture(scope="session")
def stopping_often() -> Callable[[LanguageModel], LanguageModel]:
    """The same model, for which a sixth of the ids end a response: some rollouts are short, some are not."""
    return lambda model: replace(model, stop_ids=frozenset(range(0, model.vocabulary, 6)))


@pytest.fixture(scope="session")
def logits_of() -> Callable[[LanguageModel, Sequence[int]], torch.Tensor]:
    """`logits_of(model, ids)`: logits_TV over the tokenizer's ids behind each token, by transformers' forward."""

    @torch.no_grad()
    def compute(model: LanguageModel, ids: Sequence[int]) -> torch.Tensor:
        return model.module(input_ids=torch.tensor([list(ids)])).logits[0, :, : model.vocabulary]

    return compute


@pytest.fixture(scope="session")
def same_rollouts() -> Callable[..., None]:
    """`same_rollouts(ours, theirs, atol=1e-5)`: the same tokens and ends, log-probabilities this close."""

    def compare(ours: list[Rollout], theirs: list[Rollout], *, atol: float = 1e-5) -> None:
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert (one.prompt, one.sample, one.stop) == (other.prompt, other.sample, other.stop)
            assert one.token_ids == other.token_ids
            torch.testing.assert_close(torch.tensor(one.logp), torch.tensor(other.logp), rtol=0, atol=atol)
            assert (one.raw_logp is None) == (other.raw_logp is None)
            if one.raw_logp is not None and other.raw_logp is not None:
                torch.testing.assert_close(
                    torch.tensor(one.raw_logp), torch.tensor(other.raw_logp), rtol=0, atol=atol
                )

    return compare


@pytest.fixture(scope="session")
def gaps_of() -> Callable[[LanguageModel], Callable[..., torch.Tensor]]:
    """`gaps_of(model)(rollouts, temperature=1.0)`: |log-probability − that of a float32 forward| of every token."""

    def of(model: LanguageModel) -> Callable[..., torch.Tensor]:
        with model.device:
            exact = type(model.module)(model.module.config).float().eval()

        @torch.no_grad()
        def measure(rollouts: Sequence[Rollout], *, temperature: float = 1.0) -> torch.Tensor:
            exact.load_state_dict(model.module.state_dict())
            found = []
            for one in rollouts:
                ids = torch.tensor([[*one.prompt.token_ids, *one.token_ids]], device=model.device)
                logits_TV = exact(input_ids=ids).logits[0, len(one.prompt.token_ids) - 1 : -1, : model.vocabulary]
                logp_TV = (logits_TV / temperature).log_softmax(-1)
                logp_T = logp_TV.gather(-1, torch.tensor(one.token_ids, device=model.device).unsqueeze(-1)).squeeze(
                    -1
                )
                found.append((logp_T.cpu() - torch.tensor(one.logp)).abs())
            return torch.cat(found)

        return measure

    return of


@pytest.fixture(scope="session")
def same_bits() -> Callable[[Sequence[Rollout], Sequence[Rollout]], bool]:
    """Whether tokens and log-probabilities are the same numbers."""
    return lambda ours, theirs: [(a.token_ids, a.logp) for a in ours] == [(b.token_ids, b.logp) for b in theirs]


@pytest.fixture(scope="session")
def drawn() -> Callable[[Sampler, list[Prompt]], list[tuple[int, ...]]]:
    """`drawn(sampler, prompts, seeds=(0, 1))`: the token ids of each rollout."""

    def sample(sampler: Sampler, some: list[Prompt], *, seeds: Sequence[int] = (0, 1)) -> list[tuple[int, ...]]:
        return [one.token_ids for one in sampler.sample(some, seeds=list(seeds))]

    return sample
