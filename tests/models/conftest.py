"""Loaded random models for tests that only read them, and a bigram model whose logits are written down.

A test that changes weights loads its own. Shapes: V ids, H = V, since a bigram's hidden state is a row of logits.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from opd.models.load import LanguageModel, load_model


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
