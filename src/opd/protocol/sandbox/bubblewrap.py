"""The first rung: bubblewrap makes namespaces for everything, as root or as an ordinary user."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from opd.protocol.sandbox import view as seen
from opd.protocol.sandbox.inside import seccomp
from opd.protocol.sandbox.launch import Launch, Orders, first_process, marked_environment
from opd.protocol.sandbox.layout import INSIDE_TARGET, Step, layout
from opd.protocol.sandbox.view import Guarantee, View, Word

PROGRAM = "bwrap"
_ISOLATION = (
    *("--unshare-all", "--unshare-user", "--disable-userns"),
    *("--uid", "1000", "--gid", "1000", "--hostname", "opd"),
    *("--cap-drop", "ALL", "--new-session", "--die-with-parent", "--as-pid-1", "--clearenv"),
)


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """Everything of the host that isn't in the view does not exist for the program."""

    name = "bubblewrap"
    prevents = frozenset(Guarantee)

    def missing(self) -> str | None:
        """What this machine lacks to try it; None: nothing."""
        return None if shutil.which(PROGRAM) else f"{PROGRAM} is not installed (package bubblewrap)"

    def version(self) -> str:
        """What the program says of itself."""
        asked = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True)
        return asked.stdout.strip().removeprefix("bubblewrap ")

    def path(self, view: View, target: PurePosixPath) -> str:  # noqa: ARG002
        """Where a target lies for the program: there."""
        return str(target)

    def command(self, view: View, argv: Sequence[Word], *, mark: str) -> Launch:
        """How a program is started in this view."""
        program = shutil.which(PROGRAM) or PROGRAM
        steps = [word for step in layout(view) for word in arguments(step, view.limits.scratch_bytes)]
        inner = first_process("init", inside=INSIDE_TARGET)
        return Launch(
            rung=self.name,
            argv=(program, *_ISOLATION, *steps, "--remount-ro", "/", "--chdir", "/", "--", *inner),
            orders=namespaced_orders(view, argv, mark=mark),
            mark=mark,
            own_processes=True,
        )


def namespaced_orders(view: View, argv: Sequence[Word], *, mark: str) -> Orders:
    """The orders where the program has a file tree of its own."""
    return Orders(
        argv=seen.words(argv, view=view, moved=True),
        environment=marked_environment(seen.environment(view, moved=True), mark),
        folder=str(view.folder),
        limits=view.limits,
        drops_capabilities=True,
        seccomp="surface" if seccomp.offered() else None,
    )


def arguments(step: Step, scratch_bytes: int | None) -> list[str]:
    """The options of bubblewrap for one step."""
    size = ["--size", str(scratch_bytes)] if scratch_bytes is not None else []
    options = {
        "read": ["--ro-bind", step.source, step.target],
        "write": ["--bind", step.source, step.target],
        "device": ["--dev-bind", step.source, step.target],
        "empty": ["--perms", "1777", *size, "--tmpfs", step.target],
        "covered": ["--tmpfs", step.target, "--remount-ro", step.target],
        "link": ["--symlink", step.source, step.target],
        "proc": ["--proc", step.target],
        "dev": ["--dev", step.target],
    }
    return options[step.kind]
