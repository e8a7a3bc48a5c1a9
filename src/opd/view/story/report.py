"""One self-contained page about one distillation: `report.html`, without scripts and without the network.

The template lays out what a `Story` holds; every number stands beside the file that it was read from, and no
score is computed here.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from opd.records.files import write_text
from opd.view import words
from opd.view.page import page
from opd.view.story import pictures
from opd.view.story.pictures import Role
from opd.view.story.story import Cited, Story
from opd.view.tokens import (
    LARGEST_TOKENS,
    LEVELS,
    Token,
    level_class,
    read_tokenizer,
    spans,
    tokens_of,
    visible,
    widest,
)

_TEMPLATE = "story/report.html.j2"
_LONGEST_TEXT = 20_000  # characters of a problem or a prompt; the page must open on a phone
_WIDEST_TOKENS = 6
_FILTERS: Mapping[str, Callable[..., str]] = {
    "number": words.number,
    "signed": words.signed,
    "interval": words.interval,
    "percent": words.percent,
    "probability": words.probability,
    "duration": words.duration,
    "small": words.small,
    "design": words.design,
    "chance": lambda p: words.chance(p).removeprefix("p ").removeprefix("= "),
    "visible": visible,
}


def write_report(path: Path, story: Story) -> None:
    """The page stands in the file, whole or not at all.

    Raises `AskedWrongly` when the story's tokenizer can't be read.
    """
    write_text(path, render(story))


def render(story: Story) -> str:
    """The page as HTML; equal stories give equal text."""
    return page(
        _TEMPLATE,
        filters=_FILTERS,
        story=story,
        headline=words.headline(story.comparison.value),
        finding=_tied(words.finding(story.comparison.value)),
        found=story.comparison.value,
        scores=_scores(story),
        pictures=_pictures(story),
        rollout=_rollout(story),
        legend=_legend(),
        recipe=list(flattened(story.recipe.value)),
        protocol=list(flattened(story.start.value.protocol.resolved())),
        run=_run_facts(story),
        longest_phase=max(story.seconds.value.values(), default=0.0),
    )


def flattened(values: Mapping[str, Any], *, prefix: str = "") -> Iterator[tuple[str, str]]:
    """`section.key` and the value in words, for every leaf, in order."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from flattened(value, prefix=f"{name}.")
        elif isinstance(value, list | tuple):
            yield name, ", ".join(str(one) for one in value)
        else:
            yield name, "none" if value is None else str(value)


def _scores(story: Story) -> list[dict[str, Any]]:
    cited: list[tuple[Role, Cited[Any]]] = [
        (Role.START, story.start),
        (Role.RESULT, story.result),
        (Role.TEACHER, story.teacher),
    ]
    return [{"role": role.value, "score": one.value, "file": one.file} for role, one in cited]


def _pictures(story: Story) -> dict[str, str]:
    points = [(point.step, point.score.value) for point in story.curve]
    return {
        "curve": pictures.learning_curve(points, start=story.start.value, teacher=story.teacher.value),
        "bars": pictures.score_bars(pictures.story_scores(story)),
        "kl": pictures.kl_over_steps(story.metrics.value),
        "health": pictures.health_panels(story.metrics.value),
    }


def _rollout(story: Story) -> dict[str, Any]:
    tokenizer = read_tokenizer(story.tokenizer)
    scored = story.rollout.value
    tokens = tokens_of(scored, tokenizer)
    prompt = scored.rollout.prompt
    return {
        "prompt": _cut(tokenizer.decode(prompt.token_ids, skip_special_tokens=False)),
        "answer": _cut(prompt.answer),
        "spans": spans(tokens[:LARGEST_TOKENS]),
        "shown": min(len(tokens), LARGEST_TOKENS),
        "tokens": len(tokens),
        "cut_short": scored.rollout.stop.cut_short,
        "widest": [(token, _around(tokens, token)) for token in widest(tokens, count=_WIDEST_TOKENS)],
    }


def _around(tokens: list[Token], token: Token, *, reach: int = 3) -> tuple[str, str]:
    """The text just before and just after a token, so that a digit in a table has a place."""
    at = token.place - 1
    before = "".join(one.text for one in tokens[max(0, at - reach) : at])
    after = "".join(one.text for one in tokens[at + 1 : at + 1 + reach])
    return before, after


def _legend() -> list[tuple[str, str]]:
    """Class and bound of each colour, from the student's side to the teacher's."""
    low = [(level_class(-steps), words.signed(-LEVELS[steps - 1], 2)) for steps in range(len(LEVELS), 0, -1)]
    high = [(level_class(steps), words.signed(LEVELS[steps - 1], 2)) for steps in range(1, len(LEVELS) + 1)]
    return [*low, ("", "0"), *high]


def _run_facts(story: Story) -> dict[str, Any]:
    """What the metrics of a run say as a whole: sums and maxima, for the page only."""
    steps = story.metrics.value
    return {
        "steps": len(steps),
        "rollouts": sum(one.rollouts for one in steps),
        "trained_tokens": sum(one.trained_tokens for one in steps),
        "rows_seen": max((one.rows_seen for one in steps), default=0),
        "largest_gap": max((one.gap.largest for one in steps), default=None),
        "peak_bytes": max((one.peak_bytes for one in steps), default=0),
    }


def _tied(text: str) -> str:
    """The sentence with its numbers and their signs kept on one line."""
    return re.sub(r"(?<=[p0-9<=]) (?=[%<=0-9])", "\N{NO-BREAK SPACE}", text)


def _cut(text: str) -> str:
    left = len(text) - _LONGEST_TEXT
    return text if left <= 0 else f"{text[:_LONGEST_TEXT]} … ({left:,} more characters)"
