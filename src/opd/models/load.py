"""A directory → a model. Data only: no code of a model directory is ever run, no pickle is ever opened.

A reference is `opd:<task>/<name>` (ships with the package), a directory, or `owner/name` on the hub with a
revision. Hub models are fetched by huggingface_hub, which needs a network once.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig, PreTrainedTokenizerFast
from transformers.utils import logging as transformers_logging

from opd.models.exact.order import Order
from opd.models.packing import learn_packing
from opd.models.stored import Stored
from opd.models.weights import check_weights
from opd.records.errors import AskedWrongly, OpdError
from opd.records.files import PARTIAL, digest, read_json, tree
from opd.records.places import SHIPPED, locate

transformers_logging.disable_progress_bar()  # opd's own boards show what takes long

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
_WEIGHTS = "*.safetensors"
_FETCHED = ["*.json", _WEIGHTS, "*.jinja", "tokenizer*", "vocab*", "merges*"]
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json")
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_HEAD_SCALES = ("final_logit_softcapping", "logits_scaling", "logit_scale")  # the chunked head applies none


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModel:
    """A causal language model with what is needed to sample from it and to score with it."""

    module: Any  # transformers' model, in evaluation mode: dropout would make the sampler and trainer differ
    tokenizer: Any
    path: Path
    vocabulary: int  # ids below it are the tokenizer's; embedding rows beyond it are padding (faults E33, E34)
    stop_ids: frozenset[int]
    unpackable: str | None = "not tried"  # why it can't take sequences end to end in one row (`models/packing.py`)
    exact: Order | None = None  # of its sums, where its log-probabilities are the sampler's to the last bit
    # a tensor by its name, whole and on the CPU, where other processes have rows of it; None: all are whole here
    gathered: Callable[[str], torch.Tensor] | None = None

    @property
    def packs(self) -> bool:
        """Whether it takes sequences end to end in one row; else they are padded to a rectangle."""
        return self.unpackable is None

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


def find_model(reference: str, revision: str | None = None, *, fetch: bool = True, weights: bool = True) -> Path:
    """The directory that a reference stands for; a hub model is fetched, or without `fetch` looked for in the cache.

    The revision is of a hub model; a directory is taken as it is. Raises `AskedWrongly` when there is none, or
    when it is not a complete, data-only model directory; without `weights` it need not have any.
    """
    path = locate(reference)
    if not path.is_dir():
        if reference.startswith((SHIPPED, ".", "/", "~")) or not _HUB_NAME.fullmatch(reference):
            raise AskedWrongly(
                f"model {reference!r}: no such directory; name a model directory, or owner/name on the hub"
            )
        path = _from_hub(reference, revision, fetch=fetch, weights=weights)
    if path.name.endswith(PARTIAL):
        raise AskedWrongly(f"{path} is a checkpoint that was never finished; take a published one")
    check_model_directory(path, weights=weights)
    return path


def check_model_directory(path: Path, *, weights: bool = True) -> None:
    """Nothing, when the directory holds a model, its weights and its tokenizer as data; else `AskedWrongly`."""
    if not (path / "config.json").is_file():
        raise AskedWrongly(f"{path} has no config.json: it is not a Hugging Face model directory")
    if not any((path / name).is_file() for name in _TOKENIZERS):
        raise AskedWrongly(f"{path} has no tokenizer (none of {', '.join(_TOKENIZERS)}): save one beside the weights")
    _check_config(path)
    if weights:
        check_weights(path)


def model_digest(path: Path) -> str:
    """SHA-256 over the digests of the directory's files, by name."""
    return digest(tree(path))


def load_tokenizer(path: Path) -> Any:
    """The tokenizer of a model's directory, without its weights; `AskedWrongly` when it can't be read."""
    with _readable(path, "tokenizer"):
        return _tokenizer(path)


def read_stop_ids(path: Path, tokenizer: Any) -> frozenset[int]:
    """The ids that end a response of a directory's model, without its weights; as `load_model` finds them."""
    with _readable(path, "configuration"):
        config = AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
        own = (path / "generation_config.json").is_file()
        generation = GenerationConfig.from_pretrained(path, local_files_only=True) if own else config
        return _ids(tokenizer.eos_token_id, *(getattr(one, "eos_token_id", None) for one in (config, generation)))


def load_model(path: Path, *, dtype: str, device: str) -> LanguageModel:
    """The model of a directory in this dtype (float32, bfloat16, float64) on this device, ready to run.

    Raises `AskedWrongly` when the directory's configuration, weights and tokenizer don't make one model: a
    tensor that is missing would otherwise be filled with random numbers.
    """
    with _readable(path, "tokenizer"):
        tokenizer = _tokenizer(path)
    with _readable(path, "model"):
        module, found = AutoModelForCausalLM.from_pretrained(
            path,
            dtype=DTYPES[dtype],
            local_files_only=True,
            trust_remote_code=False,
            attn_implementation="sdpa",
            output_loading_info=True,
        )
    _check_filled(path, found)
    module.to(device).eval()
    with _readable(path, "tokenizer"):
        vocabulary = _vocabulary(tokenizer, module, path)
        stop_ids = _stop_ids(tokenizer, module)
    # Read for its stop ids and put aside: nothing may sample by it, and transformers refuses to save a model
    # whose own generation settings it finds inconsistent. `export` copies the file as it is.
    module.generation_config = GenerationConfig()
    return LanguageModel(
        module=module,
        tokenizer=tokenizer,
        path=path,
        vocabulary=vocabulary,
        stop_ids=stop_ids,
        unpackable=learn_packing(module),
    )


def load_skeleton(path: Path, *, dtype: str) -> Any:
    """A directory's transformers model without its weights: what its layers are, and nothing to compute with.

    Raises `AskedWrongly` when the configuration can't be read.
    """
    with _readable(path, "configuration"), torch.device("meta"):
        config = AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
        return AutoModelForCausalLM.from_config(config, dtype=DTYPES[dtype], attn_implementation="sdpa")


def load_unfilled(path: Path, *, dtype: str) -> tuple[LanguageModel, Stored]:
    """What `load_model` gives, but with parameters and stored buffers without memory; and where their values lie.

    Buffers that are not stored, such as rotary tables, are there, on the CPU. It has not learned to pack. Raises
    `AskedWrongly` as `load_model` does, and for an architecture whose files don't hold what its module holds.
    """
    with _readable(path, "tokenizer"):
        tokenizer = _tokenizer(path)
    module = load_skeleton(path, dtype=dtype).eval()
    with _readable(path, "model"):
        _make_buffers(module)
        stored = Stored(path)
    _check_stored(path, module, stored)
    with _readable(path, "tokenizer"):
        vocabulary = _vocabulary(tokenizer, module, path)
    stop_ids = read_stop_ids(path, tokenizer)
    module.generation_config = GenerationConfig()  # see `load_model`
    model = LanguageModel(module=module, tokenizer=tokenizer, path=path, vocabulary=vocabulary, stop_ids=stop_ids)
    return model, stored


def own_tensors(module: Any) -> dict[str, list[str]]:
    """What a directory stores of the module: each tensor's first name, with all that it goes by."""
    names: dict[int, list[str]] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        names.setdefault(id(tensor), []).append(name)
    return {some[0]: some for some in names.values()}


def load_as_stored(path: Path) -> tuple[Any, dict[str, tuple[str, ...]]]:
    """A directory's transformers model in the dtype that it is stored in, and the tensors that did not fit, by kind.

    The kinds are `missing`, `unexpected` and `mismatched`; a kind without a tensor is left out. Raises `AskedWrongly`
    when it can't be read.
    """
    with _readable(path, "model"):
        module, found = AutoModelForCausalLM.from_pretrained(
            path,
            dtype="auto",
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            attn_implementation="sdpa",  # whatever the configuration asks for
            ignore_mismatched_sizes=True,  # they are in what comes back, by name
            output_loading_info=True,
        )
    # a tensor of another shape comes with its two shapes
    kinds = {
        kind: tuple(sorted(one if isinstance(one, str) else one[0] for one in found[f"{kind}_keys"]))
        for kind in ("missing", "unexpected", "mismatched")
    }
    return module.eval(), {kind: names for kind, names in kinds.items() if names}


@contextmanager
def _readable(path: Path, what: str) -> Iterator[None]:
    """Whatever another library makes of a strange directory is a line that names the directory.

    The one place that catches every exception: configuration, tokenizer and weights go through four libraries,
    each with errors of its own, down to the bare `Exception`.
    """
    try:
        yield
    except (OpdError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        raise AskedWrongly(f"{path}: its {what} can't be read ({type(error).__name__}: {first:.200})") from error


def _make_buffers(module: Any) -> None:
    """Buffers that are not stored are made as transformers makes them when it has loaded the rest."""
    for tensor in module.state_dict(keep_vars=True).values():
        tensor._is_hf_initialized = True  # nothing is drawn for it
    for name, buffer in module.named_non_persistent_buffers():
        owner, _, last = name.rpartition(".")
        setattr(module.get_submodule(owner), last, torch.empty_like(buffer, device="cpu"))
    module.initialize_weights()


def _check_stored(path: Path, module: Any, stored: Stored) -> None:
    """Nothing, when each tensor of the module is stored as it is; else `AskedWrongly`."""
    if wider := getattr(module, "_keep_in_fp32_modules_strict", None):
        raise AskedWrongly(
            f"{path}: {type(module).__name__} keeps {min(wider)} in float32, which is not done by rows; set "
            'machine.shard = "optimizer"'
        )
    held, tied = module.state_dict(keep_vars=True), own_tensors(module)
    places = {name: stored.place(names) for name, names in tied.items()}
    missing = [name for name, place in places.items() if place is None]
    other = [name for name, place in places.items() if place and stored.shapes[place] != held[name].shape]
    _check_filled(path, {"missing_keys": missing, "mismatched_keys": other})
    for names in tied.values():
        first, *rest = [one for one in names if one in stored.shapes]
        if not all(torch.equal(stored.tensor(first), stored.tensor(one)) for one in rest):
            raise AskedWrongly(
                f"{path}: its config.json says that {' and '.join(names)} are one tensor, and its weights have "
                "different ones; set tie_word_embeddings to false there"
            )


def _check_filled(path: Path, found: Any) -> None:
    for kind in ("missing_keys", "mismatched_keys"):
        if names := sorted(map(str, found[kind])):
            raise AskedWrongly(
                f"{path}: {len(names)} tensors that its config.json asks for are {kind.partition('_')[0]} in its "
                f"weights, {names[0]} first; configuration and weights are not of one model"
            )


def _from_hub(repository: str, revision: str | None, *, fetch: bool, weights: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    name = f"{repository}@{revision}" if revision else repository
    command = f"hf download {repository}" + (f" --revision {revision}" if revision else "")
    patterns = _FETCHED if weights else [one for one in _FETCHED if one != _WEIGHTS]
    try:
        path = Path(
            snapshot_download(repository, revision=revision, allow_patterns=patterns, local_files_only=not fetch)
        )
    except (LocalEntryNotFoundError, HfHubHTTPError, HFValidationError, OSError) as error:
        what = f"the hub did not give it ({type(error).__name__})" if fetch else "nothing was fetched"
        raise AskedWrongly(
            f"model {name!r}: no such directory here, not in the hub's local cache, and {what}; "
            f"fetch it where there is a network (`{command}`) and name the directory"
        ) from error
    if revision and not path.name.startswith(revision):
        raise AskedWrongly(f"model {name!r}: the hub gave revision {path.name}")
    return path


def _check_config(path: Path) -> None:
    config = read_json(path / "config.json")
    if not isinstance(config, dict):
        raise AskedWrongly(f"{path / 'config.json'} holds a {type(config).__name__}, not an object")
    code = sorted(file.relative_to(path).as_posix() for file in path.rglob("*.py"))
    asking = [name for name in ("config.json", "tokenizer_config.json") if _asks_for_code(path / name)]
    if asking or code:
        what = f"brings code ({', '.join(code)})" if code else f"asks for its own code (auto_map in {asking[0]})"
        raise AskedWrongly(f"{path} {what}; opd never runs code from a model directory: use one that is data only")
    scales = [name for name in _HEAD_SCALES if config.get(name) not in (None, 1)]
    if scales:
        raise AskedWrongly(f"{path}: {scales[0]} in config.json reshapes the logits, which opd does not support")


def _asks_for_code(file: Path) -> bool:
    value = read_json(file) if file.is_file() else None
    return isinstance(value, dict) and "auto_map" in value


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
    return _ids(tokenizer.eos_token_id, module.config.eos_token_id, module.generation_config.eos_token_id)


def _ids(*named: Any) -> frozenset[int]:
    ids: set[int] = set()
    for value in named:
        ids.update(value if isinstance(value, list) else [] if value is None else [value])
    return frozenset(ids)
