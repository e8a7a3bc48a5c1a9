"""On-policy distillation of math reasoners, with the discipline of a formal experiment around it.

`opd.open("runs/train")` gives a run, a score or an attempt as an object, with its tables; see docs/python.md.
"""

TYPE_CHECKING = False  # typing.TYPE_CHECKING would load typing
if TYPE_CHECKING:
    from opd.view.runs.objects import open as open  # noqa: A004  # it is `opd.open`

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """`open`, loaded when it is first asked for: `import opd` loads nothing, and every command begins with it."""
    if name == "open":
        from importlib import import_module

        return import_module("opd.view.runs.objects").open
    raise AttributeError(f"module 'opd' has no attribute {name!r}")
