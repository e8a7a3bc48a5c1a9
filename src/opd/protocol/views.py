"""What each kind of program sees: the explorer, the candidate's training, and the judge's own programs.

    explorer    its workspace and a place for its runs, the fixed inputs, its commands; the install hidden
    candidate   a fresh checkout, in which its checkpoints go, and the fixed inputs; the install hidden
    judge       the install, one artifact, a place for its result; nothing of the other two is in its reach

All of them without network, with an environment of its own, and with this interpreter and its packages.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from opd.protocol.inputs import Inputs
from opd.protocol.phases import ARTIFACT, COMMANDS, RUNS, STATE, STUDENT, TEACHER, WORKSPACE, data_place
from opd.protocol.sandbox.view import Limits, Mount, Value, View, own_code, python_mounts
from opd.records.tasks import Contract

RESULT = PurePosixPath("/result")
ENDPOINT = PurePosixPath("/opd/endpoint")  # a socket
_HOME = PurePosixPath("/home/opd")
_TEMPORARY = PurePosixPath("/tmp")  # noqa: S108  the sandbox's own
SCRATCH = (_HOME, _TEMPORARY)  # empty at the beginning, and gone afterwards
_SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin")


def explorer_view(
    *, contract: Contract, inputs: Inputs, workspace: Path, runs: Path, commands: Path, state: Path,
    shown: Sequence[str], endpoint: str | None, variables: Mapping[str, Value], gpus: Mapping[str, str],
) -> View:  # fmt: skip
    """Of exploration; `shown` are paths that it sees besides, as they are."""
    return View(
        mounts=(
            *_interpreter(),
            *_fixed(contract, inputs),
            Mount(source=workspace, target=WORKSPACE, writable=True),
            Mount(source=runs, target=RUNS, writable=True),
            Mount(source=commands, target=COMMANDS),
            Mount(source=state, target=STATE),
            *(Mount(source=Path(path), target=PurePosixPath(path)) for path in shown),
            *([Mount(source=Path(endpoint), target=ENDPOINT)] if endpoint else []),
        ),
        folder=WORKSPACE,
        environment={
            **_environment(COMMANDS),
            **_inputs_as_variables(contract),
            "PYTHONDONTWRITEBYTECODE": "1",  # what Python makes beside sources is no part of a patch
            "RUNS": RUNS,
            **gpus,
            **variables,
        },
        hidden=own_code(),
        gpu=contract.needs.gpus > 0,
        limits=_limits(contract),
    )


def candidate_view(*, contract: Contract, inputs: Inputs, checkout: Path, gpus: Mapping[str, str]) -> View:
    """Of formal training: what `bash run.sh` sees, with the five variables of the contract."""
    budgets = contract.budgets
    return View(
        mounts=(
            *_interpreter(),
            *_fixed(contract, inputs),
            Mount(source=checkout, target=WORKSPACE, writable=True),
        ),
        folder=WORKSPACE,
        environment={
            **_environment(),
            **_inputs_as_variables(contract),
            "MAX_WALL_TIME_SECONDS": f"{budgets.formal_seconds:g}",
            "DEADLINE_RESERVE_SECONDS": f"{budgets.reserve_seconds:g}",
            **gpus,
        },
        hidden=own_code(),
        gpu=contract.needs.gpus > 0,
        limits=_limits(contract),
    )


def judge_view(
    *, contract: Contract, artifact: Path, result: Path, others: Mapping[PurePosixPath, Path], gpus: Mapping[str, str]
) -> View:
    """Of `opd load` and `opd evaluate`: the install is what it runs from, and the artifact is data."""
    package = own_code()[0]
    shown = tuple(Mount(source=path, target=place) for place, path in others.items())
    covered = any(mount.source and package.is_relative_to(mount.source.resolve()) for mount in _interpreter())
    code = () if covered else (Mount(source=package, target=PurePosixPath(package)),)
    return View(
        mounts=(
            *_interpreter(),
            *code,
            *shown,
            Mount(source=artifact, target=ARTIFACT),
            Mount(source=result, target=RESULT, writable=True),
        ),
        folder=PurePosixPath("/"),
        environment={**_environment(), **gpus},
        gpu=contract.needs.gpus > 0,
        limits=_limits(contract),
    )


def _interpreter() -> tuple[Mount, ...]:
    return (
        *python_mounts(),
        Mount(source=None, target=_HOME, writable=True),
        Mount(source=None, target=_TEMPORARY, writable=True),
    )


def _fixed(contract: Contract, inputs: Inputs) -> tuple[Mount, ...]:
    places = {"student": STUDENT, "teacher": TEACHER, "data": data_place(contract)}
    return tuple(Mount(source=inputs.path(role), target=place) for role, place in places.items())


def _inputs_as_variables(contract: Contract) -> dict[str, Value]:
    return {"STUDENT_MODEL": STUDENT, "TEACHER_MODEL": TEACHER, "TRAIN_DATA": data_place(contract)}


def _environment(*first: PurePosixPath) -> dict[str, Value]:
    """Nothing of the caller's: a variable that isn't here can't decide a result."""
    python = str(Path(sys.executable).parent)
    return {
        "PATH": (*first, python, *_SYSTEM_PATH),
        "HOME": _HOME,
        "TMPDIR": _TEMPORARY,
        "LANG": "C.UTF-8",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


def _limits(contract: Contract) -> Limits:
    needs = contract.needs
    return Limits(processes=needs.processes, memory_bytes=needs.memory_bytes, file_bytes=needs.disk_bytes)
