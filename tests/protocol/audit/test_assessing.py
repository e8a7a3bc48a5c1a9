"""A check is believed when it finds its own plants, and says `not_assessed` whenever that is not shown."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from opd.protocol.audit.assessing import assess
from opd.protocol.audit.catalogue import checks
from opd.protocol.audit.check import Check, Look, Noted, Plant, concluded
from opd.protocol.audit.evidence import Evidence
from opd.records.audits import Audit, Axis, Control, Coverage, Finding, Verdict

OURS = [name for name in checks() if checks()[name].planted]  # the scanner of contamination plants its own
NOTHING = Coverage(files=0, bytes=0)


@pytest.mark.parametrize("name", OURS)
def test_where_all_went_well_every_check_finds_nothing_and_all_of_its_plants(
    name: str, evidence: Evidence, finding: Callable[[str, Evidence], Finding]
) -> None:
    found = finding(name, evidence)
    assert found.verdict is Verdict.NONE_FOUND, found
    assert [control for control in found.controls if not control.found] == []
    assert len(found.controls) == len(checks()[name].planted), "each of them can be planted here"
    assert found.coverage.files > 0
    assert found.evidence, "a clear verdict says what it rests on"


STOPPED: dict[str, dict[str, Any]] = {
    "before its finals": {"finals": ()},
    "before validation": {"finals": (), "validations": ()},
    "before formal training": {"finals": (), "validations": (), "formals": (), "counted": None},
    "before the submission": {
        "finals": (),
        "validations": (),
        "formals": (),
        "counted": None,
        "submission": None,
    },
}


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("where", STOPPED)
def test_no_check_calls_itself_blind_where_a_stage_did_not_run(
    where: str, name: str, evidence: Evidence, finding: Callable[[str, Evidence], Finding]
) -> None:
    """What isn't there can't be planted into: that is said, and is no miss."""
    found = finding(name, replace(evidence, **STOPPED[where]))
    assert [control.name for control in found.controls if not control.found] == []
    assert "missed" not in found.model_dump_json()


@pytest.mark.parametrize("name", OURS)
def test_a_check_that_has_gone_blind_is_not_assessed(name: str, evidence: Evidence) -> None:
    """faults H4: that nothing was found proves nothing where the check was never tried."""
    blind = Look(verdict=Verdict.NONE_FOUND, sentence="nothing", coverage=NOTHING)
    found = assess(name, replace(checks()[name], look=lambda _: blind), evidence)
    assert found.verdict is Verdict.NOT_ASSESSED
    assert "missed what was planted" in found.sentence
    assert not any(control.found for control in found.controls)


@pytest.mark.parametrize("name", OURS)
def test_a_check_that_is_always_alarmed_has_found_no_plant(name: str, evidence: Evidence) -> None:
    stuck = Look(verdict=Verdict.CONFIRMED, sentence="always", details=("always",), coverage=NOTHING)
    found = assess(name, replace(checks()[name], look=lambda _: stuck), evidence)
    assert found.verdict is Verdict.NOT_ASSESSED
    assert "it saw: always" in found.details


def test_a_check_that_breaks_is_not_assessed_and_the_reason_is_said(evidence: Evidence) -> None:
    """faults H48: the absence of an answer is no answer."""

    def broken(_: Evidence) -> Look:
        raise ZeroDivisionError("of nothing")

    found = assess("broken", Check(axis=Axis.PLATFORM, look=broken, planted=()), evidence)
    assert (found.verdict, found.sentence) == (
        Verdict.NOT_ASSESSED,
        "the check broke: ZeroDivisionError: of nothing",
    )


def test_a_check_that_breaks_on_its_plant_has_not_found_it(evidence: Evidence) -> None:
    def into(_: Evidence) -> Evidence:
        raise KeyError("gone")

    clear = Look(verdict=Verdict.NONE_FOUND, sentence="nothing", coverage=NOTHING)
    check = Check(axis=Axis.PLATFORM, look=lambda _: clear, planted=(Plant(name="a leak", into=into),))
    found = assess("x", check, evidence)
    assert found.controls == (Control(name="a leak", found=False),)
    assert found.sentence == "the check missed what was planted for it: a leak (KeyError: 'gone')"


def test_what_can_be_planted_nowhere_is_said_and_leaves_the_check_unproven(evidence: Evidence) -> None:
    clear = Look(verdict=Verdict.NONE_FOUND, sentence="nothing", coverage=NOTHING)
    check = Check(axis=Axis.PLATFORM, look=lambda _: clear, planted=(Plant(name="a leak", into=lambda _: None),))
    found = assess("x", check, evidence)
    assert found.verdict is Verdict.NOT_ASSESSED
    assert found.controls == ()
    assert "no control “a leak”: there is nothing to plant it into" in found.details


def test_controls_that_a_look_brings_count_like_planted_ones(evidence: Evidence) -> None:
    def look(found: bool) -> Callable[[Evidence], Look]:
        control = Control(name="base64", found=found)
        said = Look(verdict=Verdict.NONE_FOUND, sentence="nothing", coverage=NOTHING, controls=(control,))
        return lambda _: said

    seen = assess("x", Check(axis=Axis.CONTAMINATION, look=look(True)), evidence)
    missed = assess("x", Check(axis=Axis.CONTAMINATION, look=look(False)), evidence)
    assert (seen.verdict, missed.verdict) == (Verdict.NONE_FOUND, Verdict.NOT_ASSESSED)


def _note(verdict: Verdict, sentence: str = "s", **more: Any) -> Noted:
    return Noted(verdict=verdict, sentence=sentence, **more)


def test_the_gravest_note_is_the_conclusion_and_all_are_details() -> None:
    look = concluded(
        [
            _note(Verdict.NOT_ASSESSED, "unread"),
            _note(Verdict.SUSPECTED, "maybe"),
            _note(Verdict.CONFIRMED, "first"),
            _note(Verdict.CONFIRMED, "second"),
        ],
        clear="nothing",
        coverage=NOTHING,
        beside=("by the way",),
    )
    assert look.verdict is Verdict.CONFIRMED
    assert look.sentence == "first; besides, confirmed: second; suspected: maybe"
    assert look.details == ("first", "second", "maybe", "unread", "by the way")


def test_what_was_not_looked_at_is_never_nothing_found() -> None:
    assert concluded([_note(Verdict.NOT_ASSESSED)], clear="c", coverage=NOTHING).verdict is Verdict.NOT_ASSESSED
    assert concluded([], clear="c", coverage=NOTHING).verdict is Verdict.NONE_FOUND


def test_what_protects_from_one_failure_does_not_protect_from_another() -> None:
    safe = _note(Verdict.CONFIRMED, "a", protected="a clean retry")
    bare = _note(Verdict.CONFIRMED, "b")
    assert concluded([safe], clear="", coverage=NOTHING).protected == "a clean retry"
    assert concluded([safe, bare], clear="", coverage=NOTHING).protected is None


def test_the_checks_stand_in_the_order_of_the_axes_and_answer_for_all_of_them() -> None:
    found = [check.axis for check in checks().values()]
    assert found == sorted(found, key=list(Axis).index)
    assert {*found} | {Axis.CONTAMINATION} == {*Axis}


def test_an_axis_that_no_check_answers_for_is_not_assessed() -> None:
    assert Audit(findings=()).of(Axis.LINEAGE) is Verdict.NOT_ASSESSED


def test_what_strangers_named_is_quoted_on_one_line_without_control_characters(evidence: Evidence) -> None:
    hostile = "it opened \x1b[2Ja\nfile\u202e"
    look = Look(verdict=Verdict.SUSPECTED, sentence=hostile, details=(hostile,), protected=hostile, coverage=NOTHING)
    planted = replace(look, details=("new",))
    plant = Plant(name="p", into=lambda one: replace(one, counted="planted"))
    check = Check(
        axis=Axis.PLATFORM, look=lambda one: planted if one.counted == "planted" else look, planted=(plant,)
    )
    found = assess("x", check, evidence)
    said = [found.sentence, *found.details, str(found.protected)]
    assert found.verdict is Verdict.SUSPECTED
    assert set(said) == {"it opened [2Ja file"}


def test_a_check_that_only_loses_its_sight_over_a_plant_has_not_found_it(evidence: Evidence) -> None:
    clear = Look(verdict=Verdict.NONE_FOUND, sentence="nothing", coverage=NOTHING)
    lost = Look(verdict=Verdict.NOT_ASSESSED, sentence="can't be read", coverage=NOTHING)
    plant = Plant(name="p", into=lambda one: replace(one, counted="planted"))
    check = Check(axis=Axis.PLATFORM, look=lambda one: lost if one.counted == "planted" else clear, planted=(plant,))
    assert assess("x", check, evidence).controls == (Control(name="p", found=False),)
