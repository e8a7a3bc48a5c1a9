"""The page is parsed as a browser would; its numbers are looked up in the records that it was made from."""

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import opd.view
from opd.records.metrics import StepMetrics
from opd.records.rollouts import ScoredRollout
from opd.records.scores import Comparison, Score
from opd.view.story.report import flattened, render, write_report
from opd.view.story.story import Cited, NextCommand, Story
from opd.view.tokens import LARGEST_TOKENS

VOID = {"meta", "link", "br", "img", "use", "path", "rect", "input", "hr"}
HOSTILE = '<script>alert("1")</script><img src=x onerror=alert(1)></pre></style>\u202e'


class Page(HTMLParser):
    """Elements with their attributes, whether they nest rightly, and the text outside of styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open, f"</{tag}> closes nothing"
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data

    def tags(self, name: str) -> list[dict[str, str]]:
        return [values for tag, values in self.elements if tag == name]


@pytest.fixture(scope="module")
def text(story: Story) -> str:
    return render(story)


@pytest.fixture
def page(text: str) -> Page:
    return Page(text)


def test_equal_stories_give_equal_files_whole_and_well_nested(story: Story, text: str, tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", story)
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == text
    assert text.lstrip().lower().startswith("<!doctype html>")
    assert Page(text).open == []


def test_the_page_asks_for_nothing_and_runs_nothing(text: str, page: Page) -> None:
    assert page.tags("script") == []
    for tag, values in page.elements:
        for name, value in values.items():
            assert not name.startswith("on"), f"{tag} {name}"
            if name in {"src", "href", "xlink:href", "srcset", "action", "data", "poster"}:
                assert value.startswith(("#", "data:")), f"{tag} {name}={value}"
    assert "url(" not in text.replace("url(#", "")
    assert "@import" not in text
    (policy,) = [one["content"] for one in page.tags("meta") if one.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")


def test_a_score_carries_its_count_its_cap_its_cut_and_both_errors(story: Story, page: Page) -> None:
    """E76: every score with n, cap, truncation and the clustered error, the naive one beside it."""
    for cited in (story.start, story.result, story.teacher):
        score = cited.value
        for shown in (f"{score.mean:.3f}", f"{score.stderr:.4f}", f"{score.stderr_naive:.4f}", cited.file):
            assert shown in page.text
        assert f"{score.stderr:.4f}" != f"{score.stderr_naive:.4f}"
    assert page.text.count("500 × 4") == 3
    assert "cap was 64 new tokens" in page.text
    assert "cut short" in page.text
    assert story.start.value.protocol_digest in page.text
    assert story.recipe_digest in page.text


def test_every_value_names_the_file_that_it_came_from(story: Story, page: Page) -> None:
    files = {
        values["title"].removeprefix("Read from ") for values in page.tags("span") if values.get("class") == "src"
    }
    cited = [story.start, story.result, story.teacher, story.comparison, story.metrics, story.rollout, story.recipe]
    assert files == {one.file for one in [*cited, story.seconds, *(point.score for point in story.curve)]}


def test_the_headline_says_what_can_be_told(
    story: Story, text: str, score_of: Callable[..., Score], comparison_of: Callable[..., Comparison]
) -> None:
    assert "Distillation raised pass@1 from 0.465 to 0.843." in Page(text).text
    near = replace(story.result, value=score_of("r", 0.47))
    none = replace(
        story,
        result=near,
        comparison=Cited(value=comparison_of(story.start.value, near.value), file="comparison.json"),
    )
    said = " ".join(Page(render(none)).text.replace("\N{NO-BREAK SPACE}", " ").split())
    assert "cannot be told apart" in said
    assert "raised" not in said
    assert "more than the noise" not in said


def test_undefined_values_are_said_to_be_undefined(story: Story, score_of: Callable[..., Score]) -> None:
    bare = score_of("t", 0.969, stderr=None, stderr_naive=None, ci95=None)
    text = Page(render(replace(story, teacher=Cited(value=bare, file="scores/teacher/score.json")))).text
    assert "95\N{NO-BREAK SPACE}% interval undefined" in text
    assert "nan" not in text.split()
    assert "None" not in text


def test_the_spans_of_the_rollout_carry_its_gaps(story: Story, page: Page) -> None:
    scored = story.rollout.value
    titles = [values["title"] for values in page.tags("span") if values.get("title", "").startswith("token ")]
    gaps = [float(re.search(r"gap (\S+) nats", title)[1].replace("\N{MINUS SIGN}", "-")) for title in titles]  # type: ignore[index]
    assert gaps == pytest.approx(np.subtract(scored.teacher_logp, scored.rollout.logp), abs=6e-4)
    assert "73-9=63\n63+7=70\n</think>\n\n\\boxed{70}<eos>" in page.text


def test_hostile_text_is_shown_and_not_obeyed(
    story: Story, scored_of: Callable[..., ScoredRollout], page: Page
) -> None:
    clean = page
    hostile = replace(
        story,
        title=HOSTILE,
        rollout=Cited(value=scored_of(problem=HOSTILE, response=HOSTILE), file=HOSTILE),
        recipe=Cited(value={HOSTILE: {"a": HOSTILE}}, file="run/recipe.json"),
        caveats=(HOSTILE,),
        next_commands=(NextCommand(command=HOSTILE, does=HOSTILE),),
    )
    page = Page(render(hostile))
    assert page.tags("script") == []
    assert page.tags("img") == []
    assert len(page.tags("pre")) == len(clean.tags("pre")) == 1
    assert len(page.tags("style")) == 1
    assert page.open == []
    assert page.text.count('<script>alert("1")</script>') >= 6, (
        "in the title, prompt, answer, recipe, caveat, command"
    )


def test_a_long_run_and_a_long_answer_stay_below_a_megabyte_and_a_half(
    story: Story, metrics_of: Callable[[int], StepMetrics], scored_of: Callable[..., ScoredRollout]
) -> None:
    answer = scored_of(problem="9" * 100_000, response="73-9=64\n" * 1600)
    assert len(answer.rollout.token_ids) > 11_000
    long = replace(
        story,
        metrics=Cited(value=tuple(metrics_of(step) for step in range(1, 2058)), file="run/metrics.jsonl"),
        rollout=Cited(value=answer, file="run/rollouts/step-002057.parquet"),
    )
    text = render(long)
    assert len(text.encode()) < 1_500_000
    assert f"of which the first {LARGEST_TOKENS:,} are shown" in text
    assert "more characters" in text


def test_ids_are_unique_and_every_reference_within_the_page_has_its_target(page: Page) -> None:
    ids = [values["id"] for _, values in page.elements if "id" in values]
    assert len(ids) == len(set(ids))
    referred = {
        value.removeprefix("#")
        for _, values in page.elements
        for name, joined in values.items()
        if name in {"href", "xlink:href", "aria-labelledby"} and not joined.startswith("data:")
        for value in joined.split()
    }
    assert referred <= set(ids)


def test_the_page_can_be_read_without_seeing_it(page: Page) -> None:
    assert page.tags("html")[0]["lang"] == "en"
    assert len(page.tags("h1")) == 1
    assert len(page.tags("caption")) == len(page.tags("table"))
    assert all(values.get("scope") in {"col", "row"} for values in page.tags("th"))
    assert all(values.get("role") == "img" for values in page.tags("svg"))
    assert all(values.get("aria-label") for values in page.tags("pre"))
    assert all(values.get("aria-label") for values in page.tags("div") if "tabindex" in values)
    assert any("width=device-width" in values.get("content", "") for values in page.tags("meta"))


def colours(sheet: str, name: str) -> list[tuple[int, ...]]:
    """The values of a custom property: light, then dark."""
    found = re.findall(rf"--{name}: ([^;]+);", sheet)[:2]
    return [
        tuple(int(one[at : at + 2], 16) for at in (1, 3, 5)) if one.startswith("#") else tuple(map(int, one.split()))
        for one in found
    ]


def luminance(colour: tuple[float, ...]) -> float:
    scaled = [one / 255 for one in colour]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in scaled]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_text_stands_out_from_the_page_and_from_every_token_colour(mode: int) -> None:
    """WCAG 2.2 AA: 4.5 to 1."""
    sheet = (Path(opd.view.__file__).parent / "report.css").read_text(encoding="utf-8")
    paper, panel, ink = (colours(sheet, name)[mode] for name in ("paper", "panel", "ink"))
    for name in ("ink", "muted", "link", "start", "distilled", "teacher"):
        assert contrast(colours(sheet, name)[mode], paper) >= 4.5, name
    alphas = re.findall(r"rgb\(var\(--(lower|higher)\) / ([\d.]+)\)", sheet)
    assert len(alphas) == 10
    for side, alpha in alphas:
        share, colour = float(alpha), colours(sheet, side)[mode]
        mixed = tuple(share * one + (1 - share) * under for one, under in zip(colour, panel, strict=True))
        assert contrast(ink, mixed) >= 4.5, f"{side} {alpha}"


def test_settings_are_listed_leaf_by_leaf() -> None:
    values = {"steps": 120, "optimizer": {"lr": 6e-4, "betas": [0.9, 0.999], "clip": None}}
    assert list(flattened(values)) == [
        ("steps", "120"),
        ("optimizer.lr", "0.0006"),
        ("optimizer.betas", "0.9, 0.999"),
        ("optimizer.clip", "none"),
    ]


def test_making_a_page_needs_no_tensors_and_no_global_figure() -> None:
    program = (
        "import sys, opd.view.story.report, opd.view.terminal.board; "
        "print([name for name in ('torch', 'transformers', 'matplotlib.pyplot') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_board_needs_no_pictures() -> None:
    program = "import sys, opd.view.terminal.board; print('matplotlib' in sys.modules, 'tokenizers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False False"
