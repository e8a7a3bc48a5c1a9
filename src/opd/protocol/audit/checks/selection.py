"""Whether the official score was chosen among all that counts, and which checkpoints nobody measured.

    lies there           the checkpoints of the formal try that counts, by its receipt
     ├ counts            those with the greatest numbers, at most as many as the task takes
     │  ├ invalid        has no score, and is not replaced by an earlier one
     │  └ valid ─ final  the best of these is official
     └ passed over       has no score: what is best is the best of what was measured

An exploration's checkpoints that no proxy measured are named too: what was handed in was chosen without them.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from opd.protocol.audit.check import Check, Look, Noted, Plant, concluded
from opd.protocol.audit.evidence import Evidence, ExploreTry, File, FormalTry
from opd.protocol.audit.planting import PLANTED
from opd.protocol.audit.wording import count, names
from opd.protocol.stages.formal import CHECKOUT
from opd.records.attempts import Evaluated, Formal, Validated
from opd.records.audits import Axis, Verdict
from opd.records.files import COMPLETE, digest
from opd.records.trees import Kind

_WEIGHTS, _CONFIG = ".safetensors", "config.json"
_NUMBER = re.compile(r"([0-9]{1,12})$", re.ASCII)
_OTHERS = "…"  # of `Formal.passed_over`: more lay there than were named


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checkpoint:
    """A folder with weights and a configuration."""

    name: str  # relative to the attempt, or to its exploration
    sha256: str  # of its files, as `Score.model_digest`

    @property
    def run(self) -> str:
        """The folder that it lies in."""
        return str(PurePosixPath(self.name).parent)

    @property
    def number(self) -> int | None:
        """At the end of its name."""
        found = _NUMBER.search(self.name)
        return int(found[1]) if found else None


def _look(evidence: Evidence) -> Look:
    counted = evidence.formal
    facts = counted.facts if counted else None
    if counted is None or facts is None or not facts.value.artifacts:
        none = Noted(verdict=Verdict.NOT_ASSESSED, sentence="no formal try left a checkpoint: nothing was chosen")
        notes, clear = [none], ""
    else:
        notes = [*_unaccounted(evidence, counted, facts.value), *_unfinished(evidence, facts.value)]
        clear = _clear(evidence, counted, facts.value)
    measured = [one.facts for each in evidence.explorations for one in each.measured]
    return concluded(
        notes,
        clear=clear,
        coverage=evidence.coverage(
            facts, *(one.facts for one in evidence.of_artifacts), *(one.runs for one in evidence.explorations),
            *measured, unread=evidence.unread_in("explore/", "formal/", "validation/", "final/"),
        ),
        beside=(*_without_score(evidence), *_unmeasured(evidence), *_all_unmeasured(evidence)),
        cites=(
            *(one.receipt.at("/outcome") for one in evidence.of_artifacts),
            *(one.runs.at() for one in evidence.explorations if one.runs),
        ),
    )  # fmt: skip


def _clear(evidence: Evidence, counted: FormalTry, facts: Formal) -> str:
    steps = names((str(one.step) for one in facts.artifacts), most=len(facts.artifacts))
    scored = sum(one.outcome == Evaluated.SCORED for one in evidence.finals)
    came = f"the official score is the best of {count(scored, 'final')}" if scored else "none came to a score"
    said = (
        f"{count(facts.artifacts, 'checkpoint')} of {counted.name} count (step {steps}), those with the greatest "
        f"numbers; each was validated, and evaluated where it is valid: {came}"
    )
    unknown = list(_unmeasured(evidence))
    return f"{said}; {'; '.join(unknown)}" if unknown else said


def _unaccounted(evidence: Evidence, counted: FormalTry, facts: Formal) -> Iterator[Noted]:
    """What lies where checkpoints belong has to count, or to be passed over for a reason that holds."""
    if evidence.task is None:
        yield Noted(verdict=Verdict.NOT_ASSESSED, sentence="where checkpoints belong can't be read")
    lowest = min(one.step for one in facts.artifacts)
    known = {f"{counted.name}/{one.folder}" for one in facts.artifacts}
    passed = {f"{counted.name}/{CHECKOUT}/{name}": why for name, why in facts.passed_over.items()}
    assert counted.facts is not None, "asked before"
    for one in _in_the_output(evidence, counted):
        greater = one.number is not None and one.number > lowest
        if one.name in known or (one.name not in passed and _OTHERS in facts.passed_over and not greater):
            continue
        if one.name not in passed:
            wrong = "lies there, and the record of the try does not know it"
        elif greater and "greatest numbers" in passed[one.name]:
            wrong = f"was passed over as “{passed[one.name]}”, and its number is greater than {lowest}, which counts"
        else:
            continue
        yield Noted(
            verdict=Verdict.CONFIRMED, sentence=f"{one.name} {wrong}", evidence=(counted.facts.at("/passed_over"),)
        )


def _unfinished(evidence: Evidence, facts: Formal) -> Iterator[Noted]:
    """A checkpoint that counts and was not looked at: with a score of another, one could have been left out."""
    valid = {one.step for one in evidence.validations if one.outcome == Validated.VALID}
    checked = {one.step for one in evidence.validations}
    evaluated = {one.step for one in evidence.finals}
    chosen = any(one.outcome == Evaluated.SCORED for one in evidence.finals)
    for step in (one.step for one in facts.artifacts):
        if step in checked and (step not in valid or step in evaluated):
            continue
        missing = "is valid and was not evaluated" if step in valid else "was not validated"
        because = "the official score is the best of the others alone" if chosen else "nothing was chosen yet"
        yield Noted(
            verdict=Verdict.SUSPECTED if chosen else Verdict.NOT_ASSESSED,
            sentence=f"step {step} counts and {missing}: {because}",
        )


def _without_score(evidence: Evidence) -> Iterator[str]:
    """What counts and has no score, by the protocol."""
    for one in evidence.validations:
        if one.outcome == Validated.INVALID:
            yield f"{one.name} is invalid: it has no score, and no earlier checkpoint takes its place"
    for final in evidence.finals:
        if final.outcome == Evaluated.FAILED:
            because = final.receipt.value.because
            yield f"{final.name} failed, and is no zero{f': {because}' if because else ''}"


def _unmeasured(evidence: Evidence) -> Iterator[str]:
    """The checkpoints that are there and have no score, with what follows from that."""
    counted = evidence.formal
    passed = counted.facts.value.passed_over if counted and counted.facts else {}
    if counted and passed:
        each = names(f"{name} ({why})" for name, why in passed.items())
        yield (
            f"{counted.name} left what was passed over and has no score: {each}; whether the run came through "
            "anything that scores higher is not known"
        )
    for one in evidence.explorations:
        there, alone, beside = _of_exploration(evidence, one)
        if not alone and not beside:
            continue
        runs = {
            f"{len(alone)} of runs of which none was ({names(alone)})": alone,
            f"{len(beside)} beside a measured one of the same run": beside,
        }
        was = "1 was" if len(alone) + len(beside) == 1 else f"{len(alone) + len(beside)} were"
        yield (
            f"of {count(there, 'checkpoint')} that {one.name} left, {was} not measured as "
            f"left: {', '.join(said for said, found in runs.items() if found)}; no claim about them has "
            "anything to rest on"
        )


def _all_unmeasured(evidence: Evidence) -> Iterator[str]:
    """Each of an exploration's."""
    for one in evidence.explorations:
        _, alone, beside = _of_exploration(evidence, one)
        yield from (f"{one.name}/{name} was not measured" for name in (*alone, *beside))


def _of_exploration(evidence: Evidence, one: ExploreTry) -> tuple[list[_Checkpoint], list[str], list[str]]:
    """All in its runs, whose weights are digests by now, and its workspace; those without a measurement, by name."""
    runs = one.runs.value if one.runs else ()
    files = {f"runs/{entry.path}": entry.sha256 for entry in runs if entry.kind is Kind.FILE}
    for file in evidence.files:
        if file.path.startswith(f"{one.name}/workspace/"):
            files[file.path.removeprefix(f"{one.name}/")] = file.sha256
    there = _checkpoints(files)
    taken = {each.facts.value.sha256 for each in one.measured}
    measured = {each.run for each in there if each.sha256 in taken}
    left = [each for each in there if each.sha256 not in taken]
    return (
        there,
        [each.name for each in left if each.run not in measured],
        [each.name for each in left if each.run in measured],
    )


def _in_the_output(evidence: Evidence, counted: FormalTry) -> list[_Checkpoint]:
    """Where the task says that checkpoints belong, by the receipt of the try."""
    if evidence.task is None:
        return []
    pattern = f"{counted.name}/{CHECKOUT}/{evidence.task.value.contract.artifacts.pattern}"
    parent, prefix = str(PurePosixPath(pattern).parent), pattern.removesuffix("*")
    files = {file.path: file.sha256 for file in evidence.files if file.path.startswith(prefix)}
    return [one for one in _checkpoints(files) if str(PurePosixPath(one.name).parent) == parent]


def _checkpoints(files: dict[str, str]) -> list[_Checkpoint]:
    """Of these files the folders with weights and a configuration, by name."""
    places = {PurePosixPath(path): sha256 for path, sha256 in files.items()}
    weights = {place.parent for place in places if place.suffix == _WEIGHTS}
    found = {folder for folder in weights if folder / _CONFIG in places}
    inside: dict[PurePosixPath, dict[str, str]] = defaultdict(dict)
    for place, sha256 in places.items():
        for folder in found.intersection(place.parents):
            if place.name != COMPLETE:
                inside[folder][str(place.relative_to(folder))] = sha256
    return [_Checkpoint(name=str(folder), sha256=digest(inside[folder])) for folder in sorted(found)]


def _later_checkpoint(evidence: Evidence) -> Evidence | None:
    """One with a greater number than all that count, which the try's record does not know."""
    counted = evidence.formal
    if counted is None or counted.facts is None or not counted.facts.value.artifacts or evidence.task is None:
        return None
    last = max(one.step for one in counted.facts.value.artifacts)
    prefix = evidence.task.value.contract.artifacts.pattern.removesuffix("*")
    folder = f"{counted.name}/{CHECKOUT}/{prefix}{last + 1}"
    files = tuple(File(path=f"{folder}/{name}", bytes=1, sha256=PLANTED) for name in (_CONFIG, f"model{_WEIGHTS}"))
    return replace(evidence, files=(*evidence.files, *files))


def _left_out(evidence: Evidence) -> Evidence | None:
    """A final that was left out, beside another that has a score."""
    scored = [one for one in evidence.finals if one.outcome == Evaluated.SCORED]
    if len(scored) < 2:
        return None
    return replace(evidence, finals=tuple(one for one in evidence.finals if one is not scored[0]))


CHECK = Check(
    axis=Axis.SELECTION,
    look=_look,
    planted=(
        Plant(name="a later checkpoint that does not count", into=_later_checkpoint),
        Plant(name="a valid checkpoint without a final, beside one with", into=_left_out),
    ),
)
