"""The GPU driver's own program, asked in one way by who claims GPUs, who measures them, and who looks for faults."""

import shutil

from opd.protocol.supervision.asking import Answer, ask

PROGRAM = "nvidia-smi"
_FORM = "--format=csv,noheader,nounits"


def is_installed() -> bool:
    """Whether there is a driver to be asked."""
    return shutil.which(PROGRAM) is not None


def asked(query: str, *, limit_seconds: float) -> Answer | None:
    """What it answers to `--query-…`, a line each; None where there is no driver, or no answer in time."""
    program = shutil.which(PROGRAM)
    return None if program is None else ask([program, query, _FORM], limit_seconds=limit_seconds, complaints=True)


def rows(query: str, *, limit_seconds: float) -> list[list[str]] | None:
    """The cells of each line of its answer; None where there is no driver, no answer in time, or an error."""
    answer = asked(query, limit_seconds=limit_seconds)
    if answer is None or answer.code != 0:
        return None
    return [[cell.strip() for cell in line.split(",")] for line in answer.text.splitlines() if line.strip()]
