"""Paths on the command line: `~` is a home folder there, quoted or not."""

from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem


class UserPath(click.ParamType[Path]):
    """A path, with a leading `~` taken as the shell would have taken it."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:  # noqa: ARG002
        """The path that was typed."""
        return Path(value).expanduser()

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Files and folders, as the shell finds them."""
        return [CompletionItem(incomplete, type="file")]
