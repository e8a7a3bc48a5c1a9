"""How a program is started on a rung: the command that makes the sandbox, and the orders of its first process.

    supervisor ──starts──> sandbox ──> first process ──> program …
         └───────── a socket: orders, and how it ended ──────┘

The orders travel over a socket that the program can't reach, so that no list of processes shows them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from opd.protocol.sandbox import view as seen
from opd.protocol.sandbox.layout import INSIDE, interpreter
from opd.protocol.sandbox.view import Limits, View, Word
from opd.protocol.supervision.processes import MARK

# Isolated, without site and without caches: neither the folder, the environment nor an installed package decides what
# runs. The folder goes last, so that nothing in it stands in for a module of the standard library.
_BOOT = (
    "import os, sys; sys.path.append(os.path.dirname(sys.argv[1]));"
    "from inside.{module} import main; main(sys.argv[2:])"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What the first process is told to start, and what it gives up on the program's behalf."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    limits: Limits = field(default_factory=Limits)
    counts_user: bool = False  # the limit of processes is one of the user, who has others already
    drops_capabilities: bool = False
    landlock: Sequence[tuple[str, str]] | None = None  # what is granted: a path, and which right
    seccomp: Literal["surface", "network"] | None = None
    afterwards: Sequence[str] = ()  # a command that is run when everything has ended

    def to_json(self, *, memory_by_process: bool) -> str:
        """One line; `memory_by_process`: no control group counts the memory, so each process is held to the limit."""
        values = {
            "argv": list(self.argv),
            "environment": dict(self.environment),
            "folder": self.folder,
            "processes": self.limits.processes,
            "counts_user": self.counts_user,
            "file_bytes": self.limits.file_bytes,
            "data_bytes": self.limits.memory_bytes if memory_by_process else None,
            "drops_capabilities": self.drops_capabilities,
            "landlock": self.landlock,
            "seccomp": self.seccomp,
            "afterwards": list(self.afterwards),
        }
        return json.dumps(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What `supervise` starts. The number of the socket's descriptor is put behind `argv`."""

    rung: str
    argv: tuple[str, ...]
    orders: Orders
    mark: str  # of the environment and of the control group, by which what was left is found
    own_processes: bool  # in a process namespace: when its first process ends, the kernel ends all
    own_group: bool = True  # a control group is made for it, where that is allowed
    folders: tuple[Path, ...] = ()  # made before, removed with all in them afterwards


def unmoved(rung: str, view: View, argv: Sequence[Word], *, mark: str, **orders: Any) -> Launch:
    """The launch on a rung without mounts of its own: every target lies where its source does."""
    return Launch(
        rung=rung,
        argv=tuple(first_process("init")),
        orders=Orders(
            argv=seen.words(argv, view=view, moved=False),
            environment=marked_environment(seen.environment(view, moved=False), mark),
            folder=view.unmoved(view.folder),
            limits=view.limits,
            counts_user=True,
            **orders,
        ),
        mark=mark,
        own_processes=False,
        folders=view.empty_folders,
    )


def first_process(module: Literal["init", "roots"], *words: str, inside: str = str(INSIDE)) -> list[str]:
    """The command of the first process; `inside` is where its code lies for it."""
    return [*start(module), inside, *words]


def start(module: str) -> list[str]:
    """The command that starts a module of `inside/`, up to the first word behind it: where that folder lies."""
    return [interpreter(), "-I", "-S", "-B", "-c", _BOOT.format(module=module)]


def marked_environment(environment: Mapping[str, str], mark: str) -> dict[str, str]:
    """The environment with the mark in it."""
    return {**environment, MARK: mark}
