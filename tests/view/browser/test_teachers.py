"""A run of several teachers says of each rollout, of each key and of the distance which teacher it is of."""

import re
import sys

import pytest
from tests.view.browser import made
from tests.view.server.asking import served

from opd.view.server.programs import Programs

pytest.importorskip("playwright.sync_api", reason="the pages were not looked at: pip install playwright")
from playwright.sync_api import expect

pytestmark = pytest.mark.patient


@pytest.fixture(scope="module")
def taught(tmp_path_factory, programs):
    place = tmp_path_factory.mktemp("taught")
    made.make_taught(place / "two")
    with served(place, programs=programs()) as asking:
        yield asking


def test_a_rollout_names_its_teacher_and_those_of_one_can_be_chosen(window_at, taught):
    window = window_at(taught)
    page = window.open(f"/rollouts/{window.id('two')}")
    rows = page.get_by_role("table", name="Rollouts").locator(".rollout-line")
    expect(rows).to_contain_text(["plain, ", "terse, ", "plain, "])
    expect(page.locator(".rollout-page")).to_contain_text("scored by teacher plain")
    expect(page.locator(".rollout-page .prompt")).to_have_count(1)
    page.get_by_role("button", name=re.compile("terse")).click()
    expect(rows).to_have_count(1)
    assert "teacher=terse" in page.url
    expect(page.locator(".rollout-page")).to_contain_text("scored by teacher terse")
    seen = page.locator(".rollout-page .prompt").filter(has_text="Prompt, as teacher terse saw it")
    expect(seen).to_contain_text("Compute 73-9+7..")


def test_the_run_page_says_how_far_the_student_is_from_each(window_at, taught):
    window = window_at(taught)
    page = window.open(f"/run/{window.id('two')}")
    tile = page.locator(".tile").filter(has_text="KL to the teachers")
    expect(tile).to_contain_text("plain 0.093, terse 0.582")
    lines = page.locator("[data-curve=kl] .reading span")
    expect(lines).to_have_text(
        [re.compile("all ?0.34"), re.compile("plain ?0.093"), re.compile("terse ?0.582"), re.compile("step")]
    )
    expect(page.locator("[data-curve='teachers/terse/kl']")).to_have_count(0)


def test_the_recipe_shows_what_differs_of_each_teacher(window_at, taught):
    window = window_at(taught)
    page = window.open(f"/run/{window.id('two')}")
    page.get_by_role("heading", name="Recipe").scroll_into_view_if_needed()
    told = page.locator("table.recipe tbody tr").filter(has_text="teachers.")
    expect(told).to_have_text(
        [
            re.compile(rf"{re.escape(key)}.*")
            for key in ("teachers.plain.model", "teachers.terse.model", "teachers.terse.prompt")
        ]
    )


def test_a_comparison_that_is_refused_waits_for_nothing(window_at, tmp_path):
    for name in ("start", "end"):
        made.make_score(tmp_path / name, right=1)
    with served(
        tmp_path, programs=Programs([sys.executable, "-S", "-c", "import sys; sys.exit('no comparison of these')"])
    ) as asking:
        window = window_at(asking)
        page = window.open(f"/compare?a={window.id('start')}&b={window.id('end')}")
        expect(page.get_by_role("alert")).to_have_text("no comparison of these")
        expect(page.locator(".tile").filter(has_text="B − A")).to_have_text(re.compile("—.*why is said above"))
