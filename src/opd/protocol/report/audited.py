"""Section 6 of the analysis: what the audit found, in its own words, with how much of the evidence it looked at."""

from collections.abc import Iterator

from opd.protocol.audit.claims import NOTE
from opd.protocol.report import marks
from opd.protocol.report.layout import table
from opd.protocol.report.pen import Pen
from opd.protocol.report.sources import Fact
from opd.records.audits import GRAVEST_FIRST, Axis, Verdict
from opd.records.claims import Form

_MOST_DETAILS = 12  # of one finding; its own file holds them all
_MEANING = (
    "“None found” means that everything within reach was looked at, by means that found what had been planted for "
    "them; “not assessed” means that one or the other is missing."
)
AXES = {Axis.SEPARATION: "explore-to-formal separation", Axis.PLATFORM: "platform, scheduling and isolation"}
WORDS = {
    Verdict.NONE_FOUND: "none found",
    Verdict.SUSPECTED: "suspected",
    Verdict.CONFIRMED: "confirmed",
    Verdict.NOT_ASSESSED: "not assessed",
}


def audited(pen: Pen) -> str:
    """Section 6."""
    audit = pen.story.audit
    heading = f"## {marks.numbering('6.')} Audit"
    if audit is None:
        return f"{heading}\n\nNo audit was made."
    rows = [_row(pen, finding) for finding in audit["findings"].each()]
    parts = [
        heading,
        table(("Axis", "Verdict", "Finding", "Files looked at", "Controls found"), rows),
        _MEANING,
        *_further(pen, audit),
        *_advice(pen, audit),
    ]
    return "\n\n".join(parts)


def axis(finding: Fact) -> str:
    """Its axis in words."""
    return AXES.get(finding.value["axis"], str(finding.value["axis"]).replace("_", " "))


def verdict(finding: Fact) -> str:
    """A verdict in words."""
    return WORDS[Verdict(finding.value["verdict"])]


def finding_of(pen: Pen, asked: Axis) -> Fact | None:
    """The gravest finding of an axis; None where the audit has none, or there is no audit."""
    audit = pen.story.audit
    found = [one for one in audit["findings"].each() if one.value["axis"] == asked] if audit else []
    return min(found, key=lambda one: GRAVEST_FIRST.index(one.value["verdict"]), default=None)


def told(pen: Pen, finding: Fact) -> str:
    """What a finding says, and what protects the result all the same, where something does."""
    protected = finding.get("protected")
    why = f" What protects the result all the same: {pen.sentence(protected)}" if protected is not None else ""
    return f"{pen.sentence(finding['sentence'])}{why}"


def of_the_note(pen: Pen) -> str:
    """What the audit holds against the explorer's note on its submission: beside each place that quotes it."""
    finding = finding_of(pen, Axis.BEHAVIOUR)
    if finding is None or finding.value["verdict"] in {Verdict.NONE_FOUND, Verdict.NOT_ASSESSED}:
        return ""
    found = [one for one in finding["details"].each() if str(one.value).startswith(f"{NOTE} ")]
    return " ".join(f"By the audit, {pen.sentence(one)}" for one in found)


def _row(pen: Pen, finding: Fact) -> tuple[str, ...]:
    files = pen.of(finding["coverage"]["files"], Form.INTEGER)
    found = [one for one in finding["controls"].each() if one.value["found"] is True]
    controls = pen.of(finding["controls"].count, Form.INTEGER)
    all_found = f"all {controls}" if len(found) == len(finding.value["controls"]) else f"not all of {controls}"
    return axis(finding), f"**{verdict(finding)}**", told(pen, finding), files, all_found


def _further(pen: Pen, audit: Fact) -> Iterator[str]:
    """The details of whatever is not plainly clear."""
    for finding in audit["findings"].each():
        if finding.value["verdict"] == Verdict.NONE_FOUND or not finding.value["details"]:
            continue
        details = [one for one in finding["details"].each() if one.value != finding.value["sentence"]]
        lines = [f"- {pen.of(one, Form.TEXT)}" for one in details[:_MOST_DETAILS]]
        if details[_MOST_DETAILS:]:
            lines.append(f"- and more, in {marks.path(audit.file)}")
        if not lines:  # the table says it all
            continue
        yield f"**{axis(finding)}**, {verdict(finding)}:"
        yield "\n".join(lines)


def _advice(pen: Pen, audit: Fact) -> Iterator[str]:
    for advice in audit["advice"].each():
        by = pen.of(advice["by"], Form.CODE)
        if advice.get("reply"):
            yield f"{by} was asked for its opinion, which changes no verdict:"
            yield pen.quotes([advice["reply"]])
        elif advice.get("because"):
            yield f"{by} was asked for its opinion and gave none: {pen.of(advice['because'], Form.TEXT)}."
