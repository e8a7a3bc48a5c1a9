"""The last rung: a session of its own, whose processes are found and ended. It prevents nothing else.

What a stage forbids is then detected by digests before and after, and the report says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from opd.protocol.sandbox.launch import Launch, unmoved
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
        return unmoved(self.name, view, argv, mark=mark)
