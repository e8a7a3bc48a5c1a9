"""Small models as files, written byte by byte: what is checked is not made by what checks it."""

import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from opd.protocol.checkpoints.structure import Input, check
from opd.records.checkpoints import Structure
from opd.records.tasks import ArtifactRule

Tensors = dict[str, tuple[str, list[int], bytes]]  # dtype, shape, bytes
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
SHAPES = {EMBEDDING: [40, 50], "model.layers.0.mlp.up_proj.weight": [30, 50], "model.norm.weight": [50]}


def bfloat16(value: float) -> bytes:
    """The upper half of a float32, cut off; of values that bfloat16 holds, nothing is lost."""
    return struct.pack("<f", value)[2:]


def weights(values: Callable[[str, int], float], dtype: str = "BF16") -> Tensors:
    """Tensors of the shapes above, whose number `i` is `values(name, i)`."""
    pack = {"BF16": bfloat16, "F32": lambda value: struct.pack("<f", value)}[dtype]
    found: Tensors = {}
    for name, shape in SHAPES.items():
        size = shape[0] * (shape[1] if len(shape) == 2 else 1)
        found[name] = (dtype, shape, b"".join(pack(values(name, i)) for i in range(size)))
    return found


def file_of(tensors: Mapping[str, tuple[str, list[int], bytes]]) -> bytes:
    """A safetensors file."""
    header, end = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values())


def write_model(folder: Path, tensors: Tensors, *, tied: bool = True) -> Path:
    """A model directory with these weights."""
    folder.mkdir(parents=True)
    configuration = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": 50,
        "vocab_size": 40,
        "tie_word_embeddings": tied,
        "eos_token_id": 3,
    }
    (folder / "config.json").write_text(json.dumps(configuration))
    (folder / "generation_config.json").write_text('{"eos_token_id": 3}')
    (folder / "tokenizer.json").write_text('{"words": "of the start"}')
    (folder / "tokenizer_config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(file_of(tensors))
    return folder


def of_start(name: str, i: int) -> float:
    return ((len(name) * 31 + i * 7) % 64 - 32) / 64


def of_teacher(name: str, i: int) -> float:
    return of_start(name, i) + (1 if i % 2 else -1) / 8


def of_student(name: str, i: int) -> float:
    """Trained: most values a little beside the start's, in no relation to the teacher's."""
    return of_start(name, i) + ((i * 13) % 5 - 2) / 128


@pytest.fixture
def start(tmp_path: Path) -> Path:
    """The model that training began with."""
    return write_model(tmp_path / "start", weights(of_start))


@pytest.fixture
def teacher(tmp_path: Path) -> Path:
    """Another model of the same shape."""
    return write_model(tmp_path / "teacher", weights(of_teacher))


@pytest.fixture
def trained(tmp_path: Path, start: Path) -> Path:
    """A checkpoint without a fault, to spoil."""
    assert start.is_dir()
    return write_model(tmp_path / "checkpoint-20", weights(of_student))


@pytest.fixture
def checked(start: Path, teacher: Path) -> Callable[[Path], Structure]:
    """`checked(folder)`: what is said of a checkpoint of this start, beside this teacher."""
    rule = ArtifactRule(most=3, architectures=("Qwen2ForCausalLM",))

    def look(folder: Path) -> Structure:
        others = [Input(role="teacher", folder=teacher, digest="of the teacher")]
        return check(folder, rule, start=Input(role="start", folder=start, digest="of the start"), others=others)

    return look


@pytest.fixture
def files() -> Callable[..., bytes]:
    """`files(tensors)`: the bytes of a safetensors file."""
    return file_of


@pytest.fixture
def models() -> Callable[..., Path]:
    """`models(folder, "student", dtype="F32", tied=True, change=…)`: a model with the values of one of the three.

    `change` is given the tensors before they are written.
    """
    kinds = {"start": of_start, "teacher": of_teacher, "student": of_student}

    def write(
        folder: Path,
        kind: str,
        *,
        dtype: str = "BF16",
        tied: bool = True,
        change: Callable[[Tensors], None] | None = None,
    ) -> Path:
        tensors = weights(kinds[kind], dtype)
        if change is not None:
            change(tensors)
        return write_model(folder, tensors, tied=tied)

    return write
