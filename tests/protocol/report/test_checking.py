"""A report that drifts from its sources by a digit, a digest, a formula or a word is found out."""

import json

import pytest
from tests.protocol.document.builder import replace
from tests.protocol.report.conftest import make_report

from opd.cli.main import run
from opd.protocol.attempts.attempt import OUTCOME
from opd.protocol.report.checking import rechecked, verify_report
from opd.records.claims import Claims
from opd.records.errors import AskedWrongly
from opd.records.files import COMPLETE, sha256
from opd.records.receipts import RECEIPT
from opd.records.reports import ANALYSIS, BRIEF, CLAIMS, COMPARISONS, PAGE, REPORT
from opd.records.settings import read


def drift(told, change, *, kind=lambda claim: True) -> str:
    """What is said after the first claim of this kind was changed in claims.json."""
    path = told.folder / CLAIMS
    values = json.loads(path.read_text(encoding="utf-8"))
    claim = next(one for one in values["claims"] if kind(one))
    claim |= change(claim)
    replace(path, json.dumps(values).encode())
    return " ".join(rechecked(told.built.folder, told.folder, read(Claims, path)))


def edited(told, name: str, before: str, after: str) -> str:
    """What is said after a text was changed, and its digest with it."""
    path, known = told.folder / name, told.folder / CLAIMS
    text = path.read_text(encoding="utf-8")
    assert before in text
    replace(path, text.replace(before, after, 1).encode())
    values = json.loads(known.read_text(encoding="utf-8"))
    if name in values["documents"]:
        values["documents"][name]["sha256"] = sha256(path)
    replace(known, json.dumps(values).encode())
    return " ".join(rechecked(told.built.folder, told.folder, read(Claims, known)))


def test_a_report_as_it_was_written_holds(told):
    found = verify_report(told.attempt)
    assert found.faults == ()
    assert found.text().endswith("all holds")
    assert found.numbers > found.claims > 200


def test_a_value_that_is_another_in_its_file_is_found(spoilt):
    said = drift(spoilt, lambda claim: {"value": 810, "text": "810"}, kind=lambda claim: claim["text"] == "809")
    assert "is 809, and the report says 810" in said


def test_a_file_with_another_digest_is_found(spoilt):
    assert "is not the file that it was read from" in drift(
        spoilt, lambda _: {"sha256": "0" * 64}, kind=lambda c: c["file"]
    )


def test_a_pointer_to_nothing_is_found(spoilt):
    assert "has nothing at /no" in drift(spoilt, lambda _: {"pointer": "/no"}, kind=lambda c: c["file"] == "run.json")


def test_a_formula_that_comes_to_something_else_is_found(spoilt):
    said = drift(spoilt, lambda claim: {"value": 326, "text": "+326"}, kind=lambda c: c["text"] == "+325")
    assert "is 325, and the report says 326" in said


def test_a_number_that_is_written_otherwise_than_its_form_says_is_found(spoilt):
    said = drift(spoilt, lambda _: {"text": "0.4214"}, kind=lambda c: c["text"] == "0.421354")
    assert "is written '0.421354', and the report has '0.4214'" in said


def test_a_judgement_whose_test_tells_nothing_apart_is_found(spoilt):
    said = drift(spoilt, lambda _: {"ground": "paired_test"}, kind=lambda c: c["ground"] == "not_established")
    assert "by a test that tells nothing apart" in said


@pytest.mark.parametrize(
    ("name", "before", "after", "said"),
    [
        (BRIEF, "0.421354", "0.521354", "stands where"),
        (ANALYSIS, "was read again", "was read 9 times", "holds a number that is no claim"),
        (BRIEF, "This is what was handed in.", "This is what beats the rest.", "compares without a ground"),
    ],
)
def test_a_changed_text_is_found_even_with_a_digest_that_fits(spoilt, name, before, after, said):
    assert said in edited(spoilt, name, before, after)


def test_a_changed_text_is_found_by_its_digest(spoilt):
    path = spoilt.folder / BRIEF
    replace(path, path.read_bytes().replace(b"What happened", b"What Happened"))
    said = " ".join(verify_report(spoilt.attempt).faults)
    assert "brief.md is not the text that its claims are about" in said
    assert "sha256 was" in said, "and by the receipt"


@pytest.mark.parametrize(("before", "after"), [(">809<", ">819<"), ('data-claim="c', 'data-other="c')])
def test_a_number_that_is_another_on_the_page_is_found(spoilt, before, after):
    assert f"{PAGE}: the numbers of" in edited(spoilt, PAGE, before, after)


def test_a_file_of_the_attempt_that_changed_since_is_found(spoilt):
    score = spoilt.built.folder / "final/step-002100/outcome.json"
    replace(score, score.read_bytes().replace(b'"correct": 809', b'"correct": 819'))
    said = " ".join(verify_report(spoilt.attempt).faults)
    assert "is 819, and the report says 809" in said
    assert "is not the file that it was read from" in said


SEALED = (
    "final/step-002100/evaluation/samples.jsonl", "explore/attempt-001/device.jsonl", "submission/receipt.json",
    "inputs/train.jsonl", "formal/attempt-001/outcome.json", "audit/attempt-001/outcome.json", "run.json",
)  # fmt: skip


@pytest.mark.parametrize("name", SEALED)
def test_one_changed_byte_of_any_file_of_the_attempt_is_found_whether_the_report_names_it_or_not(spoilt, name):
    path = spoilt.built.folder / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    replace(path, bytes(data))
    found = verify_report(spoilt.attempt)
    assert not found.holds
    assert any(name.partition("/")[0] in fault for fault in found.faults)


def test_two_finals_whose_receipts_were_swapped_are_found(spoilt):
    """Both are names of evidence in the texts, and neither holds a value of a claim."""
    one, other = (spoilt.built.folder / f"final/step-{step}" for step in ("002080", "002100"))
    for name in (RECEIPT, COMPLETE):
        held = (one / name).read_bytes(), (other / name).read_bytes()
        replace(one / name, held[1])
        replace(other / name, held[0])
    faults = verify_report(spoilt.attempt).faults
    for step in ("002080", "002100"):
        assert f"final/step-{step}/receipt.json is not one that the log says was sealed there" in faults


REPORTS_FILES = (
    BRIEF, ANALYSIS, CLAIMS, REPORT, PAGE, f"{COMPARISONS}/01.json", OUTCOME, RECEIPT, COMPLETE,
)  # fmt: skip


@pytest.mark.parametrize("name", REPORTS_FILES)
@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
def test_one_changed_byte_of_any_file_of_a_report_is_found(spoilt, name, place):
    """The pictures are in the page, and what they are drawn from is in report.json."""
    path = spoilt.folder / name
    data = bytearray(path.read_bytes())
    data[round(place * (len(data) - 1))] ^= 1
    replace(path, bytes(data))
    found = verify_report(spoilt.attempt)
    assert not found.holds
    assert found.report == "report/attempt-001"
    assert any(name in fault or COMPLETE in fault for fault in found.faults)


def test_a_picture_that_is_another_is_found_by_the_log_where_the_receipt_was_written_anew(spoilt):
    """The page's texts hold, and so does the seal that was forged."""
    path = spoilt.folder / PAGE
    replace(path, path.read_bytes().replace(b"</body>", b"<svg></svg></body>") + b"<!-- -->")
    receipt, mark = spoilt.folder / RECEIPT, spoilt.folder / COMPLETE
    forged = json.loads(receipt.read_text())
    for entry in forged["files"]:
        if entry["path"] == PAGE:
            entry |= {"bytes": path.stat().st_size, "sha256": sha256(path)}
    replace(receipt, (json.dumps(forged, indent=2, ensure_ascii=False) + "\n").encode())
    sealed = {"kind": forged["kind"], "receipt_sha256": sha256(receipt)}
    replace(mark, (json.dumps(sealed, indent=2) + "\n").encode())
    assert verify_report(spoilt.attempt).faults == (
        "report/attempt-001/receipt.json is not one that the log says was sealed there",
        "report/attempt-001/receipt.json is not the one that the log says was sealed",
    )


def test_a_newest_report_with_a_broken_seal_is_not_passed_over_for_an_older_one(spoilt):
    make_report(spoilt.attempt)
    (spoilt.built.folder / "report/attempt-002" / COMPLETE).unlink()
    found = verify_report(spoilt.attempt)
    assert found.report == "report/attempt-002"
    assert "report/attempt-002: .complete is missing or does not fit receipt.json" in found.faults


def test_asked_to_verify_it_writes_no_pdf_and_says_so(lab, capsys):
    assert run(["attempt", "report", str(lab.folder), "--verify", "--pdf"]) == 2
    assert "give --pdf without it" in capsys.readouterr().err


def test_without_a_report_there_is_nothing_to_check(lab):
    with pytest.raises(AskedWrongly, match="has no sealed report"):
        verify_report(lab.attempt)


def test_every_claim_has_a_file_a_formula_or_a_ground(told):
    for claim in told.claims.claims:
        assert [claim.file, claim.formula, claim.ground].count(None) == 2, claim.id
        assert (claim.file is None) == (claim.sha256 is None), claim.id
