"""Takes the pictures of docs/view.md: `python docs/screenshots.py FOLDER`, over the folder that `opd demo` leaves.

Where an attempt lies in the folder too, there is a picture of that one.

Each page is opened in Chromium at a desk's size, light, and the picture taken once all that it asks for is there.
Needs playwright, and chromium on the PATH.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

PICTURES = Path(__file__).parent / "pictures"
WIDTH, HEIGHT = 1200, 800  # CSS pixels
LARGEST_BYTES = 200_000
PATIENCE = 60_000  # milliseconds


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """The address that `opd view` prints, while it is at work over the folder."""
    command = [sys.executable, "-P", "-m", "opd", "view", str(folder), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def picture(page: Page, name: str, ready: str) -> None:
    """Takes it once what `ready` selects is there and nothing is waited for; it has to stay small."""
    page.locator(ready).first.wait_for()
    page.wait_for_load_state("networkidle")
    path = PICTURES / f"view-{name}.png"
    page.screenshot(path=path)
    size = path.stat().st_size
    if size > LARGEST_BYTES:
        raise SystemExit(f"{path} has {size:,} bytes; a picture in the documentation has at most {LARGEST_BYTES:,}")


def link(page: Page, name: str) -> str:
    """Where the run with this name is, in the list that is open."""
    found = page.locator(".row .name a").filter(has_text=re.compile(rf"^{re.escape(name)}$")).first
    return str(found.get_attribute("href"))


def take(page: Page, address: str) -> None:
    """All pictures, one page after the other."""
    base = address.partition("/?")[0]
    page.goto(address)
    picture(page, "runs", ".row")
    run, start, end = (link(page, name) for name in ("train", "scores/start", "scores/step-120"))
    attempts = page.locator(".row .name a[href^='/attempt/']")
    attempt = attempts.first.get_attribute("href") if attempts.count() else None
    page.goto(f"{base}{run}?smooth=4")
    picture(page, "run", ".uplot")
    page.goto(f"{base}{run.replace('/run/', '/rollouts/')}?step=1&sort=worst")
    page.locator(".tokens .t").first.wait_for()
    page.keyboard.press("w")
    picture(page, "rollouts", ".t.current")
    page.goto(f"{base}{end}")
    picture(page, "score", "article.sample .response")
    page.goto(f"{base}/compare?a={start.removeprefix('/score/')}&b={end.removeprefix('/score/')}")
    picture(page, "compare", ".said-of-both")
    if attempt is not None:
        page.goto(f"{base}{attempt}")
        picture(page, "attempt", ".timeline .try")


def main() -> None:
    """Everything, for the folder that is given."""
    if len(sys.argv) != 2 or (chromium := shutil.which("chromium")) is None:
        raise SystemExit(f"{__doc__}\nGive one folder, and have chromium on the PATH.")
    PICTURES.mkdir(exist_ok=True)
    with server(Path(sys.argv[1])) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.set_default_timeout(PATIENCE)
        take(page, address)
        browser.close()


if __name__ == "__main__":
    main()
