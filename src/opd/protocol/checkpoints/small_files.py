"""A checkpoint but for its weights, against the start: nothing but data, the same model, the same words."""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from opd.protocol.checkpoints.strangers import Folder, Strange, read_exactly
from opd.records.checkpoints import TOKENIZER_FILES, Fault, Rule
from opd.records.files import COMPLETE
from opd.records.tasks import ArtifactRule, matches
from opd.records.trees import written

CONFIGURATION = "config.json"
GENERATION = "generation_config.json"
MOST_ENTRIES = 1000  # a large model has some hundred shards
LARGEST_CONFIGURATION = 1 << 20
LARGEST_SMALL_FILE = 64 << 20  # a tokenizer of a quarter of a million words has 32 MiB

_CODE = {".py", ".pyc", ".so", ".sh", ".ipynb"}
_OTHER_WEIGHTS = {
    ".bin",
    ".pt",
    ".pth",
    ".pkl",
    ".pickle",
    ".ckpt",
    ".h5",
    ".msgpack",
    ".npz",
    ".npy",
    ".onnx",
    ".gguf",
}
_ASKS_FOR_CODE = {"auto_map", "custom_pipelines", "custom_generate", "trust_remote_code"}
_OTHER_WEIGHT_KEYS = ("quantization_config", "compression_config")
_SHAPE_GIVING = (
    "model_type",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "max_position_embeddings",
    "tie_word_embeddings",
    "hidden_act",
    "rms_norm_eps",
)
_SPECIAL_IDS = ("bos_token_id", "eos_token_id", "pad_token_id")
_CHUNK_BYTES = 1 << 20


def entry_faults(mine: Folder, rule: ArtifactRule) -> Iterator[Fault]:
    """What stands in the folder and must not, by name, kind and size; `Strange` when there is too much to look at."""
    names = mine.names(most=MOST_ENTRIES)
    for name in names:
        found = _entry(name, mine.status(name), rule)
        if found is not None:
            yield Fault(rule=found[0], path=written(Path(name)), says=found[1])
    if CONFIGURATION not in names:
        yield Fault(rule=Rule.ENTRIES, path=CONFIGURATION, says="it is not there; a checkpoint is a whole directory")


def small_file_faults(mine: Folder, start: Folder, rule: ArtifactRule) -> Iterator[Fault]:
    """What is wrong with configuration, generation settings and tokenizer, beside the start's own."""
    names = mine.names(most=MOST_ENTRIES)
    for name, find in ((CONFIGURATION, _configuration), (GENERATION, _generation)):
        if name in names:
            try:
                own = mine.object(name, largest=LARGEST_CONFIGURATION)
                found = [*_code(own), *find(own, start, rule)]
            except Strange as error:
                found = [(error.rule, error.says)]
            yield from (Fault(rule=kind, path=name, says=says) for kind, says in found)
    yield from _tokenizer(mine, start)


def marked(mine: Folder) -> dict[str, str]:
    """The digest of each file by the folder's `.complete`; empty where there is none, as other programs leave none.

    Raises `Strange` when it names other files than are there.
    """
    names = set(mine.names(most=MOST_ENTRIES))
    if COMPLETE not in names:
        return {}
    files = mine.object(COMPLETE, largest=LARGEST_CONFIGURATION).get("files")
    if not isinstance(files, dict) or not all(isinstance(value, str) for value in files.values()):
        raise Strange(Rule.MARK, f"{COMPLETE}: it names no files; was the checkpoint published whole?")
    if other := sorted(files.keys() ^ (names - {COMPLETE})):
        where = "is named and not there" if other[0] in files else "is there and not named"
        raise Strange(Rule.MARK, f"{COMPLETE}: {other[0][:80]} {where}; the checkpoint is not what was published")
    return files


def file_sha256(folder: Folder, name: str) -> str:
    """SHA-256, in hexadecimal, of a file."""
    hashed = hashlib.sha256()
    with folder.file(name) as descriptor:
        size = os.fstat(descriptor).st_size
        for offset in range(0, size, _CHUNK_BYTES):
            hashed.update(read_exactly(descriptor, offset=offset, size=min(_CHUNK_BYTES, size - offset)))
    return hashed.hexdigest()


def _entry(name: str, status: os.stat_result, rule: ArtifactRule) -> tuple[Rule, str] | None:
    """The first of these that is so; links come first, since what they lead to says nothing."""
    suffix, size = PurePath(name).suffix, f"{status.st_size:,} bytes"
    kind = "a folder" if stat.S_ISDIR(status.st_mode) else "no file"
    allowed = any(matches(glob, name) for glob in rule.files)
    small = suffix == ".safetensors" or status.st_size <= LARGEST_SMALL_FILE
    questions = (
        (stat.S_ISLNK(status.st_mode), Rule.LINK, "it is a symbolic link; a checkpoint consists of plain files"),
        (suffix in _CODE, Rule.CODE, "it is code, and a checkpoint is data only; leave it out"),
        (suffix in _OTHER_WEIGHTS, Rule.PICKLE, f"{suffix} may run code when it is read; export safetensors"),
        (not stat.S_ISREG(status.st_mode), Rule.SPECIAL, f"it is {kind}; a checkpoint consists of plain files"),
        (not allowed, Rule.ENTRIES, f"it is none of the files that may be there ({', '.join(rule.files)})"),
        (status.st_nlink > 1, Rule.LINK, f"the file has {status.st_nlink} names; who has another could change it"),
        (not small, Rule.SIZE, f"{size}; a file beside the weights has at most {LARGEST_SMALL_FILE:,}"),
    )
    return next(((kept, says) for broken, kept, says in questions if broken), None)


def _code(own: Mapping[str, Any]) -> Iterator[tuple[Rule, str]]:
    if asking := sorted(_keys_within(own) & _ASKS_FOR_CODE):
        yield Rule.CODE, f"{asking[0]} asks for code, and none is run; leave the key out"


def _configuration(own: Mapping[str, Any], start: Folder, rule: ArtifactRule) -> Iterator[tuple[Rule, str]]:
    its = start.object(CONFIGURATION, largest=LARGEST_CONFIGURATION)
    for key in _OTHER_WEIGHT_KEYS:
        if own.get(key) is not None and own.get(key) != its.get(key):
            yield Rule.CONFIGURATION, f"{key}: the start's weights are plain; export them so"
    architectures = own.get("architectures")
    if not isinstance(architectures, list) or len(architectures) != 1 or architectures[0] not in rule.architectures:
        allowed = ", ".join(rule.architectures)
        yield Rule.CONFIGURATION, f"architectures = {_short(architectures)}; the task allows one of {allowed}"
    for key in _SHAPE_GIVING:
        if key in its and own.get(key) != its[key]:  # what only one names has a default, which loading compares
            yield Rule.CONFIGURATION, f"{key} = {_short(own.get(key))}, the start has {_short(its[key])}"


def _generation(own: Mapping[str, Any], start: Folder, rule: ArtifactRule) -> Iterator[tuple[Rule, str]]:  # noqa: ARG001
    """Which ids begin, end and pad an answer is the start's to say; how to sample is the evaluation's."""
    its = start.object(CONFIGURATION, largest=LARGEST_CONFIGURATION)
    if GENERATION in start.names(most=MOST_ENTRIES):
        its |= start.object(GENERATION, largest=LARGEST_CONFIGURATION)
    for key in _SPECIAL_IDS:
        if own.get(key) is not None and own[key] != its.get(key):
            yield Rule.CONFIGURATION, f"{key} = {_short(own[key])}, the start has {_short(its.get(key))}"


def _tokenizer(mine: Folder, start: Folder) -> Iterator[Fault]:
    own, its = (
        {name for name in folder.names(most=MOST_ENTRIES) if any(matches(glob, name) for glob in TOKENIZER_FILES)}
        for folder in (mine, start)
    )
    for name in sorted(own | its):
        if name not in own:
            says = "the start has it, the checkpoint has not"
        elif name not in its:
            says = "the start has no such file"
        elif _differs(mine, start, name):
            says = "it is not the start's, byte for byte"
        else:
            continue
        yield Fault(rule=Rule.TOKENIZER, path=name, says=f"{says}; copy the start's tokenizer files as they are")


def _differs(mine: Folder, start: Folder, name: str) -> bool:
    if mine.status(name).st_size != start.status(name).st_size:
        return True
    return file_sha256(mine, name) != file_sha256(start, name)


def _keys_within(value: Any) -> set[str]:
    """All keys of an object and of the objects inside it."""
    found: set[str] = set()
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            found |= one.keys()
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return found


def _short(value: Any) -> str:
    return repr(value)[:80]
