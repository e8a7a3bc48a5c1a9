"""One made-up attempt for all tests that read, and its page: drawing that takes some seconds."""

from collections.abc import Mapping

import pytest
from tests.view.attempts.made import HOSTILE, Made, svgs, write_made

from opd.view.attempts.page import render


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """An attempt that has everything."""
    return write_made(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="session")
def page(whole: Made) -> str:
    """Its page."""
    return render(whole.folder, whole.attempt)


@pytest.fixture(scope="session")
def pictures(page: str) -> Mapping[str, Mapping[str, str]]:
    """The pictures of its page, by name and width."""
    return svgs(page)


@pytest.fixture(scope="session")
def hostile_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of the same attempt with hostile text wherever a stranger may write."""
    made = write_made(tmp_path_factory.mktemp("hostile"), text=HOSTILE)
    return render(made.folder, made.attempt)
