"""Whether the attempt used the GPUs that the task gives, no more, and alone; of a task without one, whether none.

The record of an exploration and of a formal try says each second which GPUs its programs had and which processes
computed there. Of a try without such a record, how many GPUs it can have used is known by how many the machine has.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain

from opd.protocol.audit.check import Check, Look, Noted, Plant, concluded
from opd.protocol.audit.evidence import Evidence, ExploreTry, FormalTry, Held, Started
from opd.protocol.audit.planting import with_exploration, with_formal
from opd.protocol.audit.wording import count, names
from opd.protocol.supervision.device import IDLE_SHARE, Gpu, Second
from opd.records.audits import Axis, Verdict

Try = ExploreTry | FormalTry
Put = Callable[[int, tuple[Second, ...]], tuple[Second, ...]]
"""From how many GPUs the task gives and a record to one with something planted."""

_STRANGER_SECONDS = 10  # a process of the program's that lived for less may not have been seen by the look at all


def _look(evidence: Evidence) -> Look:
    given = evidence.task.value.contract.needs.gpus if evidence.task else None
    if given is None:
        notes = [Noted(verdict=Verdict.NOT_ASSESSED, sentence="how many GPUs the task gives can't be read")]
    else:
        notes = list(chain.from_iterable(_try(one, given) for one in evidence.tries))
    looked = [one.seconds for one in evidence.tries if one.seconds]
    return concluded(
        notes,
        clear=_clear(evidence, given or 0),
        coverage=evidence.coverage(
            *looked, *(one.started for one in evidence.tries), *(one.facts for one in evidence.formals),
            unread=evidence.unread_in("explore/", "formal/"),
        ),
        beside=_beside(evidence, given or 0),
        cites=(held.at() for held in looked),
    )  # fmt: skip


def _clear(evidence: Evidence, given: int) -> str:
    of: dict[str, tuple[Try, ...]] = {"exploration": evidence.explorations, "formal training": evidence.formals}
    seconds = {name: sum(len(one.seconds.value) for one in tries if one.seconds) for name, tries in of.items()}
    said = " and ".join(f"{count(number, 'second')} of {name}" for name, number in seconds.items() if number)
    if given:
        return f"{count(given, 'GPU')} and no other, used by nobody else, in {said or 'no recorded second'}"
    return f"the task takes no GPU, and none was seen in use in {said or 'no recorded second'}"


def _beside(evidence: Evidence, given: int) -> Iterator[str]:
    if given:
        yield "a GPU is claimed by one attempt at a time, and not taken while a stranger computes on it"
    for one in evidence.formals:
        if given and not _told(one.seconds):
            yield f"{one.name}: who else computed on its GPUs meanwhile is not recorded"


def _told(held: Held[tuple[Second, ...]] | None) -> bool:
    """Whether the driver said anything of the try's own GPUs."""
    return held is not None and any(second.gpus for second in held.value)


def _try(one: Try, given: int) -> Iterator[Noted]:
    held = one.seconds
    if held is not None and held.value:
        yield from _number(one.name, held, given)
        yield from _strangers(one.name, held, one.started)
    if isinstance(one, FormalTry):
        if given and not _told(held):
            yield from _by_the_machine(one, given)
    elif held is None or not held.value:
        yield Noted(verdict=Verdict.NOT_ASSESSED, sentence=f"{one.name}: there is no record of its device")
    elif given and not _told(held):
        yield Noted(
            verdict=Verdict.NOT_ASSESSED,
            sentence=f"{one.name}: the driver never said anything of its GPUs",
            evidence=(held.at(),),
        )
    if given and held is not None and _told(held):
        yield from _unnamed(one.name, held)


def _number(name: str, held: Held[tuple[Second, ...]], given: int) -> Iterator[Noted]:
    """More GPUs than the task gives, at work."""
    used = Counter(
        gpu.uuid for second in held.value for gpu in second.gpus if gpu.pids or (gpu.busy or 0.0) >= IDLE_SHARE
    )
    if len(used) > given:
        each = names(f"{uuid} for {seconds} s" for uuid, seconds in used.most_common())
        yield Noted(
            verdict=Verdict.CONFIRMED,
            sentence=f"{name} used {count(used, 'GPU')}, and the task gives {given}: {each}",
            evidence=(held.at(),),
        )


def _unnamed(name: str, held: Held[tuple[Second, ...]]) -> Iterator[Noted]:
    """Other GPUs, and a driver that names no process: who computes on them can't be told."""
    others = max((second.other_gpus or 0 for second in held.value), default=0)
    if others and not any(gpu.pids for second in held.value for gpu in second.gpus):
        them = "it" if others == 1 else "them"
        yield Noted(
            verdict=Verdict.NOT_ASSESSED,
            sentence=f"{name}: the machine has {count(others, 'GPU')} more, and its driver names no process on any, "
            f"as in some containers: use of {them} would not have been seen",
            evidence=(held.at(),),
        )


def _strangers(
    name: str, held: Held[tuple[Second, ...]], started: Held[tuple[Started, ...]] | None
) -> Iterator[Noted]:
    """Processes on its GPUs that are none of its program's, nor of a measurement."""
    own = {one.pid for one in started.value} if started else set()
    seen = Counter(
        pid
        for before, second in zip((None, *held.value), held.value, strict=False)
        if not (second.evaluating or (before and before.evaluating))  # what measures is ours, and seen a look later
        for gpu in second.gpus
        for pid in gpu.pids
        if pid not in own
    )
    strangers = {pid: seconds for pid, seconds in seen.items() if seconds >= _STRANGER_SECONDS}
    if strangers:
        each = names(f"process {pid} for {seconds} s" for pid, seconds in sorted(strangers.items()))
        yield Noted(
            verdict=Verdict.SUSPECTED,
            sentence=f"{name}: on its GPUs computed what is no known process of its program's: {each}",
            evidence=(held.at(), *((started.at(),) if started else ())),
        )


def _by_the_machine(one: FormalTry, given: int) -> Iterator[Noted]:
    """Without a word of the driver's: on a machine with no more GPUs than were given it can't have used more."""
    if one.facts is None:
        return
    probe = one.facts.value.cause.evidence.devices_before
    there = len(probe.devices) if probe and probe.answered else None
    if there is None or there > given:
        machine = "how many GPUs the machine has is not known" if there is None else f"the machine has {there} GPUs"
        yield Noted(
            verdict=Verdict.NOT_ASSESSED,
            sentence=f"{one.name}: {machine}, and which of them it used was not recorded",
            evidence=(one.facts.at("/cause/evidence/devices_before"),),
        )


def _with_seconds(evidence: Evidence, tries: Iterable[Try], put: Put) -> Evidence | None:
    """The evidence with something put into the first record that one of these tries has."""
    one = next((one for one in tries if one.seconds and one.seconds.value), None)
    if one is None or one.seconds is None or evidence.task is None:
        return None
    seconds = replace(one.seconds, value=put(evidence.task.value.contract.needs.gpus, one.seconds.value))
    if isinstance(one, FormalTry):
        return with_formal(evidence, replace(one, seconds=seconds))
    return with_exploration(evidence, replace(one, seconds=seconds))


def _more_gpus(given: int, seconds: tuple[Second, ...]) -> tuple[Second, ...]:
    gpus = tuple(
        Gpu(index=index, uuid=f"GPU-planted-{index}", busy=1.0, memory_bytes=None, watts=None, pids=(1,))
        for index in range(1 + given)
    )
    first, *others = seconds
    return (first.model_copy(update={"gpus": gpus}), *others)


def _stranger(_: int, seconds: tuple[Second, ...]) -> tuple[Second, ...]:
    """A process of nobody's on a GPU of the attempt's."""
    gpu = Gpu(index=0, uuid="GPU-planted", busy=1.0, memory_bytes=None, watts=None, pids=(2**30,))
    planted = seconds[-1].model_copy(update={"gpus": (gpu,), "evaluating": False})
    return (*seconds, *(planted,) * (_STRANGER_SECONDS + 1))


CHECK = Check(
    axis=Axis.SINGLE_DEVICE,
    look=_look,
    planted=(
        Plant(
            name="a GPU more than the task gives, in an exploration",
            into=lambda evidence: _with_seconds(evidence, evidence.explorations, _more_gpus),
        ),
        Plant(
            name="a stranger's process on the GPU, in an exploration",
            into=lambda evidence: _with_seconds(evidence, evidence.explorations, _stranger),
        ),
        Plant(
            name="a GPU more than the task gives, in a formal try",
            into=lambda evidence: _with_seconds(evidence, evidence.formals, _more_gpus),
        ),
        Plant(
            name="a stranger's process on the GPU, in a formal try",
            into=lambda evidence: _with_seconds(evidence, evidence.formals, _stranger),
        ),
    ),
)
