"""Whether the attempt used the GPUs that the task gives, no more, and alone; of a task without one, whether none.

The ledger of an exploration says each second which GPUs its programs had and which processes computed there. Of a
formal try there is no such ledger: how many GPUs it can have used is known by how many the machine has.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from opd.protocol.audit.check import Check, Look, Noted, Plant, concluded
from opd.protocol.audit.evidence import Evidence, ExploreTry, FormalTry, Held
from opd.protocol.audit.planting import with_exploration
from opd.protocol.audit.wording import count, names
from opd.protocol.explorer.device import IDLE_SHARE, Gpu, Second
from opd.records.audits import Axis, Verdict

_STRANGER_SECONDS = 10  # a process of the explorer's that lived for less may not have been seen by the look at all


def _look(evidence: Evidence) -> Look:
    given = evidence.task.value.contract.needs.gpus if evidence.task else None
    notes: list[Noted] = []
    if given is None:
        notes.append(Noted(verdict=Verdict.NOT_ASSESSED, sentence="how many GPUs the task gives can't be read"))
    else:
        notes += chain(
            *(_exploration(one, given) for one in evidence.explorations),
            *(_formal(one, given) for one in evidence.formals if given),
        )
    looked = [one.seconds for one in evidence.explorations if one.seconds]
    seconds = sum(len(held.value) for held in looked)
    if given:
        clear = (
            f"{count(given, 'GPU')} and no other, used by nobody else, in {count(seconds, 'second')} of exploration"
        )
    else:
        clear = f"the task takes no GPU, and none was seen in use in {count(seconds, 'second')} of exploration"
    return concluded(
        notes,
        clear=clear,
        coverage=evidence.coverage(
            *looked, *(one.started for one in evidence.explorations), *(one.facts for one in evidence.formals),
            unread=evidence.unread_in("explore/", "formal/"),
        ),
        beside=_beside(evidence),
        cites=(held.at() for held in looked),
    )  # fmt: skip


def _beside(evidence: Evidence) -> Iterator[str]:
    yield "a GPU is claimed by one attempt at a time, and not taken while a stranger computes on it"
    if evidence.formals:
        yield "of formal tries, who else computed on their GPUs meanwhile is not recorded"


def _exploration(one: ExploreTry, given: int) -> Iterator[Noted]:
    if one.seconds is None or not one.seconds.value:
        yield Noted(verdict=Verdict.NOT_ASSESSED, sentence=f"{one.name}: there is no ledger of its device")
        return
    yield from _number(one.name, one.seconds, given)
    if given and not any(second.gpus for second in one.seconds.value):
        yield Noted(
            verdict=Verdict.NOT_ASSESSED,
            sentence=f"{one.name}: the driver never said anything of its GPUs",
            evidence=(one.seconds.at(),),
        )
    yield from _strangers(one)


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


def _strangers(one: ExploreTry) -> Iterator[Noted]:
    """Processes on its GPUs that are none of the explorer's, nor of a measurement."""
    assert one.seconds is not None, "asked before"
    own = {started.pid for started in one.started.value} if one.started else set()
    seen = Counter(
        pid
        for before, second in zip((None, *one.seconds.value), one.seconds.value, strict=False)
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
            sentence=f"{one.name}: on its GPUs computed what is no known process of the explorer's: {each}",
            evidence=(one.seconds.at(), *((one.started.at(),) if one.started else ())),
        )


def _formal(one: FormalTry, given: int) -> Iterator[Noted]:
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


def _more_gpus(evidence: Evidence) -> Evidence | None:
    one = next((one for one in evidence.explorations if one.seconds and one.seconds.value), None)
    if one is None or one.seconds is None or evidence.task is None:
        return None
    first, *others = one.seconds.value
    more = 1 + evidence.task.value.contract.needs.gpus
    gpus = tuple(
        Gpu(index=index, uuid=f"GPU-planted-{index}", busy=1.0, memory_bytes=None, watts=None, pids=(1,))
        for index in range(more)
    )
    seconds = (first.model_copy(update={"gpus": gpus}), *others)
    return with_exploration(evidence, replace(one, seconds=replace(one.seconds, value=seconds)))


def _stranger(evidence: Evidence) -> Evidence | None:
    """A process of nobody's on a GPU of the attempt's."""
    one = next((one for one in evidence.explorations if one.seconds and one.seconds.value), None)
    if one is None or one.seconds is None:
        return None
    last = one.seconds.value[-1]
    gpu = Gpu(index=0, uuid="GPU-planted", busy=1.0, memory_bytes=None, watts=None, pids=(2**30,))
    planted = (last.model_copy(update={"gpus": (gpu,), "evaluating": False}),) * (_STRANGER_SECONDS + 1)
    seconds = replace(one.seconds, value=(*one.seconds.value, *planted))
    return with_exploration(evidence, replace(one, seconds=seconds))


CHECK = Check(
    axis=Axis.SINGLE_DEVICE,
    look=_look,
    planted=(
        Plant(name="a GPU more than the task gives", into=_more_gpus),
        Plant(name="a stranger's process on the GPU", into=_stranger),
    ),
)
