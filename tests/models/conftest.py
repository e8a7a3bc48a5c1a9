"""Loaded random models for tests that only read them, and a bigram model whose logits are written down.

A test that changes weights loads its own. Shapes: V ids, H = V, since a bigram's hidden state is a row of logits.
"""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from opd.models.engine.persistent.cut import CUTS
from opd.models.exact.order import Order
from opd.models.load import LanguageModel, load_model
from opd.models.packing import learn_packing
from opd.records.rollouts import Prompt
from opd.tasks.arith_tiny.tokenizer import make_tokenizer

WIDE_VOCABULARY = 2_200  # 137.5 tiles of 16: an SM of the persistent kernel has one or two, the last is half padding
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8_192,
}
WIDE_KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "Qwen2": (Qwen2ForCausalLM, Qwen2Config, {}),
    "Qwen3": (Qwen3ForCausalLM, Qwen3Config, {}),
    "Llama": (LlamaForCausalLM, LlamaConfig, {"rope_parameters": LLAMA3 | {"rope_theta": 500_000.0}}),
}


@pytest.fixture(scope="session")
def student64(random_models) -> LanguageModel:
    """Tied Qwen2 in float64."""
    return load_model(random_models / "student", dtype="float64", device="cpu")


@pytest.fixture(scope="session")
def teacher64(random_models) -> LanguageModel:
    """Another tied Qwen2 in float64."""
    return load_model(random_models / "teacher", dtype="float64", device="cpu")


@pytest.fixture(scope="session")
def untied64(untied_model) -> LanguageModel:
    """Untied Qwen3 in float64."""
    return load_model(untied_model, dtype="float64", device="cpu")


@pytest.fixture(params=["tied", "untied"])
def either(request, random_models, untied_model) -> Path:
    """The folder of a tied Qwen2, then that of an untied Qwen3."""
    return random_models / "student" if request.param == "tied" else untied_model


@pytest.fixture(params=["student64", "untied64"])
def either64(request) -> LanguageModel:
    """The same two, loaded in float64, for reading only."""
    return request.getfixturevalue(request.param)


class BigramModule(nn.Module):
    """logits after token x = row x of the table, through the two doors that the code under test uses."""

    def __init__(self, table_VV: torch.Tensor) -> None:
        super().__init__()
        self.rows = nn.Parameter(table_VV.clone())
        self.head = nn.Linear(table_VV.shape[1], table_VV.shape[1], bias=False, dtype=table_VV.dtype)
        nn.init.eye_(self.head.weight)
        self.device = torch.device("cpu")

    def get_decoder(self) -> Callable[..., SimpleNamespace]:
        return lambda *, input_ids, use_cache: SimpleNamespace(last_hidden_state=self.rows[input_ids])

    def get_output_embeddings(self) -> nn.Linear:
        return self.head


@pytest.fixture(scope="session")
def bigram() -> Callable[..., LanguageModel]:
    """`bigram(table_VV, vocabulary=V)`: a model of which everything is known."""

    def make(table_VV: torch.Tensor, *, vocabulary: int | None = None) -> LanguageModel:
        return LanguageModel(
            module=BigramModule(table_VV),
            tokenizer=None,
            path=Path("bigram"),
            vocabulary=vocabulary or table_VV.shape[1],
            stop_ids=frozenset(),
        )

    return make


@pytest.fixture(scope="session")
def some_order() -> Order:
    """Of the sums of an exact model of which nothing is computed."""
    return Order(**dict.fromkeys(field.name for field in fields(Order)))


@pytest.fixture(scope="session")
def make_wide() -> Callable[..., LanguageModel]:
    """`make_wide(layers=2)`: some layers of the 1.5B shape on a GPU, random, with outliers as trained models have.

    `like` names another shape that the persistent kernel is made for.
    """
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device, and torch sees none")

    def make(*, layers: int = 2, like: str = "Qwen2 1.5B") -> LanguageModel:
        torch.manual_seed(0)
        cut, (architecture, configuration, own) = CUTS[like], WIDE_KINDS[like.partition(" ")[0]]
        if cut.normed:
            own = own | {"head_dim": cut.head}
        config = configuration(
            vocab_size=2_304,
            hidden_size=cut.hidden,
            intermediate_size=cut.inner,
            num_hidden_layers=layers,
            num_attention_heads=cut.heads,
            num_key_value_heads=cut.key_heads,
            max_position_embeddings=16_384,
            tie_word_embeddings=False,
            initializer_range=0.03,
            **own,
        )
        with torch.device("cuda"):
            module = architecture(config).eval()
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                if parameter.dim() == 1:
                    parameter.add_(0.1 * torch.randn_like(parameter))
                if name.endswith(("o_proj.weight", "down_proj.weight")):
                    parameter[[7, 300]] *= 20.0  # two features of the residual stream are far larger than the others
        module = module.to(torch.bfloat16)
        return LanguageModel(
            module=module,
            tokenizer=None,
            path=Path("wide"),
            vocabulary=WIDE_VOCABULARY,
            stop_ids=frozenset(),
            unpackable=learn_packing(module),
        )

    return make


@pytest.fixture(scope="session")
def served_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`served_folder(rows=320)`: the folder of a random Qwen2 whose heads have 64 numbers, as vLLM takes them.

    312 token ids; further rows are padding.
    """

    def make(*, rows: int) -> Path:
        tokenizer = make_tokenizer()
        config = Qwen2Config(
            vocab_size=rows,
            hidden_size=256,
            intermediate_size=512,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=512,
            initializer_range=0.1,
            eos_token_id=tokenizer.eos_token_id,
            tie_word_embeddings=True,
        )
        folder = tmp_path_factory.mktemp("served") / "model"
        with torch.random.fork_rng():
            torch.manual_seed(1)
            Qwen2ForCausalLM(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder

    return make


@pytest.fixture(scope="session")
def of_lengths() -> Callable[..., list[Prompt]]:
    """`of_lengths(1, 128)`: prompts of so many random tokens each, for a wide decoder."""

    def make(*lengths: int) -> list[Prompt]:
        torch.manual_seed(1)
        return [
            Prompt(
                row=row, problem="", answer="", token_ids=tuple(torch.randint(WIDE_VOCABULARY, (length,)).tolist())
            )
            for row, length in enumerate(lengths)
        ]

    return make
