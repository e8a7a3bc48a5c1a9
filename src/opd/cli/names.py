"""Arguments that are a name of what ships, or else a file: the shell offers the names first.

What is offered is read off the folders, so that a shell need not wait for what the verb itself would load.
"""

from collections.abc import Callable, Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem

from opd.records.places import PACKAGE, shipped_recipes


class Name(click.ParamType[str]):
    """A text, which the verb looks up. `known` are the names that a shell offers."""

    def __init__(self, kind: str, known: Callable[[], Iterable[str]]) -> None:
        self.name = kind
        self._known = known

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002
        """The text as it was typed."""
        return str(value)

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """The names that begin so; files, where none does."""
        found = [CompletionItem(one) for one in sorted(self._known()) if one.startswith(incomplete)]
        return found or [CompletionItem(incomplete, type="file")]


RECIPE = Name("recipe", shipped_recipes)
BENCHMARK = Name("benchmark", lambda: (path.stem for path in (PACKAGE / "evaluate/benchmarks").glob("[!_]*.py")))
TASK = Name("task", lambda: (path.parent.name for path in (PACKAGE / "tasks").glob("*/task.toml")))
