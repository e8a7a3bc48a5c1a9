"""The ladder of sandboxes, best first, and the highest rung that this machine gives.

    bubblewrap   namespaces for files, processes, network, users …        unshare   the same, without bubblewrap
    landlock     rights given up, and a filter of system calls            group     processes found and ended; no more
    docker, podman   the same guarantees as the first, in a container; taken only when asked for

A rung is taken when a program has really run in it. Why the higher ones are not is kept and told.
"""

import secrets
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from opd.protocol.clock import Deadline, Stopwatch
from opd.protocol.sandbox.bubblewrap import Bubblewrap
from opd.protocol.sandbox.containers import Container
from opd.protocol.sandbox.group import Group
from opd.protocol.sandbox.landlock import Landlock
from opd.protocol.sandbox.launch import Launch
from opd.protocol.sandbox.unshare import Unshare
from opd.protocol.sandbox.view import Guarantee, View, Word
from opd.protocol.supervision.supervise import supervise
from opd.records.errors import AskedWrongly

AUTO = "auto"
_TRIAL_SECONDS = 30.0


class Rung(Protocol):
    """One way to start a program with a view."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def prevents(self) -> frozenset[Guarantee]:
        """What a program in it can't do; the rest is detected at best."""

    def missing(self) -> str | None:
        """What this machine plainly lacks for it; None: it may work."""

    def version(self) -> str:
        """Of what it is made with."""

    def path(self, view: View, target: PurePosixPath) -> str:
        """Where a target of the view lies for the program."""

    def command(self, view: View, argv: Sequence[Word], *, mark: str) -> Launch:
        """How a program is started in this view; `mark` tells its processes from all others."""


RUNGS: tuple[Rung, ...] = (Bubblewrap(), Unshare(), Landlock(), Group())
BY_NAME: Mapping[str, Rung] = {
    rung.name: rung for rung in (*RUNGS, Container(program="docker"), Container(program="podman"))
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A rung, and why not one of those above it."""

    rung: Rung
    refused: Mapping[str, str]  # in the order in which they were tried


def new_mark() -> str:
    """A mark that nothing else has."""
    return secrets.token_hex(8)


def choose(asked: str = AUTO) -> Rung:
    """The highest rung that works here, or the one that is asked for; `AskedWrongly` where that one doesn't."""
    return climb(asked).rung


def climb(asked: str = AUTO) -> Chosen:
    """The same, with the reasons against those that were tried before."""
    if sys.platform != "linux":
        raise AskedWrongly(f"sandboxes need Linux, and this is {sys.platform}; use a container or a virtual machine")
    if asked != AUTO:
        if asked not in BY_NAME:
            raise AskedWrongly(f"sandbox {asked!r}: there are {AUTO}, {', '.join(BY_NAME)}")
        if (reason := lacks(BY_NAME[asked])) is not None:
            raise AskedWrongly(f"sandbox {asked} doesn't work here: {reason}; ask for another, or for {AUTO}")
        return Chosen(rung=BY_NAME[asked], refused={})
    refused: dict[str, str] = {}
    for rung in RUNGS:
        if (reason := lacks(rung)) is None:
            return Chosen(rung=rung, refused=refused)
        refused[rung.name] = reason
    tried = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
    raise AskedWrongly(f"no sandbox works on this machine, a plain process group neither: {tried}")


def lacks(rung: Rung) -> str | None:
    """Why a program can't run in it here, found by running one; None: it ran."""
    if (reason := rung.missing()) is not None or rung not in RUNGS:
        return reason  # a container needs an image, which is known later: its first program is the trial
    with tempfile.TemporaryDirectory(prefix="opd-trial-") as name:
        folder = Path(name)
        view = View(mounts=(), folder=PurePosixPath("/"), environment={"PATH": "/usr/bin:/bin"})
        ended = supervise(
            rung.command(view, ["true"], mark=new_mark()),
            deadline=Deadline(Stopwatch(), seconds=_TRIAL_SECONDS),
            grace_seconds=0.0,
            out=folder / "out",
            err=folder / "err",
        )
        if ended.reason == "ended" and ended.exit_code == 0:
            return None
        said = (folder / "err").read_text(errors="replace").strip().splitlines()[-1:]
    told = [ended.stopped_because or f"a trial ended by {ended.reason}, exit code {ended.exit_code}", *said]
    return ": ".join(dict.fromkeys(told))
