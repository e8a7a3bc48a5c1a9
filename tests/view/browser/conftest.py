"""A server over made-up runs for the session, and pages that hear every fault and every request."""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from tests.view.browser import made
from tests.view.browsing import PATIENCE
from tests.view.server.asking import COOKIE, TOKEN, Asking, served

from opd.view.server.programs import Programs

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

# Stands for the install's own programs, which other tests run.
PROGRAM = """
import json, sys
answers = json.load(open(sys.argv[1]))
said = answers.get(sys.argv[2])
print(json.dumps(said) if said else "no such program here", file=sys.stdout if said else sys.stderr)
sys.exit(0 if said else 2)
"""


@dataclass(kw_only=True)
class Heard:
    """What a page said that it should not have, and where it asked."""

    faults: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Window:
    """A page at a server, with what it was heard to say."""

    page: "Page"
    ask: Asking
    heard: Heard

    def open(self, address: str) -> "Page":
        self.page.goto(f"http://{self.ask.host}:{self.ask.port}{address}")
        return self.page

    def id(self, name: str) -> str:
        return self.ask.id(name)


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two training runs that differ in a key, two scores of the same questions, an attempt."""
    folder = tmp_path_factory.mktemp("runs")
    kept = made.rollouts()
    made.make_train(folder / "train/one", kept={1: kept, 20: kept[:2]})
    made.make_train(folder / "train/other", lr=3e-4, steps=10, kept={})
    made.make_score(folder / "scores/start", right=1)
    made.make_score(folder / "scores/end", right=3)
    made.make_attempt(folder / "attempts/made_up")
    return folder


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Programs]:
    """What the server asks for comparisons and defaults."""
    answers = tmp_path_factory.mktemp("answers") / "answers.json"
    answers.write_text(json.dumps({"compare": made.compared(), "show": made.DEFAULTS, "plan": made.PLAN}))
    return lambda: Programs([sys.executable, "-S", "-c", PROGRAM, str(answers)])


@pytest.fixture(scope="session")
def ask(place: Path, programs: Callable[[], Programs]) -> Iterator[Asking]:
    """The server over the made-up runs."""
    with served(place, programs=programs()) as asking:
        yield asking


@pytest.fixture(scope="module")
def contexts(browser: "Browser") -> "Iterator[Callable[..., BrowserContext]]":
    """A profile for each size and colour, kept for the file: what was loaded once need not be again."""
    made: dict[str, BrowserContext] = {}

    def context(**how: Any) -> "BrowserContext":
        name = repr(sorted(how.items()))
        if name not in made:
            made[name] = browser.new_context(**how)
            made[name].set_default_timeout(PATIENCE)
        return made[name]

    yield context
    for one in made.values():
        one.close()


@pytest.fixture
def window_at(contexts: "Callable[..., BrowserContext]") -> Iterator[Callable[..., Window]]:
    """Opens windows of any size and colour at a server; a fault in one, or a request elsewhere, fails the test."""
    opened: list[Window] = []

    def open_window(ask: Asking, **how: Any) -> Window:
        context = contexts(**({"viewport": {"width": 1280, "height": 900}} | how))
        address = f"http://{ask.host}:{ask.port}"
        context.add_cookies([{"name": COOKIE, "value": TOKEN, "url": address}])
        page = context.new_page()
        heard = Heard()
        page.on("console", lambda said: heard.faults.append(said.text) if said.type in {"error", "warning"} else None)
        page.on("pageerror", lambda error: heard.faults.append(str(error)))
        page.on("request", lambda request: heard.requests.append(request.url))
        opened.append(Window(page=page, ask=ask, heard=heard))
        return opened[-1]

    yield open_window
    for one in opened:
        one.page.context.set_offline(False)
        if not one.page.is_closed():
            one.page.evaluate("localStorage.clear()")  # the next test begins as a new reader does
            one.page.close()
    for one in opened:
        assert one.heard.faults == []
        asked = {urlsplit(url).netloc for url in one.heard.requests if not url.startswith(("data:", "blob:"))}
        assert asked <= {f"{one.ask.host}:{one.ask.port}"}


@pytest.fixture
def window(window_at: Callable[..., Window], ask: Asking) -> Window:
    """A window at a desk."""
    return window_at(ask)
