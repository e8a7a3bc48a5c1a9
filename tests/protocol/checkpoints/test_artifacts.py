"""Which checkpoints count, by their numbers, and why the others don't."""

import os
import random
import re
import time
from pathlib import Path

import pytest

from opd.protocol.checkpoints import artifacts
from opd.protocol.checkpoints.artifacts import find
from opd.records.checkpoints import Found, Numbered


def made(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / "checkpoints" / name).mkdir(parents=True)
    return folder


def steps(found: Found) -> list[int]:
    return [one.step for one in found.checkpoints]


def test_numbers_decide_and_not_names(tmp_path: Path) -> None:
    """H26: by name, checkpoint-9 comes last and checkpoint-100 second."""
    names = ["checkpoint-9", "checkpoint-10", "checkpoint-100", "checkpoint-8"]
    assert sorted(names)[-3:] == ["checkpoint-100", "checkpoint-8", "checkpoint-9"]
    found = find(made(tmp_path, *names))
    assert found.checkpoints == (
        Numbered(step=9, folder="checkpoints/checkpoint-9"),
        Numbered(step=10, folder="checkpoints/checkpoint-10"),
        Numbered(step=100, folder="checkpoints/checkpoint-100"),
    )
    assert found.passed_over == {"checkpoints/checkpoint-8": "not among the 3 with the greatest numbers"}


def test_the_greatest_of_any_numbers_are_found_whatever_their_times(tmp_path: Path) -> None:
    numbers = random.Random(1).sample(range(100_000), 40)
    made(tmp_path, *(f"checkpoint-{number}" for number in numbers))
    for number in numbers:
        os.utime(tmp_path / f"checkpoints/checkpoint-{number}", (0, 1_000_000 - number))
    for most in (1, 3, 39, 40, 50):
        found = find(tmp_path, most=most)
        assert steps(found) == sorted(numbers)[-most:]
        assert len(found.passed_over) == max(0, 40 - most)


def test_each_kind_of_entry_that_is_none_has_its_reason(tmp_path: Path) -> None:
    made(tmp_path, "checkpoint-5", "checkpoint-101.partial", "checkpoint--7", "checkpoint-x", "checkpoint-")
    made(
        tmp_path, f"checkpoint-{10**12 + 1}", f"checkpoint-{'9' * 200}", "checkpoint-٣", "checkpoint-1e3", "rollouts"
    )
    place = tmp_path / "checkpoints"
    (place / "checkpoint-300").symlink_to(place / "checkpoint-5")
    (place / "checkpoint-301").write_text("no folder")
    os.mkfifo(place / "checkpoint-302")
    (place / "failure.json").write_text("{}")
    for name in ("checkpoint-400", "checkpoint-6"):
        made(tmp_path, name)
        (place / name / "opd.json").write_text("{}")
    (place / "checkpoint-6" / ".complete").write_text("{}")
    found = find(tmp_path)
    assert steps(found) == [5, 6]
    reasons = {path.removeprefix("checkpoints/checkpoint-"): reason for path, reason in found.passed_over.items()}
    assert {name: reason for name, reason in reasons.items() if not name.startswith(("9", "1000"))} == {
        "101.partial": "it was never finished",
        "-7": "'-7' is no number",
        "x": "'x' is no number",
        "": "'' is no number",
        "٣": "'٣' is no number",
        "1e3": "'1e3' is no number",
        "300": "it is a link",
        "301": "it is no folder",
        "302": "it is no folder",
        "400": "it was never finished: opd.json is there, .complete is not",
    }
    assert [reasons[name] for name in (str(10**12 + 1), "9" * 200)] == [
        "its number is greater than 1,000,000,000,000"
    ] * 2


def test_a_number_that_is_there_twice_counts_for_neither(tmp_path: Path) -> None:
    found = find(made(tmp_path, "checkpoint-10", "checkpoint-010", "checkpoint-0009", "checkpoint-8"))
    assert [one.folder for one in found.checkpoints] == ["checkpoints/checkpoint-8", "checkpoints/checkpoint-0009"]
    assert found.passed_over == dict.fromkeys(
        ("checkpoints/checkpoint-010", "checkpoints/checkpoint-10"), "the number 10 is there 2 times; which is it?"
    )


def test_a_greater_number_of_another_try_is_not_seen(tmp_path: Path) -> None:
    made(tmp_path / "attempt-001", "checkpoint-540")
    made(tmp_path / "attempt-002", "checkpoint-20")
    assert steps(find(tmp_path / "attempt-002")) == [20]


@pytest.mark.parametrize("linked", ["checkpoints", "deep", "deep/er"])
def test_no_link_on_the_way_is_followed(tmp_path: Path, linked: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    made(elsewhere, "checkpoint-7")
    pattern = "checkpoints/checkpoint-*" if linked == "checkpoints" else "deep/er/checkpoints/checkpoint-*"
    (elsewhere / "er").mkdir()
    made(elsewhere / "er", "checkpoint-7")
    run = tmp_path / "run"
    (run / linked).parent.mkdir(parents=True)
    (run / linked).symlink_to(elsewhere / {"checkpoints": "checkpoints", "deep": ".", "deep/er": "er"}[linked])
    assert (run / pattern).parent.joinpath("checkpoint-7").is_dir(), "by the link it could be had"
    found = find(run, pattern=pattern)
    assert found.checkpoints == ()
    assert re.fullmatch(r".* is not a folder", next(iter(found.passed_over.values())))


def test_another_pattern_is_looked_for_where_it_says(tmp_path: Path) -> None:
    (tmp_path / "a/b/step-12").mkdir(parents=True)
    (tmp_path / "a/b/checkpoint-13").mkdir()
    assert find(tmp_path, pattern="a/b/step-*").checkpoints == (Numbered(step=12, folder="a/b/step-12"),)
    (tmp_path / "step-3").mkdir()
    assert find(tmp_path, pattern="step-*").checkpoints == (Numbered(step=3, folder="step-3"),)


def test_where_nothing_is_nothing_counts(tmp_path: Path) -> None:
    assert find(tmp_path) == Found(checkpoints=(), passed_over={"checkpoints": "checkpoints is not a folder"})
    (tmp_path / "checkpoints").mkdir()
    assert find(tmp_path) == Found(checkpoints=(), passed_over={})


def test_names_without_end_are_counted_and_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path, "checkpoint-1", *(f"checkpoint-x{number}" for number in range(150)))
    found = find(tmp_path)
    assert steps(found) == [1]
    assert len(found.passed_over) == 101
    assert found.passed_over["…"] == "50 more"
    monkeypatch.setattr(artifacts, "MOST_ENTRIES", 150)
    began = time.monotonic()
    assert find(tmp_path).passed_over == {"checkpoints": "more than 150 entries; a checkpoint has a handful"}
    assert time.monotonic() - began < 1


def test_a_name_of_odd_bytes_has_its_reason_in_text(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / os.fsdecode(b"checkpoint-\xff\n")).mkdir()
    (path,) = find(tmp_path).passed_over
    assert path.startswith("checkpoints/checkpoint-\\xff")
    path.encode()


def test_a_key_sorts_as_its_number(tmp_path: Path) -> None:
    found = find(made(tmp_path, "checkpoint-2080", "checkpoint-60", "checkpoint-2106"))
    keys = [one.key for one in found.checkpoints]
    assert keys == sorted(keys) == ["step-000060", "step-002080", "step-002106"]
