"""What was chosen among, and what nobody measured: by receipts, digests and the task's rule."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.protocol.audit.conftest import EXPLORE, FORMAL, held

from opd.protocol.audit.evidence import Evidence, File
from opd.records.audits import Finding, Verdict
from opd.records.files import digest
from opd.records.trees import Entry, Kind

NONE, SUSPECTED, CONFIRMED, UNKNOWN = (
    Verdict.NONE_FOUND, Verdict.SUSPECTED, Verdict.CONFIRMED, Verdict.NOT_ASSESSED
)  # fmt: skip
Find = Callable[[str, Evidence], Finding]
WEIGHTS, CONFIG = "a" * 64, "b" * 64
OUTPUT = f"{FORMAL}/checkout/checkpoints"


def lying(evidence: Evidence, *names: str) -> Evidence:
    """With these checkpoints where a formal try leaves them."""
    files = (f"{OUTPUT}/{name}/{file}" for name in names for file in ("config.json", "model.safetensors"))
    return replace(evidence, files=(*evidence.files, *(File(path=file, bytes=1, sha256=WEIGHTS) for file in files)))


def recorded(evidence: Evidence, **values: Any) -> Evidence:
    """With this in the record of the formal try."""
    one = evidence.formals[0]
    assert one.facts is not None
    facts = replace(one.facts, value=one.facts.value.model_copy(update=values))
    return replace(evidence, formals=(replace(one, facts=facts),))


def explored(evidence: Evidence, *folders: str, measured: tuple[str, ...] = ()) -> Evidence:
    """An exploration that left these checkpoints, some of which are what its proxies measured."""
    files = {name: {"config.json": CONFIG, "model.safetensors": digest(name)} for name in folders}
    entries = [
        Entry(path=f"{name}/{file}", kind=Kind.FILE, mode=0o644, bytes=1, sha256=sha256)
        for name, inside in files.items()
        for file, sha256 in {**inside, ".complete": "c" * 64}.items()
    ]
    one = evidence.explorations[0]
    proxies = []
    for proxy, name in zip(one.measured, measured, strict=False):
        assert proxy.facts is not None
        facts = replace(proxy.facts, value=proxy.facts.value.model_copy(update={"sha256": digest(files[name])}))
        proxies.append(replace(proxy, facts=facts))
    runs = held(tuple(entries), f"{EXPLORE}/runs.jsonl")
    return replace(evidence, explorations=(replace(one, runs=runs, measured=tuple(proxies)),))


def test_a_choice_among_all_that_counts_is_said_with_its_steps(evidence: Evidence, finding: Find) -> None:
    found = finding("selection", lying(evidence, "checkpoint-60", "checkpoint-120"))
    assert found.verdict is NONE
    assert found.sentence == (
        "2 checkpoints of formal/attempt-001 count (step 60, 120), those with the greatest numbers; each was "
        "validated, and evaluated where it is valid: the official score is the best of 2 finals"
    )


def test_what_was_passed_over_is_named_and_nothing_is_said_of_its_score(evidence: Evidence, finding: Find) -> None:
    passed = {"checkpoints/checkpoint-30": "not among the 2 with the greatest numbers"}
    evidence = lying(recorded(evidence, passed_over=passed), "checkpoint-30", "checkpoint-60", "checkpoint-120")
    found = finding("selection", evidence)
    assert found.verdict is NONE
    assert found.sentence.endswith(
        "; formal/attempt-001 left what was passed over and has no score: checkpoints/checkpoint-30 (not among the 2 "
        "with the greatest numbers); whether the run came through anything that scores higher is not known"
    )


@pytest.mark.parametrize(
    ("name", "passed", "words"),
    [
        ("checkpoint-180", {}, "lies there, and the record of the try does not know it"),
        ("checkpoint-30", {}, "lies there, and the record of the try does not know it"),
        ("checkpoint-90", {"checkpoints/checkpoint-90": "not among the 2 with the greatest numbers"},
         "was passed over as “not among the 2 with the greatest numbers”, and its number is greater than 60"),
        ("checkpoint-090", {"checkpoints/checkpoint-9": "it is a link", "…": "7 more"},
         "lies there, and the record of the try does not know it"),
    ],
)  # fmt: skip
def test_a_checkpoint_that_was_kept_out_of_the_choice_is_confirmed(
    name: str, passed: dict[str, str], words: str, evidence: Evidence, finding: Find
) -> None:
    found = finding("selection", lying(recorded(evidence, passed_over=passed), name))
    assert (found.verdict, words in found.sentence, name in found.sentence) == (CONFIRMED, True, True), found.sentence


@pytest.mark.parametrize(
    ("name", "passed"),
    [
        ("checkpoint-180", {"checkpoints/checkpoint-180": "it was never finished: opd.json is there"}),
        ("checkpoint-30", {"…": "7 more"}),
        ("checkpoint-180/state", {}),
        ("other-180", {}),
    ],
)
def test_what_could_not_count_is_none(name: str, passed: dict[str, str], evidence: Evidence, finding: Find) -> None:
    assert finding("selection", lying(recorded(evidence, passed_over=passed), name)).verdict is NONE


def test_a_checkpoint_that_counts_and_was_not_evaluated_is_suspected_beside_one_that_was(
    evidence: Evidence, finding: Find
) -> None:
    one = replace(evidence, finals=evidence.finals[1:])
    found = finding("selection", one)
    assert (found.verdict, found.sentence) == (
        SUSPECTED,
        "step 60 counts and is valid and was not evaluated: the official score is the best of the others alone",
    )
    found = finding("selection", replace(one, validations=evidence.validations[1:]))
    assert "step 60 counts and was not validated" in found.sentence
    found = finding("selection", replace(evidence, finals=()))
    assert (found.verdict, "nothing was chosen yet" in found.sentence) == (UNKNOWN, True)


def test_one_that_is_invalid_or_failed_has_no_score_and_is_named(evidence: Evidence, finding: Find) -> None:
    first, last = evidence.validations
    invalid = replace(evidence, validations=(replace(first, outcome="invalid"), last), finals=evidence.finals[1:])
    found = finding("selection", invalid)
    assert found.verdict is NONE
    assert any("validation/step-000060 is invalid: it has no score" in one for one in found.details)
    failed = replace(evidence, finals=(replace(evidence.finals[0], outcome="failed"), evidence.finals[1]))
    assert "final/step-000060 failed, and is no zero" in finding("selection", failed).details


def test_an_explorations_checkpoint_that_no_proxy_measured_is_named(evidence: Evidence, finding: Find) -> None:
    """A run that was stopped by hand leaves one that loads: nobody knows what it scores."""
    names = ("a/checkpoint-20", "a/checkpoint-40", "b/checkpoint-40", "stability/checkpoint-55")
    found = finding("selection", explored(evidence, *names, measured=("a/checkpoint-40", "b/checkpoint-40")))
    assert found.verdict is NONE
    assert found.sentence.endswith(
        "; of 4 checkpoints that explore/attempt-001 left, 2 were not measured as left: 1 of runs of which none was "
        "(runs/stability/checkpoint-55), 1 beside a measured one of the same run; no claim about them has anything "
        "to rest on"
    )
    assert "explore/attempt-001/runs/a/checkpoint-20 was not measured" in found.details


def test_a_checkpoint_that_was_written_again_under_a_measured_name_is_not_the_measured_one(
    evidence: Evidence, finding: Find
) -> None:
    evidence = explored(evidence, "a/checkpoint-40", measured=("a/checkpoint-40",))
    assert "not measured" not in finding("selection", evidence).sentence
    runs = evidence.explorations[0].runs
    assert runs is not None
    again = tuple(one.model_copy(update={"sha256": "d" * 64}) for one in runs.value)
    changed = replace(evidence.explorations[0], runs=replace(runs, value=again))
    found = finding("selection", replace(evidence, explorations=(changed,)))
    assert "1 was not measured as left: 1 of runs of which none was (runs/a/checkpoint-40)" in found.sentence


def test_without_a_checkpoint_nothing_was_chosen(evidence: Evidence, finding: Find) -> None:
    found = finding("selection", recorded(evidence, artifacts=()))
    assert (found.verdict, found.sentence) == (UNKNOWN, "no formal try left a checkpoint: nothing was chosen")
