"""Small files in the place of models of 1.78 billion parameters: whole by their form, told apart by their bytes."""

import json
import struct
from pathlib import Path

from tests.protocol.document.facts import PARAMETERS

from opd.records.checkpoints import Comparison, Loaded, Structure
from opd.records.files import COMPLETE, digest, tree, write_json

_CONFIG = {
    "architectures": ["Qwen2ForCausalLM"], "hidden_size": 1_536, "intermediate_size": 8_960, "model_type": "qwen2",
    "num_attention_heads": 12, "num_hidden_layers": 28, "num_key_value_heads": 2, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "vocab_size": 151_936,
}  # fmt: skip
_TENSORS = 339
_VOCABULARY = 151_936


def write_model(folder: Path, *, seed: str, step: int | None = None) -> None:
    """A directory of the form that a checkpoint has, with one small tensor that the seed fills."""
    folder.mkdir(parents=True)
    values = bytes.fromhex(digest(seed))
    header = json.dumps({"model.norm.weight": {"dtype": "BF16", "shape": [16], "data_offsets": [0, 32]}}).encode()
    header += b" " * (-len(header) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + values)
    write_json(folder / "config.json", _CONFIG)
    write_json(folder / "generation_config.json", {"temperature": 0.6, "top_p": 0.95})
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "LlamaTokenizerFast"})
    if step is not None:
        write_json(folder / "opd.json", {"step": step, "recipe": digest(seed), "means": {"first_step": step}})
        write_json(folder / COMPLETE, {"files": tree(folder)})


def structure(*, start_sha256: str, teacher_sha256: str, seed: str) -> Structure:
    """What the files of a whole checkpoint of the task would be found to be."""
    values = {"tensors": _TENSORS, "equal_tensors": 0, "parameters": PARAMETERS}
    start = Comparison(
        input="start", input_sha256=start_sha256, equal_parameters=611_203_551, distance=4.83, **values
    )
    teacher = Comparison(
        input="teacher", input_sha256=teacher_sha256, equal_parameters=58_119_004, distance=61.2,
        start_distance=61.4, distinct_parameters=1_701_332_118, taken_parameters=9_114_206, **values,
    )  # fmt: skip
    return Structure(
        bytes=2 * PARAMETERS + 38_912, tensors=_TENSORS, parameters=PARAMETERS, dtypes={"BF16": PARAMETERS},
        tensor_sha256=digest(f"tensors of {seed}"), compared=(start, teacher), faults=(),
    )  # fmt: skip


def loaded() -> Loaded:
    """What `opd load` says of such a one."""
    return Loaded(
        parameters=PARAMETERS, expected_parameters=PARAMETERS, dtype="bfloat16", vocabulary=_VOCABULARY,
        infinite_parameters=0, finite_logits=True, tokens=41, seconds=6.12,
        machine={"opd": "0.1.0", "device": "cuda", "name": "NVIDIA B300"}, faults=(),
    )  # fmt: skip
