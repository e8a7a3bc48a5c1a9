"""A student that no rank ever has whole is loaded, sent and saved as one that a process has whole: bit for bit.

Processes are dear: two and four of them go through all the models once, and the tests look at what they left.
"""

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.train.ranks.memory import Held
from tests.train.ranks.processes import started, together
from torch.distributed.tensor import DTensor
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from opd.models import export
from opd.models.load import LanguageModel, load_model, own_tensors
from opd.models.vllm.server import checkpoint_weights
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import tree
from opd.tasks.arith_tiny.tokenizer import make_tokenizer
from opd.train.model import Dtype, ModelSettings
from opd.train.ranks.joining import joined
from opd.train.ranks.loading import load_by_rows
from opd.train.ranks.ranks import RankLost, Ranks
from opd.train.ranks.sharded import own_rows
from opd.train.ranks.sharing import loaded, shared
from opd.train.saved.checkpoint import Checkpoints
from opd.train.saved.shares import first

pytestmark = pytest.mark.patient

CASES: list[tuple[str, Dtype]] = [
    ("qwen2", "float32"),
    ("qwen2", "bfloat16"),
    ("qwen3", "bfloat16"),
    ("qwen3", "float64"),
    ("llama", "float32"),
    ("llama", "bfloat16"),
    ("twice", "float32"),
]
COUNTS = (2, 4)
DEEP = 8  # layers, so that all of them are far more than one
LARGEST_FILE = "60KB"
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8_192,
}


def saved(architecture: Any, configuration: Any, folder: Path, *, size: str, **settings: Any) -> Path:
    """A directory with a random model in several files, each of about this size."""
    tokenizer = make_tokenizer()
    config = configuration(vocab_size=320, eos_token_id=tokenizer.eos_token_id, bos_token_id=None, **settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        architecture(config).save_pretrained(folder, max_shard_size=size)
    tokenizer.save_pretrained(folder)
    assert len(list(folder.glob("*.safetensors"))) > 1
    return folder


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of many layers, with biases and a tied head; in float32."""
    return saved(
        Qwen2ForCausalLM,
        Qwen2Config,
        tmp_path_factory.mktemp("deep") / "model",
        size="500KB",
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=DEEP,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=True,
    )


@pytest.fixture(scope="module")
def models(random_models: Path, untied_model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tied and not, in one file and in several, rotary tables of two kinds, and one whose file has the head twice."""
    llama = saved(
        LlamaForCausalLM,
        LlamaConfig,
        tmp_path_factory.mktemp("llama") / "model",
        size="100KB",
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=16_384,
        rope_parameters=LLAMA3,
        tie_word_embeddings=False,
    )
    twice = tmp_path_factory.mktemp("twice") / "model"
    shutil.copytree(random_models / "student", twice)
    tensors = load_file(twice / "model.safetensors")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    tensors["odd"] = torch.ones(3)  # which the model doesn't have, and nobody asks for
    save_file(tensors, twice / "model.safetensors", metadata={"format": "pt"})
    return {"qwen2": random_models / "student", "qwen3": untied_model, "llama": llama, "twice": twice}


def student_by_rows(path: Path, dtype: Dtype, ranks: Ranks) -> tuple[LanguageModel, Callable[..., Any]]:
    """It, and `first`: what a call at rank 0 gives, which may ask for its tensors."""
    settings = ModelSettings(model=str(path), dtype=dtype)
    student = loaded(settings, path, device="cpu", how="full", sent=True, ranks=ranks)
    student, learner, shares = shared(student, "full", ranks, shape=lambda one: one)
    assert learner is student
    return student, lambda call: first(call, shares, ranks)


def go_through(models: dict[str, Path], out: Path) -> None:
    """Every rank compares its rows with those of the same model loaded whole; rank 0 leaves checkpoints."""
    export.LARGEST_FILE = LARGEST_FILE  # of this process alone
    with joined(device="cpu") as ranks:
        for name, dtype in CASES:
            student, at_first = student_by_rows(models[name], dtype, ranks)
            check_same_model(student, load_model(models[name], dtype=dtype, device="cpu"), ranks)
            at_first(partial(save, student, out / f"{name}-{dtype}"))


def save(student: LanguageModel, run: Path) -> None:
    run.mkdir()
    Checkpoints(run).save(student, step=1, recipe_digest="none")


def check_same_model(student: LanguageModel, whole: LanguageModel, ranks: Ranks) -> None:
    theirs = dict(whole.module.named_parameters())
    assert student.module.state_dict().keys() == whole.module.state_dict().keys()
    assert [name for name, _ in student.module.named_parameters()] == list(theirs)
    for name, one in student.module.named_parameters():
        expected = theirs[name].detach()
        if ".layers." in name:
            assert isinstance(one, DTensor), name
            wide = torch.promote_types(expected.dtype, torch.float32)
            held, expected = one.to_local().detach(), expected[own_rows(len(expected), ranks)].to(wide)
        else:
            held = one.detach()
        assert held.dtype == expected.dtype, name
        assert torch.equal(held, expected), name
    check_same_rest(student, whole)


def check_same_rest(student: LanguageModel, whole: LanguageModel) -> None:
    ours, theirs = dict(student.module.named_buffers()), dict(whole.module.named_buffers())
    assert ours.keys() == theirs.keys()
    for name, buffer in theirs.items():
        assert ours[name].dtype == buffer.dtype, name
        assert torch.equal(ours[name], buffer), name
    tied = [
        one.module.get_output_embeddings().weight is one.module.get_input_embeddings().weight
        for one in (student, whole)
    ]
    assert tied[0] == tied[1]
    for what in ("vocabulary", "stop_ids", "unpackable", "packs", "parameters", "context_tokens"):
        assert getattr(student, what) == getattr(whole, what), what
    assert student.tokenizer.get_vocab() == whole.tokenizer.get_vocab()
    assert not any(one.training for one in student.module.modules())


@pytest.fixture(scope="module")
def checkpoints(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """What each number of ranks left; 1: what one process leaves."""
    folders = {count: tmp_path_factory.mktemp(f"by-{count}") for count in (1, *COUNTS)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "LARGEST_FILE", LARGEST_FILE)
        for name, dtype in CASES:
            save(load_model(models[name], dtype=dtype, device="cpu"), folders[1] / f"{name}-{dtype}")
    for count in COUNTS:
        together(count, go_through, models, folders[count])
    return folders


@pytest.mark.parametrize("count", COUNTS)
def test_a_checkpoint_of_shares_is_the_file_that_one_process_writes(checkpoints: dict[int, Path], count: int) -> None:
    """Every byte of it, `.complete` included: index, configuration and weights, in one file or several."""
    names = sorted(path.name for path in checkpoints[1].iterdir())
    assert len(names) == len(CASES)
    files = [len(list((checkpoints[1] / name / "checkpoint-1").glob("*.safetensors"))) for name in names]
    assert (min(files), max(files)) == (1, 10)
    for name in names:
        found, expected = (tree(checkpoints[by] / name / "checkpoint-1") for by in (count, 1))
        assert found == expected, name


def hold(path: Path, out: Path) -> dict[str, int]:
    """Bytes at the peak of loading, of sending all tensors, and of a checkpoint; and what stays."""
    with joined(device="cpu") as ranks:
        with Held() as loading:
            student, at_first = student_by_rows(path, "bfloat16", ranks)
            stays = loading.bytes
        with Held() as sending, torch.no_grad():
            for _ in checkpoint_weights(student):
                pass
        with Held() as saving:
            at_first(lambda: export.export(student, out))
        return {
            "stays": stays,
            "loading": loading.peak_bytes,
            "sending": sending.peak_bytes,
            "saving": saving.peak_bytes,
            "own": sum(
                one.to_local().nbytes if isinstance(one, DTensor) else one.nbytes
                for one in student.module.parameters()
            ),
        }


def test_no_rank_ever_holds_much_more_than_its_shares(deep: Path, tmp_path: Path) -> None:
    """Loading: its shares and masters and, while packing is tried out, two layers on their way in bfloat16.

    Sending and saving: one tensor as rows, end to end and whole, and the one before it.
    """
    whole = load_model(deep, dtype="bfloat16", device="cpu").module
    sizes = {name: one.numel() for name, one in whole.named_parameters()}
    layer = 2 * sum(size for name, size in sizes.items() if ".layers.0." in name)
    largest = 2 * max(size for name, size in sizes.items() if ".layers." in name)
    around = sum(size for name, size in sizes.items() if ".layers." not in name)
    for rank, held in enumerate(together(4, hold, deep, tmp_path / "out")):
        assert held["own"] == DEEP * layer * 2 // 4 + 2 * around
        kept = held["own"] + around  # its rows of their masters, in float32
        assert kept <= held["stays"] < kept + 1_000, rank  # rotary tables
        assert held["loading"] <= kept + 4 * layer, rank
        assert held["sending"] <= kept + 4 * largest, rank
        assert held["saving"] <= kept + 4 * largest, rank
    assert DEEP * layer > 6 * layer > 6 * largest, "a rank that holds all layers would be noticed"


def refused(folder: Path) -> tuple[str, str]:
    """What both ways of loading say of a directory, on a rank."""
    said = []
    with joined(device="cpu") as ranks:
        for load in (
            lambda: load_by_rows(folder, dtype="float32", device="cpu", ranks=ranks),
            lambda: load_model(folder, dtype="float32", device="cpu"),
        ):
            try:
                load()
                said.append("")
            except AskedWrongly as error:
                said.append(str(error))
        return said[0], said[1]


def edit(folder: Path, file: str, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(folder / file)
    change(tensors)
    save_file(tensors, folder / file, metadata={"format": "pt"})


def stored_in(folder: Path, name: str) -> str:
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    return str(index["weight_map"][name])


NAME = "model.layers.5.mlp.up_proj.weight"


def without_one(folder: Path) -> None:
    edit(folder, stored_in(folder, NAME), lambda tensors: tensors.pop(NAME))


def of_another_shape(folder: Path) -> None:
    def cut(tensors: dict[str, torch.Tensor]) -> None:
        tensors[NAME] = tensors[NAME][:-1].clone()

    edit(folder, stored_in(folder, NAME), cut)


def without_index(folder: Path) -> None:
    (folder / "model.safetensors.index.json").unlink()


def damaged(folder: Path) -> None:
    file = folder / stored_in(folder, NAME)
    file.write_bytes(file.read_bytes()[:-1])


def of_another_config(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": DEEP + 1, "layer_types": None}))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (without_one, f"1 tensors that its config.json asks for are missing in its weights, {NAME} first"),
        (of_another_shape, f"1 tensors that its config.json asks for are mismatched in its weights, {NAME} first"),
        (without_index, "has neither model.safetensors nor model.safetensors.index.json"),
        (damaged, "is damaged"),
        (of_another_config, f"tensors that its config.json asks for are missing in its weights, model.layers.{DEEP}"),
    ],
)
def test_a_directory_that_is_no_model_is_refused_by_all_ranks_as_by_one(
    deep: Path, tmp_path: Path, spoil: Callable[[Path], None], said: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(deep, folder)
    spoil(folder)
    first_rank, second_rank = together(2, refused, folder)
    assert first_rank == second_rank
    by_rows, whole = first_rank
    assert said in by_rows
    assert str(folder) in by_rows
    assert whole, "load_model takes it"


def test_a_head_that_is_tied_and_stored_otherwise_is_refused(models: dict[str, Path], tmp_path: Path) -> None:
    """Loaded whole it would be untied, by transformers, with a warning."""
    folder = tmp_path / "model"
    shutil.copytree(models["twice"], folder)
    edit(folder, "model.safetensors", lambda tensors: tensors["lm_head.weight"].add_(1))
    for by_rows, _ in together(2, refused, folder):
        assert "says that model.embed_tokens.weight and lm_head.weight are one tensor" in by_rows


def fail_in_between(path: Path) -> list[str]:
    """What each rank says when rank 0 gives up after a tensor; and that they can go on."""
    with joined(device="cpu") as ranks:
        student, at_first = student_by_rows(path, "float32", ranks)
        assert student.gathered is not None
        gathered = student.gathered
        name = "model.layers.1.mlp.up_proj.weight"

        def call() -> str:
            gathered(name)
            raise AnswerIsNo("the disk is full")

        try:
            said = str(at_first(call))
        except AnswerIsNo as error:
            said = str(error)
        return [said, str(at_first(lambda: [list(gathered(one).shape) for one in own_tensors(student.module)]))]


def test_a_rank_that_can_not_write_ends_the_wait_of_the_others(models: dict[str, Path]) -> None:
    found = together(2, fail_in_between, models["qwen2"])
    assert found[0] == found[1]
    assert found[0][0] == "the disk is full"


def leave_in_between(path: Path) -> str:
    """What rank 0 says when the other has gone while it writes."""
    asked: list[str] = []
    try:
        with joined(device="cpu") as ranks:
            student, at_first = student_by_rows(path, "float32", ranks)
            assert student.gathered is not None
            gathered = student.gathered
            if not ranks.writes:
                os._exit(1)
            at_first(lambda: [gathered(name) for name in own_tensors(student.module) if not asked.append(name)])
    except RankLost as error:
        return f"after {len(asked)} of {len(own_tensors(student.module))}: {error}"
    return "nothing was lost"


def test_a_rank_that_is_lost_while_tensors_are_gathered_ends_the_run(models: dict[str, Path]) -> None:
    writer, _ = started(2, leave_in_between, models["qwen2"])
    said = writer.result()
    assert said.startswith("after 2 of 26: ")  # the embedding, which is whole, and the first of a layer
    assert "rank 1" in said


def spoiled_on_disk(path: Path, out: Path) -> str:
    with joined(device="cpu") as ranks:
        student, at_first = student_by_rows(path, "float32", ranks)
        written = export.export

        def write(model: LanguageModel, folder: Path) -> None:
            written(model, folder)
            edit(folder, "model.safetensors", lambda tensors: tensors["model.layers.1.mlp.up_proj.weight"][3].add_(1))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("opd.train.saved.checkpoint.export", write)
            try:
                at_first(lambda: Checkpoints(out).save(student, step=1, recipe_digest="none"))
            except AnswerIsNo as error:
                return str(error)
    return ""


def test_a_checkpoint_of_shares_is_read_back(models: dict[str, Path], tmp_path: Path) -> None:
    for said in together(2, spoiled_on_disk, models["qwen2"], tmp_path):
        assert "model.layers.1.mlp.up_proj.weight was read back with other values than were written" in said
    assert not list(tmp_path.glob("checkpoint-*"))
