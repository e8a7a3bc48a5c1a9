"""The scanner finds what it plants, and notices when it would not (faults H48)."""

import pytest

from opd.protocol.contamination.conclusion import conclude
from opd.protocol.contamination.needles import Needles, Question
from opd.protocol.contamination.plants import controls, planted
from opd.protocol.contamination.scan import Source, scan
from opd.records.audits import Control, Verdict


@pytest.fixture(scope="module")
def made_up() -> tuple[Control, ...]:
    return controls(Needles([]))


@pytest.mark.parametrize("name", [plant.name for plant in planted()])
def test_each_plant_is_found(name: str, made_up: tuple[Control, ...]) -> None:
    assert next(control.found for control in made_up if control.name == name)


def test_h48_a_scanner_that_sees_no_base64_says_that_it_did_not_look(
    questions: list[Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    needles = Needles(questions)
    found = scan([Source(name="it", content=b"nothing")], needles)
    assert conclude(found, needles, controls(needles)).verdict is Verdict.NONE_FOUND
    monkeypatch.setattr("opd.protocol.contamination.scan.encoded", lambda data: [])
    blind = conclude(found, needles, controls(needles))
    assert blind.verdict is Verdict.NOT_ASSESSED
    assert "base64" in blind.sentence


def test_h48_an_index_without_one_of_the_questions_is_noticed(
    questions: list[Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    needles = Needles(questions)
    needles.long[1].specific[:] = False  # its sieve lets everything through
    assert not all(control.found for control in controls(needles))
