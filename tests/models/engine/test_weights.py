"""The engine reads the trainer's own memory: what moves, what stays as it was."""

import pytest
import torch
from safetensors.torch import load_file

from opd.models.engine.sampler import EngineSampler
from opd.models.engine.shape import Shape
from opd.models.engine.weights import Weights, joined, rotation
from opd.models.export import export
from opd.models.interfaces import Sampling
from opd.models.load import load_model
from opd.models.plain import PlainSampler, PlainScorer
from opd.train.objectives.k2 import K2
from opd.train.update.updater import OptimizerSettings, Updater

SAMPLING = Sampling(limit_tokens=8)


def bytes_of(tensor: torch.Tensor) -> range:
    return range(tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes)


def test_every_matrix_that_is_read_is_memory_of_a_parameter(kind, make_decoder):
    """No second copy: each address of the engine's matrices lies in a parameter, and all parameters are read."""
    model = make_decoder(kind)
    weights = Weights.of(model)
    parameters = dict(model.module.named_parameters())
    read = [weights.embedding_RH, weights.norm_H, weights.head_VH]
    for layer in weights.layers:
        fields = [getattr(part, name) for part in (layer, layer.qkv) for name in part.__slots__]
        read += [tensor for tensor in fields if isinstance(tensor, torch.Tensor)]
    for tensor in read:
        assert any(tensor.data_ptr() == parameter.data_ptr() for parameter in parameters.values())
    covered = {address for tensor in read for address in bytes_of(tensor)}
    padding = set(bytes_of(model.module.get_output_embeddings().weight[model.vocabulary :]))
    for parameter in parameters.values():
        assert set(bytes_of(parameter)) - covered <= padding


def test_values_names_and_outputs_of_the_module_stay_as_they_were(kind, make_decoder):
    model, untouched = make_decoder(kind), make_decoder(kind)
    before = [id(parameter) for parameter in model.module.parameters()]
    Weights.of(model)
    assert [id(parameter) for parameter in model.module.parameters()] == before
    state, expected = model.module.state_dict(), untouched.module.state_dict()
    assert list(state) == list(expected)
    assert all(torch.equal(state[name], expected[name]) for name in expected)
    ids = torch.tensor([[305, 308, 7, 9]])
    with torch.no_grad():
        assert torch.equal(model.module(ids).logits, untouched.module(ids).logits)


def test_laying_out_twice_changes_nothing(make_decoder):
    model = make_decoder("qwen2")
    first, second = Weights.of(model), Weights.of(model)
    assert first.addresses == second.addresses
    assert first.layers[1].qkv.weight_EH.data_ptr() == second.layers[1].qkv.weight_EH.data_ptr()
    assert first.follows(model)


def test_parameters_that_are_neighbours_by_chance_are_not_taken_for_one_tensor():
    """Two tensors whose addresses follow each other, in storages of their own."""
    buffer = bytearray(torch.zeros(8).numpy().tobytes())
    apart = [
        torch.nn.Parameter(torch.frombuffer(buffer, dtype=torch.float32, count=4, offset=offset).view(2, 2))
        for offset in (0, 16)
    ]
    assert apart[1].data_ptr() == apart[0].data_ptr() + 16
    together = joined(apart)
    assert together.shape == (4, 2)
    with torch.no_grad():
        apart[1].fill_(3.0)
    assert together.tolist() == [[0, 0], [0, 0], [3, 3], [3, 3]]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_training_step_moves_what_the_engine_reads(random_models, prompts, dtype):
    """With float32 parameters that are their own masters, and with bf16 ones that masters are rounded into."""
    model, trained_plainly = (
        load_model(random_models / "student", dtype=dtype, device="cpu") for _ in ("engine", "plain")
    )
    engine = EngineSampler(model, SAMPLING)
    plain = PlainSampler(trained_plainly, SAMPLING)
    teacher = PlainScorer(load_model(random_models / "teacher", dtype="float32", device="cpu"))
    settings = OptimizerSettings(lr=3e-2)
    updaters = [Updater(one, K2(), settings) for one in (model, trained_plainly)]
    rollouts = plain.sample(prompts(), seeds=[0, 1])
    engine.sample(prompts(), seeds=[0, 1])
    for step in (1, 2):
        for updater in updaters:
            updater.update(teacher.score(rollouts), step=step)
        engine.follow(step)
    pairs = zip(model.module.parameters(), trained_plainly.module.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)  # the layout changes no update
    after = engine.sample(prompts(), seeds=[0, 1])
    assert [one.token_ids for one in after] != [one.token_ids for one in rollouts]
    scored = PlainScorer(model).score(after)
    gap = max(abs(a - b) for one in scored for a, b in zip(one.teacher_logp, one.rollout.logp, strict=True))
    assert gap < {"float32": 1e-4, "bfloat16": 0.3}[dtype]
    if dtype == "float32":
        assert [one.token_ids for one in after] == [one.token_ids for one in plain.sample(prompts(), seeds=[0, 1])]


def test_what_is_exported_is_what_would_have_been_and_reads_back(random_models, untied_model, tmp_path):
    for number, folder in enumerate((random_models / "student", untied_model)):
        model, untouched = (load_model(folder, dtype="float32", device="cpu") for _ in range(2))
        EngineSampler(model, SAMPLING)
        Weights.of(model)
        for name, one in (("ours", model), ("theirs", untouched)):
            (tmp_path / f"{name}{number}").mkdir()
            export(one, tmp_path / f"{name}{number}")
        ours, theirs = (load_file(tmp_path / f"{name}{number}" / "model.safetensors") for name in ("ours", "theirs"))
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
        again = load_model(tmp_path / f"ours{number}", dtype="float32", device="cpu")
        ids = torch.tensor([[305, 308, 7]])
        with torch.no_grad():
            assert torch.equal(again.module(ids).logits, untouched.module(ids).logits)


def test_angles_are_those_of_the_models_own_rotation(kind, make_decoder):
    """Of every scaling, at every position that the model has."""
    model = make_decoder(kind)
    rotary = model.module.model.rotary_emb
    cos_LD, sin_LD = rotation(rotary, Shape.of(model).context_tokens, dtype=torch.float32)
    position_1L = torch.arange(512).unsqueeze(0)
    expected_cos, expected_sin = rotary(torch.zeros(1, dtype=torch.float32), position_1L)
    half = cos_LD.shape[1] // 2
    assert torch.equal(cos_LD, expected_cos[0])
    assert torch.equal(sin_LD[:, half:], expected_sin[0][:, half:])
    assert torch.equal(-sin_LD[:, :half], expected_sin[0][:, :half])
