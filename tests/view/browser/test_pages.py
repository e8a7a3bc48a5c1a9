"""Every page, at a desk and in a hand, light and dark: it shows its run, fits its window, and can be read."""

import json
import re

import pytest
from tests.view.browser import made
from tests.view.conftest import metrics
from tests.view.server.asking import served
from tests.view.story.test_pictures import contrast

from opd.records.files import read_json, write_json
from opd.view.words import number, percent, signed

pytest.importorskip("playwright.sync_api", reason="the pages were not looked at: pip install playwright")
from playwright.sync_api import expect

pytestmark = pytest.mark.patient

SIZES = [({"width": 1280, "height": 900}, "light"), ({"width": 390, "height": 844}, "dark")]
PAGES = {
    "runs": ("/", "Runs", ".row"),
    "run": ("/run/{train/one}", "train/one", ".curve .uplot"),
    "rollouts": ("/rollouts/{train/one}?step=1", "train/one", ".tokens .t"),
    "score": ("/score/{scores/end}", "scores/end", ".response .block"),
    "compare": ("/compare?a={scores/start}&b={scores/end}", "Compare", ".pairs .cell"),
    "attempt": ("/attempt/{attempts/made_up}", "attempts/made_up", ".timeline .try"),
}

DRAWING = "/assets/vendor/uplot.js"  # is a script, wanted once there are curves

# What reaches beyond the window though nothing around it scrolls or cuts it, and every colour of text.
MEASURE = """
() => {
  const cuts = one => one !== document.documentElement
    && ['auto', 'scroll', 'hidden'].includes(getComputedStyle(one).overflowX);
  const isCut = one => { for (let up = one; up; up = up.parentElement) if (cuts(up)) return true; return false; };
  const isCell = one => getComputedStyle(one).display === 'table-cell';
  const shown = one => one.getClientRects().length > 0;
  const reaches = one => one.getBoundingClientRect().right > innerWidth + 1;
  const texts = ['p', 'td', 'th', 'dt', 'dd', 'summary', 'h1', 'h2', '.row span', '.value'].map(one => `main ${one}`);
  return {
    wide: document.documentElement.scrollWidth,
    window: innerWidth,
    over: [...document.querySelectorAll('body *')].filter(one => shown(one) && reaches(one) && !isCut(one))
      .map(one => one.outerHTML.slice(0, 160)),
    cells: [...document.querySelectorAll('td, th')].filter(shown).filter(one => !isCell(one))
      .map(one => one.outerHTML.slice(0, 160)),
    paper: getComputedStyle(document.body).backgroundColor,
    inks: [...new Set([...document.querySelectorAll(texts)].filter(one => shown(one) && one.textContent.trim())
      .map(one => getComputedStyle(one).color))],
  };
}
"""


def address(window, template):
    return re.sub(r"\{(.*?)\}", lambda found: window.id(found[1]), template)


def rgb(text):
    return [int(one) for one in re.findall(r"\d+", text)[:3]]


@pytest.mark.parametrize(("viewport", "scheme"), SIZES, ids=["desk", "hand"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_its_run_fits_its_window_and_can_be_read(window_at, ask, name, viewport, scheme):
    window = window_at(ask, viewport=viewport, color_scheme=scheme)
    template, heading, sign = PAGES[name]
    page = window.open(address(window, template))
    expect(page.locator("h1")).to_have_text(heading)
    expect(page.locator(sign).first).to_be_visible()
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")  # what is asked for when it is seen
    expect(page.locator(".waiting")).to_have_count(0)
    told = page.evaluate(MEASURE)
    assert told["wide"] <= told["window"] == viewport["width"]
    assert told["over"] == []
    assert told["cells"] == [], "out of their columns"
    paper = rgb(told["paper"])
    assert (sum(paper) < 3 * 128) is (scheme == "dark")
    assert len(told["inks"]) >= 2
    assert [ink for ink in told["inks"] if contrast(rgb(ink), paper) < 4.5] == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_told_of_every_module_before_one_of_them_wants_it(window, name):
    template, _, sign = PAGES[name]
    page = window.open(address(window, template))
    expect(page.locator(sign).first).to_be_visible()
    loaded, named = page.evaluate(
        "() => [performance.getEntriesByType('resource').map(one => new URL(one.name).pathname),"
        " [...document.querySelectorAll('link[rel=modulepreload]')].map(one => one.getAttribute('href'))]"
    )
    scripts = {one for one in loaded if one.endswith(".js") and one != DRAWING}
    assert scripts == set(named)


def test_a_page_that_overflows_and_one_that_cannot_be_read_would_be_noticed(window_at, ask):
    window = window_at(ask, viewport={"width": 390, "height": 844})
    page = window.open("/")
    expect(page.locator(".row").first).to_be_visible()
    page.evaluate(
        "document.querySelector('main').insertAdjacentHTML('beforeend', '<p id=wide>pale</p>');"
        "Object.assign(document.querySelector('#wide').style, { width: '900px', maxWidth: 'none', color: '#ddd' });"
    )
    told = page.evaluate(MEASURE)
    assert told["wide"] > 390
    assert [one for one in told["over"] if 'id="wide"' in one]
    assert any(contrast(rgb(ink), rgb(told["paper"])) < 4.5 for ink in told["inks"])


def test_a_fault_would_be_heard_and_a_request_to_elsewhere_is_not_made(window):
    page = window.open("/")
    with page.expect_console_message(lambda said: "as planned" in said.text):
        page.evaluate("fetch('http://192.0.2.1/x').catch(() => console.error('as planned'))")
    assert [one for one in window.heard.faults if "Content Security Policy" in one]
    assert [one for one in window.heard.faults if "as planned" in one]
    window.heard.faults.clear()


def test_the_run_page_says_the_newest_step_as_the_metrics_do(window):
    page = window.open(address(window, "/run/{train/one}"))
    newest = metrics(made.STEPS)
    tiles = page.locator(".tile")
    expect(tiles.first.locator(".value")).to_have_text(str(made.STEPS))
    expect(tiles.filter(has_text="KL to the teacher").locator(".value")).to_contain_text(f"{newest.kl:.3g}")
    curve = page.locator("[data-curve=kl] .curve")
    assert f"kl {newest.kl:.3g} at the end" in (curve.get_attribute("aria-label") or "")
    expect(page.locator("[data-curve=seconds] .reading")).to_contain_text("update 0.17 s")


def test_smoothing_draws_a_second_line_and_stands_in_the_address(window):
    page = window.open(address(window, "/run/{train/one}"))
    slider = page.get_by_label("Smoothing")
    expect(page.locator("output")).to_have_text("none")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("output")).to_have_text("0.5")
    page.reload()
    expect(page.locator("output")).to_have_text("0.5")
    smoothed = page.evaluate("import('/assets/app/curve.js').then(one => one.smoothed([1, null, 3, 5], 0.5))")
    assert smoothed[1] is None
    assert smoothed[0] == 1
    assert smoothed[2] == pytest.approx((0.5 * 1 + 1 * 3) / 1.5)
    assert smoothed[3] == pytest.approx((0.25 * 1 + 0.5 * 3 + 1 * 5) / 1.75)


def test_a_curve_is_drawn_once_it_is_near_and_asked_for_once_it_is_wanted(window_at, tmp_path, programs):
    log = made.make_train(tmp_path / "train", steps=3, kept={}) / "metrics.jsonl"
    own = {f"own_{number}": number for number in range(5)}
    log.write_text("".join(f"{json.dumps(json.loads(line) | own)}\n" for line in log.read_text().splitlines()))
    with served(tmp_path, programs=programs()) as ask:
        window = window_at(ask, viewport={"width": 1280, "height": 500})
        page = window.open(f"/run/{ask.id('train')}")
        expect(page.locator("[data-curve=kl] canvas")).to_be_visible()
        far = page.locator("[data-curve=trained_tokens]")
        expect(far.locator(".reading b")).not_to_be_empty()
        expect(far.locator("canvas")).to_have_count(0)
        far.scroll_into_view_if_needed()
        expect(far.locator("canvas")).to_be_visible()
        assert not [url for url in window.heard.requests if "own_" in url]
        page.locator("details.more summary").click()
        wanted = page.locator("[data-curve=own_4]")
        expect(wanted.locator(".reading b")).to_have_text("4")
        wanted.scroll_into_view_if_needed()
        expect(wanted.locator("canvas")).to_be_visible()
        page.close()


def scored_at(run, folder, step, mean, protocol="a" * 64):
    """A score of a checkpoint that is no more."""
    values = read_json(made.make_score(folder, right=2) / "score.json")
    own = {"model": str(run / f"checkpoint-{step}"), "mean": mean, "ci95": [mean - 0.1, mean + 0.1]}
    write_json(folder / "score.json", values | own | {"protocol_digest": protocol})


def test_the_scores_of_a_run_are_curves_with_their_intervals_and_one_for_each_protocol(window_at, tmp_path, programs):
    run = made.make_train(tmp_path / "train", steps=40, kept={})
    for step, mean in ((40, 0.75), (10, 0.25), (20, 0.5)):
        scored_at(run, tmp_path / f"s{step}", step, mean)
    scored_at(run, tmp_path / "other", 20, 0.9, protocol="b" * 64)  # alone: no curve
    with served(tmp_path, programs=programs()) as ask:
        page = window_at(ask).open(f"/run/{ask.id('train')}")
        curves = page.locator("[data-curve=score]")
        expect(curves).to_have_count(1)
        expect(curves.locator(".reading")).to_contain_text("0.750step 40")
        curves.scroll_into_view_if_needed()  # then it is drawn
        expect(curves.locator("canvas")).to_be_visible()
        found = page.evaluate(
            "async address => { const { scores } = await (await fetch(address)).json();"
            " return (await import('/assets/app/pages/run.js')).scoredBy(scores); }",
            f"/api/runs/{ask.id('train')}",
        )
        page.close()
    (curve,) = found
    (line,) = curve["lines"]
    assert (curve["x"], line["mean"]) == ([10, 20, 40], [0.25, 0.5, 0.75])
    assert line["low"] == pytest.approx([0.15, 0.4, 0.65])
    assert line["high"] == pytest.approx([0.35, 0.6, 0.85])


def test_the_recipe_shows_what_differs_from_the_defaults_and_on_request_all(window):
    page = window.open(address(window, "/run/{train/other}"))
    recipe = page.locator("table.recipe")
    page.get_by_role("heading", name="Recipe").scroll_into_view_if_needed()
    expect(recipe.locator("tbody tr")).to_have_text(
        [re.compile("optimizer.lr.*0.0003.*0.0006"), re.compile("budget.steps.*80.*has none")]
    )
    page.get_by_role("button", name="every key").click()
    expect(recipe.locator("tr").filter(has_text="budget.max_wall_seconds")).to_contain_text("the same")
    expect(recipe.locator("tr.set")).to_have_count(2)


def test_the_plan_stands_beside_what_was_measured(window):
    page = window.open(address(window, "/run/{train/one}"))
    heading = page.get_by_role("heading", name="Plan and reality")
    heading.scroll_into_view_if_needed()
    both = page.locator("section.split > div").filter(has=heading)
    tokens = sum(one.rollouts * one.mean_tokens for one in map(metrics, range(1, made.STEPS + 1)))
    for what, planned, measured in (
        ("memory at its peak", "900 MB", "812 MB"),
        ("steps", "80", str(made.STEPS)),
        ("rows that are seen", "1,280", str(metrics(made.STEPS).rows_seen)),
        ("tokens of rollouts, at most", "655,360", f"{tokens:,.0f}"),
        ("seconds a step", "—", "0.39 s"),
    ):
        row = both.locator("tr").filter(has=page.get_by_role("rowheader", name=what, exact=True))
        expect(row.locator("td")).to_have_text([planned, measured])
    expect(both.locator(".note")).to_have_text("objective.clip never acts")


def test_the_score_page_says_the_score_with_its_error(window):
    page = window.open(address(window, "/score/{scores/end}"))
    score = json.loads((window.ask("/api/runs/" + window.id("scores/end"))).body)["score"]
    tile = page.locator(".tile.distilled")
    expect(tile.locator(".value")).to_have_text(number(score["mean"]))
    expect(tile.locator(".below")).to_contain_text(f"± {number(score['stderr'])}")
    expect(tile.locator(".below")).to_contain_text(f"{number(score['ci95'][0])} to {number(score['ci95'][1])}")


def test_numbers_are_said_as_on_the_terminal(window):
    page = window.open("/")
    values = [0, -0.0001, 0.0004, 0.0875, -0.5875, 0.5, 0.9996, 1, 12.3456, -7.25]
    said = page.evaluate(
        "async values => { const words = await import('/assets/app/words.js');"
        " return values.map(v => [words.number(v), words.signed(v), words.percent(Math.abs(v))]); }",
        values,
    )
    assert said == [[number(one), signed(one), percent(abs(one))] for one in values]
