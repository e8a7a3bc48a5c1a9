"""A score's report as text: for a terminal, and as Markdown with its pictures beside it."""

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from opd.records.files import write_text
from opd.records.score_report import ScoreReport
from opd.view.plain import markdown, shown
from opd.view.scores.sections import Section, Table, sections
from opd.view.terminal.bars import WIDTH, Bar, Bars, drawn, full_scale, legend

_MOST = 5  # rows of a list on a terminal
_MOST_ON_A_PAGE = 20
_COLUMNS = 100
_NOT_ON_A_TERMINAL = {"Where it comes from"}


def terminal(report: ScoreReport, *, ascii_only: bool = False) -> str:
    """The report for a terminal of 100 columns or more, without colours; hostile text can't move its cursor."""
    benchmark = f"  {shown(report.benchmark, longest=200)}" if report.benchmark else ""
    parts = [shown(report.name, longest=200) + benchmark]
    said = sections(report, most=_MOST)
    for place, section in enumerate(one for one in said if one.title not in _NOT_ON_A_TERMINAL):
        parts += [f"\n{section.title}"] if place else []
        parts += [line for paragraph in section.said for line in textwrap.wrap(paragraph, _COLUMNS)]
        parts += [f"  {line}" for group in section.bars for line in _bar_lines(group, ascii_only=ascii_only)]
        parts += [f"  {line}" for table in section.tables for line in _table_lines(table)]
    if any(section.bars for section in said):
        parts.append(f"\n{legend(ascii_only=ascii_only)}")
    return "\n".join(parts)


def write_markdown(path: Path, report: ScoreReport) -> None:
    """The report stands in the file, and its pictures in `<name>.pictures/` beside it, which are written first."""
    from opd.view.scores.pictures import pictures

    said = sections(report, most=_MOST_ON_A_PAGE)
    folder = path.with_name(f"{path.stem}.pictures")
    for name, picture in pictures(report, said, standalone=True).items():
        write_text(folder / f"{name}.svg", picture)
    write_text(path, as_markdown(report, said, pictures=folder.name))


def as_markdown(report: ScoreReport, said: Sequence[Section], *, pictures: str | None) -> str:
    """The sections as Markdown; `pictures` is the folder of the drawings, None to leave them out."""
    lines = [f"# {markdown(shown(report.name, longest=200))}"]
    lines += ["", markdown(shown(report.benchmark, longest=200))] if report.benchmark else []
    for section in said:
        lines += ["", f"## {section.title}"]
        lines += [line for paragraph in section.said for line in ("", markdown(paragraph))]
        if pictures is not None and section.picture is not None:
            lines += ["", f"![{section.title}]({_link(pictures)}/{section.picture}.svg)"]
        for group in section.bars:
            lines += ["", *_fenced(_bar_lines(group))]
        for table in section.tables:
            lines += ["", *_markdown_table(table)]
    return "\n".join([*lines, "", legend(), ""])


def _fenced(lines: Sequence[str]) -> list[str]:
    """The lines as they are; the fence is longer than any run of backticks in them."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *lines, fence]


def _link(name: str) -> str:
    return "".join(f"%{ord(one):02X}" if one in " ()<>%#?\"'\\" else one for one in name)


def _bar_lines(group: Bars, *, ascii_only: bool = False) -> list[str]:
    width = max(len(bar.label) for bar in group.bars)
    full = full_scale(group)
    scale = "" if full == 1.0 else f"; the whole width is {full:.0%}".replace("%", " %")
    return [
        f"{group.caption}{scale}",
        *(_bar_line(bar, width, full=full, ascii_only=ascii_only) for bar in group.bars),
    ]


def _bar_line(bar: Bar, width: int, *, full: float, ascii_only: bool) -> str:
    return f"  {bar.label:<{width}}  {drawn(bar, full=full, ascii_only=ascii_only):<{WIDTH}}  {bar.note}".rstrip()


def _table_lines(table: Table) -> list[str]:
    """Columns of even width, two blanks between."""
    rows = [table.header, *table.rows] if any(table.header) else list(table.rows)
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.header))]
    caption = [table.caption] if table.caption else []
    return caption + [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _markdown_table(table: Table) -> list[str]:
    caption = [f"*{markdown(table.caption)}*", ""] if table.caption else []
    rows = [table.header, tuple("---" for _ in table.header)]
    cells = [*map(_cells, rows[:1]), "| " + " | ".join(rows[1]) + " |", *map(_cells, table.rows)]
    return caption + cells


def _cells(row: Sequence[str]) -> str:
    return "| " + " | ".join(markdown(cell) or " " for cell in row) + " |"
