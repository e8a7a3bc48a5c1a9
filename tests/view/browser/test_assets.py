"""What the pages are made of, as files: no way from a text to HTML, no address elsewhere, nothing large."""

import re

from opd.view.server.app import ASSETS

LARGEST_BYTES = 700_000  # of all files, before they are compressed

AS_HTML = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|createContextualFragment|DOMParser|document\.write"
    r"|\beval\(|new Function|setTimeout\(['\"`]|https?://(?!www\.w3\.org/)"
)


def test_no_module_gives_text_to_the_browser_as_html_or_names_an_address_elsewhere():
    own = [
        path for path in ASSETS.rglob("*") if path.suffix in {".js", ".css", ".html"} and "vendor" not in path.parts
    ]
    assert len(own) > 20
    assert {path.name: AS_HTML.findall(path.read_text()) for path in own if AS_HTML.search(path.read_text())} == {}
    vendored = (ASSETS / "vendor/htm-preact.js").read_text()
    assert "dangerouslySetInnerHTML" in AS_HTML.findall(vendored)  # it would be found


def test_all_of_it_is_small():
    assert 100_000 < sum(path.stat().st_size for path in ASSETS.rglob("*") if path.is_file()) < LARGEST_BYTES
