"""What a model or a stranger wrote is text on every page: it runs nothing, turns nothing around, and freezes nothing.

A page that gave it to the browser as HTML would run it; that is shown first, in a page without a policy.
"""

import io
import json

import pytest
from PIL import Image
from tests.view.browser import made
from tests.view.server.asking import served

pytest.importorskip("playwright.sync_api", reason="the pages were not looked at: pip install playwright")
from playwright.sync_api import expect

pytestmark = pytest.mark.patient

SHOWN = made.BIDI.replace("\u202e", "U+202E").replace("\u2066", "U+2066").replace("\x00", "U+0000")
SHOWN = SHOWN.replace("\x1b", "U+001B").replace("\ufeff", "U+FEFF")
PLACES = """() => {
  const edges = ({ left, right, top, bottom, height }) =>
    ({ left, right, height, top: top + scrollY, bottom: bottom + scrollY });
  const response = document.querySelector('.response');
  const walk = document.createTreeWalker(response, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walk.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(walk.currentNode);
    if (walk.currentNode.parentElement.closest('math')) continue;
    texts.push(...[...range.getClientRects()].filter(one => one.width > 5).map(edges));
  }
  return [edges(response.querySelector('math').parentElement.getBoundingClientRect()), texts];
}"""
BLOCKED = "Blocked script execution"


def is_untouched(page):
    assert page.title() != "taken"
    assert page.locator("main img, main script, main [href^='javascript']").count() == 0


def test_the_attack_would_run_where_text_is_given_as_html(browser):
    page = browser.new_page()
    page.set_content("<div></div>")
    page.evaluate("text => { document.querySelector('div').innerHTML = text; }", made.ATTACK)
    page.wait_for_function("document.title === 'taken'")
    page.close()


def test_a_hostile_sample_is_text_and_so_is_its_judge(window):
    last = made.QUESTIONS * made.EACH - 1
    page = window.open(f"/score/{window.id('scores/end')}?line={last}")
    sample = page.locator("article.sample")
    for part in (".response", ".reply", ".facts", ".verdict"):
        expect(sample.locator(part)).to_contain_text(made.ATTACK)
        expect(sample.locator(part)).to_contain_text(SHOWN)
    page.get_by_role("button", name="Formulas").click()
    expect(sample.locator(".response math").first).to_be_visible()
    expect(sample.locator(".response")).to_contain_text(SHOWN)
    is_untouched(page)


def test_a_hostile_rollout_is_text_token_by_token(window):
    page = window.open(f"/rollouts/{window.id('train/one')}?step=1&at=2")
    expect(page.locator(".tokens")).to_contain_text(made.ATTACK)
    expect(page.locator(".tokens")).to_contain_text(SHOWN)
    expect(page.locator(".tokens")).to_contain_text("é 数 🧮")
    expect(page.locator(".list")).to_contain_text(made.ATTACK[:80])
    assert page.locator(".tokens .t").first.evaluate("one => getComputedStyle(one).unicodeBidi") == "isolate"
    is_untouched(page)


def test_a_hostile_attempt_and_its_report_are_text(window_at, place, programs):
    made.make_attempt(place.parent / "hostile/attempt", page=f"<!doctype html><p>The report.</p>{made.ATTACK}")
    with served(place.parent / "hostile", programs=programs()) as ask:
        window = window_at(ask)
        page = window.open(f"/attempt/{ask.id('attempt')}")
        expect(page.locator("header.title")).to_contain_text(SHOWN)
        page.locator(".finding").first.locator("summary").click()
        expect(page.locator(".finding").first).to_contain_text(SHOWN)
        page.locator(".report iframe").scroll_into_view_if_needed()
        expect(page.frame_locator(".report iframe").locator("p")).to_have_text("The report.")
        expect(page.locator("table.log")).to_contain_text(SHOWN)
        is_untouched(page)
        page.close()
    assert [one for one in window.heard.faults if BLOCKED in one]  # the report's script was there, and did not run
    window.heard.faults[:] = [one for one in window.heard.faults if BLOCKED not in one and "404" not in one]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"\xe6\x95", "\ufffd"),  # cut in the middle of a character
        (b"\xed\xa0\x80", "⟨U+D800⟩"),  # half a character
        (b"\x00", "U+0000"),
        (b"\\q", "\\q"),  # no escape that JSON knows
    ],
)
def test_bytes_that_are_no_text_are_shown_as_such_and_hide_nothing(window_at, tmp_path, programs, written, shown):
    file = made.make_score(tmp_path / "score", right=2) / "samples.jsonl"
    first, *others = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(
        first.replace(b'"response": "', b'"response": "here ' + written + b" there ", 1) + b"".join(others)
    )
    with served(tmp_path, programs=programs()) as ask:
        page = window_at(ask).open(f"/score/{ask.id('score')}?line=0")
        expect(page.locator("article.sample .response")).to_contain_text(f"here {shown} there")
        expect(page.get_by_role("table", name="Samples")).to_have_attribute("aria-rowcount", str(1 + len(others)))
        expect(page.get_by_role("table", name="Samples").locator(".row").first).to_contain_text("arith-final-0001")
        is_untouched(page)
        page.close()


def test_a_million_characters_are_laid_out_only_where_one_looks(window):
    page = window.open(f"/score/{window.id('scores/end')}?line={made.QUESTIONS * made.EACH - 2}")
    response = page.locator(".response")
    expect(page.locator("article.sample")).to_contain_text(f"{made.LONG:,} characters")
    laid_out = len(response.inner_text())
    assert 1_000 < laid_out < 60_000
    page.get_by_role("button", name="after").click()
    expect(page.locator("article.sample")).to_contain_text("200,001 to 400,000")
    page.keyboard.press("e")
    expect(response.locator(".block").last).to_be_in_viewport()
    expect(response.locator(".block").last).to_contain_text("xxxx")


def test_formulas_are_rendered_and_what_is_none_stays_as_it_was_written(window):
    page = window.open(f"/score/{window.id('scores/end')}?line=1")
    response = page.locator(".response")
    expect(response).to_contain_text(made.FORMULAS)
    page.get_by_role("button", name="Formulas").click()
    expect(response.locator("math")).to_have_count(3)
    expect(response.locator("math mfrac")).to_have_count(1)
    expect(response.locator("math msqrt")).to_have_count(1)
    expect(response.locator(".math.display math")).to_have_count(1)
    assert "formulas=true" in page.url  # a link leads to the same view
    page.reload()
    expect(response.locator("math")).to_have_count(3)
    expect(response).to_contain_text("$\\fcolorbox{red}{blue}{x}$")  # would need a style in the page
    expect(response).to_contain_text("$\\frac{$")
    page.keyboard.press("m")
    expect(response).to_have_text(made.FORMULAS)


def test_a_boxed_answer_stands_in_a_box(window_at, tmp_path, programs):
    file = made.make_score(tmp_path / "score", right=2) / "samples.jsonl"
    first, *others = map(json.loads, file.read_text().splitlines())
    file.write_text("".join(map(made.line, [first | {"response": "It is $\\boxed{65}$."}, *others])))
    with served(tmp_path, programs=programs()) as ask:
        page = window_at(ask).open(f"/score/{ask.id('score')}?line=0&formulas=true")
        box = page.locator(".response menclose")
        expect(box).to_have_css("border-top-style", "solid")
        tall = "one => one.getBoundingClientRect().height"
        assert (
            box.evaluate(tall) > page.locator(".response mn").evaluate(tall) + 4
        )  # the rule stands clear of the number
        page.close()


def test_marks_piled_on_a_letter_paint_over_nothing_around_it(window_at, tmp_path, programs):
    file = made.make_score(tmp_path / "score", right=2) / "samples.jsonl"
    first, *others = map(json.loads, file.read_text().splitlines())
    first["judgement"] |= {"extracted": "e" + "\u0301" * 500, "reason": "e" + "\u0301" * 500}
    file.write_text("".join(map(made.line, [first, *others])))
    with served(tmp_path, programs=programs()) as ask:
        page = window_at(ask).open(f"/score/{ask.id('score')}?line=0")
        for name in (".verdict", ".facts dd"):
            place = page.locator(f"article.sample {name}").first
            expect(place).to_contain_text("\u0301")
            place.scroll_into_view_if_needed()
            box = place.bounding_box()
            above = {"x": box["x"], "y": box["y"] - 60, "width": 80, "height": 50}
            piled = page.screenshot(clip=above)
            page.locator("article.sample .said").evaluate_all(
                "all => all.forEach(one => { one.style.visibility = 'hidden' })"
            )
            assert page.screenshot(clip=above) == piled
            page.locator("article.sample .said").evaluate_all(
                "all => all.forEach(one => { one.style.visibility = '' })"
            )
        page.close()


@pytest.mark.parametrize(
    "formula",
    [
        "$\\rule{1000000em}{1000000em}$",
        "$\\rule[1.5em]{9em}{9em}$",
        "$\\kern-9em\\rule{9em}{9em}$",
    ],
)
def test_no_formula_paints_over_what_stands_around_it(window_at, tmp_path, programs, formula):
    around = "what stands around it " * 3
    file = made.make_score(tmp_path / "score", right=2) / "samples.jsonl"
    first, *others = map(json.loads, file.read_text().splitlines())
    first["response"] = f"{around}\n{around}{formula}{around}\n{around}"
    file.write_text("".join(map(made.line, [first, *others])))
    with served(tmp_path, programs=programs()) as ask:
        page = window_at(ask).open(f"/score/{ask.id('score')}?line=0")
        page.get_by_role("button", name="Formulas").click()
        expect(page.locator(".response math")).to_have_count(1)
        box, texts = page.evaluate(PLACES)
        image = Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("L")
        page.close()
    assert box["height"] < 200
    for text in texts:
        outside = [ends for ends in ((text["left"], box["left"]), (box["right"], text["right"])) if ends[0] < ends[1]]
        beside = text["top"] < box["bottom"] and box["top"] < text["bottom"]
        for left, right in outside if beside else [(text["left"], text["right"])]:
            part = image.crop((int(left), int(text["top"]), int(right), int(text["bottom"])))
            dark = sum(part.histogram()[:128]) / (part.width * part.height)
            assert dark < 0.35, (formula, text)  # letters, and no slab


def test_the_name_of_the_window_turns_nothing_around(window_at, tmp_path, programs):
    name = "a\u202eb"
    made.make_score(tmp_path / "runs" / name, right=2)
    with served(tmp_path / "runs", programs=programs()) as ask:
        page = window_at(ask).open(f"/score/{ask.id(name)}")
        expect(page).to_have_title("aU+202Eb · opd")
        page.get_by_role("link", name="Runs", exact=True).click()
        expect(page.locator(".row .name a")).to_have_attribute("title", "aU+202Eb")
        page.close()


def test_blocks_of_a_text_give_the_text_again_and_cut_no_character(window):
    page = window.open("/")
    texts = ["", "a", "\n\n" * 4000, "🧮" * 5001, "word " * 3000 + "\n" + "line\n" * 2000, "x" + "🧮" * 4000]
    found = page.evaluate("texts => import('/assets/app/text.js').then(one => texts.map(one.blocksOf))", texts)
    assert ["".join(blocks) for blocks in found] == texts
    assert max(len(blocks) for blocks in found) > 2
    assert all(len(block.encode("utf-16-le")) <= 2 * 3002 for blocks in found for block in blocks)
    for blocks in found:
        for block in blocks:
            block.encode()  # half a character can't be
