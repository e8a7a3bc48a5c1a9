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


def test_what_comes_in_does_not_turn_the_page_under_a_reader(tmp_path, programs, window_at):
    first, *rest = made.samples(2)[:5]
    folder = made.make_train(tmp_path / "train", steps=3, kept={1: made.rollouts()[:2]})
    score = made.make_score(tmp_path / "score", right=2)
    (score / "score.json").unlink()
    (score / "samples.jsonl").write_text(made.line(first.resolved()))
    with served(tmp_path, programs=programs()) as ask:
        page = window_at(ask).open(f"/rollouts/{ask.id('train')}")
        expect(page.locator(".steps")).to_contain_text("Step 1 of 1")
        made.write_table(made.table_path(folder, 3), made.rollouts()[:1])
        expect(page.locator(".steps")).to_contain_text("Step 1 of 3")
        page.close()  # before its server: a page that asks nobody says so
        page = window_at(ask).open(f"/score/{ask.id('score')}")
        samples = page.get_by_role("table", name="Samples")
        expect(samples).to_have_attribute("aria-rowcount", "1")
        with (score / "samples.jsonl").open("a") as file:
            file.writelines(made.line(one.resolved()) for one in rest)
        page.get_by_role("button", name="Show 4 new samples").click()
        expect(samples).to_have_attribute("aria-rowcount", "5")
        page.close()


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


def test_a_server_that_was_started_anew_has_another_address_and_the_page_says_so(growing, window_at):
    ask, _ = growing
    window = window_at(ask)
    page = window.open("/")
    expect(page.locator(".pulse")).to_have_text("live")
    cookies = page.context.cookies()
    page.context.clear_cookies()  # to a server with another key the old cookie says as little as none
    expect(page.locator(".pulse")).to_have_text("started anew: open the address that opd view printed")
    page.context.add_cookies(cookies)  # that address was opened in another window
    expect(page.locator(".pulse")).to_have_text("live")
    window.heard.faults[:] = [one for one in window.heard.faults if "401" not in one]
