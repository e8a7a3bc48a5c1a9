"""The judge's own programs, `opd evaluate` and `opd load` of the install: in a sandbox, with their code looked at."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from opd.protocol.clock import Deadline
from opd.protocol.install import check_install, program
from opd.protocol.machine import Machine
from opd.protocol.sandbox.ladder import new_mark
from opd.protocol.sandbox.view import Word
from opd.protocol.supervision.supervise import Ended, supervise
from opd.protocol.supervision.usage import Sample
from opd.protocol.views import judge_view
from opd.protocol.words import one_line
from opd.records.tasks import Contract

GRACE_SECONDS = 5.0
_SAID = 400  # characters of a program's last words that a sentence holds


class Judge:
    """How this install judges, on this machine."""

    def __init__(self, contract: Contract, machine: Machine, *, code_sha256: str) -> None:
        self._contract = contract
        self._machine = machine
        self.code_sha256 = code_sha256  # of the install, when the attempt was made

    def run(
        self,
        arguments: Sequence[Word],
        *,
        artifact: Path,
        result: Path,
        logs: Path,
        deadline: Deadline,
        others: Mapping[PurePosixPath, Path] | None = None,
        stop: Callable[[], str | None] = lambda: None,
        tick: Callable[[Sample], None] = lambda _: None,
        started: Callable[[str], None] = lambda _: None,
    ) -> Ended:
        """How `opd ARGUMENTS` ended, with what it printed in `logs`; `started` is told its mark, just before.

        Raises `AnswerIsNo` when the code that judges is not what it was when the attempt was made, before or after.
        """
        check_install(self.code_sha256)
        view = judge_view(
            contract=self._contract, artifact=artifact, result=result, others=others or {}, gpus=self._machine.gpus
        )
        mark = new_mark()
        started(mark)
        ended = supervise(
            self._machine.rung.command(view, [*program(), *arguments], mark=mark),
            deadline=deadline,
            grace_seconds=GRACE_SECONDS,
            out=logs / "stdout.log",
            err=logs / "stderr.log",
            stop=stop,
            tick=tick,
        )
        check_install(self.code_sha256)
        return ended


def last_words(logs: Path) -> str:
    """The last line that a program printed as an error, for people: nothing is decided by it."""
    try:
        lines = (logs / "stderr.log").read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return ""
    return next((said for line in reversed(lines) if (said := one_line(line, most=_SAID))), "")
