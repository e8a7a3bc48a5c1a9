"""What changes on the disk is shown without a reload, and a server that is gone is said to be."""

import shutil

import pytest
from tests.view.browser import made
from tests.view.server.asking import served

pytest.importorskip("playwright.sync_api", reason="the pages were not looked at: pip install playwright")
from playwright.sync_api import expect

pytestmark = pytest.mark.patient


@pytest.fixture
def growing(tmp_path, programs):
    folder = made.make_train(tmp_path / "runs/train", steps=3, kept={})
    with served(tmp_path / "runs", programs=programs()) as ask:
        yield ask, folder


def test_a_run_grows_on_its_page(growing, window_at):
    ask, folder = growing
    window = window_at(ask)
    page = window.open(f"/run/{ask.id('train')}")
    step = page.locator(".tile .value").first
    expect(step).to_have_text("3")
    made.add_step(folder, 4)
    made.add_step(folder, 5)
    expect(step).to_have_text("5")
    expect(page.locator("[data-curve=kl] .reading")).to_contain_text("step 5")


def test_runs_come_and_go_in_the_list(growing, window_at):
    ask, folder = growing
    page = window_at(ask).open("/")
    rows = page.locator(".row")
    expect(rows).to_have_count(1)
    made.make_score(folder.parent / "score", right=2)
    expect(rows).to_have_count(2)
    shutil.rmtree(folder)
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("score")


def test_a_server_that_is_silent_is_said_to_be_and_is_found_again(growing, window_at):
    ask, folder = growing
    window = window_at(ask)
    page = window.open(f"/run/{ask.id('train')}")
    expect(page.locator(".uplot").first).to_be_visible()
    page.context.set_offline(True)
    expect(page.locator(".pulse")).to_have_text("not connected")
    expect(page.locator(".tile .value").first).to_have_text("3")  # what was there stays
    made.add_step(folder, 4)
    page.context.set_offline(False)
    expect(page.locator(".pulse")).to_have_text("live")
    expect(page.locator(".tile .value").first).to_have_text("4")
    window.heard.faults[:] = [one for one in window.heard.faults if "ERR_INTERNET_DISCONNECTED" not in one]
