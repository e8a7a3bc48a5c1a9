"""Samples → everything that a report of their score shows. Only what the samples tell; the rest is null or empty."""

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import groupby

from opd.evaluate.contamination import contamination
from opd.evaluate.lengths import lengths
from opd.evaluate.means import mean_of
from opd.evaluate.results import Results, Source, results_of
from opd.evaluate.rows import Row
from opd.evaluate.statistics.estimates import Counts, pass_at_k_score, summary, tries
from opd.evaluate.statistics.intervals import t_interval, wilson
from opd.evaluate.statistics.votes import Ballot, ballot, majority_at_k_score, wrong_groups
from opd.evaluate.trained import Trained
from opd.records.score_report import AtK, CutShort, Disagreement, Mean, Opinions, Part, QuestionResult, ScoreReport
from opd.records.scores import Opinion, Protocol, Verdict

MOST_DISAGREEMENTS = 100  # that are listed one by one; all are counted
MOST_SPLIT = 10
_HALF = Fraction(1, 2)

Group = tuple[Row, ...]  # the samples of one question


def score_report(source: Source, trained: Trained | None = None) -> ScoreReport:
    """The report of a score; with what is known of the training rows, its contamination is part of it."""
    results = results_of(source)
    groups = [tuple(rows) for _, rows in groupby(source.rows, key=lambda row: row.question)]
    said = summary(results.counts)
    return ScoreReport(
        name=source.name,
        form=source.form,
        benchmark=source.benchmark,
        model=source.model,
        protocol_digest=source.score.protocol_digest if source.score else None,
        samples_sha256=source.score.samples_sha256 if source.score else None,
        unverified=source.is_unverified,
        mean=said.mean,
        stderr=said.stderr,
        stderr_naive=said.stderr_naive,
        ci95=said.ci95,
        design_effect=said.design_effect,
        icc=said.icc,
        stderr_seeds=said.stderr_seeds,
        wilson95_questions=wilson_on_questions(results.counts),
        questions=said.questions,
        samples_per_question=results.counts.samples_per_question,
        n=said.samples,
        correct=said.correct,
        at_k=_at_k(results, groups),
        verdicts=_parts(groups, lambda row: row.verdict, order=[verdict.value for verdict in Verdict]),
        decided_by=_parts(groups, lambda row: row.by),
        box=_parts(groups, _box, order=_BOX),
        cut_short=_cut_short(groups),
        lengths=lengths(groups),
        opinions=_opinions(groups),
        disagreements=tuple(_disagreements(source.rows)[:MOST_DISAGREEMENTS]),
        contamination=None if trained is None else contamination(results, trained, model=source.model),
        by_question=tuple(sorted(map(_question, groups), key=lambda one: (one.correct / one.samples, one.question))),
        most_split=_most_split(results),
        machine=dict(results.machine),
        protocol=_in_words(source.protocol),
    )


def wilson_on_questions(counts: Counts) -> tuple[float, float] | None:
    """Wilson's interval on questions where all samples agree, so that the error 0 misleads; else None."""
    if counts.total_hits not in {0, counts.total_samples}:
        return None
    return wilson(counts.questions if counts.total_hits else 0, counts.questions)


def _counted(groups: Sequence[Group], holds: Callable[[Row], bool]) -> Counts:
    """How many samples of each question something holds for."""
    return Counts(hits=tuple(sum(map(holds, rows)) for rows in groups), samples=tuple(map(len, groups)))


def _parts(
    groups: Sequence[Group], name_of: Callable[[Row], str | None], *, order: Sequence[str] = ()
) -> tuple[Part, ...]:
    """The samples by what they are called; none when one of them has no name. In the order given, then by size."""
    names = Counter(name_of(row) for rows in groups for row in rows)
    if None in names:
        return ()
    known = [name for name in order if name in names]
    others = [name for name, _ in names.most_common() if name is not None and name not in order]

    def called(name: str) -> Callable[[Row], bool]:
        return lambda row: name_of(row) == name

    return tuple(_part(groups, name, called(name)) for name in (*known, *others))


def _part(groups: Sequence[Group], name: str, holds: Callable[[Row], bool]) -> Part:
    counts = _counted(groups, holds)
    said = mean_of(counts)
    return Part(
        name=name,
        samples=counts.total_hits,
        share=said.mean,
        stderr=said.stderr,
        ci95=wilson_on_questions(counts) or said.ci95,
        correct=sum(row.correct for rows in groups for row in rows if holds(row)),
    )


_BOX = ("after the reasoning", "inside the reasoning", "no complete box")


def _box(row: Row) -> str | None:
    if row.inside_reasoning is None or row.answered is None:
        return None
    return _BOX[2] if not row.answered else _BOX[1] if row.inside_reasoning else _BOX[0]


def _cut_short(groups: Sequence[Group]) -> CutShort | None:
    if any(row.cut_short is None for rows in groups for row in rows):
        return None
    return CutShort(
        part=_part(groups, "cut short", lambda row: bool(row.cut_short)),
        all_wrong=mean_of(_counted(groups, lambda row: row.correct and not row.cut_short)),
        all_right=mean_of(_counted(groups, lambda row: row.correct or bool(row.cut_short))),
    )


def _at_k(results: Results, groups: Sequence[Group]) -> tuple[AtK, ...]:
    samples = results.counts.samples_per_question
    if samples is None:
        return ()
    known = all(row.answered is not None for rows in groups for row in rows)
    votes = [ballot((row.extracted, row.correct) for row in rows) for rows in groups] if known else None
    return tuple(_tried(results.counts, votes, k) for k in tries(samples))


def _tried(counts: Counts, votes: Sequence[Ballot] | None, k: int) -> AtK:
    passed = pass_at_k_score(counts, k)
    majority = majority_at_k_score(votes, k) if votes else None
    df = counts.questions - 1
    return AtK(
        k=k,
        pass_at_k=passed.mean,
        pass_stderr=passed.stderr,
        pass_ci95=t_interval(passed.mean, passed.stderr, df=df),
        majority_at_k=majority.mean if majority else None,
        majority_stderr=majority.stderr if majority else None,
        majority_ci95=t_interval(majority.mean, majority.stderr, df=df) if majority else None,
    )


def _question(rows: Group) -> QuestionResult:
    correct = sum(row.correct for row in rows)
    wrong = next(iter(wrong_groups((row.extracted, row.correct) for row in rows)), [])
    tokens = [row.tokens for row in rows if row.tokens is not None]
    cut_short = [row.cut_short for row in rows if row.cut_short is not None]
    interval = wilson(correct, len(rows))
    assert interval is not None, "a question has at least one sample"
    return QuestionResult(
        question=rows[0].question,
        correct=correct,
        samples=len(rows),
        interval=interval,
        cut_short=sum(cut_short) if len(cut_short) == len(rows) else None,
        mean_tokens=sum(tokens) / len(rows) if len(tokens) == len(rows) else None,
        gold=rows[0].gold,
        wrong_answer=wrong[0] if wrong else None,
        wrong_answers=len(wrong),
    )


def _most_split(results: Results) -> tuple[str, ...]:
    shares = dict(zip(results.questions, results.counts.question_means(), strict=True))
    split = [name for name, share in shares.items() if 0 < share < 1]
    return tuple(sorted(split, key=lambda name: (abs(shares[name] - _HALF), name))[:MOST_SPLIT])


def _opinions(groups: Sequence[Group]) -> tuple[Opinions, ...]:
    """Of everyone who was asked beside those who decided, against each who decided where they were asked."""
    said = [(row, one) for rows in groups for row in rows for one in row.opinions]
    scores = {other: _score_by(groups, other) for other in dict.fromkeys(one.by for _, one in said)}
    pairs = dict.fromkeys((one.by, row.by or "") for row, one in said)
    return tuple(
        _against([(row, one) for row, one in said if (one.by, row.by or "") == pair], score=scores[pair[0]])
        for pair in pairs
    )


def _against(said: Sequence[tuple[Row, Opinion]], *, score: Mean | None) -> Opinions:
    """One other's opinions on the samples that one decided."""
    settled = [(row.correct, one.verdict.correct) for row, one in said if one.verdict.settled]
    row, opinion = said[0]
    return Opinions(
        other=opinion.by,
        by=row.by or "",
        asked=len(said),
        failed=len(said) - len(settled),
        other_says_right=sum(other and not counts for counts, other in settled),
        other_says_wrong=sum(counts and not other for counts, other in settled),
        mean_by_other=score,
    )


def _score_by(groups: Sequence[Group], other: str) -> Mean | None:
    """The score if the other had decided; None unless it gave a verdict on every sample."""
    verdicts = {
        (row.question, row.sample): one.verdict.correct
        for rows in groups
        for row in rows
        for one in row.opinions
        if one.by == other and one.verdict.settled
    }
    if len(verdicts) < sum(map(len, groups)):
        return None
    return mean_of(_counted(groups, lambda row: verdicts[row.question, row.sample]))


def _disagreements(rows: Sequence[Row]) -> list[Disagreement]:
    return [
        Disagreement(
            question=row.question,
            sample=row.sample,
            by=row.by or "",
            verdict=row.verdict or "",
            other=one.by,
            other_verdict=one.verdict.value,
            extracted=row.extracted,
            gold=row.gold,
            reason=one.reason,
        )
        for row in rows
        for one in row.opinions
        if one.verdict.settled and one.verdict.correct is not row.correct
    ]


def _in_words(protocol: Protocol | None) -> dict[str, str]:
    values = protocol.resolved() if protocol else {}
    return {
        key: ", ".join(map(str, value)) if isinstance(value, list) else "none" if value is None else str(value)
        for key, value in values.items()
    }
