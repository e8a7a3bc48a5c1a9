"""The page is made by the install's view, and a report without a page is none."""

import shutil

import pytest

from opd.protocol.report.pages import BROWSERS, make_page, make_pdf
from opd.records.errors import AnswerIsNo


def test_a_page_that_cannot_be_made_says_why(tmp_path):
    with pytest.raises(AnswerIsNo, match=r"the page was not made: .*report\.json does not exist"):
        make_page(tmp_path, tmp_path)


def test_without_a_browser_the_reason_is_given(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (
        make_pdf(tmp_path)
        == "no browser is installed that could print the page: chromium, chromium-browser, google-chrome"
    )


@pytest.mark.skipif(not any(map(shutil.which, BROWSERS)), reason="no browser is installed")
def test_the_page_is_printed_by_a_browser(tmp_path):
    (tmp_path / "index.html").write_text("<!doctype html><title>t</title><p>words")
    assert make_pdf(tmp_path) is None
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF-")
