"""Which modules a page is made of. The page names them all, so that none is found out only when another has come."""

import re
from collections.abc import Iterator
from contextlib import suppress
from posixpath import dirname, normpath

from opd.view.server.answers import Gone
from opd.view.server.places import Place

MAIN = "app/main.js"
_IMPORT = re.compile(r"^import .* from '(?P<name>[^']+)';$", re.MULTILINE)
_MOST_BYTES = 1 << 20  # of a module


def modules_of(page: str, assets: Place) -> list[str]:
    """The addresses of what a page imports, directly or not, each once; none of a page that there is not."""
    found: dict[str, None] = {}
    left = [MAIN, f"app/pages/{page}.js"]
    while left:
        name = left.pop(0)
        with suppress(Gone):
            if name not in found:
                left += _imported(name, assets)
                found[name] = None
    return [f"/assets/{name}" for name in found]


def _imported(name: str, assets: Place) -> Iterator[str]:
    """The names of what a module imports at its beginning; what it may want later is no part of it."""
    text = assets.at(name).read(most=_MOST_BYTES).decode("utf-8", "replace")
    for found in _IMPORT.finditer(text):
        other = found["name"]
        yield other.removeprefix("/assets/") if other.startswith("/") else normpath(f"{dirname(name)}/{other}")
