"""What a page can't show it says: a run of another kind, a step that is not kept, a closed file, an unknown time."""

import json

import pytest
from tests.view.browser import made
from tests.view.conftest import metrics
from tests.view.rights import bound_by_modes
from tests.view.server.asking import served

from opd.records.failures import Failure, Raised
from opd.records.files import write_json

pytest.importorskip("playwright.sync_api", reason="the pages were not looked at: pip install playwright")
from playwright.sync_api import expect

pytestmark = pytest.mark.patient


@pytest.mark.parametrize(
    ("page_of", "name", "own"),
    [
        ("score", "train/one", "run"),
        ("score", "attempts/made_up", "attempt"),
        ("attempt", "scores/end", "score"),
        ("run", "scores/end", "score"),
    ],
)
def test_a_page_says_of_another_kind_what_it_is_and_where_it_is_shown(window, page_of, name, own):
    page = window.open(f"/{page_of}/{window.id(name)}")
    expect(page.get_by_role("link", name="its own page")).to_have_attribute("href", f"/{own}/{window.id(name)}")
    expect(page.locator("main")).to_contain_text(", not a")
    window.heard.faults[:] = [one for one in window.heard.faults if "404" not in one]  # what only its kind has


@pytest.mark.parametrize(("asked", "said"), [("9999", "step 20, the nearest"), ("soon", "step 20, the newest")])
def test_a_step_that_is_not_kept_is_said_to_be_not(window, asked, said):
    page = window.open(f"/rollouts/{window.id('train/one')}?step={asked}")
    expect(page.locator("main .note")).to_have_text(f"No rollouts of step {asked} are kept; these are of {said}.")
    page.keyboard.press("[")
    expect(page.locator(".steps")).to_contain_text("Step 1 of 20")
    expect(page.locator("main .note")).to_have_count(0)


def test_what_is_closed_is_named_and_is_no_emptiness(window_at, tmp_path, programs):
    score, run = made.make_score(tmp_path / "score", right=2), made.make_train(tmp_path / "run", kept={})
    for path in (score / "samples.jsonl", run):
        path.chmod(0)
    try:
        with bound_by_modes(), served(tmp_path, programs=programs()) as ask:
            window = window_at(ask)
            page = window.open("/")
            expect(page.locator(".trouble")).to_have_text(f"{run} can't be looked into: Permission denied")
            page = window.open(f"/score/{ask.id('score')}")
            why = f"{score / 'samples.jsonl'} can't be read: Permission denied"
            expect(page.locator(".trouble", has_text=why)).to_have_count(3)  # the score, its questions, its samples
            expect(page.locator("main")).not_to_contain_text("always right")
            expect(page.locator("main")).not_to_contain_text("No sample fits")
            page.close()
    finally:
        run.chmod(0o700)
    window.heard.faults[:] = [one for one in window.heard.faults if "409" not in one]


def test_a_run_that_failed_or_was_warned_says_of_what_and_from_where_it_goes_on(window_at, tmp_path, programs):
    run = made.make_train(tmp_path / "run", steps=3, kept={})
    with (run / "metrics.jsonl").open("a") as file:
        file.write(
            json.dumps(metrics(4).resolved() | {"warnings": [f"half of it loops {number}" for number in range(5)]})
            + "\n"
        )
    raised = [
        ("opd.records.failures.NotWritten", "the state can't be written"),
        ("OSError", "No space left on device"),
    ]
    failure = Failure(
        exceptions=tuple(Raised(kind=kind, message=message) for kind, message in raised),
        errno=28, errno_name="ENOSPC", path="/full", phase="save", signal=None, step=5, seconds=2.0,
        checkpoint=None, state="state-000004",
    )  # fmt: skip
    write_json(run / "failure.json", failure.resolved())
    with served(tmp_path, programs=programs()) as ask:
        page = window_at(ask).open(f"/run/{ask.id('run')}")
        said = "It failed. OSError: No space left on device --resume goes on from state-000004."
        expect(page.get_by_role("alert").locator("p")).to_have_text(said)
        warnings = page.get_by_role("region", name="Warnings")
        expect(warnings.get_by_role("heading")).to_have_text("5 warnings")
        expect(warnings.locator("li")).to_have_text([f"step 4 half of it loops {number}" for number in (4, 3, 2)])
        warnings.get_by_role("button").click()
        expect(warnings.locator("li")).to_have_count(5)
        page.close()


def test_the_device_of_an_exploration_is_drawn_and_what_was_asked_at_the_desk_is_told(window):
    page = window.open(f"/attempt/{window.id('attempts/made_up')}")
    page.get_by_role("heading", name="The device during explore/attempt-001").scroll_into_view_if_needed()
    processes = page.locator("figure").filter(has_text="Processes")
    expect(processes.locator(".reading b")).to_have_text("2")
    expect(processes.locator("canvas")).to_be_visible()
    desk = page.locator("table.log").filter(has_text="what it was told")
    expect(desk.locator("tbody tr")).to_contain_text(["10:00:01"])
    expect(desk.locator("tbody tr")).to_contain_text(["timer"])


def test_an_attempt_that_explores_has_its_time_so_far_and_none_where_none_is_known(window_at, tmp_path, programs):
    attempt = made.make_attempt(tmp_path / "attempt")
    for stage in ("explore", "formal", "audit", "report"):
        (attempt / stage).rename(tmp_path / f".{stage}")
    (attempt / "explore" / "attempt-001.partial").mkdir(parents=True)
    with served(tmp_path, programs=programs()) as ask:
        window = window_at(ask)
        page = window.open(f"/attempt/{ask.id('attempt')}")
        explored = page.locator(".tile", has_text="Exploration")
        expect(explored.locator(".value")).to_have_text("—")
        expect(page.locator(".timeline .bar")).to_have_count(0)
        begun = {"utc": "2026-01-31T10:00:00.000Z", "monotonic": 100.0, "boot_id": "b", "realtime": 1e9}
        name = "explore/attempt-001"
        event = {"kind": "began", "actor": name, "data": {"name": name}, "at": begun}
        (attempt / "events.jsonl").write_text(made.line(event))
        (attempt / "lease.json").write_text(json.dumps({"heard": begun | {"monotonic": 165.0}}))
        expect(explored.locator(".value")).to_have_text("1 min 5 s")
        expect(page.locator(".tile", has_text="Tries")).to_contain_text("1 min 5 s at work")
        expect(page.locator(".timeline .bar")).to_have_count(1)
        assert page.locator(".timeline .bar").evaluate("one => one.offsetWidth / one.parentElement.offsetWidth") > 0.9
        page.close()
    window.heard.faults[:] = [one for one in window.heard.faults if "404" not in one]  # no device was recorded


def test_a_share_that_is_always_none_has_an_axis_from_none_on(window):
    page = window.open("/")
    ends = "([low, high]) => import('/assets/app/curve.js').then(one => one.rangeOf(low, high))"
    assert page.evaluate(ends, [0, 0]) == [0, 1]
    assert page.evaluate(ends, [0.2, 0.2]) == pytest.approx([0.18, 0.22])


@pytest.mark.parametrize("width", [390, 1280])
def test_what_damaged_a_run_can_be_read_in_the_list_beside_its_state(window_at, tmp_path, programs, width):
    run = made.make_train(tmp_path / "a folder of a rather long name/run", kept={})
    (run / "run.json").write_text("{")
    with served(tmp_path, programs=programs()) as ask:
        page = window_at(ask, viewport={"width": width, "height": 844}).open("/")
        why, state = page.locator(".runs .row .why"), page.locator(".runs .row .state")
        expect(why).to_contain_text("run.json is not JSON")
        assert why.evaluate("one => one.scrollWidth <= one.clientWidth && one.scrollHeight <= one.clientHeight + 1")
        said, beside = why.bounding_box(), state.bounding_box()
        assert said["y"] >= beside["y"] + beside["height"] or said["x"] >= beside["x"] + beside["width"]
        page.close()
