"""A run in a line: what it is, what has become of it, how far it came, and what it scored.

What is damaged is said in the summary and stops nothing: one bad folder must not hide the others.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from opd.records.attempts import Final, Stage
from opd.records.errors import OpdError
from opd.records.failures import Failure
from opd.records.files import COMPLETE, PARTIAL, digest
from opd.records.metrics import RunSummary
from opd.records.scores import Score
from opd.records.settings import read
from opd.view.growing import last_line, lines_in, news
from opd.view.runs.differences import flat
from opd.view.runs.folders import Folder, Kind, State, read_object, state_of, tries
from opd.view.runs.ongoing import ongoing
from opd.view.words import short_place

_SMALL_FILES = ("recipe.json", "metrics.jsonl", "run.json", "failure.json", "samples.jsonl", "score.json")
_OF_ATTEMPT = ("events.jsonl", "lease.json")
_A_TEACHERS_MODEL = re.compile(r"teachers\.([^.]+)\.model")


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A run in a line. What does not apply, and what is not known, is None."""

    folder: Folder
    name: str
    state: State
    step: int | None = None  # updates made; of a score, samples graded; of an attempt, the checkpoint that counts
    asked: int | None = None  # of so many
    mean: float | None = None
    stderr: float | None = None
    ci95: tuple[float, float] | None = None
    scored: str | None = None  # what the mean is of: `checkpoint-120 on arith_tiny_final`
    seconds: float | None = None  # used
    changed: float = 0.0  # when one of its files was last written, POSIX seconds
    said: str = ""  # a sentence: how it ended, or what it is at
    recipe: Mapping[str, Any] = field(default_factory=dict)  # flat: `optimizer.lr`
    trouble: str | None = None  # what couldn't be read

    @property
    def teacher(self) -> str | None:
        """The teacher's model; of several their names."""
        several = [found[1] for key in self.recipe if (found := _A_TEACHERS_MODEL.fullmatch(key))]
        only = self.recipe.get("teacher.model")
        return ", ".join(several) or (only if isinstance(only, str) else None)


def summary(folder: Folder, *, counts_seconds: bool = True) -> Summary:
    """The run in a line, from its small files.

    Of a training run that has not ended the seconds are those of its steps, for which every line of its metrics is
    read; without `counts_seconds` they are None, for whoever reads those lines anyway.
    """
    bare = Summary(folder=folder, name=name_of(folder), state=state_of(folder), changed=_changed(folder))
    try:
        return (
            _train(bare, counts_seconds=counts_seconds) if folder.kind is Kind.TRAIN else _OTHERS[folder.kind](bare)
        )
    except (OpdError, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        return replace(bare, state=State.DAMAGED, trouble=_in_words(error), said="can't be read")


def summaries(folders: Sequence[Folder], *, counts_seconds: bool = True) -> tuple[Summary, ...]:
    """Each run in a line, in order; a training run has the score of its newest checkpoint that a score here is of."""
    bare = [summary(folder, counts_seconds=counts_seconds) for folder in folders]
    scores = [(one, score) for one in bare if one.folder.kind is Kind.SCORE and (score := _score_in(one))]
    return tuple(
        _with_score(one, scores) if one.folder.kind is Kind.TRAIN and one.mean is None else one for one in bare
    )


def summary_among(folder: Folder, others: Sequence[Folder]) -> Summary:
    """The run in a line, as `summaries` would have it among these others."""
    return summaries([folder, *(one for one in others if one.kind is Kind.SCORE)])[0]


def name_of(folder: Folder) -> str:
    """The last part of the path, also of `.`."""
    return folder.path.name or folder.path.resolve().name


def checkpoint_digests(run: Path) -> dict[str, int]:
    """The step of each whole checkpoint of a run by the digest that a score names it by; no weights are read."""
    return {made: step for step, folder in checkpoints(run) if (made := model_digest(folder)) is not None}


def checkpoints(run: Path) -> list[tuple[int, Path]]:
    """The published checkpoints of a run by step: by number, never by name or by time (faults H26)."""
    found = []
    for folder in run.glob("checkpoint-*"):
        number = folder.name.removeprefix("checkpoint-")
        if number.isdecimal() and (folder / COMPLETE).is_file():
            found.append((int(number), folder))
    return sorted(found)


def model_digest(folder: Path) -> str | None:
    """The digest of a published model's files, as its mark has them; None without a mark that can be read."""
    with suppress(OpdError, KeyError):
        return digest(read_object(folder / COMPLETE)["files"])
    return None


def _train(bare: Summary, *, counts_seconds: bool) -> Summary:
    path = bare.folder.path
    recipe = read_object(path / "recipe.json")
    last = last_line(path / "metrics.jsonl") or {}
    filled = replace(
        bare, recipe=flat(recipe), step=int(last.get("step", 0)), asked=recipe.get("budget", {}).get("steps")
    )
    if (path / "run.json").is_file():
        done = read(RunSummary, path / "run.json")
        said = f"ended by {done.stop.value.replace('_', ' ')} after step {done.steps:,} of {done.asked_steps:,}"
        return replace(filled, step=done.steps, asked=done.asked_steps, seconds=done.seconds, said=said)
    if (path / "failure.json").is_file():
        broke = read(Failure, path / "failure.json")
        return replace(filled, seconds=broke.seconds, said=_broken(broke))
    taken = [step_seconds(line) for line in news(path / "metrics.jsonl").values] if counts_seconds else []
    seconds = math.fsum(taken) if taken else None  # before the first step ends nothing is known
    at = f"after step {filled.step:,}" if filled.step else "before step 1"
    said = f"at work, {at}" if bare.state is State.RUNNING else f"its process was killed {at}; --resume goes on"
    return replace(filled, seconds=seconds, said=said)


def step_seconds(line: Mapping[str, Any]) -> float:
    """The seconds of the step that a line of metrics is about."""
    return float(line.get("seconds", {}).get("total", 0.0))


def _broken(broke: Failure) -> str:
    at = f"in step {broke.step:,}" + (f" ({broke.phase})" if broke.phase else "")
    if broke.signal is not None:
        return f"ended by {broke.signal} {at}"
    first = broke.exceptions[-1]
    number = "" if broke.errno is None else f"errno {broke.errno}, {broke.errno_name}: "
    return f"broke {at}: {number}{first.kind}: {first.message}".partition("\n")[0]


def _scored(bare: Summary) -> Summary:
    path = bare.folder.path
    if (path / "score.json").is_file():
        score = read(Score, path / "score.json")
        return replace(
            bare,
            step=score.samples,
            asked=score.samples,
            mean=score.mean,
            stderr=score.stderr,
            ci95=score.ci95,
            scored=f"{short_place(score.model)} on {score.benchmark}",
            seconds=score.seconds,
            said=f"{score.correct:,} of {score.samples:,} samples right",
            trouble=_why_closed(path / "samples.jsonl"),
        )
    asked = read_object(path / "protocol.json")["protocol"]
    done, total = lines_in(path / "samples.jsonl"), asked["questions"] * asked["samples_per_question"]
    whose = "at work" if bare.state is State.RUNNING else "left"
    said = f"{whose} after {done:,} of {total:,} samples of {asked['benchmark']}"
    return replace(bare, step=done, asked=total, said=said)


def _attempted(bare: Summary) -> Summary:
    path = bare.folder.path
    receipts = [(one, read_object(one / "receipt.json")) for one in tries(path) if (one / COMPLETE).is_file()]
    taken = [receipt["active_seconds"] for _, receipt in receipts] + _seconds_at_work(path)
    seconds = None if None in taken else math.fsum(taken)
    finals = [outcome for outcome in _finals(one for one, _ in receipts) if outcome.mean is not None]
    best = max(finals, key=lambda one: (one.mean or 0.0, -one.step), default=None)
    said = _furthest(path, receipts)
    if best is None:
        return replace(bare, seconds=seconds, said=said)
    return replace(
        bare,
        step=best.step,
        mean=best.mean,
        stderr=best.stderr,
        scored=f"step {best.step}, the best of {len(finals)} on {best.benchmark}",
        seconds=seconds,
        said=said,
    )


def _seconds_at_work(attempt: Path) -> list[float | None]:
    """Of each try that is being filled, or was left so; None where it is not known."""
    half = [one.relative_to(attempt).as_posix().removesuffix(PARTIAL) for one in _half_done(attempt)]
    if not half:
        return []
    heard = None
    with suppress(OpdError, KeyError):
        heard = read_object(attempt / "lease.json")["heard"]
    found = ongoing(news(attempt / "events.jsonl").values, heard if isinstance(heard, dict) else None)
    return [found[name].seconds if name in found else None for name in half]


def _half_done(attempt: Path) -> list[Path]:
    return [one for one in tries(attempt) if one.name.endswith(PARTIAL)]


def _finals(folders: Iterator[Path]) -> list[Final]:
    return [read(Final, one / "outcome.json") for one in folders if one.parent.name == Stage.FINAL.value]


def _furthest(attempt: Path, receipts: Sequence[tuple[Path, Mapping[str, Any]]]) -> str:
    half = [one.relative_to(attempt).as_posix() for one in _half_done(attempt)]
    if half:
        return f"at {', '.join(one.removesuffix(PARTIAL) for one in half)}"
    if not receipts:
        return "nothing was done yet"
    folder, receipt = receipts[-1]
    because = f": {receipt['because']}" if receipt.get("because") else ""
    return f"{folder.relative_to(attempt).as_posix()} {str(receipt['outcome']).replace('_', ' ')}{because}"


def _in_words(error: Exception) -> str:
    """What is wrong with the files, for a reader: the sentence of an error, never the name of its class."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'a file of it'} can't be read: {error.strerror}"
    if isinstance(error, KeyError):
        return f"a file of it lacks the key {error}"
    if isinstance(error, OpdError):
        return str(error)
    return f"a file of it does not hold what it should: {error}"


def _why_closed(path: Path) -> str | None:
    """Why a file that is there can't be read; None where it can, and where there is none."""
    try:
        path.open("rb").close()
    except FileNotFoundError:
        return None
    except OSError as error:
        return _in_words(error)
    return None


def _score_in(one: Summary) -> Score | None:
    with suppress(OpdError, OSError):
        return read(Score, one.folder.path / "score.json")
    return None


def _with_score(run: Summary, scores: Sequence[tuple[Summary, Score]]) -> Summary:
    """Of two scores of one checkpoint the one that was written last."""
    digests = checkpoint_digests(run.folder.path)
    of_run = [(step, one, score) for one, score in scores if (step := _step_of(run, score, digests)) is not None]
    if not of_run:
        return run
    step, _, score = max(of_run, key=lambda found: (found[0], found[1].changed))
    what = f"checkpoint-{step} on {score.benchmark}"
    return replace(run, mean=score.mean, stderr=score.stderr, ci95=score.ci95, scored=what)


def _step_of(run: Summary, score: Score, digests: Mapping[str, int]) -> int | None:
    """By the digest, or, of a checkpoint that is gone since, by its place."""
    if score.model_digest in digests:
        return digests[score.model_digest]
    place = Path(score.model)
    number = place.name.removeprefix("checkpoint-")
    gone = number.isdecimal() and place.name.startswith("checkpoint-") and not place.exists()
    return int(number) if gone and place.parent.resolve() == run.folder.path.resolve() else None


def _changed(folder: Folder) -> float:
    times = [0.0]
    for name in _OF_ATTEMPT if folder.kind is Kind.ATTEMPT else _SMALL_FILES:
        with suppress(OSError):
            times.append((folder.path / name).stat().st_mtime)
    return max(times)


_OTHERS = {Kind.SCORE: _scored, Kind.ATTEMPT: _attempted}
