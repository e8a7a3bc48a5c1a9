"""A directory → a model. Data only: no code of a model directory is ever run, no pickle is ever opened.

A reference is `opd:<task>/<name>` (ships with the package), a directory, or `owner/name` on the hub with a
revision. Hub models are fetched by huggingface_hub, which needs a network once.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, PreTrainedTokenizerFast
from transformers.utils import logging as transformers_logging

from opd.records.errors import AskedWrongly
from opd.records.files import PARTIAL, digest, read_json, tree
from opd.records.places import SHIPPED, locate

transformers_logging.disable_progress_bar()  # opd's own boards show what takes long

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
_FETCHED = ["*.json", "*.safetensors", "*.jinja", "tokenizer*", "vocab*", "merges*"]
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json")
_HEAD_SCALES = ("final_logit_softcapping", "logits_scaling", "logit_scale")  # the chunked head applies none


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModel:
    """A causal language model with what is needed to sample from it and to score with it."""

    module: Any  # transformers' model, in evaluation mode: dropout would make the sampler and trainer differ
    tokenizer: Any
    path: Path
    vocabulary: int  # ids below it are the tokenizer's; embedding rows beyond it are padding (faults E33, E34)
    stop_ids: frozenset[int]

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return torch.device(self.module.device)

    @property
    def context_tokens(self) -> int:
        """Longest sequence that the positions allow."""
        return int(getattr(self.module.config, "max_position_embeddings", 0)) or 1 << 30

    @property
    def parameters(self) -> int:
        """Number of parameters, a tied head counted once."""
        return sum(parameter.numel() for parameter in self.module.parameters())


def find_model(reference: str, revision: str | None = None) -> Path:
    """The directory that a reference stands for, fetched from the hub if it must be.

    Raises `AskedWrongly` when there is none, or when it is not a complete, data-only model directory.
    """
    path = locate(reference)
    if not path.is_dir():
        if reference.startswith((SHIPPED, ".", "/", "~")) or reference.count("/") != 1:
            raise AskedWrongly(
                f"model {reference!r}: no such directory; name a model directory, or owner/name on the hub"
            )
        path = _fetched(reference, revision)
    if path.name.endswith(PARTIAL):
        raise AskedWrongly(f"{path} is a checkpoint that was never finished; take a published one")
    check_model_directory(path)
    return path


def check_model_directory(path: Path) -> None:
    """Nothing, when the directory holds a model, its weights and its tokenizer as data; else `AskedWrongly`."""
    if not (path / "config.json").is_file():
        raise AskedWrongly(f"{path} has no config.json: it is not a Hugging Face model directory")
    if not any((path / name).is_file() for name in _TOKENIZERS):
        raise AskedWrongly(f"{path} has no tokenizer (none of {', '.join(_TOKENIZERS)}): save one beside the weights")
    weights = sorted(path.glob("*.safetensors"))
    if not weights:
        raise AskedWrongly(f"{path} has no *.safetensors; other weight formats can run code and are not read")
    _check_config(path)
    if (index := path / "model.safetensors.index.json").is_file():
        missing = set(_object(index).get("weight_map", {}).values()) - {file.name for file in weights}
        if missing:
            raise AskedWrongly(f"{path} lacks {', '.join(sorted(missing))}, which its index names; fetch it again")
    for file in weights:
        _check_covers_file(file)


def model_digest(path: Path) -> str:
    """SHA-256 over the digests of the directory's files, by name."""
    return digest(tree(path))


def load_model(path: Path, *, dtype: str, device: str) -> LanguageModel:
    """The model of a directory in this dtype (float32, bfloat16, float64) on this device, ready to run."""
    tokenizer = _tokenizer(path)
    module = AutoModelForCausalLM.from_pretrained(
        path, dtype=DTYPES[dtype], local_files_only=True, trust_remote_code=False, attn_implementation="sdpa"
    )
    module.to(device).eval()
    stop_ids = _stop_ids(tokenizer, module)
    # Read for its stop ids and put aside: nothing may sample by it, and transformers refuses to save a model
    # whose own generation settings it finds inconsistent. `export` copies the file as it is.
    module.generation_config = GenerationConfig()
    return LanguageModel(
        module=module,
        tokenizer=tokenizer,
        path=path,
        vocabulary=_vocabulary(tokenizer, module, path),
        stop_ids=stop_ids,
    )


def _fetched(repository: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    name = f"{repository}@{revision}" if revision else repository
    fetch = f"hf download {repository}" + (f" --revision {revision}" if revision else "")
    try:
        path = Path(snapshot_download(repository, revision=revision, allow_patterns=_FETCHED))
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        raise AskedWrongly(
            f"model {name!r}: no such directory here, not in the hub's local cache, and the hub did not give it "
            f"({type(error).__name__}); fetch it where there is a network (`{fetch}`) and name "
            "the directory"
        ) from error
    if revision and not path.name.startswith(revision):
        raise AskedWrongly(f"model {name!r}: the hub gave revision {path.name}")
    return path


def _check_config(path: Path) -> None:
    config = _object(path / "config.json")
    code = sorted(file.name for file in path.glob("*.py"))
    if "auto_map" in config or code:
        what = f"brings code ({', '.join(code)})" if code else "asks for its own code (auto_map in config.json)"
        raise AskedWrongly(f"{path} {what}; opd never runs code from a model directory: use one that is data only")
    scales = [name for name in _HEAD_SCALES if config.get(name) not in {None, 1}]
    if scales:
        raise AskedWrongly(f"{path}: {scales[0]} in config.json reshapes the logits, which opd does not support")


def _object(path: Path) -> dict[str, Any]:
    value = read_json(path)
    if not isinstance(value, dict):
        raise AskedWrongly(f"{path} holds a {type(value).__name__}, not an object")
    return value


def _check_covers_file(weights: Path) -> None:
    """A file cut off in the middle is found before anything is loaded (faults H25)."""
    found = weights.stat().st_size
    with weights.open("rb") as file:
        header = file.read(8)
        size = int.from_bytes(header, "little")
        try:
            tensors = json_object(file.read(size)) if size < found else {}  # text for a length is an enormous one
        except ValueError:
            tensors = {}
    ends = [entry["data_offsets"][1] for name, entry in tensors.items() if name != "__metadata__"]
    expected = 8 + size + max(ends, default=0)
    if not ends or expected != found:
        raise AskedWrongly(f"{weights} is damaged: {found} bytes, its header says {expected}; fetch it again")


def json_object(data: bytes) -> dict[str, Any]:
    """The JSON object in these bytes; `ValueError` when there is none."""
    import json

    value = json.loads(data)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def _tokenizer(path: Path) -> Any:
    """The tokenizer as its `tokenizer.json` has it.

    `AutoTokenizer` builds that of some architectures anew, Qwen2's among them: the words are split by other
    rules, and one more token stands behind the last id.
    """
    reader = PreTrainedTokenizerFast if (path / "tokenizer.json").is_file() else AutoTokenizer
    return reader.from_pretrained(path, local_files_only=True, trust_remote_code=False)


def _vocabulary(tokenizer: Any, module: Any, path: Path) -> int:
    real = max(tokenizer.get_vocab().values()) + 1
    rows = module.get_output_embeddings().weight.shape[0]
    if real > rows:
        raise AskedWrongly(f"{path}: the tokenizer has ids up to {real - 1}, the model only {rows} rows")
    return int(real)


def _stop_ids(tokenizer: Any, module: Any) -> frozenset[int]:
    named = [tokenizer.eos_token_id, module.config.eos_token_id, module.generation_config.eos_token_id]
    ids: set[int] = set()
    for value in named:
        ids.update(value if isinstance(value, list) else [] if value is None else [value])
    return frozenset(ids)
