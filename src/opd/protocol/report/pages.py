"""The page, which the install's view makes as a program of its own, and the same as PDF where there is a browser."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from opd.protocol.words import one_line
from opd.records.errors import AnswerIsNo
from opd.records.reports import PAGE

PDF = "report.pdf"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_MODULE = "opd.view.attempts.page"
_PAGE_SECONDS, _PDF_SECONDS = 300.0, 180.0
_SAID = 400


def make_page(attempt: Path, report: Path) -> None:
    """index.html in the report's folder; raises `AnswerIsNo` where it can't be made."""
    command = [sys.executable, "-I", "-m", _MODULE, str(report.absolute()), str(attempt.absolute())]
    try:
        ran = subprocess.run(
            command, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=_PAGE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise AnswerIsNo(f"the page was not made within {_PAGE_SECONDS:.0f} s") from None
    if ran.returncode != 0 or not (report / PAGE).is_file():
        said = ran.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
        raise AnswerIsNo(f"the page was not made: {one_line(said, most=_SAID) or 'its program said nothing'}")


def make_pdf(report: Path) -> str | None:
    """None after report.pdf was printed from the page; else why there is none."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        return f"no browser is installed that could print the page: {', '.join(BROWSERS[:3])}"
    with tempfile.TemporaryDirectory(prefix="opd-browser-") as profile:
        printed = Path(profile) / PDF
        command = [
            browser, "--headless", "--disable-gpu", "--no-sandbox", "--no-pdf-header-footer",
            f"--user-data-dir={profile}/profile", f"--print-to-pdf={printed}", (report / PAGE).absolute().as_uri(),
        ]  # fmt: skip
        try:
            subprocess.run(
                command, cwd=profile, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PDF_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return f"the browser was not done after {_PDF_SECONDS:.0f} s"
        if not printed.is_file() or not printed.read_bytes().startswith(b"%PDF-"):
            return f"{Path(browser).name} printed nothing"
        shutil.copyfile(printed, report / PDF)
    return None
