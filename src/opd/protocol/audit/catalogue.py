"""Which checks there are: each file of `checks/`, by its name, in the order of the axes."""

import importlib
import pkgutil

from opd.protocol.audit import checks as folder
from opd.protocol.audit.check import Check
from opd.records.audits import Axis


def checks() -> dict[str, Check]:
    """All of them."""
    names = sorted(module.name for module in pkgutil.iter_modules(folder.__path__))
    found = {name: _load(name) for name in names}
    order = list(Axis)
    return dict(sorted(found.items(), key=lambda one: (order.index(one[1].axis), one[0])))


def _load(name: str) -> Check:
    found: Check = importlib.import_module(f"{folder.__name__}.{name}").CHECK
    return found
