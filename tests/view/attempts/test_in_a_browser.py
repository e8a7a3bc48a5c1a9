"""The page in a real browser, at a desk and in a hand, light and dark: nothing overflows, and all can be read."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.view.attempts.made import crowded, write_made
from tests.view.story.test_pictures import contrast

from opd.view.attempts.page import render

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.patient

MEASURE = Path(__file__).with_name("measure.js").read_text(encoding="utf-8")
Measured = Mapping[str, Any]
Look = Callable[..., Measured]


@pytest.fixture(scope="module")
def pages(page: str, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The page of an attempt that has everything, and of one that has much of it, with long names."""
    folder = tmp_path_factory.mktemp("pages")
    made = write_made(tmp_path_factory.mktemp("crowded"), **crowded())
    texts = {"whole": page, "crowded": render(made.folder, made.attempt)}
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


@pytest.fixture(scope="module")
def look(browser: "Browser") -> Look:
    """Opens a page, with all that it folds unfolded, and measures it; it must ask for nothing and say nothing."""

    def measured(path: Path, *, width: int, dark: bool = False) -> Measured:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
        window = context.new_page()
        heard: list[str] = []
        asked: list[str] = []
        window.on("console", lambda said: heard.append(said.text))
        window.on("pageerror", lambda error: heard.append(str(error)))
        window.on("request", lambda request: asked.append(request.url))
        window.goto(path.as_uri())
        window.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        told: Measured = window.evaluate(MEASURE)
        context.close()
        assert heard == []
        assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
        return told

    return measured


@pytest.mark.parametrize("name", ["whole", "crowded"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_overflows_and_all_can_be_read(
    look: Look, pages: Mapping[str, Path], name: str, width: int, dark: bool
) -> None:
    told = look(pages[name], width=width, dark=dark)
    assert told["width"] == width
    assert told["page"] <= width
    assert told["over"] == []
    assert (sum(told["paper"]) < 3 * 128) is dark
    assert len(told["inks"]) >= 4
    assert [(words, ink, ground) for ink, ground, words in told["inks"] if contrast(ink, ground) < 4.5] == []
    assert len(told["pictures"]) == 8
    for picture in told["pictures"]:
        assert picture["name"].endswith("wide" if width > 832 else "narrow")
        assert picture["smallest"] >= 9, "pixels of the smallest text"
        faults = {fault: picture[fault] for fault in ("outside", "touching", "crossed", "cut")}
        assert faults == {"outside": [], "touching": [], "crossed": [], "cut": []}, picture["name"]


SPOILED = {
    "page": ("<main>", '<main><div style="width:900px">x</div>'),
    "inks": ("<main>", '<main><p style="color:#999">pale</p>'),
    "outside": ("</svg>", '<text x="-9" y="40">out</text></svg>'),
    "touching": ("</svg>", '<text x="90" y="90">one</text><text x="95" y="92">other</text></svg>'),
    "crossed": (
        "</svg>",
        '<path d="M 100 80 V 99" style="stroke: #000; stroke-width: 1"/><text x="90" y="90">struck</text></svg>',
    ),
    "cut": ("</svg>", '<text x="90" y="90">beginn…</text></svg>'),
}


@pytest.mark.parametrize("fault", SPOILED)
def test_a_page_with_a_fault_would_be_noticed(look: Look, pages: Mapping[str, Path], fault: str) -> None:
    """The measure's own controls, one for each thing that it looks for."""
    path = pages["whole"].with_name(f"{fault}.html")
    path.write_text(pages["whole"].read_text(encoding="utf-8").replace(*SPOILED[fault]), encoding="utf-8")
    told = look(path, width=390)
    if fault == "page":
        assert told["page"] > 390
        assert told["over"]
    elif fault == "inks":
        assert [words for ink, ground, words in told["inks"] if contrast(ink, ground) < 4.5] == ["pale"]
    else:
        assert all(picture[fault] for picture in told["pictures"])


def test_a_number_leads_to_its_source_within_its_own_table(browser: "Browser", pages: Mapping[str, Path]) -> None:
    """The table of sources scrolls in itself: a page of hundreds of numbers stays one that can be walked through."""
    window = browser.new_page(viewport={"width": 390, "height": 900})
    window.goto(pages["whole"].as_uri())
    window.click("article a.n >> nth=0")
    assert window.url.endswith("#c001")
    row = window.locator("#c001").bounding_box()
    assert row is not None
    assert 0 <= row["y"] < 900
    window.close()
