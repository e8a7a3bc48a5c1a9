"""What a step leaves on the disk, in this order: rollouts, checkpoint, trainer state.

The step's line in `metrics.jsonl` comes after them. A trainer state holds the line too, for a run that is killed
between the two.
"""

from collections.abc import Callable
from pathlib import Path

from opd.models.machine import describe
from opd.records.files import digest, read_lines
from opd.records.metrics import RunSummary, StepMetrics, StopCause
from opd.records.rollout_table import table_path
from opd.records.served import TeacherServer, put_together
from opd.records.settings import validated
from opd.train.alarms import warnings_of
from opd.train.parts import Parts
from opd.train.recipe import Recipe
from opd.train.saved.checkpoint import Checkpoints
from opd.train.saved.resume import Start
from opd.train.saved.retention import Means, means_of
from opd.train.saved.retries import retried
from opd.train.saved.state import States, TrainerState, check_there


class Archive:
    """The files of one run; `start` is where it goes on, if it was taken up again."""

    def __init__(self, out: Path, recipe: Recipe, parts: Parts, *, start: Start | None) -> None:
        self._out = out
        self._recipe = recipe
        self._parts = parts
        self._states = States(out)
        self._checkpoints = Checkpoints(out, recipe.save.retention, resumed=start is not None)
        self._resumed_from = start.resumed_from if start else ()
        self._servers = start.state.teacher_servers if start and start.state else ()  # up to there
        self._servers_before = self._servers
        self._lines = _lines(out / "metrics.jsonl") if start and parts.ranks.writes else []

    def keep(
        self,
        line: StepMetrics,
        write: Callable[[Path], object],
        *,
        ends: bool,
        servers: tuple[TeacherServer, ...] = (),
    ) -> StepMetrics:
        """The line with its warnings, now that all that is due after its step is on the disk.

        `write` makes a file the table of its rollouts; `ends`: the run ends with it; `servers` are the teacher's, as
        they did in this try so far. Raises `AnswerIsNo` when the
        run's folder has gone, which would otherwise be made anew without what was in it.
        """
        check_there(self._out, holds="metrics.jsonl" if self._lines else "")  # one that was made anew has no lines
        self._servers = put_together((*self._servers_before, *servers))
        save, step = self._recipe.save, line.step
        exact, cut = self._recipe.machine.exact, not self._recipe.rollouts.sampling.full_support
        line = line.model_copy(update={"warnings": warnings_of(line, self._lines, exact=exact, cut=cut)})
        self._lines.append(line)
        if save.rollouts:
            retried(lambda: write(table_path(self._out, step)))
        if save.checkpoint_due(step, ends=ends):
            self._checkpoint(step)
        if save.state_due(step, ends=ends):
            written = self._parts.shares is not None  # by each rank its own
            self._states.save(self._state(line), None if written else self._parts.updater.state())
        return line

    def ended(self, step: int, *, last_step: int) -> StopCause | None:
        """Why there is no step after this one, which is where a resumed run goes on; its checkpoint is there then."""
        cause = self._parts.budget.cause(step, last_step=last_step) if step else None
        if cause is not None:
            self._checkpoint(step)
        return cause

    def summary(self, step: int, cause: StopCause, *, rows_seen: int) -> RunSummary:
        """What the run came to, which ended after this step.

        Raises `AnswerIsNo` when the step's checkpoint is not, bit by bit, what was published (faults E68).
        """
        self._checkpoints.check(step)
        recipe, parts = self._recipe, self._parts
        return RunSummary(
            recipe=recipe.digest,
            data=parts.data_sha256,
            stop=cause,
            steps=step,
            asked_steps=recipe.budget.steps,
            seconds=parts.budget.seconds,
            max_wall_seconds=recipe.budget.max_wall_seconds,
            rows_seen=rows_seen,
            rows=parts.order.rows,
            checkpoints=tuple(path.name for path in self._checkpoints.complete()),
            machine=_machine(parts),
            resumed_from=self._resumed_from,
            best=tuple(path.name for path in self._checkpoints.best(self._means())),
            student=digest(parts.origins.student),
            teacher=digest(parts.origins.teacher) if recipe.teacher is not None else None,
            teachers={name: digest(files) for name, files in parts.origins.teachers.items()},
            left_out=parts.left_out,
            teacher_servers=self._servers,
            ungraded=sum(line.ungraded or 0 for line in self._lines) if recipe.reward is not None else None,
        )

    def _checkpoint(self, step: int) -> None:
        self._checkpoints.save(self._parts.student, step=step, recipe_digest=self._recipe.digest, means=self._means())

    def _means(self) -> dict[int, Means]:
        return means_of(self._lines, every=self._recipe.save.every)

    def _state(self, metrics: StepMetrics) -> TrainerState:
        return TrainerState(
            step=metrics.step,
            recipe=self._recipe.digest,
            data=self._parts.data_sha256,
            origins=self._parts.origins,
            spent=self._parts.budget.spent,
            metrics=metrics,
            resumed_from=self._resumed_from,
            teacher_servers=self._servers,
        )


def _machine(parts: Parts) -> dict[str, str]:
    """What made the run; how many ranks where there were several."""
    largest = parts.updater.largest_importance
    ranks = {"ranks": str(parts.ranks.count)} if parts.ranks.count > 1 else {}
    return {
        **describe(parts.device),
        "sampler": parts.sampled_by,
        "largest_importance": str(largest or "off"),
        **ranks,
    }


def _lines(path: Path) -> list[StepMetrics]:
    return [validated(StepMetrics, line, source=str(path)) for line in read_lines(path)]
