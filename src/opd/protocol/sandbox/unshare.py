"""The second rung: the same namespaces, made by a small program of ours where bubblewrap is not installed."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath

from opd.protocol.sandbox.bubblewrap import namespaced_orders
from opd.protocol.sandbox.inside import kernel
from opd.protocol.sandbox.launch import Launch, first_process
from opd.protocol.sandbox.layout import layout
from opd.protocol.sandbox.view import Guarantee, View, Word


@dataclass(frozen=True, slots=True)
class Unshare:
    """Everything of the host that isn't in the view does not exist for the program."""

    name = "unshare"
    prevents = frozenset(Guarantee)

    def missing(self) -> str | None:
        """What this machine lacks to try it; None: nothing."""
        known = kernel.machine() in {"x86_64", "aarch64"}
        return None if known else f"the numbers of system calls on {kernel.machine()} are not known here"

    def version(self) -> str:
        """Which program makes the namespaces."""
        return "own"

    def path(self, view: View, target: PurePosixPath) -> str:  # noqa: ARG002
        """Where a target lies for the program: there."""
        return str(target)

    def command(self, view: View, argv: Sequence[Word], *, mark: str) -> Launch:
        """How a program is started in this view."""
        plan = {"steps": [asdict(step) for step in layout(view)], "scratch_bytes": view.limits.scratch_bytes}
        return Launch(
            rung=self.name,
            argv=tuple(first_process("roots", json.dumps(plan))),
            orders=namespaced_orders(view, argv, mark=mark),
            mark=mark,
            own_processes=True,
        )
