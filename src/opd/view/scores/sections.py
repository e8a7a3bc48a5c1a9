"""A score's report in sections: what is said, in which order, with which tables and bars. Laid out elsewhere.

Every cell is on one line and safe to print; `terminal`, Markdown and the page differ in form alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from opd.records.score_report import (
    Contamination,
    CutShort,
    Lengths,
    Mean,
    Opinions,
    Part,
    QuestionResult,
    ScoreReport,
)
from opd.view.plain import shown
from opd.view.terminal.bars import Bar, Bars
from opd.view.words import UNDEFINED, interval, number, percent, signed


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Cells of text; the first column names the row."""

    caption: str = ""
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the report; `picture` names the drawing that a page shows in the place of the bars."""

    title: str
    said: tuple[str, ...] = ()
    bars: tuple[Bars, ...] = ()
    tables: tuple[Table, ...] = ()
    picture: str | None = None


def sections(report: ScoreReport, *, most: int) -> tuple[Section, ...]:
    """The sections that the samples have something for; lists are cut at `most`, and say so."""
    found = (
        _score(report),
        _tries(report),
        _questions(report, most=most),
        _outcomes(report),
        _cut_short(report.cut_short, report),
        _lengths(report.lengths),
        _graders(report, most=most),
        _contamination(report.contamination, report, most=most),
        _record(report),
    )
    return tuple(section for section in found if section is not None)


def _score(report: ScoreReport) -> Section:
    df = report.questions - 1
    numbers = [one.samples for one in report.by_question]
    each = report.samples_per_question or f"{min(numbers)} to {max(numbers)}"
    effect = report.design_effect
    worth = f"{report.n:,} samples are worth {report.n / effect:.0f} independent ones" if effect else ""
    rows = (
        ("mean", number(report.mean, 4), f"{report.correct:,} of {report.n:,} samples"),
        ("error", number(report.stderr, 4), "clustered by question"),
        ("95 % interval", interval(report.ci95, digits=4), f"from t with {df} degrees of freedom" if df else ""),
        ("naive error", number(report.stderr_naive, 4), "as if the samples were independent"),
        ("design effect", number(effect, 1), worth),
        ("intracluster correlation", number(report.icc, 2), "what two samples of a question share"),
        ("seed-to-seed error", number(report.stderr_seeds, 4), "the same model again on these questions"),
        ("questions", f"{report.questions:,}", f"{each} samples of each"),
    )
    said = []
    if report.wilson95_questions:
        wilson = interval(report.wilson95_questions, digits=4)
        said.append(f"All samples agree, so the error 0 misleads; by Wilson on questions: {wilson}.")
    if report.samples_per_question is None:
        said.append("The questions have different numbers of samples; the mean is over samples, not over questions.")
    if report.unverified:
        said.append("The samples are unverified: this score is of an earlier version, without a digest of them.")
    return Section(title="Score", said=tuple(said), tables=(Table(header=("", "", ""), rows=rows),))


def _tries(report: ScoreReport) -> Section | None:
    if len(report.at_k) < 2:
        return None
    rows = [
        (str(one.k), _error(one.pass_at_k, one.pass_stderr), _error(one.majority_at_k, one.majority_stderr))
        for one in report.at_k
    ]
    columns = 3 if report.at_k[0].majority_at_k is not None else 2  # the answers may not be known
    return Section(
        title="Several tries",
        said=(_TRIES,),
        tables=(Table(header=("k", "pass@k", "majority@k")[:columns], rows=tuple(row[:columns] for row in rows)),),
        picture="tries",
    )


_TRIES = (
    "pass@k: one of k samples is right. majority@k: the most frequent answer of k is right; a tie is split evenly, a "
    "sample without an answer has no vote. Both over all draws of k of the samples, ± one standard error over "
    "questions. At k = 1 both are the mean, which is also avg@k."
)


def _questions(report: ScoreReport, *, most: int) -> Section:
    """The worst and the most split, each with what other seeds may do to it."""
    by_name = {one.question: one for one in report.by_question}
    worst = [one for one in report.by_question if one.correct < one.samples][:most]
    split = [by_name[name] for name in report.most_split[:most]]
    agree = sum(one.correct in {0, one.samples} for one in report.by_question)
    none = sum(one.correct == 0 for one in report.by_question)
    said = (
        f"{none:,} of {report.questions:,} questions have no sample right, {agree - none:,} have all right, "
        f"{report.questions - agree:,} are split. A question's interval is Wilson's, from its own samples alone."
    )
    return Section(
        title="Questions",
        said=(said,),
        bars=tuple(
            Bars(caption=caption, bars=tuple(map(_question_bar, some)))
            for caption, some in (("lowest share right", worst), ("most split", split))
            if some
        ),
        tables=(_question_table(worst),) if any(one.gold is not None for one in worst) else (),
        picture="questions",
    )


def _question_bar(one: QuestionResult) -> Bar:
    return Bar(
        label=shown(one.question, longest=24),
        value=one.correct / one.samples,
        interval=one.interval,
        note=f"{one.correct}/{one.samples}",
    )


def _question_table(questions: Sequence[QuestionResult]) -> Table:
    rows = [
        (
            shown(one.question, longest=24),
            f"{one.correct}/{one.samples}",
            _text(one.gold),
            _text(one.wrong_answer),
            str(one.wrong_answers) if one.wrong_answer is not None else "",
            "" if one.cut_short is None else str(one.cut_short),
        )
        for one in questions
    ]
    header = ("question", "right", "gold", "most frequent wrong answer", "times", "cut short")
    return Table(caption="the lowest, and what they answer", header=header, rows=tuple(rows))


def _outcomes(report: ScoreReport) -> Section | None:
    groups = (
        ("verdict", report.verdicts),
        ("where the answer stood", report.box),
        ("who decided", report.decided_by),
    )
    bars = tuple(Bars(caption=name, bars=tuple(map(_part_bar, parts))) for name, parts in groups if parts)
    if not bars:
        return None
    return Section(
        title="How the samples came out",
        said=("Shares of all samples; the number behind a share is how many there are, and how many are right.",),
        bars=bars,
        picture="outcomes",
    )


def _part_bar(part: Part) -> Bar:
    return Bar(
        label=shown(part.name.replace("_", " "), longest=34),
        value=part.share,
        interval=part.ci95,
        note=f"{percent(part.share)}, {part.samples:,} ({part.correct:,} right)",
    )


def _cut_short(said: CutShort | None, report: ScoreReport) -> Section | None:
    if said is None:
        return None
    part = said.part
    bars = (
        Bar(label="as graded", value=report.mean, interval=report.ci95, note=_error(report.mean, report.stderr)),
        _mean_bar("all cut short wrong", said.all_wrong),
        _mean_bar("all cut short right", said.all_right),
    )
    rate = f"{percent(part.share)} ± {percent(part.stderr) if part.stderr is not None else UNDEFINED}"
    ended = f"The length limit ended {part.samples:,} of {report.n:,} samples ({rate})"
    bounds = (
        f"{number(said.all_wrong.mean, 4)}; no limit could have made it more than {number(said.all_right.mean, 4)}"
    )
    text = (
        f"{ended}; {part.correct:,} of them had a complete answer that is right, and count as right. Were all of "
        f"them counted as wrong, the score would be {bounds}."
    )
    if not part.samples:
        at_most = f"; up to {percent(part.ci95[1])} fit with that (Wilson, on questions)" if part.ci95 else ""
        text = f"The length limit ended none of {report.n:,} samples{at_most}."
    return Section(
        title="Cut short",
        said=(text,),
        bars=(Bars(caption="score, with 95 % intervals", bars=bars),) if part.samples else (),
        picture="bounds" if part.samples else None,
    )


def _mean_bar(label: str, said: Mean) -> Bar:
    return Bar(label=label, value=said.mean, interval=said.ci95, note=_error(said.mean, said.stderr))


def _lengths(said: Lengths | None) -> Section | None:
    if said is None:
        return None
    bars = tuple(
        Bar(
            label=f"{one.least:,} to {one.below - 1:,}",
            value=one.share,
            interval=one.ci95,
            note=f"{one.correct:,} right, {one.wrong:,} wrong"
            + f", {one.cut_short:,} cut short" * bool(one.cut_short),
        )
        for one in said.bins
    )
    error = UNDEFINED if said.stderr is None else f"{said.stderr:,.1f}"
    means = [
        f"{name} {value:,.1f}"
        for name, value in (("right ones", said.mean_correct), ("others", said.mean_wrong))
        if value is not None
    ]
    text = (
        f"{said.mean:,.1f} ± {error} {said.unit} on average ({', '.join(means)}), median {said.median:,}, "
        f"longest {said.longest:,}."
    )
    return Section(
        title="Length",
        said=(text,),
        bars=(Bars(caption=f"{said.unit} a response, share of samples", bars=bars, scaled=True),),
        picture="lengths",
    )


def _graders(report: ScoreReport, *, most: int) -> Section | None:
    if not report.opinions:
        return None
    listed = report.disagreements[:most]
    cases = tuple(
        (
            shown(one.question, longest=24),
            str(one.sample),
            _text(one.extracted),
            _text(one.gold),
            f"{shown(one.by)}: {shown(one.verdict)}",
            f"{shown(one.other)}: {shown(one.other_verdict)}",
            shown(one.reason),
        )
        for one in listed
    )
    header = ("question", "sample", "answer", "gold", "counts", "other", "its reason")
    tables = [_opinion_table(report.opinions)]
    if cases:
        tables.append(Table(caption=_of(len(listed), report.opinions), header=header, rows=cases))
    return Section(title="Graders that disagree", tables=tuple(tables))


def _opinion_table(opinions: Sequence[Opinions]) -> Table:
    rows = [
        (
            shown(one.other),
            shown(one.by),
            f"{one.asked:,}",
            f"{one.failed:,}",
            f"{one.other_says_right:,}",
            f"{one.other_says_wrong:,}",
            _error(one.mean_by_other.mean, one.mean_by_other.stderr) if one.mean_by_other else "",
        )
        for one in opinions
    ]
    header = (
        "who was asked",
        "who decided",
        "samples",
        "failed",
        "right for the other alone",
        "wrong for the other alone",
        "score by the other",
    )
    return Table(header=header, rows=tuple(rows))


def _of(listed: int, opinions: Sequence[Opinions]) -> str:
    total = sum(one.other_says_right + one.other_says_wrong for one in opinions)
    return f"{listed:,} of {total:,} samples on which they differ"


def _contamination(said: Contamination | None, report: ScoreReport, *, most: int) -> Section | None:
    if said is None:
        return None
    bars = [
        Bar(label="all questions", value=report.mean, interval=report.ci95, note=_error(report.mean, report.stderr))
    ]
    bars += [_mean_bar("without those found", said.without)] if said.without else []
    bars += [_mean_bar("those found alone", said.only)] if said.only else []
    rows = tuple(
        (
            shown(one.question, longest=24),
            shown(one.training_row, longest=24),
            shown(one.verdict),
            f"{one.correct}/{one.samples}",
            number(one.jaccard, 2),
            shown(one.longest_run),
        )
        for one in said.overlaps[:most]
    )
    header = ("question", "training row", "it is", "right", "Jaccard", "longest common run of words")
    caption = f"{len(rows):,} of {len(said.overlaps):,} pairs"
    shift = f"The score is {signed(said.shift, 4)} ± {number(said.shift_stderr, 4)} with them than without."
    return Section(
        title="Contamination",
        said=(
            shown(said.note, longest=2_000),
            *((shift,) if said.overlaps and said.without else ()),
            f"{said.near:,} further pairs are alike and other questions.",
            f"Training rows: {_files(said.training)} ({said.trained_on}). Reports: {_files(said.reports)}.",
        ),
        bars=(Bars(caption="score, with 95 % intervals", bars=tuple(bars)),) if said.overlaps else (),
        tables=(Table(caption=caption, header=header, rows=rows),) if rows else (),
        picture="contamination" if said.overlaps else None,
    )


def _files(names: Sequence[str]) -> str:
    return ", ".join(shown(name, longest=200) for name in names)


def _record(report: ScoreReport) -> Section:
    rows = [
        ("read from", shown(report.name, longest=200)),
        ("form", report.form),
        ("benchmark", _text(report.benchmark)),
        ("model", shown(report.model or "not known", longest=200)),
        ("protocol digest", report.protocol_digest or "no protocol is known"),
        *((("samples digest", report.samples_sha256),) if report.samples_sha256 else ()),
    ]
    tables = [Table(header=("", ""), rows=tuple(rows))]
    for caption, values in (("protocol", report.protocol), ("machine", report.machine)):
        if values:
            cells = tuple((shown(key), shown(value, longest=400)) for key, value in values.items())
            tables.append(Table(caption=caption, header=("", ""), rows=cells))
    return Section(title="Where it comes from", tables=tuple(tables))


def _error(value: float | None, stderr: float | None) -> str:
    """`0.8345 ± 0.0141`."""
    return UNDEFINED if value is None else f"{number(value, 4)} ± {number(stderr, 4)}"


def _text(value: str | None) -> str:
    return "" if value is None else shown(value, longest=36)
