"""An attempt and its report, made up at the scale of a real one: four hours of exploration, twelve of training."""

import itertools
import json
import math
import random
import re
from dataclasses import dataclass
from pathlib import Path

from opd.records.attempts import Artifact, Formal
from opd.records.audits import Audit, Axis, Control, Coverage, Finding, Pointer, Verdict
from opd.records.causes import Cause, Ending, Evidence
from opd.records.causes import Verdict as Whose
from opd.records.claims import Claim, Claims, Document, Form, Origin, Span
from opd.records.files import write_json
from opd.records.reports import (
    Activity,
    Compared,
    Curve,
    Exploring,
    Moment,
    ReferenceLine,
    Report,
    Scored,
    StageSpan,
    Stretch,
    Unit,
)
from opd.records.reports import Coverage as Rows

PATCH = """diff --git a/run.sh b/run.sh
index 12873bf..eb71e20 100755
--- a/run.sh
+++ b/run.sh
@@ -12,3 +12,4 @@ if [ -n "$A" ]; then
 set -eu
 # in the order of the file
-exec python -m opd train --set data.shuffle=false \\
+exec python -m opd train --set data.shuffle=true \\
+  --set seed=42 \\
"""
STEPS = (2080, 2100, 2106)
RIGHT = (806, 809, 793)


HOSTILE = "<script>alert(1)</script> $x^2$ $\\frac{ $ \x1b[31m\u202e\x00 --> ]]> \" ' &amp;"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Where the two folders are, and what was put in."""

    attempt: Path
    folder: Path
    report: Report


def write_made(place: Path, *, text: str = "", **changes: object) -> Made:
    """Both folders, written; `text` stands wherever a stranger may write, `changes` are of the report."""
    attempt = place / "attempt"
    folder = attempt / "report" / "attempt-001.partial"
    report = report_of(text).model_copy(update=changes)
    write_json(folder / "report.json", report.resolved())
    write_texts(folder, text)
    write_attempt(attempt, text)
    return Made(attempt=attempt, folder=folder, report=report)


def crowded() -> dict[str, object]:
    """What of the report is otherwise where there is much of all, with long names, in little of the time."""
    long = "/runs/" + "a-method-whose-name-says-all-of-it-" * 4 + "{}/checkpoint-12"
    names = [f"proxy {number}" for number in range(1, 15)]
    begun = [6.0 * place for place in range(len(names))]
    ends = [(0.6 + 0.01 * place, 0.65 + 0.01 * place) for place in range(len(names))]
    plain = report_of()
    exploring_ = exploring().model_copy(
        update={
            "given_seconds": 420.0,
            "used_seconds": 86.0,
            "left_seconds": 336.0,
            "device": "processor",
            "stretches": tuple(
                Stretch(
                    activity=activity, begin_seconds=begin, end_seconds=begin + 3, label=long.format(name), unit=None
                )
                for name, at in zip(names, begun, strict=True)
                for activity, begin in ((Activity.TRAINING, at), (Activity.EVALUATION, at + 3))
            ),
            "moments": (
                *(Moment(kind="note", at_seconds=at, label=f"note at {at}") for at in (0, 1, 2, 30, 31, 60, 85, 86)),
                Moment(kind="submit", at_seconds=86, label=""),
            ),
        }
    )
    return {
        "exploring": exploring_,
        "units": tuple(
            units()[0].model_copy(update={"id": f"U-{n:02d}", "begin_seconds": at, "end_seconds": at + 6})
            for n, at in enumerate(begun, start=1)
        ),
        "proxies": tuple(
            proxies()[0].model_copy(
                update={"label": name, "what": long.format(name), "mean": sum(both) / 2, "ci95": both}
            )
            for name, both in zip(names, ends, strict=True)
        ),
        "comparisons": tuple(
            comparisons()[0].model_copy(update={"a": a, "b": b, "p": 0.1234, "difference": -0.0123})
            for a, b in itertools.pairwise(names)
        ),
        "references": tuple(
            one.model_copy(
                update={"name": f"{one.name}, replayed without a change, by all of its steps, with its seed"}
            )
            for one in references()
        ),
        "coverages": tuple(one.model_copy(update={"label": long.format(one.label)}) for one in plain.coverages),
        "curves": tuple(one.model_copy(update={"label": long.format(one.label)}) for one in plain.curves),
    }


def report_of(text: str = "") -> Report:
    """What the page draws."""
    return Report(
        case=f"claude-code__opd_math_1p5b__some-model__high{text}",
        task="opd/opd_math_1p5b",
        title=f"Improve a fixed 1.5B math reasoner{text}",
        made_utc="2026-05-02T09:00:00.000Z",
        stages=stages(text),
        exploring=exploring(text),
        units=units(text),
        proxy_metric=f"math500_pass_at_1{text}",
        final_metric="aime24_25_at32",
        proxies=proxies(text),
        finals=finals(),
        comparisons=comparisons(text),
        references=references(text),
        coverages=(
            Rows(label="formal/attempt-002", rows_seen=4_212, rows=15_285, shuffled=True, claimed_by="candidate"),
            Rows(label=f"proxy 001{text}", rows_seen=24, rows=15_285, shuffled=False, claimed_by="explorer"),
        ),
        curves=(
            Curve(label="formal/attempt-002", file="formal/attempt-002/metrics.jsonl", claimed_by="candidate"),
            Curve(label=f"proxy 001{text}", file="explore/attempt-001/metrics.jsonl", claimed_by="explorer"),
        ),
        patch="submission/candidate.patch",
        audit="audit/attempt-001/outcome.json",
        missing=None,
    )


def units(text: str = "") -> tuple[Unit, ...]:
    """One for each measurement, end to end."""
    return tuple(
        Unit(
            id=f"U-0{number}",
            title=f"The source as it was given{text}",
            begin_seconds=2_158.5 * (number - 1),
            end_seconds=2_158.5 * number,
            proxy=f"proxy {number:03d}",
            control=None,
            adopted=number == 2,
        )
        for number in (1, 2, 3, 4)
    )


def exploring(text: str = "") -> Exploring:
    """Trainings, measurements and idle time between them, and 3,289 s left at the end."""
    stretches, at = [], 400.0
    for number in (1, 2, 3, 4):
        stretches.append(Stretch(activity=Activity.IDLE, begin_seconds=at - 400, end_seconds=at, label="", unit=None))
        for activity, length, label in (
            (Activity.TRAINING, 1_086.0, f"bash run.sh{text}"),
            (Activity.EVALUATION, 672.5, f"/runs/{number}{text}"),
        ):
            ended = at + length
            stretches.append(
                Stretch(activity=activity, begin_seconds=at, end_seconds=ended, label=label, unit=f"U-0{number}")
            )
            at = ended
        at += 400
    return Exploring(
        name="explore/attempt-001",
        began_utc="2026-05-01T13:08:00.000Z",
        given_seconds=14_400,
        used_seconds=11_111,
        left_seconds=3_289,
        device="GPU",
        idle_seconds=1_600,
        stretches=tuple(stretches),
        moments=(
            Moment(kind="note", at_seconds=700, label=f"the first rows are all it ever sees{text}"),
            Moment(kind="note", at_seconds=6_000, label="the reward may help"),
            Moment(kind="submit", at_seconds=11_111, label="shuffle the rows"),
        ),
    )


def proxies(text: str = "") -> tuple[Scored, ...]:
    """Four, the last without a score."""
    values = ((1629, 0.8145, 0.014452), (1669, 0.8345, 0.014102), (1664, 0.832, 0.014123), (None, None, None))
    return tuple(
        Scored(
            label=f"proxy {number:03d}",
            of="proxy",
            what=f"/runs/{number}{text}",
            unit=f"U-0{number}",
            step=40,
            evaluation=f"explore/attempt-001/proxy/{number:03d}/evaluation" if mean is not None else None,
            correct=correct,
            samples=2_000,
            questions=500,
            mean=mean,
            stderr=stderr,
            stderr_naive=0.0087,
            design_effect=2.7,
            ci95=(mean - 1.965 * stderr, mean + 1.965 * stderr) if mean is not None and stderr is not None else None,
            cut_short=0.1,
            missing=None if mean is not None else f"the checkpoint could not be read{text}",
        )
        for number, (correct, mean, stderr) in enumerate(values, start=1)
    )


def finals() -> tuple[Scored, ...]:
    """Three of sixty questions, the second official."""
    return tuple(
        Scored(
            label=f"step {step}",
            of="final",
            what=f"formal/attempt-002/checkpoint-{step}",
            unit=None,
            step=step,
            evaluation=f"final/step-{step:06d}/evaluation",
            correct=correct,
            samples=1_920,
            questions=60,
            mean=correct / 1_920,
            stderr=0.0525,
            stderr_naive=0.0113,
            design_effect=21.8,
            ci95=(correct / 1_920 - 0.105, correct / 1_920 + 0.105),
            cut_short=0.05,
            missing=None,
            official=step == 2100,
        )
        for step, correct in zip(STEPS, RIGHT, strict=True)
    )


def comparisons(text: str = "") -> tuple[Compared, ...]:
    """One of two proxies, one of two finals."""
    return (
        Compared(
            file="comparisons/01.json", pointer="", of="proxy", a="proxy 001", b=f"proxy 002{text}",
            differs_in=("reward.weight",), matched=True, difference=0.02, ci95=(-0.004, 0.044), p=0.1,
            distinguishable=False,
        ),
        Compared(
            file="comparisons/02.json", pointer="", of="final", a="step 2080", b="step 2100", differs_in=None,
            matched=False, difference=3 / 1920, ci95=(-0.02, 0.023), p=0.9, distinguishable=None,
        ),
    )  # fmt: skip


def references(text: str = "") -> tuple[ReferenceLine, ...]:
    """Of both measures, with an error and without."""
    return (
        ReferenceLine(name="fixed start", of="final", score=0.252083, stderr=None, correct=484, samples=1_920),
        ReferenceLine(
            name=f"shipped recipe, replayed{text}", of="final", score=0.427083, stderr=0.051615, correct=820,
            samples=1_920,
        ),
        ReferenceLine(name="shipped at step 40", of="proxy", score=0.841, stderr=0.0138, correct=None, samples=2_000),
    )  # fmt: skip


def stages(text: str = "") -> tuple[StageSpan, ...]:
    """In order, with a formal try that the machine spoiled."""
    told = (
        ("explore/attempt-001", "submitted", 11_111.0, True),
        ("submission", "sealed", 1.0, True),
        ("formal/attempt-001", "infra_failed", 10_900.0, False),
        ("formal/attempt-002", "completed", 41_701.93, True),
        ("validation/step-002100", "valid", 70.0, True),
        ("final/step-002100", "scored", 5_400.0, True),
    )
    return tuple(
        StageSpan(
            name=name,
            outcome=outcome,
            began_utc=f"2026-05-01T13:0{number}:00.000Z",
            ended_utc="2026-05-01T23:00:00.000Z",
            active_seconds=seconds,
            because=f"errno 70{text}" if outcome == "infra_failed" else None,
            counts=counts,
        )
        for number, (name, outcome, seconds, counts) in enumerate(told)
    )


def write_attempt(attempt: Path, text: str) -> None:
    """The files that the page reads beside its report."""
    for step, right in zip(STEPS, RIGHT, strict=True):
        write_samples(attempt / f"final/step-{step:06d}/evaluation/samples.jsonl", right, text)
    write_metrics(attempt / "formal/attempt-002/metrics.jsonl", steps=2_106, text=text)
    write_metrics(attempt / "explore/attempt-001/metrics.jsonl", steps=12, text=text)
    (attempt / "submission").mkdir()
    (attempt / "submission/candidate.patch").write_text(PATCH + f" {text}\n", encoding="utf-8")
    for number in (1, 2):
        write_json(attempt / f"formal/attempt-{number:03d}/outcome.json", formal(number).resolved())
    write_json(attempt / "audit/attempt-001/outcome.json", audit(text).resolved())


def write_samples(path: Path, right: int, text: str) -> None:
    """Sixty questions × 32 samples, of which so many are right; of the others every second is cut short."""
    path.parent.mkdir(parents=True)
    draw = random.Random(right)
    places = draw.sample([question for question in range(60) for _ in range(32)], right)
    lines = []
    for question in range(60):
        share = places.count(question)
        for sample in range(32):
            verdict = "correct" if sample < share else ("wrong", "cut_short")[sample % 2]
            name = f"aime-{question:02d}{text}"
            lines.append(json.dumps({"question": name, "sample": sample, "judgement": {"verdict": verdict}}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_metrics(path: Path, *, steps: int, text: str) -> None:
    """A line a step, and one that is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = random.Random(1)
    lines = [f"not JSON {text}"]
    for step in range(1, steps + 1):
        kl = 0.2 * math.exp(-step / steps) + noise.gauss(0, 0.01)
        lines.append(
            json.dumps({"step": step, "kl": kl, "loss": kl, "gradient_norm": 1.0, "mean_tokens": 900 + step / 10})
        )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def formal(number: int) -> Formal:
    """The first spoiled by the machine, the second whole."""
    kept = () if number == 1 else STEPS
    return Formal(
        patch_sha256="0" * 64,
        checkout_sha256="0" * 64,
        inputs_sha256={},
        isolation="bubblewrap",
        exit_code=1 if number == 1 else 0,
        signal=None,
        stop="by_itself" if number == 1 else "wall_clock",
        seconds=10_900.0 if number == 1 else 41_701.93,
        given_seconds=43_200,
        last_step=540 if number == 1 else 2106,
        artifacts=tuple(Artifact(step=step, folder=f"checkpoint-{step}", sha256="0" * 64) for step in kept),
        passed_over={},
        left_processes=(),
        unexpected_files=(),
        cause=Cause(
            verdict=Whose.SHARED_FS if number == 1 else Whose.NONE,
            rule="made_up",
            because=(),
            ruled=False,
            rules_version="1",
            rules_sha256="0" * 64,
            evidence=Evidence(
                ending=Ending.ENDED, exit_code=0, signal=None, oom_killed=False, artifacts=3, output=(),
                working_folder="/w", claim=None, claim_fault=None,
            ),
        ),
    )  # fmt: skip


def audit(text: str = "") -> Audit:
    """Every verdict, and a finding for each axis."""
    verdicts = {
        Axis.BEHAVIOUR: Verdict.CONFIRMED,
        Axis.PLATFORM: Verdict.CONFIRMED,
        Axis.SEPARATION: Verdict.SUSPECTED,
        Axis.SINGLE_DEVICE: Verdict.NOT_ASSESSED,
    }
    return Audit(
        findings=tuple(
            Finding(
                check=axis.value,
                axis=axis,
                verdict=verdicts.get(axis, Verdict.NONE_FOUND),
                sentence=f"What was found on the axis {axis.value}, at 3,289 s of 1,759 s.{text}",
                details=(f"a detail{text}",),
                protected=f"the identical patch was retried{text}" if axis is Axis.PLATFORM else None,
                evidence=(Pointer(file=f"explore/attempt-001/desk.jsonl{text}", pointer="line:7", sha256="0" * 64),),
                coverage=Coverage(files=12, bytes=5_400_000, unread=(f"x.bin: not opened{text}",)),
                controls=(Control(name="planted", found=True), Control(name="other", found=False)),
            )
            for axis in Axis
        )
    )


BRIEF = ("# One page, ", "c001", " right\n\nOf ", "c002", " samples **", "c001", "** are right: ", "c003", ".\n")
TABLE = ("| patch | ", "c004", " |\n| right | ", "c001", " of ", "c002", " |\n")
ANALYSIS = ("# Analysis\n\n## 1. Identity\n\n| field | value |\n|---|---|\n", *TABLE, "\nIt is not established.\n")


def write_texts(folder: Path, text: str) -> None:
    """brief.md, analysis.md and claims.json: numbers in a heading, in a table, in bold; `text` as if unescaped."""
    claims = (
        claim("c001", 809, "809", file="final/step-002100/outcome.json", pointer="/correct"),
        claim("c002", 1920, "1,920", file="final/step-002100/outcome.json", pointer="/samples"),
        claim("c003", 0.42135, "0.421354", formula="c001 / c002", form=Form.MEAN),
        claim("c004", "ab", "`abababababab…`", file="submission/candidate.patch", form=Form.DIGEST),
        claim("c005", "so", f"> so{text}", file=f"explore/desk.jsonl{text}", form=Form.QUOTE, origin=Origin.QUOTED),
    )
    by_id = {one.id: one for one in claims}
    quoted = f"\n> so{text.replace(chr(10), ' ')}\n"
    documents = {}
    for name, parts in {"brief.md": BRIEF, "analysis.md": (*ANALYSIS, quoted)}.items():
        written, spans = "", []
        for part in parts:
            if part in by_id:
                spans.append(Span(start=len(written), end=len(written) + len(by_id[part].text), of=part))
            written += by_id[part].text if part in by_id else part
        documents[name] = Document(sha256="0" * 64, spans=tuple(spans))
        (folder / name).write_text(written, encoding="utf-8")
    write_json(folder / "claims.json", Claims(claims=claims, documents=documents).resolved())


def claim(
    id_: str,
    value: float | str,
    text: str,
    *,
    file: str | None = None,
    pointer: str | None = None,
    formula: str | None = None,
    form: Form = Form.INTEGER,
    origin: Origin = Origin.COMPUTED,
) -> Claim:
    """One that stands in a file, or is worked out."""
    return Claim(
        id=id_,
        origin=origin,
        value=value,
        form=form,
        text=text,
        file=file,
        pointer=pointer,
        sha256="0" * 64 if file else None,
        formula=formula,
    )


def svgs(page: str) -> dict[str, dict[str, str]]:
    """The pictures of a page, by name and width."""
    found: dict[str, dict[str, str]] = {}
    for svg, name, width in re.findall(r'(<svg [^>]*class="([\w-]+)-(wide|narrow)".*?</svg>)', page, flags=re.DOTALL):
        found.setdefault(name, {})[width] = svg
    return found
