"""What an explorer or a candidate leaves in its folders can spoil neither a report's text nor its making."""

import json

import pytest
from markdown_it import MarkdownIt
from tests.protocol.document.builder import replace

from opd.protocol.attempts.evidence import Evidence
from opd.protocol.attempts.state import status
from opd.protocol.clock import now
from opd.protocol.report.book import Book
from opd.protocol.report.checking import rechecked
from opd.protocol.report.comparing import Compared
from opd.protocol.report.drawing import drawn
from opd.protocol.report.pen import Pen
from opd.protocol.report.sources import Sources
from opd.protocol.report.story import story
from opd.protocol.report.writing import texts
from opd.records.reports import ANALYSIS

EXPLORED = "explore/attempt-001"
FORMAL = "formal/attempt-002/checkout/checkpoints"
MARKUP = "<script>alert(1)</script> | `x` ![i](http://example.com) 0.99 \ue000c001\ue001 better \ud800"
HOSTILE = (
    b"[1, 2]",
    b"not json",
    b'{"seed": [42], "budget": 3, "data": {"shuffle": {}}, "objective": "x", "rows_seen": {}, "steps": "many"}',
    b'{"seed": 1e999, "steps": NaN, "rows_seen": Infinity, "step": -1}',
    json.dumps({"steps": 10**40, "seed": 10**40, "rows_seen": 10**40, "stop": [], "step": 10**40}).encode(),
    json.dumps({"0.99 better": 1, "a`b": MARKUP, "objective": {"name": {}, "k": MARKUP}, "stop": MARKUP}).encode(),
    b"[" * 100_000,
)


@pytest.mark.parametrize("content", HOSTILE, ids=range(len(HOSTILE)))
def test_no_file_of_a_strangers_stops_a_report_or_gets_past_its_linter(spoilt, tmp_path, content):
    folder = spoilt.built.folder
    for name in ("recipe.json", "run.json", "metrics.jsonl"):
        replace(folder / FORMAL / name, content)
        for place in (f"{EXPLORED}/proxy/002/training", f"{EXPLORED}/runs/stability"):
            replace(folder / place / name, content)
    sources = Sources(folder, tmp_path)
    told = story(spoilt.attempt, sources, Evidence(spoilt.attempt, now()), status(spoilt.attempt))
    pen = Pen(story=told, book=Book(), compared=Compared())
    written = texts(pen)
    for name, text in written.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert list(rechecked(folder, tmp_path, pen.book.claims)) == []
    assert drawn(pen).resolved()
    html = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(written[ANALYSIS])
    assert "<script" not in html
    assert "<img" not in html


@pytest.mark.parametrize("name", ["recipe.json", "run.json", "metrics.jsonl"])
def test_a_link_in_a_run_folder_is_not_followed(spoilt, tmp_path, name):
    secret = tmp_path / "secret.json"
    secret.write_text('{"seed": 7777, "steps": 7777, "step": 7777}')
    path = spoilt.built.folder / EXPLORED / "runs/stability" / name
    path.unlink()
    path.symlink_to(secret)
    sources = Sources(spoilt.built.folder, tmp_path)
    assert not sources.has(f"{EXPLORED}/runs/stability/{name}")
    assert sources.object(f"{EXPLORED}/runs/stability/{name}") is None
    told = story(spoilt.attempt, sources, Evidence(spoilt.attempt, now()), status(spoilt.attempt))
    assert "7777" not in texts(Pen(story=told, book=Book(), compared=Compared()))[ANALYSIS]
