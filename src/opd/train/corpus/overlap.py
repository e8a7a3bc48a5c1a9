"""Training rows that are evaluation problems: candidates by shared words, confirmed by what words do not see.

    evaluation problems ──► index: 3-word shingle → problems, 8-word run → problems
    each training row   ──► shared shingles and runs with each problem ──► candidate? ──► compare() ──► verdict

A row is a candidate of a problem when it has the same words, holds it or is held by it, has a Jaccard index of
shingles of at least `near_jaccard`, covers `covered_share` of its runs, or has the same mathematics (which is
how a translation is found). A shared run alone makes no candidate: most are stock phrases, such as "m and n are
relatively prime positive integers", which are told by the number of training problems that hold them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum

from pydantic import Field, PositiveInt

from opd.records.settings import Settings
from opd.train.corpus.comparison import Comparison, Verdict, compare
from opd.train.corpus.problems import Corpus, Fields, Problem
from opd.train.corpus.symbols import formulas, marks
from opd.train.corpus.texts import Words, holds, runs, shingles


class Decontamination(Settings):
    """When a training row counts as an evaluation problem."""

    run_words: PositiveInt = 8
    """Length of the runs that are looked for, in words."""
    shingle_words: PositiveInt = 3
    """Length of the shingles of the Jaccard index, in words."""
    near_jaccard: float = Field(default=0.6, gt=0.0, le=1.0)
    """A row this near to an evaluation problem is a candidate."""
    covered_share: float = Field(default=0.8, gt=0.0, le=1.0)
    """A row that holds this share of an evaluation problem's runs, not all of them stock, is a candidate."""
    stock_rows: PositiveInt = 10
    """A run in at least so many different training problems is a stock phrase."""
    formula_marks: PositiveInt = 12
    """Problems whose mathematics is the same, mark by mark, and at least so long, are candidates."""
    remove: tuple[Verdict, ...] = tuple(verdict for verdict in Verdict if verdict is not Verdict.CHANGED)
    """Rows with these verdicts are removed."""
    remove_same_answer: bool = True
    """A changed row is removed too when its answer is that of the evaluation problem."""
    fields: Fields = Fields()
    """Where the training file keeps problem, answer and name."""
    against_fields: Fields = Fields()
    """Where the evaluation files do."""


_CONTEXT = 60  # characters on either side of a run


def _tail(text: str) -> str:
    return text if len(text) <= _CONTEXT else f"…{text[-_CONTEXT:]}"


def _head(text: str) -> str:
    return text if len(text) <= _CONTEXT else f"{text[:_CONTEXT]}…"


class Found(StrEnum):
    """By what a pair was found; the first that holds."""

    SAME_WORDS = "same_words"
    CONTAINED = "contained"
    NEAR = "near"
    COVERED = "covered"
    SAME_FORMULAS = "same_formulas"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A training row, an evaluation problem, what they share, and what the row is to the problem."""

    training: Problem
    evaluation: Problem
    against: str  # the evaluation file's name
    found: Found
    jaccard: float  # of shingles
    coverage: float | None  # share of the evaluation problem's runs that the row holds; None: it is too short for any
    shared_runs: int
    stock_runs: int
    comparison: Comparison
    removed: bool

    @property
    def answers_agree(self) -> bool | None:
        """Whether the two answers are the same text; None where one is not known."""
        return _answers_agree(self.training, self.evaluation)

    def longest_run(self) -> tuple[str, str]:
        """The longest run of words that both hold, and the same with what stands around it in the training row."""
        ours, theirs = self.training.parts, self.evaluation.parts
        match = SequenceMatcher(a=ours, b=theirs, autojunk=False).find_longest_match()
        start, end = match.a, match.a + match.size
        run, before, after = (" ".join(part) for part in (ours[start:end], ours[:start], ours[end:]))
        around = (_tail(before), f"[{run}]", _head(after))
        return run, " ".join(part for part in around if part)

    def record(self) -> dict[str, object]:
        """As one line of a report."""
        run, context = self.longest_run()
        return {
            "row": self.training.row,
            "id": self.training.name,
            "against": self.against,
            "against_row": self.evaluation.row,
            "against_id": self.evaluation.name,
            "found": self.found.value,
            "verdict": self.comparison.verdict.value,
            "removed": self.removed,
            "answer": self.training.answer,
            "against_answer": self.evaluation.answer,
            "answers_agree": self.answers_agree,
            "jaccard": round(self.jaccard, 4),
            "coverage": None if self.coverage is None else round(self.coverage, 4),
            "shared_runs": self.shared_runs,
            "stock_runs": self.stock_runs,
            "longest_run": run,
            "longest_run_characters": len(run),
            "context": context,
            "differences": list(self.comparison.differences),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """What a training file shares with one evaluation file."""

    against: str
    names: tuple[str, ...]  # of the evaluation problems, all of which were looked for
    pairs: tuple[Pair, ...]  # by row
    rows_sharing_a_run: int
    rows_sharing_more_than_stock: int
    stock_phrases: tuple[tuple[str, int], ...]  # with the number of training problems, most frequent first

    @property
    def problems(self) -> int:
        """How many evaluation problems were looked for."""
        return len(self.names)

    def counts(self) -> dict[str, int]:
        """Pairs by how they were found, then rows and problems that the pairs to be removed name."""
        by_kind = Counter(pair.found for pair in self.pairs)
        removed = [pair for pair in self.pairs if pair.removed]
        return {kind.value: by_kind[kind] for kind in Found} | {
            "removed_rows": len({pair.training.row for pair in removed}),
            "affected_problems": len({pair.evaluation.row for pair in removed}),
        }

    def record(self) -> dict[str, object]:
        """As one JSON object."""
        return {
            "against": self.against,
            "problems": self.problems,
            "names": list(self.names),
            "counts": self.counts(),
            "rows_sharing_a_run": self.rows_sharing_a_run,
            "rows_sharing_more_than_stock": self.rows_sharing_more_than_stock,
            "stock_phrases": [{"phrase": phrase, "problems": count} for phrase, count in self.stock_phrases],
            "pairs": [pair.record() for pair in self.pairs],
        }


def overlap(training: Sequence[Problem], evaluation: Corpus, settings: Decontamination) -> Overlap:
    """Every pair of a training row and an evaluation problem that the settings make a candidate, with its verdict."""
    index = _Index(evaluation.problems, settings)
    shared_runs = [index.shared_runs(problem) for problem in training]
    rows_with = _texts_by_run(training, shared_runs)
    stock = {run for run, texts in rows_with.items() if texts >= settings.stock_rows}
    pairs = [
        pair
        for problem, shared in zip(training, shared_runs, strict=True)
        for pair in _pairs(problem, shared, stock, index, against=evaluation.path.name)
    ]
    phrases = sorted(((" ".join(run), rows_with[run]) for run in stock), key=lambda phrase: (-phrase[1], phrase[0]))
    return Overlap(
        against=evaluation.path.name,
        names=tuple(problem.name for problem in evaluation.problems),
        pairs=tuple(pairs),
        rows_sharing_a_run=sum(bool(shared) for shared in shared_runs),
        rows_sharing_more_than_stock=sum(not shared <= stock for shared in shared_runs),
        stock_phrases=tuple(phrases),
    )


def _texts_by_run(training: Sequence[Problem], shared_runs: Sequence[set[Words]]) -> Counter[Words]:
    """In how many different texts each run occurs: a file that repeats its rows makes no phrase stock."""
    by_text = {problem.parts: shared for problem, shared in zip(training, shared_runs, strict=True)}
    return Counter(run for shared in by_text.values() for run in shared)


class _Index:
    """The evaluation problems by what they hold."""

    def __init__(self, problems: Sequence[Problem], settings: Decontamination) -> None:
        self.problems, self.settings = problems, settings
        self.shingles = [shingles(problem.parts, settings.shingle_words) for problem in problems]
        self.runs = [runs(problem.parts, settings.run_words) for problem in problems]
        self.by_shingle = _inverted(self.shingles)
        self.by_run = _inverted(self.runs)
        self.by_formulas: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        for place, problem in enumerate(problems):
            self.by_formulas[formulas(marks(problem.text))].append(place)

    def shared_runs(self, problem: Problem) -> set[Words]:
        return runs(problem.parts, self.settings.run_words) & self.by_run.keys()

    def same_formulas(self, problem: Problem) -> Sequence[int]:
        mathematics = formulas(marks(problem.text))
        return self.by_formulas.get(mathematics, ()) if len(mathematics) >= self.settings.formula_marks else ()


def _inverted(sets: Sequence[set[Words]]) -> dict[Words, list[int]]:
    places: defaultdict[Words, list[int]] = defaultdict(list)
    for place, members in enumerate(sets):
        for member in members:
            places[member].append(place)
    return dict(places)


def _pairs(problem: Problem, shared: set[Words], stock: set[Words], index: _Index, *, against: str) -> Iterator[Pair]:
    ours = shingles(problem.parts, index.settings.shingle_words)
    shingles_in_common = Counter(place for shingle in ours for place in index.by_shingle.get(shingle, ()))
    runs_in_common = Counter(place for run in shared for place in index.by_run[run])
    stock_in_common = Counter(place for run in shared & stock for place in index.by_run[run])
    same_formulas = index.same_formulas(problem)
    for place in sorted({*shingles_in_common, *same_formulas}):
        measures = _Measures(
            shingles=(len(ours), len(index.shingles[place]), shingles_in_common[place]),
            runs=(len(index.runs[place]), runs_in_common[place], stock_in_common[place]),
            same_formulas=place in same_formulas,
        )
        evaluation = index.problems[place]
        found = _found(problem, evaluation, measures, index.settings)
        if found is None:
            continue
        comparison = compare(problem.text, evaluation.text)
        yield Pair(
            training=problem,
            evaluation=evaluation,
            against=against,
            found=found,
            jaccard=measures.jaccard,
            coverage=measures.coverage,
            shared_runs=runs_in_common[place],
            stock_runs=stock_in_common[place],
            comparison=comparison,
            removed=_is_removed(comparison, problem, evaluation, index.settings),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measures:
    """What a training row and an evaluation problem have in common, counted."""

    shingles: tuple[int, int, int]  # the row's, the problem's, in common
    runs: tuple[int, int, int]  # the problem's, in common, stock phrases among those
    same_formulas: bool

    @property
    def jaccard(self) -> float:
        ours, theirs, common = self.shingles
        return common / ((ours + theirs - common) or 1)

    @property
    def coverage(self) -> float | None:
        theirs, common, _ = self.runs
        return common / theirs if theirs else None

    @property
    def one_may_hold_the_other(self) -> bool:
        ours, theirs, common = self.shingles
        return common in {ours, theirs}


def _found(training: Problem, evaluation: Problem, measures: _Measures, settings: Decontamination) -> Found | None:
    """By what the pair is a candidate; None when it is none."""
    ours, theirs = training.parts, evaluation.parts
    _, common_runs, stock_runs = measures.runs
    if ours == theirs:
        return Found.SAME_WORDS
    if measures.one_may_hold_the_other and (holds(ours, theirs) or holds(theirs, ours)):
        return Found.CONTAINED
    if measures.jaccard >= settings.near_jaccard:
        return Found.NEAR
    if (measures.coverage or 0.0) >= settings.covered_share and common_runs > stock_runs:
        return Found.COVERED
    return Found.SAME_FORMULAS if measures.same_formulas else None


def _is_removed(comparison: Comparison, training: Problem, evaluation: Problem, settings: Decontamination) -> bool:
    changed_alike = comparison.verdict is Verdict.CHANGED and bool(_answers_agree(training, evaluation))
    return comparison.verdict in settings.remove or (settings.remove_same_answer and changed_alike)


def _answers_agree(one: Problem, other: Problem) -> bool | None:
    if one.answer is None or other.answer is None:
        return None
    return "".join(one.answer.split()) == "".join(other.answer.split())
