"""What a reader does: find, filter, choose, follow a link, move by keys, and come back by the address."""

import re
import sys

import pytest
from tests.view.browser import made
from tests.view.conftest import byte_tokenizer
from tests.view.server.asking import served

from opd.records.scores import Verdict
from opd.view.server.programs import Programs
from opd.view.tokens import level, level_class, tokens_of, widest
from opd.view.words import number, probability, signed

pytest.importorskip("playwright.sync_api", reason="the pages were not looked at: pip install playwright")
from playwright.sync_api import expect

pytestmark = pytest.mark.patient


def test_a_filter_narrows_the_list_and_stands_in_the_address(window):
    page = window.open("/")
    rows = page.locator(".row")
    expect(rows).to_have_count(5)
    page.keyboard.press("/")
    page.keyboard.type("lr=0.0003")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("train/other")
    page.reload()
    expect(rows).to_have_count(1)
    page.get_by_label("Find").fill("no such run")
    expect(page.locator(".empty")).to_contain_text("no such run")
    page.get_by_role("button", name="Show all").click()
    page.get_by_role("button", name=re.compile("^scores")).click()
    expect(rows).to_have_count(2)
    assert "kind=score" in page.url


def test_runs_are_grouped_by_what_differs_between_their_recipes(window):
    page = window.open("/?kind=train")
    page.get_by_label("Group by").select_option("optimizer.lr")
    expect(page.locator(".group")).to_have_text(
        [re.compile("optimizer.lr = 0.0003"), re.compile("optimizer.lr = 0.0006")]
    )


def test_keys_move_choose_open_and_go_back_to_all_runs(window):
    page = window.open("/?kind=score")
    expect(page.locator(".row")).to_have_count(2)
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.get_by_role("button", name="Compare two scores")).to_be_enabled()
    page.keyboard.press("c")
    expect(page.locator("h1")).to_have_text("Compare")
    page.keyboard.press("g")
    page.keyboard.press("r")
    expect(page.locator("h1")).to_have_text("Runs")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("all runs")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator(".row").first).to_be_visible()  # keys go to rows that are there
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).not_to_have_text("Runs")
    page.go_back()
    expect(page.locator("h1")).to_have_text("Runs")


def test_training_runs_are_drawn_into_one_picture_with_where_they_differ(window):
    page = window.open(f"/?chosen={window.id('train/one')},{window.id('train/other')}")
    panel = page.get_by_label("Side by side")
    expect(panel.locator(".reading span b")).to_have_count(2)
    expect(panel.locator("thead")).to_contain_text("optimizer.lr")
    expect(panel.locator("tbody tr").filter(has_text="train/other")).to_contain_text("0.0003")


def test_tokens_have_the_colours_of_the_gaps_and_the_reading_both_log_probabilities(window):
    (rollout, *_) = made.rollouts()
    tokens = tokens_of(rollout, byte_tokenizer())
    page = window.open(f"/rollouts/{window.id('train/one')}?step=1&at=0")
    spans = page.locator(".tokens .t")
    expect(spans).to_have_count(len(tokens))
    classes = [one.replace("t", "", 1).strip() for one in spans.evaluate_all("all => all.map(one => one.className)")]
    assert classes == [level_class(level(token.gap)) for token in tokens]
    assert {"n5", "p1", "p2"} & set(classes)  # there is something to colour
    (worst,) = widest(tokens, count=1)
    spans.nth(worst.place - 1).hover()
    reading = page.locator(".token-reading")
    expect(reading).to_contain_text(f"token {worst.place}, id {worst.id}")
    expect(reading).to_contain_text(f"student {number(worst.student_logp)} nats")
    expect(reading).to_contain_text(f"teacher {number(worst.teacher_logp)} nats")
    expect(reading).to_contain_text(f"gap {signed(worst.gap)} nats")


def test_the_teachers_likeliest_tokens_stand_with_a_token(window):
    first = made.rollouts()[0]
    page = window.open(f"/rollouts/{window.id('train/one')}?step=1&at=0&place=7")
    ranked = page.locator(".token-reading .likeliest li")
    expect(ranked).to_have_text(
        [re.compile(rf"4\s+{probability(-0.25)}"), re.compile(probability(first.teacher_logp[6]))]
    )
    expect(ranked.nth(1)).to_have_class("taken")
    expect(ranked.nth(0)).to_have_attribute("title", re.compile("−0.250 nats"))
    other = page.locator(".tokens .t").nth(0)
    other.hover()
    expect(ranked.nth(1)).to_contain_text(probability(first.teacher_logp[0]))


def test_pointing_at_a_token_moves_nothing_below(window):
    page = window.open(f"/rollouts/{window.id('train/one')}?step=1&at=0")
    last = page.locator(".tokens .t").last
    expect(last).to_be_visible()
    before = last.bounding_box()
    for at in (0, 6, 13, 22):  # of several widths
        page.locator(".tokens .t").nth(at).hover()
        expect(page.locator(".token-reading")).to_contain_text(f"token {at + 1},")
        assert last.bounding_box() == before


def test_a_hostile_token_is_text_among_the_likeliest_as_well(window):
    hostile = made.rollouts()[2]
    place = hostile.rollout.token_ids.index(made.byte_tokenizer().encode("<", add_special_tokens=False).ids[0])
    page = window.open(f"/rollouts/{window.id('train/one')}?step=1&at=2&place={place + 1}")
    expect(page.locator(".likeliest .taken .its-text")).to_have_text("<")


def test_a_key_jumps_to_the_widest_gap_and_the_address_keeps_the_place(window):
    page = window.open(f"/rollouts/{window.id('train/one')}?step=1&at=3")
    expect(page.locator(".tokens .t").first).to_be_visible()
    assert page.locator(".tokens .t").count() < 3_000  # of more than six thousand: the rest is not laid out
    page.keyboard.press("w")
    current = page.locator(".t.current")
    expect(current).to_be_in_viewport()
    expect(page.locator(".token-reading")).to_contain_text("token 6,001,")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".token-reading")).to_contain_text("token 6,002,")
    assert "place=6002" in page.url
    page.reload()
    expect(current).to_be_in_viewport()
    expect(page.locator(".token-reading")).to_contain_text("token 6,002,")


def test_a_place_stays_under_the_eye_while_what_is_around_it_is_laid_out(window_at, ask):
    window = window_at(ask, viewport={"width": 390, "height": 844}, color_scheme="dark")
    page = window.open(f"/rollouts/{ask.id('train/one')}?step=1&at=4")
    expect(page.locator(".tokens .t").first).to_be_attached()
    for part in ("html", ".tokens"):  # as in a browser that does not hold the place by itself
        page.locator(part).evaluate("one => { one.style.overflowAnchor = 'none'; }")
    page.keyboard.press("w")
    expect(page.locator(".token-reading")).to_contain_text("token 12,001,")
    page.evaluate(  # until nothing more is laid out
        "async () => { const laid = () => document.querySelectorAll('.t').length;"
        " for (let last = -1, still = 0; still < 5; last = laid()) {"
        " await new Promise(requestAnimationFrame); still = last === laid() ? still + 1 : 0; } }"
    )
    expect(page.locator(".t.current")).to_be_in_viewport()


def test_rollouts_are_filtered_sorted_and_stepped_through(window):
    page = window.open(f"/rollouts/{window.id('train/one')}?step=1")
    rows = page.locator(".list .row")
    expect(rows).to_have_count(len(made.rollouts()))
    page.get_by_role("button", name=re.compile("^cut short")).click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("cut short")
    page.get_by_role("button", name=re.compile("^cut short")).click()
    page.get_by_label("Order").select_option("worst")
    expect(rows.first).to_contain_text("−9.00")
    page.keyboard.press("]")
    expect(page.locator(".steps")).to_contain_text("Step 20")
    expect(rows).to_have_count(2)


def test_rollouts_are_right_or_wrong_once_they_were_graded(window_at, tmp_path):
    made.make_train(tmp_path / "train", steps=1, kept={1: made.rollouts()})
    grader = (
        "import json, sys\nfor line in open(sys.argv[2]):\n    row = json.loads(line)\n"
        "    right = '70' in row['response']\n"
        "    print(json.dumps({'verdict': 'correct' if right else 'wrong', 'correct': right, 'extracted': None}))"
    )
    with served(tmp_path, programs=Programs([sys.executable, "-S", "-c", grader])) as ask:
        page = window_at(ask).open(f"/rollouts/{ask.id('train')}?step=1")
        rows = page.locator(".list .row")
        expect(rows).to_have_count(5)
        page.get_by_role("button", name=re.compile("^right")).click()
        expect(rows).to_have_count(1)
        expect(rows.locator(".tag.correct")).to_be_visible()
        expect(page.get_by_role("button", name=re.compile("^wrong"))).to_contain_text("4")
        page.get_by_role("button", name=re.compile("^in a loop")).click()  # both have to hold
        expect(page.locator(".empty")).to_contain_text("None of 5 rollouts fits")
        page.reload()
        expect(page.locator(".empty")).to_contain_text("None of 5 rollouts fits")
        page.close()


def test_samples_are_filtered_by_verdict_and_by_question_and_a_link_leads_back(window):
    wrong = sum(one.judgement.verdict is Verdict.WRONG for one in made.samples(3))
    page = window.open(f"/score/{window.id('scores/end')}")
    page.get_by_role("button", name=re.compile("^wrong")).click()
    expect(page.get_by_role("table", name="Samples")).to_have_attribute("aria-rowcount", str(wrong))
    page.locator(".strip canvas").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("table", name="Samples")).to_have_attribute("aria-rowcount", "1")
    page.reload()
    expect(page.get_by_role("table", name="Samples")).to_have_attribute("aria-rowcount", "1")
    expect(page.locator("article.sample .verdict")).to_contain_text("wrong")


def test_a_long_list_holds_only_the_rows_in_view_and_reaches_its_end(window):
    page = window.open(f"/score/{window.id('scores/end')}")
    samples = page.get_by_role("table", name="Samples")
    expect(samples.locator(".row").first).to_contain_text("arith-final-0001")
    assert samples.locator(".row").count() < 60 < made.QUESTIONS * made.EACH
    samples.evaluate("one => { one.scrollTop = one.scrollHeight; }")
    expect(samples.locator(f".row[aria-rowindex='{made.QUESTIONS * made.EACH}']")).to_contain_text("arith-final-0060")
    assert samples.locator(".row").count() < 60


def test_a_comparison_says_the_difference_and_shows_which_questions_flipped(window):
    before, after = ({}, {})
    for counts, right in ((before, 1), (after, 3)):
        for one in made.samples(right):
            counts[one.question] = counts.get(one.question, 0) + one.correct
    flipped = sum(before[question] != after[question] for question in before)
    page = window.open(f"/compare?a={window.id('scores/start')}&b={window.id('scores/end')}")
    said = made.compared()
    tile = page.locator(".tile").filter(has_text="B − A")
    expect(tile.locator(".value")).to_have_text(signed(said["difference"]))
    expect(tile).to_contain_text(f"{signed(said['ci95'][0])} to {signed(said['ci95'][1])}")
    expect(page.get_by_role("table", name="Questions")).to_have_attribute("aria-rowcount", str(flipped))
    most = page.locator(".pairs .cell").first
    expect(most).to_have_attribute("aria-label", f"{flipped} questions: A 1 of 4, B 3 of 4")
    most.click()
    expect(most).to_have_attribute("aria-pressed", "true")
    assert "cell=1-3" in page.url
    rows = page.get_by_role("table", name="Questions").locator(".row")
    expect(rows.first).to_contain_text("1 of 4")
    expect(rows.first).to_contain_text("3 of 4")


def test_a_try_shows_what_it_was_made_from_and_its_files(window):
    page = window.open(f"/attempt/{window.id('attempts/made_up')}")
    page.locator(".timeline .try").filter(has_text="formal/attempt-001").click()
    panel = page.get_by_label("formal/attempt-001")
    expect(panel).to_contain_text("a1a1a1a1a1a1a1a1…")
    panel.get_by_text("300 entries in the receipt").click()
    files = panel.get_by_role("table", name="Files")
    expect(files.locator(".row").first).to_contain_text("000.txt")
    files.evaluate("one => { one.scrollTop = one.scrollHeight; }")
    expect(files.locator(".row[aria-rowindex='300']")).to_contain_text("299.txt")
    page.reload()
    expect(panel).to_be_visible()


def test_an_audit_shows_each_verdict_with_its_sentence_and_its_controls(window):
    page = window.open(f"/attempt/{window.id('attempts/made_up')}")
    findings = page.locator(".finding")
    expect(findings).to_have_count(2)
    expect(findings.nth(0)).to_contain_text("none found")
    expect(findings.nth(1)).to_contain_text("confirmed")
    expect(findings.nth(1)).to_contain_text("Half of the time was left unused.")
    findings.nth(0).locator("summary").click()
    expect(findings.nth(0)).to_contain_text("✓ found: an input that changed")


def test_an_address_that_leads_nowhere_says_so(window):
    page = window.open("/run/000000000000")
    expect(page.get_by_role("alert")).to_contain_text("000000000000")
    window.heard.faults[:] = [one for one in window.heard.faults if "404" not in one]
