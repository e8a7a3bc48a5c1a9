"""The text of `declaration.py`: the contract as one Python value that `ast.literal_eval` reads. It is never run."""

from collections.abc import Iterator
from typing import Any

from opd.protocol.phases import phases
from opd.records.tasks import Task

_HEAD = '''"""The contract of {name}, as data: rendered from task.toml, read as a literal, never imported.

Mounts are (what, place inside, writable).
"""

TASK = {value}
'''
_WIDTH = 110
_BRACKETS: dict[type, tuple[str, str]] = {dict: ("{", "}"), list: ("[", "]"), tuple: ("(", ")")}


def declaration(task: Task) -> str:
    """The text for this task."""
    return _HEAD.format(name=task.name, value=_literal(declared(task), ""))


def declared(task: Task) -> dict[str, Any]:
    """The value that the file declares."""
    contract = task.contract
    values = contract.resolved()
    return {
        "name": task.name,
        "version": task.task.version,
        "contract_sha256": contract.digest,
        "start": values["student"],
        **{name: values[name] for name in ("teacher", "verifier", "data", "surface", "budgets", "proxy", "final")},
        **{name: values[name] for name in ("artifacts", "references", "forbidden", "needs", "tools")},
        "phases": {
            phase.name: {
                "seconds": phase.seconds,
                "command": phase.command,
                "mounts": [(given.what, str(given.place), given.writable) for given in phase.given],
                "variables": dict(phase.variables),
                "withheld": list(phase.withheld),
            }
            for phase in phases(contract)
        },
    }


def _literal(value: Any, indent: str) -> str:
    """The value as Python writes it: on one line where it fits, else a line for each part."""
    flat = repr(value)
    if not isinstance(value, dict | list | tuple) or len(indent) + len(flat) <= _WIDTH:
        return flat
    opening, closing = _BRACKETS[type(value)]
    inner = indent + "    "
    return "\n".join([opening, *(f"{inner}{part}," for part in _parts(value, inner)), f"{indent}{closing}"])


def _parts(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (f"{key!r}: {_literal(one, indent)}" for key, one in value.items())
    else:
        yield from (_literal(one, indent) for one in value)
