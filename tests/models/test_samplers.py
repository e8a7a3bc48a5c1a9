"""Which sampler is taken, and what is said of it."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from opd.models import samplers
from opd.models.engine.sampler import EngineSampler
from opd.models.interfaces import Sampling
from opd.models.load import LanguageModel, load_model
from opd.models.plain import PlainSampler
from opd.models.samplers import choose_sampler, drafted_by
from opd.records.errors import AskedWrongly

SAMPLING = Sampling(limit_tokens=4)


def test_auto_is_the_engine_where_it_fits(random_models):
    model = load_model(random_models / "student", dtype="float32", device="cpu")
    for asked, kind, said in (("auto", EngineSampler, "engine"), ("plain", PlainSampler, "plain")):
        chosen = choose_sampler(model, SAMPLING, engine=asked, largest_batch=8)
        assert (type(chosen.sampler), chosen.said) == (kind, said)


def test_auto_is_the_plain_sampler_where_the_engine_does_not_fit_and_says_why(random_models):
    model = load_model(random_models / "student", dtype="float32", device="cpu")
    model.module.set_output_embeddings(nn.Linear(32, 320, bias=True))
    chosen = choose_sampler(model, SAMPLING, engine="auto", largest_batch=8)
    assert type(chosen.sampler) is PlainSampler
    assert chosen.said == "plain: its head has a bias"
    with pytest.raises(AskedWrongly, match="the engine can't run this model: its head has a bias"):
        choose_sampler(model, SAMPLING, engine="engine", largest_batch=8)


@pytest.mark.parametrize(
    ("dtype", "exact", "differs"), [("float32", False, False), ("bfloat16", False, True), ("bfloat16", True, False)]
)
def test_a_sampler_differs_from_the_trainer_where_it_rounds_and_is_not_exact(
    dtype, exact, differs, random_models, some_order, monkeypatch
):
    """What is said of an exact one: none can be had without the GPU that its kernel is made for."""
    monkeypatch.setattr(samplers, "EngineSampler", lambda *_, **__: SimpleNamespace(said="engine"))
    loaded = load_model(random_models / "student", dtype="float32", device="cpu")
    model = replace(loaded, module=loaded.module.to(getattr(torch, dtype)), exact=some_order if exact else None)
    assert choose_sampler(model, SAMPLING, engine="auto", largest_batch=8).differs is differs


@pytest.mark.parametrize(
    ("asked", "passed"), [("auto", None), ("engine", None), ("persistent", True), ("graphs", False)]
)
def test_a_path_of_the_engine_can_be_asked_for_by_name(asked, passed, random_models, monkeypatch):
    asked_for = []
    monkeypatch.setattr(
        samplers, "EngineSampler", lambda *_, **how: asked_for.append(how["persistent"]) or SimpleNamespace(said="")
    )
    model = load_model(random_models / "student", dtype="float32", device="cpu")
    monkeypatch.setattr(LanguageModel, "device", torch.device("cuda"))
    choose_sampler(model, SAMPLING, engine=asked, largest_batch=8)
    assert asked_for == [passed]


@pytest.mark.parametrize(("known", "passed"), [(None, 1), (77, 77)])
def test_the_engine_is_told_the_longest_prompt(known, passed, random_models, monkeypatch):
    told = []
    monkeypatch.setattr(
        samplers, "EngineSampler", lambda *_, **how: told.append(how["prompt_tokens"]) or SimpleNamespace(said="")
    )
    model = load_model(random_models / "student", dtype="float32", device="cpu")
    choose_sampler(model, SAMPLING, engine="auto", largest_batch=8, prompt_tokens=known)
    assert told == [passed]


@pytest.mark.parametrize(
    ("asked", "because"),
    [("graphs", "CUDA graphs are a GPU's, and the model is on the CPU"), ("persistent", "no GPU")],
)
def test_a_path_of_a_gpu_is_refused_without_one(asked, because, random_models):
    model = load_model(random_models / "student", dtype="bfloat16", device="cpu")
    with pytest.raises(AskedWrongly, match=because):
        choose_sampler(model, SAMPLING, engine=asked, largest_batch=8)


def test_guesses_are_for_the_engine_alone(random_models):
    model = load_model(random_models / "student", dtype="float32", device="cpu")
    chosen = choose_sampler(model, SAMPLING, engine="auto", largest_batch=8, drafts="history")
    assert chosen.said == "engine, drafts to 4 sequences"
    for_engine = '^machine.drafts = "history" is for the engine, and here samples plain'
    with pytest.raises(AskedWrongly, match=f"{for_engine}; set"):
        choose_sampler(model, SAMPLING, engine="plain", largest_batch=8, drafts="history")
    assert drafted_by(PlainSampler(model, SAMPLING)) is None
    assert drafted_by(chosen.sampler) is None  # before the first call
    model.module.set_output_embeddings(nn.Linear(32, 320, bias=True))
    with pytest.raises(AskedWrongly, match=f"{for_engine}: its head has a bias; set"):
        choose_sampler(model, SAMPLING, engine="auto", largest_batch=8, drafts="history")
