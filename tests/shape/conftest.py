"""The checkout as text and as syntax trees, for tests about its shape."""

import ast
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file under src/."""

    name: str  # from the root of the checkout
    lines: int
    tree: ast.Module = field(repr=False)


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def sources() -> list[Source]:
    """Every Python file under src/, parsed."""
    found = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text, filename=str(path))
        found.append(Source(name=path.relative_to(ROOT).as_posix(), lines=len(text.splitlines()), tree=tree))
    assert found, "no source found: the tests of shape would hold for nothing"
    return found
