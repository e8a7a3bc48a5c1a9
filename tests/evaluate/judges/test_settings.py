"""The page about the judge lists every key with its default."""

import json
from collections.abc import Iterator
from pathlib import Path

from opd.evaluate.judges.settings import JudgeSettings
from opd.records.settings import Settings, settings_in

PAGE = Path(__file__).parents[3] / "docs/judge.md"


def keys(kind: type[Settings], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, field in kind.model_fields.items():
        inner = settings_in(field.annotation)
        if inner is not None:
            yield from keys(inner, f"{prefix}{name}.")
        elif field.is_required():
            yield f"`{prefix}{name}`", "required"
        else:
            yield f"`{prefix}{name}`", "none" if field.default is None else f"`{json.dumps(field.default)}`"


def test_every_key_and_its_default_stand_on_the_page_and_no_others() -> None:
    lines = PAGE.read_text(encoding="utf-8").partition("## Every key")[2].partition("\n## ")[0].splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:3]] for line in lines if line.startswith("| `")]
    assert [tuple(row) for row in sorted(cells)] == sorted(keys(JudgeSettings))


def test_every_key_says_what_it_means() -> None:
    from opd.evaluate.judges.settings import LocalJudge, RecordedJudge, ServerJudge

    for kind in (JudgeSettings, LocalJudge, ServerJudge, RecordedJudge):
        silent = [
            name
            for name, field in kind.model_fields.items()
            if not field.description and settings_in(field.annotation) is None
        ]
        assert silent == []
