"""Chromium, driven by Playwright; a test that needs it is skipped with the reason where there is none."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 30_000  # milliseconds, on a busy machine


@contextmanager
def launched() -> "Iterator[Browser]":
    """A browser without a window."""
    if CHROMIUM is None:
        pytest.skip("the pages were not looked at: no chromium here; apt-get install chromium")
    driver = pytest.importorskip("playwright.sync_api", reason="the pages were not looked at: pip install playwright")
    driver.expect.set_options(timeout=PATIENCE)
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()
