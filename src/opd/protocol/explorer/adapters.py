"""How a harness is started, and what its own record says: `explorer/harnesses/<name>.py` with `ADAPTER` is one.

    command       any program; what it prints is its record, and what its shells ran its steps
    claude-code   Claude Code, headless
    codex         Codex, headless

The instruction reaches a harness on its standard input. A task gives an explorer no network; a harness that asks a
model does so through `endpoint.py`, by a socket at which somebody answers who holds the key.
"""

import importlib
import pkgutil
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from opd.protocol.explorer import harnesses
from opd.protocol.explorer.draft import Draft
from opd.protocol.explorer.native import Times
from opd.protocol.sandbox.view import Value, Word
from opd.records.errors import AskedWrongly
from opd.records.files import digest, sha256
from opd.records.tasks import Contract

COMMAND = "command"
_FED = 'exec "$@" <"$0"'  # of sh, which reads no BASH_ENV: the recorder does not see this
_ASKED_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How the program of an explorer is started in its sandbox."""

    argv: tuple[Word, ...]
    variables: Mapping[str, Value]  # beside those that every explorer gets


@dataclass(frozen=True, slots=True, kw_only=True)
class Through:
    """How a harness reaches its model."""

    python: str  # an interpreter of the sandbox
    program: PurePosixPath  # where endpoint.py lies in it
    socket: PurePosixPath  # where the socket lies in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The files of an exploration that say what was done in it. Any of them may be missing."""

    record: Path  # the harness's own
    times: Times  # of its lines
    commands: Path  # commands.jsonl: what the explorer's shells ran
    desk: Path  # desk.jsonl: what it asked of us


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """One harness."""

    name: str
    program: str | None  # what its name alone stands for; a command that starts so is this harness
    native: str  # file name of its own record
    arguments: Callable[[str | None, str | None], Sequence[str]]  # of model and effort, behind the command
    read: Callable[[Sources, Draft], None]  # the record, into a draft that holds the instruction already
    variables: Mapping[str, Value] = field(default_factory=dict)
    needs_model: bool = True  # whether it does nothing without an endpoint

    def start(
        self, command: Sequence[str], *, model: str | None, effort: str | None, instruction: PurePosixPath,
        through: Through | None = None,
    ) -> Start:  # fmt: skip
        """How it is started; `instruction` is where the text lies that it reads from its standard input."""
        told: dict[str, Value] = {"OPD_INSTRUCTION": instruction}
        told |= {name: value for name, value in (("OPD_MODEL", model), ("OPD_EFFORT", effort)) if value is not None}
        relay = (through.python, "-I", through.program, through.socket) if through else ()
        return Start(
            argv=("/bin/sh", "-c", _FED, instruction, *relay, *command, *self.arguments(model, effort)),
            variables={**self.variables, **told},
        )

    def version(self, command: Sequence[str]) -> str:
        """What the harness says of itself, asked here and not in the sandbox; of a command the digest of its files.

        Raises `AskedWrongly` for a harness that isn't installed or doesn't answer.
        """
        if self.program is None:
            return _digest(command)
        try:
            asked = subprocess.run(
                [command[0], "--version"], capture_output=True, text=True, check=True, timeout=_ASKED_SECONDS
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise AskedWrongly(f"{command[0]} --version gives no answer ({error}); is it installed?") from error
        return asked.stdout.strip().split("\n")[0] or "unknown"


def names() -> tuple[str, ...]:
    """The harnesses that there are."""
    return tuple(sorted(one.name.replace("_", "-") for one in pkgutil.iter_modules(harnesses.__path__)))


def adapter_of(harness: str) -> Adapter:
    """The adapter of that name; `AskedWrongly` where there is none."""
    if harness not in names():
        raise AskedWrongly(f"no harness {harness!r}; there are: {', '.join(names())}")
    module = importlib.import_module(f"{harnesses.__name__}.{harness.replace('-', '_')}")
    adapter: Adapter = module.ADAPTER
    return adapter


def recognised(command: str) -> tuple[str, tuple[str, ...]]:
    """The harness that a command line starts, and its words; a harness's name alone stands for its own program.

    Raises `AskedWrongly` for a line without a word, or with a quotation that doesn't end.
    """
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise AskedWrongly(f"{command!r} is no command: {error}") from error
    if not words:
        raise AskedWrongly("the agent is a command: a program with its arguments, or one of claude-code, codex")
    for name in names():
        program = adapter_of(name).program
        if program is not None and words[0] == name:
            return name, (program, *words[1:])
        if program is not None and Path(words[0]).name == program:
            return name, words
    return COMMAND, words


def check_reachable(adapter: Adapter, contract: Contract, *, endpoint: Path | None) -> None:
    """Nothing, where the harness can reach its model; `AskedWrongly` where it can't, with what to do."""
    if endpoint is not None and not endpoint.is_socket():
        raise AskedWrongly(
            f"{endpoint} is no socket; the endpoint is a Unix socket at which a model's server answers"
        )
    if adapter.needs_model and endpoint is None and not contract.needs.network:
        raise AskedWrongly(
            f"{adapter.name} asks a model over the network, and this task gives an explorer none: name a Unix socket "
            "at which a model's server answers, --endpoint SOCKET"
        )


def _digest(command: Sequence[str]) -> str:
    """One digest over the files that a command names: the program that is found, and scripts among the words."""
    places = {word: Path(shutil.which(word) or word) for word in command}
    found = {word: sha256(place) for word, place in places.items() if place.is_file()}
    return f"sha256:{digest(found)[:16]}" if found else "unknown"
