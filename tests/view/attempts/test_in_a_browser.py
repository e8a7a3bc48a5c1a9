"""The page in a real browser, at a desk and in a hand, light and dark: nothing overflows, and all can be read."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from tests.view.test_pictures import contrast

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = [
    pytest.mark.patient,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: apt-get install chromium"),
]

# Everything that reaches beyond the window and that nothing around it scrolls or cuts.
MEASURE = """
<script>
const scrolls = one => {
  for (let up = one; up; up = up.parentElement)
    if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(up).overflowX)) return true;
  return false;
};
const shown = one => one.getClientRects().length > 0;
const inks = [...document.querySelectorAll('p, td, th, li, figcaption, summary, h1, h2, h3')].filter(shown);
const told = {
  width: innerWidth,
  page: document.documentElement.scrollWidth,
  height: document.documentElement.scrollHeight,
  over: [...document.querySelectorAll('body *')].filter(one => shown(one) && !one.closest('svg')
    && one.getBoundingClientRect().right > innerWidth + 1 && !scrolls(one)).map(one => one.outerHTML.slice(0, 200)),
  pictures: [...document.querySelectorAll('figure svg')].filter(shown).map(one => one.getAttribute('class')),
  small: Math.min(...[...document.querySelectorAll('figure svg text')].filter(shown).map(
    one => parseFloat(getComputedStyle(one).fontSize) * Math.hypot(one.getScreenCTM().a, one.getScreenCTM().b))),
  paper: getComputedStyle(document.body).backgroundColor,
  inks: [...new Set(inks.map(one => getComputedStyle(one).color))],
  picture: getComputedStyle(document.querySelector('figure svg')).color,
};
parent.postMessage(told, '*');
</script>
"""


FRAME = """<!doctype html><body style="margin:0">
<iframe src="{page}" width="{width}" height="900" style="border:0"></iframe>
<script>onmessage = told => document.body.textContent = 'TOLD' + JSON.stringify(told.data) + 'TOLD';</script>"""


@pytest.fixture(scope="module")
def measuring(page: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page with a script at its end that measures it, and without the policy that would forbid it."""
    text, found = re.subn(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    assert found == 1
    path = tmp_path_factory.mktemp("browser") / "page.html"
    path.write_text(text.replace("<details", "<details open").replace("</body>", f"{MEASURE}</body>"))
    return path


def measured(page: Path, *, width: int, dark: bool) -> dict[str, Any]:
    """What the browser says of the page in a frame of this width: a window of its own has 500 pixels at least."""
    assert CHROMIUM is not None
    frame = page.with_name("frame.html")
    frame.write_text(FRAME.format(page=page.name, width=width))
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1400,900",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}", f"--user-data-dir={page.parent / 'profile'}",
        "--virtual-time-budget=20000", "--dump-dom", frame.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    (told,) = re.findall("TOLD(.*)TOLD</body>", done.stdout)
    return dict(json.loads(unescape(told)))


def rgb(text: str) -> list[int]:
    return [int(one) for one in re.findall(r"\d+", text)[:3]]


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_overflows_and_all_can_be_read(measuring: Path, width: int, dark: bool) -> None:
    told = measured(measuring, width=width, dark=dark)
    assert told["width"] == width
    assert told["page"] <= width
    assert told["over"] == []
    expected = "wide" if width > 832 else "narrow"
    assert len(told["pictures"]) == 8
    assert all(name.endswith(expected) for name in told["pictures"])
    assert told["small"] >= 8, "pixels of the smallest text in a picture"
    paper = rgb(told["paper"])
    assert (sum(paper) < 3 * 128) is dark
    assert len(told["inks"]) >= 2
    assert all(contrast(rgb(ink), paper) >= 4.5 for ink in [*told["inks"], told["picture"]])


def test_a_page_that_overflows_would_be_noticed(measuring: Path) -> None:
    """The measure's own control: a block that is wider than the window."""
    wide = measuring.with_name("wide.html")
    wide.write_text(measuring.read_text().replace("<main>", '<main><div id="wide" style="width:900px">x</div>'))
    told = measured(wide, width=390, dark=False)
    assert told["page"] > 390
    assert [one for one in told["over"] if 'id="wide"' in one]
