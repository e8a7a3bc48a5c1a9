"""Whether one evaluator took every score, by the protocol that the task pins: digests of code, protocol and model."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from opd.protocol.audit.check import Check, Look, Noted, Plant, concluded
from opd.protocol.audit.evidence import Evaluated, Evidence, Held, Measured
from opd.protocol.audit.planting import PLANTED, changed, with_exploration
from opd.protocol.audit.wording import count, short
from opd.records.audits import Axis, Pointer, Verdict
from opd.records.scores import Score
from opd.records.tasks import Measure

_SAME_NAMES = ("benchmark", "prompt", "seeds", "temperature", "top_p", "top_k", "limit_tokens")
"""What a task's measure and a score's protocol call by one name."""
_INSTALL = "install"  # in a receipt's made_from: the code that judged


def _look(evidence: Evidence) -> Look:
    proxies = [one for exploration in evidence.explorations for one in exploration.measured]
    finals = [one for one in evidence.finals if one.facts and one.facts.value.mean is not None]
    contract = evidence.task.value.contract if evidence.task else None
    notes = chain(
        _install(evidence, proxies),
        *(_final(one, contract.final if contract else None) for one in finals),
        *(_proxy(one, contract.proxy if contract else None) for one in proxies),
        _one_protocol("final", ((one.name, one.facts.value.protocol_sha256) for one in finals if one.facts)),
        _one_protocol("proxy", ((one.name, one.facts.value.protocol_sha256) for one in proxies if one.score)),
        () if finals or proxies else (_NOTHING,),
    )
    install = short(evidence.identity.value.install_sha256)
    others = [one.facts for one in proxies] + [one.facts for one in finals]
    return concluded(
        notes,
        clear=f"{count(finals, 'final')} and {count(proxies, 'proxy measurement')} by one install ({install}), "
        "the same before and after each, and by the task's protocols",
        coverage=evidence.coverage(
            evidence.identity, evidence.task, *evidence.receipts(), *others,
            *(one.score for one in proxies), *(one.score for one in finals),
            unread=evidence.unread_in("final/", "explore/", "validation/"),
        ),
        beside=_beside(evidence),
        cites=_cites(evidence, finals),
    )  # fmt: skip


_NOTHING = Noted(verdict=Verdict.NOT_ASSESSED, sentence="nothing was measured: there is no evaluator to look at")


def _beside(evidence: Evidence) -> Iterator[str]:
    if evidence.now.install_sha256 != evidence.identity.value.install_sha256:
        yield f"this audit was made by another install ({short(evidence.now.install_sha256)}) than judged the attempt"


def _cites(evidence: Evidence, finals: Iterable[Evaluated]) -> Iterator[Pointer]:
    yield evidence.identity.at("/install_sha256")
    for one in finals:
        if one.facts:
            yield one.facts.at("/evaluator_sha256")
            yield one.facts.at("/protocol_sha256")


def _install(evidence: Evidence, proxies: Iterable[Measured]) -> Iterator[Noted]:
    """The code that each receipt names."""
    judges = evidence.identity.value.install_sha256
    for receipt in (*evidence.receipts(), *(one.receipt for one in proxies)):
        said = receipt.value.made_from.get(_INSTALL)
        if said is not None and said != judges:
            yield Noted(
                verdict=Verdict.CONFIRMED,
                sentence=f"{receipt.file} was made by the install {short(said)}, and the attempt is judged by "
                f"{short(judges)}",
                evidence=(receipt.at(f"/made_from/{_INSTALL}"), evidence.identity.at("/install_sha256")),
            )


def _final(one: Evaluated, measure: Measure | None) -> Iterator[Noted]:
    assert one.facts is not None, "only of a final with a score"
    facts, install = one.facts.value, one.receipt.value.made_from.get(_INSTALL)
    if install is None:
        yield Noted(
            verdict=Verdict.NOT_ASSESSED,
            sentence=f"{one.name}: its receipt does not name the code that judged",
            evidence=(one.receipt.at("/made_from"),),
        )
    elif facts.evaluator_sha256 != install:
        yield Noted(
            verdict=Verdict.CONFIRMED,
            sentence=f"{one.name} names two evaluators: {short(facts.evaluator_sha256)} and {short(install)}",
            evidence=(one.facts.at("/evaluator_sha256"), one.receipt.at(f"/made_from/{_INSTALL}")),
        )
    if one.score is None:
        yield Noted(verdict=Verdict.NOT_ASSESSED, sentence=f"{one.name}: its score.json is not to be had")
        return
    score = one.score.value
    said = (facts.correct, facts.samples, facts.mean, facts.protocol_sha256, facts.artifact_sha256)
    held = (score.correct, score.samples, score.mean, score.protocol_digest, score.model_digest)
    yield from _as_measured(one.name, one.facts, one.score, same=said == held, measure=measure)


def _proxy(one: Measured, measure: Measure | None) -> Iterator[Noted]:
    if one.score is None:
        return
    facts, score = one.facts.value, one.score.value
    said = (facts.correct, facts.samples, facts.mean, facts.protocol_sha256, facts.sha256)
    held = (score.correct, score.samples, score.mean, score.protocol_digest, score.model_digest)
    yield from _as_measured(one.name, one.facts, one.score, same=said == held, measure=measure)


def _as_measured(
    name: str, facts: Held[Any], score: Held[Score], *, same: bool, measure: Measure | None
) -> Iterator[Noted]:
    """A record against its score.json, and that against the task's measure."""
    if not same:
        yield Noted(
            verdict=Verdict.CONFIRMED,
            sentence=f"{name} does not say what its score.json holds: another score, protocol or model",
            evidence=(facts.at(), score.at()),
        )
    if measure is None:
        yield Noted(verdict=Verdict.NOT_ASSESSED, sentence=f"{name}: the task's protocol is not to be had")
    elif other := _differences(score.value, measure):
        yield Noted(
            verdict=Verdict.CONFIRMED,
            sentence=f"{name} was taken by another protocol than the task's: {'; '.join(other)}",
            evidence=(score.at("/protocol"),),
        )


def _differences(score: Score, measure: Measure) -> list[str]:
    """A sentence for each thing that was done otherwise than the task says.

    Asked here anew, and not of the code that took the score: a check does not lean on what it checks.
    """
    said = {name: getattr(score.protocol, name) for name in _SAME_NAMES}
    wanted = {name: getattr(measure, name) for name in _SAME_NAMES}
    said |= {"questions": score.questions, "samples": score.samples, "judged": score.protocol.judge is not None}
    wanted |= {"questions": measure.questions, "samples": measure.samples, "judged": measure.judged}
    return [
        f"{key} is {said[key]!r}, and the task says {wanted[key]!r}" for key in wanted if said[key] != wanted[key]
    ]


def _one_protocol(kind: str, said: Iterable[tuple[str, str | None]]) -> Iterator[Noted]:
    by_digest: dict[str | None, str] = {}
    for name, digest in said:
        by_digest.setdefault(digest, name)
    if len(by_digest) > 1:
        each = ", ".join(f"{name} by {short(digest)}" for digest, name in by_digest.items())
        yield Noted(verdict=Verdict.CONFIRMED, sentence=f"the {kind} scores were not taken by one protocol: {each}")


def _another_evaluator(evidence: Evidence) -> Evidence | None:
    scored = [one for one in evidence.finals if one.facts and one.facts.value.mean is not None]
    if not scored or scored[0].facts is None:
        return None
    other = replace(scored[0], facts=changed(scored[0].facts, evaluator_sha256=PLANTED))
    return replace(evidence, finals=tuple(other if one is scored[0] else one for one in evidence.finals))


def _another_cap(evidence: Evidence) -> Evidence | None:
    scored = [one for one in evidence.finals if one.score and one.facts and one.facts.value.mean is not None]
    if not scored or scored[0].score is None:
        return None
    protocol = scored[0].score.value.protocol
    lower = protocol.model_copy(update={"limit_tokens": protocol.limit_tokens - 1})
    other = replace(scored[0], score=changed(scored[0].score, protocol=lower))
    return replace(evidence, finals=tuple(other if one is scored[0] else one for one in evidence.finals))


def _another_install(evidence: Evidence) -> Evidence | None:
    exploration = next((one for one in evidence.explorations if one.measured), None)
    if exploration is None:
        return None
    first, *others = exploration.measured
    made_from = {**first.receipt.value.made_from, _INSTALL: PLANTED}
    other = replace(first, receipt=changed(first.receipt, made_from=made_from))
    return with_exploration(evidence, replace(exploration, measured=(other, *others)))


CHECK = Check(
    axis=Axis.FROZEN_EVALUATOR,
    look=_look,
    planted=(
        Plant(name="a final by another evaluator", into=_another_evaluator),
        Plant(name="a final with a lower cap", into=_another_cap),
        Plant(name="a proxy by another install", into=_another_install),
    ),
)
