"""An attempt's report as one self-contained page: the brief, the pictures, the whole analysis, and every source.

    python -I -m opd.view.attempts.page REPORT_FOLDER ATTEMPT_FOLDER      writes REPORT_FOLDER/index.html

No scripts, nothing from the network, all text of strangers escaped. The page reads what the report's stage wrote and
the attempt's files; it computes no score and finds nothing out for itself.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from opd.records.audits import Audit, Finding, Verdict
from opd.records.claims import Claim, Claims
from opd.records.errors import OpdError
from opd.records.files import write_text
from opd.records.reports import ANALYSIS, BRIEF, CLAIMS, PAGE, REPORT, Coverage, Report
from opd.records.settings import read
from opd.view.attempts.curves import METRICS, MOST_PROBES, probes_picture, rows_picture, run_picture
from opd.view.attempts.drawing import Drawn, both_widths
from opd.view.attempts.files import Grid, Series, read_grid, read_series, read_stage_facts
from opd.view.attempts.forest import forest_picture, panels
from opd.view.attempts.grid import grid_picture
from opd.view.attempts.patch import changed_files
from opd.view.attempts.prose import place_of, rendered
from opd.view.attempts.stages import stages_picture
from opd.view.attempts.timeline import exploration_picture, notes
from opd.view.page import page
from opd.view.plain import shown

_TEMPLATE = "attempts/attempt.html.j2"
_LONGEST_TEXT = 4_000  # characters of a note; the page must open on a phone
_MOST_PATCH_BYTES = 4 << 20

VERDICTS: Mapping[Verdict, tuple[str, str]] = {
    Verdict.NONE_FOUND: ("✓", "none found"),
    Verdict.SUSPECTED: ("?", "suspected"),
    Verdict.CONFIRMED: ("✕", "confirmed"),
    Verdict.NOT_ASSESSED: ("–", "not assessed"),
}
"""A mark and a word for each: the colour alone would not do."""


_LANES = {"GPU": "device did", "processor": "processor did, which runs the explorer's own program as well"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture in both widths, with what stands below it and the files that it was drawn from."""

    name: str
    svg: Mapping[str, str]
    caption: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A line of the table of sources."""

    id: str
    text: str
    place: str
    sha256: str


def main(arguments: Sequence[str]) -> int:
    """0 when the page stands in its folder; 2 with a line on stderr when it can't be made."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python -I -m opd.view.attempts.page REPORT_FOLDER ATTEMPT_FOLDER\n")
        return 2
    report, attempt = map(Path, arguments)
    try:
        write_page(report, attempt)
    except OpdError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def write_page(report: Path, attempt: Path) -> None:
    """`index.html` stands in the report's folder, whole or not at all."""
    write_text(report / PAGE, render(report, attempt))


def render(folder: Path, attempt: Path) -> str:
    """The page as HTML; equal files give equal text."""
    report, claims = read(Report, folder / REPORT), read(Claims, folder / CLAIMS)
    audit = read(Audit, attempt / report.audit) if report.audit is not None else None
    by_id = claims.by_id()
    texts = {name: (folder / name).read_text(encoding="utf-8") for name in (BRIEF, ANALYSIS)}
    grid = read_grid(attempt, report.finals)
    return page(
        _TEMPLATE,
        filters={"shown": partial(shown, longest=_LONGEST_TEXT), "code": _code, "paragraph": _paragraph},
        report=report,
        brief=rendered(texts[BRIEF], claims.documents[BRIEF], by_id, deeper=0),
        analysis=rendered(texts[ANALYSIS], claims.documents[ANALYSIS], by_id, deeper=1),
        exploring=_exploring(report),
        notes=notes(report.exploring) if report.exploring else (),
        stages=_stages(report, attempt),
        scores=_scores(report),
        trainings=_trainings(report, attempt),
        grid=_grid(grid),
        questions=grid,
        patch=_patch(report, attempt),
        findings=audit.findings if audit else (),
        advice=audit.advice if audit else (),
        verdicts=VERDICTS,
        controls=_controls,
        size=_size,
        sources=[_source(claim) for claim in claims.claims if claim.file is not None or claim.formula is not None],
    )


def _exploring(report: Report) -> Picture | None:
    told = report.exploring
    if told is None:
        return None
    draw = partial(_draw_exploring, report)
    units = "the units of the analysis, and the explorer's notes by number"
    if not notes(told):
        units = "and the units of the analysis"
    return Picture(
        name="exploration",
        svg=both_widths("exploration", draw),
        caption=f"Above: {report.proxy_metric} of the proxies, by number, when each was measured, with 95 % "
        f"intervals. Below: what the {_LANES[told.device]}, the commands that asked for the device, {units}; "
        "what the ledger does not call idle is in use. The dashed line "
        "is the end of the exploration, the shade what was left of its budget.",
        files=(f"{told.name}/device.jsonl", f"{told.name}/desk.jsonl"),
    )


def _draw_exploring(report: Report, narrow: bool) -> Drawn:
    assert report.exploring is not None, "asked only where there is one"
    return exploration_picture(report.exploring, report.proxies, report.units, narrow=narrow)


def _stages(report: Report, attempt: Path) -> Picture | None:
    if not report.stages:
        return None
    facts = read_stage_facts(attempt, report)
    return Picture(
        name="stages",
        svg=both_widths("stages", lambda narrow: stages_picture(report.stages, facts, narrow=narrow)),
        caption="Each sealed try by its active seconds, one behind the other; the time in between, in which nobody "
        "was at work, is left out. A frame is what a formal try was given, a cross a try that failed, and grey is "
        "history that does not count.",
        files=tuple(f"{one.name}/receipt.json" for one in report.stages),
    )


def _scores(report: Report) -> tuple[tuple[Picture, tuple[str, ...]], ...]:
    """The picture of each measure, and what of it has no score."""
    found = []
    for panel in panels(report):
        kind = "proxy" if panel.metric == report.proxy_metric else "final"
        scores = report.proxies if kind == "proxy" else report.finals
        folders = [one.evaluation for one in scores if one.evaluation is not None]
        picture = Picture(
            name=f"{kind}-scores",
            svg=both_widths(f"{kind}-scores", lambda narrow, panel=panel: forest_picture(panel, narrow=narrow)),  # type: ignore[misc]  # bound now
            caption=f"{panel.title}, {panel.metric}: means ± their standard errors, and 95 % intervals, clustered by "
            "question. Grey diamonds and dashed lines are the task's published references; "
            "differences are paired by question, and p is adjusted for as many as were tested together (Holm).",
            files=(*(f"{folder}/score.json" for folder in folders), *dict.fromkeys(one.file for one in panel.tests)),
        )
        found.append((picture, panel.missing))
    return tuple(found)


def _trainings(report: Report, attempt: Path) -> tuple[Picture, ...]:
    """What the trainings say of themselves: the formal one, the explorer's own, and how much data each saw."""
    read_ones = [read_series(attempt, curve, names=list(METRICS)) for curve in report.curves]
    found = [one for one in read_ones if one is not None]
    pictures = [_run(number, one) for number, one in enumerate(found) if one.claimed_by == "candidate"]
    probes = [one for one in found if one.claimed_by == "explorer"]
    metric = next((name for name in METRICS if any(name in one.values for one in probes)), None)
    if metric is not None:
        pictures.append(_probes([one for one in probes if metric in one.values], metric))
    if coverages := [one for one in report.coverages if one.rows > 0]:
        pictures.append(_rows(coverages, report))
    return tuple(pictures)


def _run(number: int, told: Series) -> Picture:
    passed = f" Lines of its file that are no metrics: {told.passed_over:,}." if told.passed_over else ""
    return Picture(
        name=f"run-{number}",
        svg=both_widths(f"run-{number}", lambda narrow: run_picture(told, narrow=narrow)),
        caption=f"{told.label}, as the candidate's own program wrote it: nobody else measured these. A long run is "
        f"drawn in bins; the band goes from the least to the greatest step of a bin.{passed}",
        files=(told.file,),
    )


def _probes(told: Sequence[Series], metric: str) -> Picture:
    over = len(told) - MOST_PROBES
    left = f" Not drawn, beyond the first {MOST_PROBES}: {over} more." if over > 0 else ""
    return Picture(
        name="probes",
        svg=both_widths("probes", lambda narrow: probes_picture(told, metric=metric, narrow=narrow)),
        caption="The explorer's own trainings, as their programs wrote it. Different objectives and different steps: "
        f"one line below another is no comparison of models.{left}",
        files=tuple(one.file for one in told),
    )


def _rows(told: Sequence[Coverage], report: Report) -> Picture:
    files = dict.fromkeys(curve.file for curve in report.curves if any(curve.label == one.label for one in told))
    return Picture(
        name="rows",
        svg=both_widths("rows", lambda narrow: rows_picture(told, narrow=narrow)),
        caption="Distinct training rows that each run saw, as its own program counted them. A block is the first "
        "rows of the file, always the same; a comb stands for as many rows, spread over the file by a shuffle.",
        files=tuple(files),
    )


def _grid(grid: Grid | None) -> Picture | None:
    if grid is None:
        return None
    return Picture(
        name="grid",
        svg=both_widths("grid", lambda narrow: grid_picture(grid, narrow=narrow)),
        caption="Every row has the questions in the same order. The checkpoints come from one training: where a "
        "question moves between them, sampling moves it as well as learning.",
        files=grid.files,
    )


def _patch(report: Report, attempt: Path) -> Mapping[str, object] | None:
    if report.patch is None:
        return None
    path = attempt / report.patch
    with path.open("rb") as file:
        raw = file.read(_MOST_PATCH_BYTES)
    return {
        "file": report.patch,
        "files": changed_files(raw.decode("utf-8", "backslashreplace")),
        "bytes": path.stat().st_size,
        "cut": path.stat().st_size > _MOST_PATCH_BYTES,
    }


def _source(claim: Claim) -> Source:
    text = claim.text.strip("`") if claim.form not in {"quote", "listing"} else f"{len(claim.text):,} characters"
    return Source(
        id=claim.id,
        text=shown(text, longest=90),
        place=shown(place_of(claim), longest=400),
        sha256=claim.sha256 or "",
    )


def _code(line: str) -> str:
    return shown(line.expandtabs(4), longest=_LONGEST_TEXT)


def _paragraph(text: str) -> str:
    """Its lines stay lines."""
    cut = text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"
    return "\n".join(shown(line, longest=_LONGEST_TEXT) for line in cut.split("\n"))


def _controls(finding: Finding) -> str:
    """`4 of 4 found`."""
    found = sum(control.found for control in finding.controls)
    return f"{found} of {len(finding.controls)} found" if finding.controls else "none"


_STEPS: tuple[tuple[int, str], ...] = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def _size(count: int) -> str:
    """`1.5 MiB`."""
    return next((f"{count / least:.1f} {unit}" for least, unit in _STEPS if count >= least), f"{count} bytes")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
