"""The fixed inputs: found once, digested, and digested again before and after every use.

inputs.lock.json      role → where it lies and its digest, as they were when the attempt was made
inputs/train.jsonl    where the task leaves rows out: a file of nothing but the others, made for the attempt
"""

from collections.abc import Mapping
from pathlib import Path

from opd.protocol.attempts.attempt import Attempt
from opd.protocol.packages.problems import choose
from opd.records.errors import AnswerIsNo, AskedWrongly
from opd.records.files import digest, read_json, sha256, tree, write_json
from opd.records.places import SHIPPED, locate
from opd.records.settings import Settings, validated
from opd.records.tasks import Contract, DataInput, ModelInput

INPUTS_LOCK = "inputs.lock.json"
MADE = "inputs"


class Fixed(Settings):
    """One fixed input."""

    role: str
    """student, teacher, data or verifier."""
    path: str
    """Absolute; relative to the attempt where it was made for it."""
    sha256: str
    """Of a file's bytes; of a directory as in `Score.model_digest`."""


class Inputs(Settings):
    """`inputs.lock.json`."""

    fixed: tuple[Fixed, ...]

    def path(self, role: str) -> Path:
        """Where the input of this role lies."""
        return Path(self._one(role).path)

    def sha256(self, role: str) -> str:
        """Its digest when the attempt was made."""
        return self._one(role).sha256

    def _one(self, role: str) -> Fixed:
        return next(one for one in self.fixed if one.role == role)

    def under(self, attempt_folder: Path) -> "Inputs":
        """The same with every path absolute."""
        here = attempt_folder.absolute()
        return Inputs(fixed=tuple(one.model_copy(update={"path": str(here / one.path)}) for one in self.fixed))


def find(contract: Contract, given: Mapping[str, Path], *, made_in: Path | None = None) -> Inputs:
    """Every fixed input of a task, digested; `given` says where one lies that doesn't ship and isn't at hand.

    `made_in` is the attempt's folder: there goes the file of the rows that take part, where the task leaves some out.
    Raises `AskedWrongly` for one that isn't found, or for a role that the task doesn't have, and `AnswerIsNo` for
    one that is not what the task pins.
    """
    unknown = given.keys() - contract.fixed_inputs.keys()
    if unknown:
        raise AskedWrongly(f"the task has no input {sorted(unknown)}; it has {', '.join(contract.fixed_inputs)}")
    found = []
    for role, wanted in contract.fixed_inputs.items():
        path = given[role].expanduser().absolute() if role in given else _place(role, wanted)
        if isinstance(wanted, DataInput) and wanted.where:
            assert made_in is not None, "an attempt's folder, for a task that leaves rows out"
            found.append(_made(role, wanted, path, made_in))
            continue
        measured = measure(path)
        _check_pinned(role, wanted, path, measured)
        found.append(Fixed(role=role, path=str(path), sha256=measured))
    return Inputs(fixed=tuple(found))


def lock(attempt_folder: Path, inputs: Inputs) -> None:
    """Writes inputs.lock.json, once."""
    write_json(attempt_folder / INPUTS_LOCK, inputs.resolved())


def locked(attempt: Attempt) -> Inputs:
    """What inputs.lock.json holds, with every path absolute."""
    path = attempt.folder / INPUTS_LOCK
    return validated(Inputs, read_json(path), source=str(path)).under(attempt.folder)


def changed(inputs: Inputs) -> tuple[str, ...]:
    """A sentence for each input that is no longer what it was, after all have been read again."""
    sentences = []
    for one in inputs.fixed:
        try:
            measured = measure(Path(one.path))
        except (OSError, AskedWrongly) as error:
            sentences.append(f"the {one.role} {one.path} can't be read any more: {error}")
            continue
        if measured != one.sha256:
            sentences.append(f"the {one.role} {one.path} was {one.sha256[:12]}…, and is {measured[:12]}…")
    return tuple(sentences)


def measure(path: Path) -> str:
    """The digest of a file, or of a directory's files by name and bytes."""
    if path.is_dir():
        return digest(tree(path))
    if path.is_file():
        return sha256(path)
    raise AskedWrongly(f"{path} does not exist")


def _made(role: str, wanted: DataInput, path: Path, folder: Path) -> Fixed:
    """The rows that take part, in a file of their own: what is left out is not there to be had."""
    if not path.is_file():
        raise AskedWrongly(f"the {role} {path} is no file; say where it lies: --input {role}=PATH")
    name = f"{MADE}/train{path.suffix}"
    choose(wanted, path, folder / name)
    return Fixed(role=role, path=name, sha256=wanted.given_sha256)


def _place(role: str, wanted: ModelInput | DataInput) -> Path:
    source = wanted.source
    candidates = [locate(source)] if source.startswith(SHIPPED) else [Path(source), Path("data") / Path(source).name]
    for path in candidates:
        if path.exists():
            return path.resolve()
    if isinstance(wanted, ModelInput):
        return _fetched(role, wanted)
    raise AskedWrongly(f"the {role} {source} is not at hand; say where it lies: --input {role}=PATH")


def _fetched(role: str, wanted: ModelInput) -> Path:
    """The directory of a model of the hub, fetched where there is a network."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(wanted.source, revision=wanted.revision)).resolve()
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise AskedWrongly(
            f"the {role} {wanted.source} is neither here nor to be had ({reason}); say where: --input {role}=DIR"
        ) from error


def _check_pinned(role: str, wanted: ModelInput | DataInput, path: Path, measured: str) -> None:
    pinned = wanted.sha256 if isinstance(wanted, DataInput) else wanted.files_sha256
    if pinned is not None and measured != pinned:
        raise AnswerIsNo(f"the {role} {path} has digest {measured[:12]}…, and the task pins {pinned[:12]}…")
