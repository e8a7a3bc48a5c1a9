"""Where student and teacher may mean different things, the first token and the end, and what looks wrong in a step.

Means over all tokens hide them: they are two among thousands. Whether a step is warned of is a function of its line
and of those before it, so that a resumed run warns where the uninterrupted one would.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from opd.records.metrics import StepMetrics, TeacherMetrics
from opd.records.rollouts import ScoredRollout
from opd.train.facts import RolloutFacts, facts_of
from opd.train.teachers import TeacherName, role
from opd.train.update.balance import balance_note

IMPROBABLE_END = -10.0  # nats; a teacher that ends with the same token gives it a few at most
DISTANT_OPENING = 2.0  # nats; within one chat template and one thinking mode it is a fraction
FEWEST_OPENINGS = 64  # rollouts, of one step or of the last ones together
CHANCE_NATS = 20.0  # summed over a step: chance goes so far below zero once in exp(20) steps, for any two models
BELOW_ZERO_NATS = 0.02  # a token; far beyond what rounding does
RISE = 0.2  # of the share that is cut short, in RISE_STEPS
RISE_STEPS = 50
RISE_MEAN_STEPS = 10  # at either end


@dataclass(frozen=True, slots=True, kw_only=True)
class Edges:
    """How student and teacher differ where an answer begins and where it ends, in nats."""

    first_token_kl: float  # mean of log student - log teacher
    first_token_distance: float  # median of its size
    eos_teacher_logp: float | None  # mean of the teacher's at the student's end of sequence; None where none ended


def edges(scored: Sequence[ScoredRollout], *, stop_ids: Collection[int]) -> Edges:
    """Those of a step's rollouts. An answer ends with the first of its tokens that is a stop id."""
    return edges_of(facts_of(scored, stop_ids=stop_ids))


def edges_of(facts: Sequence[RolloutFacts]) -> Edges:
    """Those of the rollouts that these facts are of."""
    first = [one.first_gap for one in facts]
    found = [one.eos_teacher_logp for one in facts if one.eos_teacher_logp is not None]
    return Edges(
        first_token_kl=fmean(first),
        first_token_distance=median(map(abs, first)),
        eos_teacher_logp=fmean(found) if found else None,
    )


def warnings_of(
    line: StepMetrics, before: Sequence[StepMetrics], *, exact: bool = False, cut: bool = False
) -> tuple[str, ...]:
    """What looks wrong in this step; `before` are the lines of the steps before it, in order.

    `exact`: sampler and trainer should agree to the last bit. `cut`: tokens were drawn from a part of the student's
    distribution, as with top_p.
    """
    found = [
        _inexact_note(line.gap.largest) if exact else None,
        None if cut else _below_zero_note(line),
        *_teachers_notes(line, before),
        balance_note(line.objective),
        _grading_note(line),
        _rise_note([*before[-RISE_STEPS:], line]),
    ]
    return tuple(note for note in found if note)


def _inexact_note(largest_gap: float) -> str | None:
    if largest_gap == 0:
        return None
    return (
        f"machine.exact: sampler and trainer are {largest_gap:.2g} nats apart at some token, and should agree to the "
        "last bit; no importance makes up for it: set it to false, and report it with run.json"
    )


def _below_zero_note(line: StepMetrics) -> str | None:
    """Of tokens that the student drew, teacher's over student's probability has the mean 1 over whole rollouts.

    So the sum of log student - log teacher is below -x with a probability of at most exp(-x), whatever the models.
    """
    tokens = line.mean_tokens * line.rollouts
    if line.kl > -max(CHANCE_NATS / tokens, BELOW_ZERO_NATS):
        return None
    return (
        f"the mean KL is {line.kl:.3f} nats a token over {tokens:,.0f} tokens, and a KL is not below zero: the "
        "teacher's log-probabilities are not those of these tokens, or the student's not what they were drawn from"
    )


def _teachers_notes(line: StepMetrics, before: Sequence[StepMetrics]) -> list[str | None]:
    """What looks wrong between the student and its teacher, or each of several."""
    if line.teachers is None:
        return [ending_note(line.eos_teacher_logp), _opening_note([*before[-FEWEST_OPENINGS:], line])]
    found = []
    for name, own in line.teachers.items():
        earlier = [one.teachers[name] for one in before if one.teachers and name in one.teachers]
        found.append(ending_note(own.eos_teacher_logp, teacher=name))
        found.append(_opening_note([*earlier[-FEWEST_OPENINGS:], own], teacher=name))
    return found


def ending_note(eos_teacher_logp: float | None, *, teacher: TeacherName = None) -> str | None:
    """The line when the teacher finds the student's end of sequence all but impossible; else None (faults E23)."""
    if eos_teacher_logp is None or eos_teacher_logp >= IMPROBABLE_END:
        return None
    return (
        f"the {role(teacher)} gives the student's end of sequence {eos_teacher_logp:.1f} nats on average: the two "
        "end differently, and answers will grow; a base student under a chat teacher does that"
    )


def _opening_note(lines: Sequence[StepMetrics | TeacherMetrics], *, teacher: TeacherName = None) -> str | None:
    """E36, over the fewest last lines that hold enough rollouts; of several, the median of their medians."""
    rollouts, distances = 0, []
    for line in reversed(lines):
        if line.first_token_distance is None or rollouts >= FEWEST_OPENINGS:
            break
        rollouts += line.rollouts
        distances.append(line.first_token_distance)
    if rollouts < FEWEST_OPENINGS or (distance := median(distances)) < DISTANT_OPENING:
        return None
    return (
        f"student and {role(teacher)} are {distance:.1f} nats apart at the first token (median of {rollouts} "
        "rollouts): the teacher expects another opening; compare chat templates and thinking modes"
    )


def _grading_note(line: StepMetrics) -> str | None:
    """E45, for graders: every failure is said, for a grader that fails at some kind of answer teaches to avoid it."""
    if not line.ungraded:
        return None
    return (
        f"grading failed for {line.ungraded:,} of {line.rollouts:,} rollouts: they have no reward, and count as "
        "their group's mean; see reward.grader"
    )


def _rise_note(lines: Sequence[StepMetrics]) -> str | None:
    """E75, between the means of the first and the last ten of the last fifty-one steps."""
    if len(lines) <= RISE_STEPS:
        return None
    ends = (lines[:RISE_MEAN_STEPS], lines[-RISE_MEAN_STEPS:])
    first, last = (fmean(line.cut_short for line in some) for some in ends)
    if last - first < RISE:
        return None
    return (
        f"the share of rollouts that are cut short rose from {first:.0%} to {last:.0%} in {RISE_STEPS} steps: "
        "unfinished answers come to rule the mean over tokens; see credit.cut_short and rollouts.limit_tokens"
    )
