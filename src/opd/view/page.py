"""A page from a template of this folder: all text is escaped, and a name that nobody gave is an error."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

import opd


def page(template: str, *, filters: Mapping[str, Callable[..., str]] | None = None, **values: Any) -> str:
    """The page as HTML; equal values give equal text."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters or {})
    return environment.get_template(template).render(version=opd.__version__, **values)
