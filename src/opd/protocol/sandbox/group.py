"""The last rung: a session of its own, whose processes are found and ended. It prevents nothing else.

What a stage forbids is then detected by digests before and after, and the report says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from opd.protocol.sandbox import view as seen
from opd.protocol.sandbox.launch import Launch, Orders, first_process, marked_environment
from opd.protocol.sandbox.view import Guarantee, View, Word


@dataclass(frozen=True, slots=True)
class Group:
    """The host as it is; whatever detaches itself is adopted by the first process, and ended with the rest."""

    name = "group"
    prevents = frozenset({Guarantee.DAEMONS})

    def missing(self) -> str | None:
        """Nothing is needed."""
        return None

    def version(self) -> str:
        """There is nothing that has one."""
        return "own"

    def path(self, view: View, target: PurePosixPath) -> str:
        """Where a target lies for the program: at its source."""
        return view.unmoved(target)

    def command(self, view: View, argv: Sequence[Word], *, mark: str) -> Launch:
        """How a program is started with this view's paths."""
        orders = Orders(
            argv=seen.words(argv, view=view, moved=False),
            environment=marked_environment(seen.environment(view, moved=False), mark),
            folder=self.path(view, view.folder),
            limits=view.limits,
            counts_user=True,
        )
        return Launch(
            rung=self.name,
            argv=tuple(first_process("init")),
            orders=orders,
            mark=mark,
            own_processes=False,
            folders=view.empty_folders,
        )
